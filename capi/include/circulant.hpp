// circulant for C++17: handles that free themselves, exceptions, and spans over circulant.h.  Header-only.
//
//     circulant::World world;
//     circulant::Communicator comm = world.comm ();
//     std::vector<double> mine (100, 1.0), sum (100);
//     comm.allreduce (mine, sum, CIRCULANT_SUM);
//     world.finalize ();
//
// A span is what has data () and size (): std::vector, std::array, std::span (C++20), a circulant::Buffer, or circulant::Span {pointer, size}.
// Element types follow from the spans.  What each call does, and what threads may do, is said in circulant.h.
#ifndef CIRCULANT_HPP
#define CIRCULANT_HPP

#include "circulant.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace circulant {

// An error of the library, with its parts.
class Error : public std::runtime_error {
public:
    explicit Error (circulant_status_t status)
        : std::runtime_error (circulant_last_error ()), status_ (status), rank_ (circulant_error_rank ()),
          peer_ (circulant_error_peer ())
    {
        if (const char *text = circulant_error_operation ())
            operation_ = text;
        if (const char *text = circulant_error_remedy ())
            remedy_ = text;
    }
    circulant_status_t status () const noexcept { return status_; }
    int rank () const noexcept { return rank_; } // that met it; -1: not known
    int peer () const noexcept { return peer_; } // at fault; -1: not known
    const std::string &operation () const noexcept { return operation_; }
    const std::string &remedy () const noexcept { return remedy_; }

private:
    circulant_status_t status_;
    int rank_, peer_;
    std::string operation_, remedy_;
};

inline void check (circulant_status_t status)
{
    if (status != CIRCULANT_OK)
        throw Error (status);
}

// A pointer and a number of elements.
template <class T> class Span {
public:
    constexpr Span () noexcept = default;
    constexpr Span (T *data, std::size_t size) noexcept : data_ (data), size_ (size) {}
    template <class C, class = std::enable_if_t<!std::is_same_v<std::decay_t<C>, Span>>,
              class = std::enable_if_t<std::is_convertible_v<decltype (std::declval<C &> ().data ()), T *>>>
    constexpr Span (C &&from) noexcept : data_ (from.data ()), size_ (from.size ())
    {
    }
    constexpr T *data () const noexcept { return data_; }
    constexpr std::size_t size () const noexcept { return size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// In place of what is sent.
struct InPlace {};
inline constexpr InPlace in_place {};

namespace detail {
template <class T> constexpr circulant_type_t type ()
{
    using U = std::remove_cv_t<T>;
    static_assert (std::is_trivially_copyable_v<U>, "elements are bytes to the library");
    if constexpr (std::is_same_v<U, float>)
        return CIRCULANT_FLOAT;
    else if constexpr (std::is_same_v<U, double>)
        return CIRCULANT_DOUBLE;
    else if constexpr (std::is_same_v<U, std::complex<float>>)
        return CIRCULANT_COMPLEX_FLOAT;
    else if constexpr (std::is_same_v<U, std::complex<double>>)
        return CIRCULANT_COMPLEX_DOUBLE;
    else if constexpr (std::is_integral_v<U> && !std::is_same_v<U, bool> && sizeof (U) <= 8)
        return (std::is_signed_v<U> ? CIRCULANT_INT8 : CIRCULANT_UINT8) + (sizeof (U) == 1 ? 0 : sizeof (U) == 2 ? 1 : sizeof (U) == 4 ? 2 : 3);
    else
        return CIRCULANT_BYTES (sizeof (U));
}

// The elements of a container.
template <class C> using element_t = std::remove_pointer_t<decltype (std::declval<C &> ().data ())>;

inline std::size_t each (std::size_t size, int ranks)
{
    if (size % static_cast<std::size_t> (ranks) != 0)
        throw std::invalid_argument ("the elements cannot be shared equally by the ranks");
    return size / static_cast<std::size_t> (ranks);
}

inline std::size_t same (std::size_t a, std::size_t b)
{
    if (a != b)
        throw std::invalid_argument ("what is sent and what is received differ in length");
    return a;
}

inline const std::size_t *list (const std::vector<std::size_t> &all, int ranks)
{
    same (all.size (), static_cast<std::size_t> (ranks));
    return all.data ();
}
} // namespace detail

// A non-blocking call under way, or a persistent operation: its buffers are borrowed until it has finished.  Destroying it waits.
class Request {
public:
    Request () noexcept = default;
    explicit Request (circulant_request_t *request) noexcept : request_ (request) {}
    Request (Request &&other) noexcept : request_ (std::exchange (other.request_, nullptr)) {}
    Request &operator= (Request &&other) noexcept
    {
        std::swap (request_, other.request_);
        return *this;
    }
    ~Request () { circulant_request_free (&request_); }
    bool test ()
    {
        int finished = 0;
        check (circulant_test (&request_, &finished));
        return finished != 0;
    }
    void wait () { check (circulant_wait (&request_)); }
    void start () { check (circulant_start (request_)); } // a persistent one

private:
    circulant_request_t *request_ = nullptr;
};

// An operator of the program.  `Function` is void (const T *left, T *right, std::size_t n), without state.
class Operator {
public:
    template <class T, void (*Function) (const T *, T *, std::size_t)> static Operator of (const std::string &name, bool commutative)
    {
        auto call = [] (const void *left, void *right, std::size_t n, void *) {
            Function (static_cast<const T *> (left), static_cast<T *> (right), n);
        };
        Operator made;
        check (circulant_op_create (name.c_str (), detail::type<T> (), commutative, call, nullptr, &made.op_));
        return made;
    }
    Operator (Operator &&other) noexcept : op_ (std::exchange (other.op_, nullptr)) {}
    Operator &operator= (Operator &&other) noexcept
    {
        std::swap (op_, other.op_);
        return *this;
    }
    ~Operator () { circulant_op_free (&op_); }
    operator circulant_op_t () const noexcept { return op_; }

private:
    Operator () noexcept = default;
    circulant_op_t op_ = nullptr;
};

// Zeroed elements in registered memory.
template <class T> class Buffer {
public:
    Buffer (const circulant_comm_t *comm, std::size_t size) : size_ (size)
    {
        static_assert (std::is_trivially_copyable_v<T>, "elements are bytes to the library");
        if (size > SIZE_MAX / sizeof (T))
            throw std::bad_alloc ();
        check (circulant_alloc (comm, size * sizeof (T), &memory_));
    }
    Buffer (Buffer &&other) noexcept : memory_ (std::exchange (other.memory_, nullptr)), size_ (std::exchange (other.size_, 0)) {}
    Buffer &operator= (Buffer &&other) noexcept
    {
        std::swap (memory_, other.memory_);
        std::swap (size_, other.size_);
        return *this;
    }
    ~Buffer () { circulant_free (&memory_); }
    T *data () const noexcept { return static_cast<T *> (memory_); }
    std::size_t size () const noexcept { return size_; }
    T *begin () const noexcept { return data (); }
    T *end () const noexcept { return data () + size_; }
    T &operator[] (std::size_t i) const noexcept { return data ()[i]; }

private:
    void *memory_ = nullptr;
    std::size_t size_ = 0;
};

using Counts = std::vector<std::size_t>;

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
    Communicator dup () const
    {
        circulant_comm_t *made = nullptr;
        check (circulant_comm_dup (comm_, &made));
        return Communicator (made);
    }
    Communicator split (std::int64_t colour, std::int64_t key = 0) const
    {
        circulant_comm_t *made = nullptr;
        check (circulant_comm_split (comm_, colour, key, &made));
        return Communicator (made);
    }
    template <class T> Buffer<T> alloc (std::size_t size) const { return Buffer<T> (comm_, size); }

    void barrier () const { check (circulant_barrier (comm_)); }
    Request ibarrier () const { return begin (circulant_ibarrier); }

    // Each as X (blocking), iX (non-blocking) and X_init (persistent).
#define CIRCULANT_FORMS(name, parameters, prepare, ...) \
    template <class S, class R> void name parameters const \
    { \
        prepare check (circulant_##name (comm_, __VA_ARGS__)); \
    } \
    template <class S, class R> Request i##name parameters const \
    { \
        prepare return begin (circulant_i##name, __VA_ARGS__); \
    } \
    template <class S, class R> Request name##_init parameters const \
    { \
        prepare return begin (circulant_##name##_init, __VA_ARGS__); \
    }
#define CIRCULANT_TYPES \
    using T = detail::element_t<R>; \
    static_assert (is_in_place<S> || sizeof (typename sent<S, T>::type) == sizeof (T), "what is sent and received are of one type"); \
    const circulant_type_t type = detail::type<T> (); \
    (void) type;

    // recv has size () times what is sent.
    CIRCULANT_FORMS (allgather, (S && send, R &&recv), CIRCULANT_TYPES const std::size_t n = count (send, detail::each (recv.size (), size ()));
                     , from (send), recv.data (), n, type)
    CIRCULANT_FORMS (alltoall, (S && send, R &&recv), CIRCULANT_TYPES count (send, recv.size ());
                     , from (send), recv.data (), detail::each (recv.size (), size ()), type)
    CIRCULANT_FORMS (allreduce, (S && send, R &&recv, circulant_op_t op), CIRCULANT_TYPES count (send, recv.size ());
                     , from (send), recv.data (), recv.size (), type, op)
    CIRCULANT_FORMS (scan, (S && send, R &&recv, circulant_op_t op), CIRCULANT_TYPES count (send, recv.size ());
                     , from (send), recv.data (), recv.size (), type, op)
    CIRCULANT_FORMS (exscan, (S && send, R &&recv, circulant_op_t op), CIRCULANT_TYPES count (send, recv.size ());
                     , from (send), recv.data (), recv.size (), type, op)
#undef CIRCULANT_FORMS
#undef CIRCULANT_TYPES

    // A span of one type.
    template <class B> void bcast (B &&buffer, int root) const
    {
        check (circulant_bcast (comm_, buffer.data (), buffer.size (), detail::type<detail::element_t<B>> (), root));
    }
    template <class B> Request ibcast (B &&buffer, int root) const
    {
        return begin (circulant_ibcast, buffer.data (), buffer.size (), detail::type<detail::element_t<B>> (), root);
    }
    template <class B> Request bcast_init (B &&buffer, int root) const
    {
        return begin (circulant_bcast_init, buffer.data (), buffer.size (), detail::type<detail::element_t<B>> (), root);
    }

    // Of which the root's recv alone is used; elsewhere it may be empty.
    template <class T> void gather (Span<const T> send, Span<T> recv, int root) const
    {
        if (rank () == root)
            detail::same (recv.size (), send.size () * static_cast<std::size_t> (size ()));
        check (circulant_gather (comm_, send.data (), recv.data (), send.size (), detail::type<T> (), root));
    }
    template <class T> void scatter (Span<const T> send, Span<T> recv, int root) const
    {
        if (rank () == root)
            detail::same (send.size (), recv.size () * static_cast<std::size_t> (size ()));
        check (circulant_scatter (comm_, send.data (), recv.data (), recv.size (), detail::type<T> (), root));
    }
    template <class T> void reduce (Span<const T> send, Span<T> recv, circulant_op_t op, int root) const
    {
        if (rank () == root)
            detail::same (send.size (), recv.size ());
        check (circulant_reduce (comm_, send.data (), recv.data (), send.size (), detail::type<T> (), op, root));
    }
    // counts[r] elements of each rank r, one part behind the other.
    template <class T> void allgatherv (Span<const T> send, Span<T> recv, const Counts &counts) const
    {
        detail::same (recv.size (), total (counts));
        check (circulant_allgatherv (comm_, send.data (), send.size (), recv.data (), detail::list (counts, size ()), nullptr,
                                     detail::type<T> ()));
    }
    template <class T> void alltoallv (Span<const T> send, const Counts &sent, Span<T> recv, const Counts &received) const
    {
        detail::same (send.size (), total (sent));
        detail::same (recv.size (), total (received));
        check (circulant_alltoallv (comm_, send.data (), detail::list (sent, size ()), nullptr, recv.data (),
                                    detail::list (received, size ()), nullptr, detail::type<T> ()));
    }

private:
    template <class S> static constexpr bool is_in_place = std::is_same_v<std::decay_t<S>, InPlace>;
    template <class S, class T> struct sent {
        using type = detail::element_t<S>;
    };
    template <class T> struct sent<const InPlace &, T> {
        using type = T;
    };
    template <class T> struct sent<InPlace, T> {
        using type = T;
    };
    static const void *from (InPlace) { return CIRCULANT_IN_PLACE; }
    template <class S> static const void *from (const S &send) { return send.data (); }
    static std::size_t count (InPlace, std::size_t n) { return n; }
    template <class S> static std::size_t count (const S &send, std::size_t n) { return detail::same (send.size (), n); }
    static std::size_t total (const Counts &counts)
    {
        std::size_t all = 0;
        for (std::size_t n : counts)
            all += n;
        return all;
    }
    template <class F, class... A> Request begin (F call, A... arguments) const
    {
        circulant_request_t *request = nullptr;
        check (call (comm_, arguments..., &request));
        return Request (request);
    }

    circulant_comm_t *comm_ = nullptr;
};

// All ranks of a job.  Destroying it finalizes it; what goes wrong then is lost.
class World {
public:
    using Settings = std::initializer_list<circulant_setting_t>;
    World (Settings settings = {}) { check (circulant_init (settings.begin (), settings.size (), &world_)); }
    explicit World (const circulant_bootstrap_t &bootstrap, Settings settings = {})
    {
        check (circulant_init_with (&bootstrap, settings.begin (), settings.size (), &world_));
    }
    World (World &&other) noexcept : world_ (std::exchange (other.world_, nullptr)) {}
    World &operator= (World &&) = delete;
    ~World () { circulant_finalize (&world_); }
    void finalize () { check (circulant_finalize (&world_)); }
    Communicator comm () const
    {
        circulant_comm_t *comm = nullptr;
        check (circulant_world_comm (world_, &comm));
        return Communicator (comm);
    }
    std::string provider () const { return circulant_world_provider (world_); }

private:
    circulant_world_t *world_ = nullptr;
};

} // namespace circulant

#endif
