// circulant for C++17: handles that free themselves, exceptions, and spans over circulant.h.  Header-only.
//
//     circulant::World world;
//     circulant::Communicator comm = world.comm ();
//     std::vector<double> mine (100, 1.0), sum (100);
//     comm.allreduce (mine, sum, CIRCULANT_SUM);
//     world.finalize ();
//
// A span is what has data () and size (): std::vector, std::array, std::span (C++20), a circulant::Buffer, or circulant::Span {pointer, size}.
// Element types follow from the spans.  What each call does, and what threads may do, is said in circulant.h.  A buffer that does not fit a call is
// std::invalid_argument, before anything is sent; all else is circulant::Error.
#ifndef CIRCULANT_HPP
#define CIRCULANT_HPP

#include "circulant_base.hpp"

#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>

namespace circulant {

// Each call in three forms: name (blocking), iname (non-blocking), name_init (persistent).
#define CIRCULANT_ALL(...) __VA_ARGS__
#define CIRCULANT_FORMS(name, types, parameters, arguments) \
    template <CIRCULANT_ALL types> void name parameters const { detail::call (circulant_##name, get (), arguments); } \
    template <CIRCULANT_ALL types> Request i##name parameters const { return detail::begin (circulant_i##name, get (), arguments); } \
    template <CIRCULANT_ALL types> Request name##_init parameters const { return detail::begin (circulant_##name##_init, get (), arguments); }

// What a rank exchanges with its neighbours.  A part of a buffer that is beyond the border of a grid is not touched.
class Neighborhood {
public:
    explicit Neighborhood (circulant_neighborhood_t *on) : on_ (on)
    {
        std::size_t sources = 0, destinations = 0;
        check (circulant_neighborhood_size (on_, &sources, &destinations));
        sources_.resize (sources);
        destinations_.resize (destinations);
        check (circulant_neighborhood_ranks (on_, sources_.data (), destinations_.data ()));
    }
    Neighborhood (Neighborhood &&other) noexcept
        : on_ (std::exchange (other.on_, nullptr)), sources_ (std::move (other.sources_)), destinations_ (std::move (other.destinations_))
    {
    }
    Neighborhood &operator= (Neighborhood &&) = delete;
    ~Neighborhood () { circulant_neighborhood_free (&on_); }
    const circulant_neighborhood_t *get () const noexcept { return on_; }
    const std::vector<int> &sources () const noexcept { return sources_; } // CIRCULANT_NO_RANK beyond a border
    const std::vector<int> &destinations () const noexcept { return destinations_; }

    CIRCULANT_FORMS (neighbor_allgather, (class S, class R), (S &&send, R &&recv), gathered (send, recv))
    CIRCULANT_FORMS (neighbor_allgatherv, (class S, class R), (S &&send, R &&recv, const Parts &parts), gathered (send, recv, parts))
    CIRCULANT_FORMS (neighbor_alltoall, (class S, class R), (S &&send, R &&recv), exchanged (send, recv))
    CIRCULANT_FORMS (neighbor_alltoallv, (class S, class R), (S &&send, const Parts &sent, R &&recv, const Parts &received),
                     exchanged (send, sent, recv, received))

private:
    template <class S, class R> auto gathered (S &send, R &recv) const
    {
        detail::same (recv.size (), send.size () * sources_.size ());
        return std::make_tuple (send.data (), recv.data (), send.size (), detail::type_of<S, R> ());
    }
    template <class S, class R> auto gathered (S &send, R &recv, const Parts &parts) const
    {
        parts.fit (sources_.size (), recv.size ());
        return std::make_tuple (send.data (), send.size (), recv.data (), parts.counts (), parts.displs (), detail::type_of<S, R> ());
    }
    template <class S, class R> auto exchanged (S &send, R &recv) const
    {
        const std::size_t out = detail::each (send.size (), static_cast<int> (destinations_.size ()));
        const std::size_t in = detail::each (recv.size (), static_cast<int> (sources_.size ()));
        const std::size_t n = sources_.empty () ? out : destinations_.empty () ? in : detail::same (out, in);
        return std::make_tuple (send.data (), recv.data (), n, detail::type_of<S, R> ());
    }
    template <class S, class R> auto exchanged (S &send, const Parts &sent, R &recv, const Parts &received) const
    {
        sent.fit (destinations_.size (), detail::count (send, recv.size ()));
        received.fit (sources_.size (), recv.size ());
        return std::make_tuple (detail::in_place_of (send), sent.counts (), sent.displs (), recv.data (), received.counts (), received.displs (),
                                detail::type_of<S, R> ());
    }

    circulant_neighborhood_t *on_;
    std::vector<int> sources_, destinations_;
};

using Settings = std::initializer_list<circulant_setting_t>;

class Communicator {
public:
    explicit Communicator (circulant_comm_t *comm) noexcept : comm_ (comm) {}
    Communicator (Communicator &&other) noexcept : comm_ (std::exchange (other.comm_, nullptr)) {}
    Communicator &operator= (Communicator &&other) noexcept
    {
        std::swap (comm_, other.comm_);
        return *this;
    }
    ~Communicator () { circulant_comm_free (&comm_); }
    const circulant_comm_t *get () const noexcept { return comm_; }
    explicit operator bool () const noexcept { return comm_ != nullptr; } // false: in none of those that a split made

    int rank () const
    {
        int rank = 0;
        check (circulant_comm_rank (comm_, &rank));
        return rank;
    }
    int size () const
    {
        int size = 0;
        check (circulant_comm_size (comm_, &size));
        return size;
    }
    Communicator dup () const { return make (circulant_comm_dup); }

    // Going on without ranks that are gone: see circulant.h.
    void revoke () const { check (circulant_comm_revoke (comm_)); }
    bool is_revoked () const
    {
        int revoked = 0;
        check (circulant_comm_is_revoked (comm_, &revoked));
        return revoked != 0;
    }
    std::vector<int> gone () const
    {
        std::vector<int> ranks (static_cast<std::size_t> (size ()));
        std::size_t count = 0;
        check (circulant_comm_gone (comm_, ranks.data (), ranks.size (), &count));
        ranks.resize (count);
        return ranks;
    }
    std::uint64_t agree (std::uint64_t flags) const
    {
        std::uint64_t agreed = 0;
        check (circulant_comm_agree (comm_, flags, &agreed));
        return agreed;
    }
    Communicator shrink () const { return make (circulant_comm_shrink); }
    Communicator split (std::int64_t colour, std::int64_t key = 0) const { return make (circulant_comm_split, colour, key); }
    Communicator split_by_node () const { return make (circulant_comm_split_by_node); }
    Communicator create (const std::vector<int> &ranks) const { return make (circulant_comm_create, ranks.data (), ranks.size ()); }
    Communicator with (Settings options) const { return make (circulant_comm_with, options.begin (), options.size ()); }
    // allgather (const void *mine, void *all, std::size_t bytes), among the members.
    template <class F> Communicator assemble (const std::vector<int> &ranks, F &&allgather) const
    {
        struct Context {
            F &function;
            std::exception_ptr thrown;
        } context {allgather, nullptr};
        const auto gather = [] (void *context, const void *mine, void *all, std::size_t bytes) noexcept {
            Context &call = *static_cast<Context *> (context);
            try {
                call.function (mine, all, bytes);
                return 0;
            } catch (...) {
                call.thrown = std::current_exception ();
                return 1;
            }
        };
        circulant_comm_t *made = nullptr;
        const circulant_status_t status = circulant_comm_assemble (comm_, ranks.data (), ranks.size (), gather, &context, &made);
        if (context.thrown)
            std::rethrow_exception (context.thrown);
        check (status);
        return Communicator (made);
    }
    Neighborhood dist_graph (const std::vector<int> &sources, const std::vector<int> &destinations) const
    {
        circulant_neighborhood_t *made = nullptr;
        check (circulant_dist_graph (comm_, sources.data (), sources.size (), destinations.data (), destinations.size (), &made));
        return Neighborhood (made);
    }
    Neighborhood cartesian (const std::vector<int> &dims, const std::vector<int> &periodic) const
    {
        detail::wants (dims.size () == periodic.size (), "as many dimensions are periodic, or not, as there are");
        circulant_neighborhood_t *made = nullptr;
        check (circulant_cartesian (comm_, dims.data (), periodic.data (), dims.size (), &made));
        return Neighborhood (made);
    }
    template <class T> Buffer<T> alloc (std::size_t size) const { return Buffer<T> (comm_, size); }

    void barrier () const { check (circulant_barrier (comm_)); }
    Request ibarrier () const { return detail::begin (circulant_ibarrier, comm_, std::make_tuple ()); }
    Request barrier_init () const { return detail::begin (circulant_barrier_init, comm_, std::make_tuple ()); }

    // Of what is used at the root only, a span of no elements will do elsewhere, and Parts ().  What may be in_place is said in circulant.h.
    CIRCULANT_FORMS (bcast, (class B), (B &&buffer, int root), told (buffer, root))
    CIRCULANT_FORMS (allgather, (class S, class R), (S &&send, R &&recv), gathered (send, recv))
    CIRCULANT_FORMS (allgatherv, (class S, class R), (S &&send, R &&recv, const Parts &parts), gathered (send, recv, parts))
    CIRCULANT_FORMS (allgatherv_local, (class S, class R), (S &&send, R &&recv, const Parts &parts), gathered (send, recv, parts))
    CIRCULANT_FORMS (gather, (class S, class R), (S &&send, R &&recv, int root), gathered_at (send, recv, root))
    CIRCULANT_FORMS (gatherv, (class S, class R), (S &&send, R &&recv, const Parts &parts, int root), gathered_at (send, recv, parts, root))
    CIRCULANT_FORMS (gatherv_rooted, (class S, class R), (S &&send, R &&recv, const Parts &parts, int root),
                     gathered_at (send, recv, parts, root))
    CIRCULANT_FORMS (scatter, (class S, class R), (S &&send, R &&recv, int root), scattered (send, recv, root))
    CIRCULANT_FORMS (scatterv, (class S, class R), (S &&send, const Parts &parts, R &&recv, int root), scattered (send, parts, recv, root))
    CIRCULANT_FORMS (scatterv_rooted, (class S, class R), (S &&send, const Parts &parts, R &&recv, int root),
                     scattered (send, parts, recv, root))
    CIRCULANT_FORMS (alltoall, (class S, class R), (S &&send, R &&recv), exchanged (send, recv))
    CIRCULANT_FORMS (alltoallv, (class S, class R), (S &&send, const Parts &sent, R &&recv, const Parts &received),
                     exchanged (send, sent, recv, received))
    CIRCULANT_FORMS (alltoallw, (class S, class R), (S &&send, const Layouts &sent, R &&recv, const Layouts &received),
                     exchanged (send, sent, recv, received))
    CIRCULANT_FORMS (reduce, (class S, class R), (S &&send, R &&recv, circulant_op_t op, int root), reduced_at (send, recv, op, root))
    CIRCULANT_FORMS (allreduce, (class S, class R), (S &&send, R &&recv, circulant_op_t op), reduced (send, recv, op))
    CIRCULANT_FORMS (reduce_scatter_block, (class S, class R), (S &&send, R &&recv, circulant_op_t op), reduced_block (send, recv, op))
    CIRCULANT_FORMS (reduce_scatter, (class S, class R), (S &&send, R &&recv, const Counts &counts, circulant_op_t op),
                     reduced_parts (send, recv, counts, op))
    CIRCULANT_FORMS (scan, (class S, class R), (S &&send, R &&recv, circulant_op_t op), reduced (send, recv, op))
    CIRCULANT_FORMS (exscan, (class S, class R), (S &&send, R &&recv, circulant_op_t op), reduced (send, recv, op))

private:
    std::size_t ranks () const { return static_cast<std::size_t> (size ()); }
    std::size_t own () const { return static_cast<std::size_t> (rank ()); }

    template <class B> auto told (B &buffer, int root) const
    {
        return std::make_tuple (buffer.data (), buffer.size (), detail::type<detail::element_t<B>> (), root);
    }
    template <class S, class R> auto gathered (S &send, R &recv) const
    {
        const std::size_t n = detail::each (recv.size (), size ());
        detail::same (detail::count (send, n), n);
        return std::make_tuple (detail::in_place_of (send), recv.data (), n, detail::type_of<S, R> ());
    }
    template <class S, class R> auto gathered (S &send, R &recv, const Parts &parts) const
    {
        parts.fit (ranks (), recv.size ());
        return std::make_tuple (detail::in_place_of (send), detail::count (send, parts[own ()]), recv.data (), parts.counts (), parts.displs (),
                                detail::type_of<S, R> ());
    }
    template <class S, class R> auto gathered_at (S &send, R &recv, int root) const
    {
        const bool here = rank () == root;
        const std::size_t n = detail::count (send, detail::each (recv.size (), size ()));
        if (here)
            detail::same (recv.size (), n * ranks ());
        return std::make_tuple (detail::in_place_of (send), recv.data (), n, detail::type_of<S, R> (), root);
    }
    template <class S, class R> auto gathered_at (S &send, R &recv, const Parts &parts, int root) const
    {
        if (rank () == root)
            parts.fit (ranks (), recv.size ());
        const std::size_t n = detail::is_in_place<S> ? parts[own ()] : detail::count (send, 0);
        return std::make_tuple (detail::in_place_of (send), n, recv.data (), parts.counts (), parts.displs (), detail::type_of<S, R> (), root);
    }
    template <class S, class R> auto scattered (S &send, R &recv, int root) const
    {
        const bool here = rank () == root;
        const std::size_t n = here ? detail::each (send.size (), size ()) : detail::count (recv, 0);
        detail::same (detail::count (recv, n), n);
        return std::make_tuple (send.data (), detail::in_place_of (recv), n, detail::type_of<S, R> (), root);
    }
    template <class S, class R> auto scattered (S &send, const Parts &parts, R &recv, int root) const
    {
        if (rank () == root)
            parts.fit (ranks (), send.size ());
        const std::size_t n = detail::is_in_place<R> ? parts[own ()] : detail::count (recv, 0);
        return std::make_tuple (send.data (), parts.counts (), parts.displs (), detail::in_place_of (recv), n, detail::type_of<S, R> (), root);
    }
    template <class S, class R> auto exchanged (S &send, R &recv) const
    {
        detail::same (detail::count (send, recv.size ()), recv.size ());
        return std::make_tuple (detail::in_place_of (send), recv.data (), detail::each (recv.size (), size ()), detail::type_of<S, R> ());
    }
    template <class S, class R> auto exchanged (S &send, const Parts &sent, R &recv, const Parts &received) const
    {
        if constexpr (!detail::is_in_place<S>)
            sent.fit (ranks (), send.size ());
        received.fit (ranks (), recv.size ());
        return std::make_tuple (detail::in_place_of (send), sent.counts (), sent.displs (), recv.data (), received.counts (), received.displs (),
                                detail::type_of<S, R> ());
    }
    template <class S, class R> auto exchanged (S &send, const Layouts &sent, R &recv, const Layouts &received) const
    {
        if constexpr (!detail::is_in_place<S>)
            sent.fit (ranks (), send.size () * sizeof (detail::element_t<S>));
        received.fit (ranks (), recv.size () * sizeof (detail::element_t<R>));
        return std::make_tuple (detail::in_place_of (send), sent.data (), recv.data (), received.data ());
    }
    template <class S, class R> auto reduced (S &send, R &recv, circulant_op_t op) const
    {
        detail::same (detail::count (send, recv.size ()), recv.size ());
        return std::make_tuple (detail::in_place_of (send), recv.data (), recv.size (), detail::type_of<S, R> (), op);
    }
    template <class S, class R> auto reduced_at (S &send, R &recv, circulant_op_t op, int root) const
    {
        const std::size_t n = detail::count (send, recv.size ());
        if (rank () == root)
            detail::same (recv.size (), n);
        return std::make_tuple (detail::in_place_of (send), recv.data (), n, detail::type_of<S, R> (), op, root);
    }
    template <class S, class R> auto reduced_block (S &send, R &recv, circulant_op_t op) const
    {
        const std::size_t n = detail::each (detail::count (send, recv.size ()), size ());
        if constexpr (!detail::is_in_place<S>)
            detail::same (recv.size (), n);
        return std::make_tuple (detail::in_place_of (send), recv.data (), n, detail::type_of<S, R> (), op);
    }
    template <class S, class R> auto reduced_parts (S &send, R &recv, const Counts &counts, circulant_op_t op) const
    {
        const Parts parts (counts);
        parts.fit (ranks (), detail::count (send, recv.size ()));
        detail::wants (recv.size () >= parts[own ()], "a part does not fit into its buffer");
        return std::make_tuple (detail::in_place_of (send), recv.data (), parts.counts (), detail::type_of<S, R> (), op);
    }
    template <class F, class... A> Communicator make (F function, A... arguments) const
    {
        circulant_comm_t *made = nullptr;
        check (function (comm_, arguments..., &made));
        return Communicator (made);
    }

    circulant_comm_t *comm_ = nullptr;
};
#undef CIRCULANT_FORMS
#undef CIRCULANT_ALL

using Hooks = std::vector<std::unique_ptr<std::function<void ()>>>;

// A world that ends: ask until test says that it has.  Destroying it before leaves the others to see an error.
class Finalizing {
public:
    Finalizing (circulant_finalizing_t *ending, Hooks hooks) noexcept : hooks_ (std::move (hooks)), ending_ (ending) {}
    bool test ()
    {
        int finished = 0;
        check (circulant_finalize_test (&ending_, &finished));
        return finished != 0;
    }

private:
    Hooks hooks_;
    circulant_finalizing_t *ending_;
};

// All ranks of a job.  Destroying it finalizes it; what goes wrong then is lost.
class World {
public:
    World (Settings settings = {}) { check (circulant_init (settings.begin (), settings.size (), &world_)); }
    explicit World (const circulant_bootstrap_t &bootstrap, Settings settings = {})
    {
        check (circulant_init_with (&bootstrap, settings.begin (), settings.size (), &world_));
    }
    explicit World (circulant_world_t *world) noexcept : world_ (world) {} // which it owns from now on
    World (World &&other) noexcept : world_ (std::exchange (other.world_, nullptr)), hooks_ (std::move (other.hooks_)) {}
    World &operator= (World &&) = delete;
    ~World () { circulant_finalize (&world_); }
    void finalize () { check (circulant_finalize (&world_)); }
    Finalizing start_finalize ()
    {
        circulant_finalizing_t *ending = nullptr;
        check (circulant_finalize_start (&world_, &ending));
        return Finalizing (ending, std::move (hooks_));
    }
    void abort (int code, const std::string &message) { check (circulant_abort (&world_, code, message.c_str ())); }
    // Called while calls wait, by the thread that waits, until the world has ended.  One that throws ends the program.
    void while_waiting (std::function<void ()> hook)
    {
        hooks_.push_back (std::make_unique<std::function<void ()>> (std::move (hook))); // another thread may be in the one before
        const auto call = [] (void *hook) noexcept { (*static_cast<std::function<void ()> *> (hook)) (); };
        check (circulant_while_waiting (world_, call, hooks_.back ().get ()));
    }
    Communicator comm () const
    {
        circulant_comm_t *comm = nullptr;
        check (circulant_world_comm (world_, &comm));
        return Communicator (comm);
    }
    std::string provider () const { return circulant_world_provider (world_); }
    std::string launcher () const { return circulant_world_launcher (world_); }

private:
    circulant_world_t *world_ = nullptr;
    Hooks hooks_;
};

} // namespace circulant

#endif
