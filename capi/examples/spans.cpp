// The C++ layer: spans, requests that wait when they are destroyed, an operator of the program, exceptions.
//
//     c++ -std=c++17 spans.cpp $(pkg-config --cflags --libs circulant) -o spans && circulant run -n 4 ./spans
#include "circulant.hpp"

#include <array>
#include <cstdio>
#include <numeric>
#include <vector>

struct Extent {
    double low, high;
};

static void hull (const Extent *left, Extent *right, std::size_t n)
{
    for (std::size_t i = 0; i < n; i++)
        right[i] = {left[i].low < right[i].low ? left[i].low : right[i].low, left[i].high > right[i].high ? left[i].high : right[i].high};
}

int main ()
try {
    circulant::World world;
    circulant::Communicator comm = world.comm ();
    const int me = comm.rank (), size = comm.size ();
    const std::size_t ranks = static_cast<std::size_t> (size);
    bool right = true;

    std::vector<double> mine (100, me + 1.0), sum (100);
    comm.allreduce (mine, sum, CIRCULANT_SUM);
    right &= sum[99] == size * (size + 1) / 2.0;
    comm.allreduce (circulant::in_place, sum, CIRCULANT_MAX);
    right &= sum[0] == size * (size + 1) / 2.0;

    // In registered memory, while something else is under way.
    circulant::Buffer<int> all = comm.alloc<int> (ranks);
    std::array<int, 1> own = {me * me};
    std::vector<std::uint64_t> word (3, me == 0 ? 7 : 0);
    {
        circulant::Request telling = comm.ibcast (word, 0);
        comm.allgather (own, all);
    } // has waited
    for (int r = 0; r < size; r++)
        right &= all[static_cast<std::size_t> (r)] == r * r;
    right &= word[2] == 7;

    std::vector<Extent> extent = {{-1.0 * me, 2.0 * me}};
    auto hull_of_all = circulant::Operator::of<Extent, hull> ("hull", true);
    circulant::Request often = comm.allreduce_init (circulant::in_place, extent, hull_of_all);
    often.start ();
    often.wait ();
    right &= extent[0].low == 1.0 - size && extent[0].high == 2.0 * (size - 1);

    circulant::Counts counts (ranks);
    std::iota (counts.begin (), counts.end (), std::size_t {1});
    std::vector<int> part (counts[static_cast<std::size_t> (me)], me), parts (ranks * (ranks + 1) / 2);
    comm.allgatherv (part, parts, counts);
    right &= parts.back () == size - 1;

    try {
        comm.allreduce (circulant::in_place, sum, CIRCULANT_BAND);
        right = false;
    } catch (const circulant::Error &e) {
        right &= e.status () == CIRCULANT_ERR_ARGUMENT && !e.remedy ().empty ();
    }
    comm.barrier ();
    if (me == 0)
        std::printf ("%s: %d ranks, as expected: %s\n", world.provider ().c_str (), size, right ? "yes" : "no");
    often = circulant::Request ();
    world.finalize ();
    return right ? 0 : 1;
} catch (const std::exception &e) {
    std::fprintf (stderr, "%s\n", e.what ());
    return 1;
}
