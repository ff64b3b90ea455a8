// The C++ layer: every collective in its three forms, groups, and what does not fit.
#include "ranks.h"

#include "circulant.hpp"
#include <numeric>

// The call in each form, on what begin leaves, and what it leaves then.
#define FORMS(on, name, begin, after, ...) \
    do { \
        begin; \
        on.name (__VA_ARGS__); \
        CHECK (after); \
        begin; \
        on.i##name (__VA_ARGS__).wait (); \
        CHECK (after); \
        begin; \
        circulant::Request often = on.name##_init (__VA_ARGS__); \
        CHECK (often.test ()); \
        often.start (); \
        often.wait (); \
        CHECK (after); \
    } while (0)

using Words = std::vector<long>;
using circulant::in_place;
using circulant::Parts;

// Only where the world goes on after failures can a communicator be revoked.
static bool refused_to_revoke (const circulant::Communicator &comm)
{
    try {
        comm.revoke ();
    } catch (const circulant::Error &e) {
        return e.status () == CIRCULANT_ERR_ARGUMENT && !e.is_survived ();
    }
    return false;
}

template <class F> static bool refused (F call)
{
    try {
        call ();
    } catch (const std::invalid_argument &) {
        return true;
    }
    return false;
}

static Words of (int rank, std::size_t n)
{
    Words all (n);
    std::iota (all.begin (), all.end (), 1000L * rank);
    return all;
}

static Words range (const Words &from, std::size_t at, std::size_t n)
{
    const auto first = from.begin () + static_cast<std::ptrdiff_t> (at);
    return Words (first, first + static_cast<std::ptrdiff_t> (n));
}

struct Job {
    circulant::Communicator comm;
    int me = comm.rank (), size = comm.size (), root = size - 1;
    std::size_t p = static_cast<std::size_t> (size), r = static_cast<std::size_t> (me);

    // Two words of each rank, one behind the other.
    Words pairs (std::size_t from) const
    {
        Words all;
        for (int s = 0; s < size; s++)
            for (std::size_t i = 0; i < 2; i++)
                all.push_back (1000L * s + static_cast<long> (from + i));
        return all;
    }
    long sum (int ranks, long i) const { return 1000L * ranks * (ranks - 1) / 2 + ranks * i; }

    void moves () const
    {
        const Words mine = of (me, 2 * p);
        Words two = of (me, 2), all (2 * p);
        FORMS (comm, bcast, two = of (me, 2), two == of (root, 2), two, root);
        two = of (me, 2);
        FORMS (comm, allgather, all.assign (2 * p, -1), all == pairs (0), two, all);
        FORMS (comm, allgather, (all.assign (2 * p, -1), all[2 * r] = two[0], all[2 * r + 1] = two[1]), all == pairs (0), in_place, all);
        FORMS (comm, gather, all.assign (2 * p, -1), all == (me == root ? pairs (0) : Words (2 * p, -1)), two, all, root);
        if (me == root)
            FORMS (comm, scatter, two.assign (2, -1), two == range (of (root, 2 * p), 2 * r, 2), mine, two, root);
        else
            FORMS (comm, scatter, two.assign (2, -1), two == range (of (root, 2 * p), 2 * r, 2), Words (), two, root);
        FORMS (comm, alltoall, all.assign (2 * p, -1), all == pairs (2 * r), mine, all);
    }

    void parts () const
    {
        circulant::Counts counts (p), displs (p), local (p);
        std::size_t at = 0;
        for (std::size_t s = 0; s < p; s++) {
            counts[s] = s + 1;
            displs[s] = at + 1;
            at += s + 2;
        }
        const std::size_t room = at + 1, extent = p * (p + 1) / 2;
        Words wanted (room, -1), all, mine = of (me, r + 1), whole = of (me, room), got;
        for (std::size_t s = 0; s < p; s++)
            for (std::size_t i = 0; i <= s; i++)
                wanted[displs[s] + i] = 1000L * static_cast<long> (s) + static_cast<long> (i);
        const Parts all_parts (counts, displs);
        FORMS (comm, allgatherv, all.assign (room, -1), all == wanted, mine, all, all_parts);
        FORMS (comm, allgatherv_local, all.assign (room, -1), all == wanted, mine, all, Parts (counts, displs));
        FORMS (comm, allgatherv, all.assign (extent, -1), all.back () == 1000L * root + root, mine, all, counts);
        const Words nothing (room, -1), &at_root = me == root ? wanted : nothing;
        FORMS (comm, gatherv, all.assign (room, -1), all == at_root, mine, all, all_parts, root);
        const Parts rooted = me == root ? all_parts : Parts ();
        FORMS (comm, gatherv_rooted, all.assign (room, -1), all == at_root, mine, all, rooted, root);
        const Words part = range (of (root, room), displs[r], r + 1);
        FORMS (comm, scatterv, got.assign (r + 1, -1), got == part, whole, all_parts, got, root);
        FORMS (comm, scatterv_rooted, got.assign (r + 1, -1), got == part, whole, rooted, got, root);
        if (size == 1)
            FORMS (comm, scatterv, (void) 0, whole == of (0, room), whole, all_parts, in_place, root);
        // To rank s two words, or three from an odd one.
        const circulant::Counts sent (p, 2 + r % 2);
        circulant::Counts received (p);
        Words exchanged;
        for (std::size_t s = 0; s < p; s++) {
            received[s] = 2 + s % 2;
            const Words from = range (of (static_cast<int> (s), 3 * p), r * received[s], received[s]);
            exchanged.insert (exchanged.end (), from.begin (), from.end ());
        }
        const Words out = of (me, 3 * p);
        FORMS (comm, alltoallv, all.assign (exchanged.size (), -1), all == exchanged, out, sent, all, received);
    }

    void layouts () const
    {
        // A column of a matrix of two rows to each rank, which gets it backwards.
        const Words matrix = of (me, 2 * p);
        std::vector<circulant::Layout> columns, places;
        Words all, wanted;
        for (std::size_t s = 0; s < p; s++) {
            columns.push_back ({{s * sizeof (long), sizeof (long), 2, p * sizeof (long)}});
            places.push_back ({{(2 * s + 1) * sizeof (long), sizeof (long), 1, 0}, {2 * s * sizeof (long), sizeof (long), 1, 0}});
            wanted.push_back (1000L * static_cast<long> (s) + static_cast<long> (p + r));
            wanted.push_back (1000L * static_cast<long> (s) + me);
        }
        FORMS (comm, alltoallw, all.assign (2 * p, -1), all == wanted, matrix, columns, all, places);
        columns[0][0].count = 3;
        CHECK (refused ([&] { comm.alltoallw (matrix, columns, all, places); }));
        columns[0] = {{2 * p * sizeof (long), 1, 1, 0}};
        CHECK (refused ([&] { comm.alltoallw (matrix, columns, all, places); }));
    }

    void reductions () const
    {
        const Words mine = of (me, 2 * p);
        Words all (2 * p), wanted (2 * p), before (2 * p, -1), upto (2 * p);
        for (std::size_t i = 0; i < 2 * p; i++) {
            wanted[i] = sum (size, static_cast<long> (i));
            upto[i] = sum (me + 1, static_cast<long> (i));
            if (me > 0)
                before[i] = sum (me, static_cast<long> (i));
        }
        FORMS (comm, reduce, all.assign (2 * p, -1), all == (me == root ? wanted : Words (2 * p, -1)), mine, all, CIRCULANT_SUM, root);
        FORMS (comm, allreduce, all.assign (2 * p, -1), all == wanted, mine, all, CIRCULANT_SUM);
        FORMS (comm, allreduce, all = mine, all == wanted, in_place, all, CIRCULANT_SUM);
        FORMS (comm, scan, all.assign (2 * p, -1), all == upto, mine, all, CIRCULANT_SUM);
        FORMS (comm, exscan, all.assign (2 * p, -1), all == before, mine, all, CIRCULANT_SUM);
        Words two;
        FORMS (comm, reduce_scatter_block, two.assign (2, -1), two == range (wanted, 2 * r, 2), mine, two, CIRCULANT_SUM);
        circulant::Counts counts (p, 2);
        counts[0] = 1;
        const std::size_t at = me == 0 ? 0 : 2 * r - 1;
        FORMS (comm, reduce_scatter, two.assign (counts[r], -1), two == range (wanted, at, counts[r]), mine, two, counts, CIRCULANT_SUM);
    }

    void neighbors () const
    {
        const circulant::Neighborhood ring = comm.cartesian ({size}, {1});
        const int left = (me + size - 1) % size, right = (me + 1) % size;
        CHECK ((ring.sources () == std::vector<int> {left, right} && ring.destinations () == ring.sources ()));
        const Words two = of (me, 2);
        Words all;
        const Words beside = {1000L * left + 1, 1000L * right};
        FORMS (ring, neighbor_alltoall, all.assign (2, -1), all == beside, two, all);
        const Words both = {1000L * left, 1000L * left + 1, 1000L * right, 1000L * right + 1};
        FORMS (ring, neighbor_allgather, all.assign (4, -1), all == both, two, all);
        const circulant::Counts counts = {2, 2}, ones = {1, 1}, swapped = {2, 0}, inner = {1, 2}, halo = {0, 3};
        const Words apart = {1000L * right, 1000L * right + 1, 1000L * left, 1000L * left + 1};
        FORMS (ring, neighbor_allgatherv, all.assign (4, -1), all == apart, two, all, Parts (counts, swapped));
        const Words field = {1000L * left + 2, 1000L * me + 1, 1000L * me + 2, 1000L * right + 1};
        FORMS (ring, neighbor_alltoallv, (all = of (me, 4), all[0] = all[3] = -1), all == field, in_place, Parts (ones, inner), all,
               Parts (ones, halo));
        FORMS (ring, neighbor_alltoallv, all.assign (2, -1), all == beside, two, ones, all, ones);
        CHECK (refused ([&] { ring.neighbor_alltoallv (two, counts, all, ones); }));
        const circulant::Neighborhood none = comm.dist_graph ({}, {});
        CHECK (none.sources ().empty ());
        none.neighbor_allgather (two, Words ());
        none.neighbor_alltoall (Words (), Words ());
    }

    void several () const
    {
        Words words[3] = {of (me, 1), of (me, 1), of (me, 1)};
        std::vector<circulant::Request> requests;
        for (Words &word : words)
            requests.push_back (comm.ibcast (word, root));
        bool seen[3] = {false, false, false};
        for (int i = 0; i < 3; i++)
            seen[circulant::wait_any (requests)] = true;
        CHECK (seen[0] && seen[1] && seen[2] && circulant::wait_any (requests) == 3);
        CHECK (words[2][0] == 1000L * root && circulant::test_all (requests));
        requests[1] = comm.ibarrier ();
        circulant::wait_all (requests);
        CHECK (requests[1].test ());
        comm.barrier ();
        circulant::Request often = comm.barrier_init ();
        often.start ();
        often.wait ();
    }

    void groups () const
    {
        std::vector<int> backwards;
        for (int s = size; s-- > 0;)
            backwards.push_back (s);
        const circulant::Communicator mirror = comm.create (backwards), parallel = comm.with ({{"reproducible", "yes"}});
        CHECK (comm.agree (me == 0 ? 6 : 3) == (size == 1 ? 6u : 2u) && comm.gone ().empty () && !comm.is_revoked ());
        CHECK (comm.shrink ().size () == size && refused_to_revoke (comm));
        CHECK (mirror.rank () == size - 1 - me && parallel.rank () == me && comm.split_by_node ().size () == size);
        const auto exchange = [&] (const void *mine, void *all, std::size_t bytes) {
            const auto *first = static_cast<const char *> (mine);
            comm.allgather (circulant::Span<const char> (first, bytes), circulant::Span<char> (static_cast<char *> (all), bytes * p));
        };
        std::vector<int> forwards (backwards.rbegin (), backwards.rend ());
        const circulant::Communicator assembled = comm.assemble (forwards, exchange);
        long one = 1, ranks = 0;
        assembled.allreduce (circulant::Span<const long> (&one, 1), circulant::Span<long> (&ranks, 1), CIRCULANT_SUM);
        CHECK (ranks == size && assembled.rank () == me);
        CHECK (refused ([&] { comm.assemble (forwards, [] (const void *, void *, std::size_t) { throw std::invalid_argument ("no"); }); }));
        Words mine (2), all (2 * p + 1);
        CHECK (refused ([&] { comm.allreduce (mine, all, CIRCULANT_SUM); }));
        CHECK (refused ([&] { comm.allgatherv (mine, all, circulant::Counts (p + 1, 1)); }));
        CHECK (refused ([&] { comm.allgatherv (mine, all, circulant::Counts (p, 9)); }));
        CHECK (size == 1 || refused ([&] { comm.allgather (mine, all); }));
    }
};

static void all_of (circulant_world_t *handle)
try {
    circulant::World world (handle);
    long turns = 0;
    world.while_waiting ([] {});
    world.while_waiting ([&turns] { turns++; });
    const int size = world.comm ().size ();
    {
        const Job job {world.comm ()};
        job.moves ();
        job.parts ();
        job.layouts ();
        job.reductions ();
        job.neighbors ();
        job.several ();
        job.groups ();
    }
    CHECK (size == 1 || turns > 0);
    circulant::Finalizing ending = world.start_finalize ();
    while (!ending.test ())
        ;
} catch (const std::exception &e) {
    std::fprintf (stderr, "%s\n", e.what ());
    std::exit (1);
}

int main (int argc, char **argv)
{
    return run (argc, argv, all_of);
}
