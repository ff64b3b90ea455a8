/* Neighbourhoods in their three forms: a ring, a line with borders, a star, a graph with two edges between two ranks. */
#include "ranks.h"

enum { N = 5, MOST = 64 };
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static circulant_comm_t *comm;
static circulant_neighborhood_t *on;
static int me, size;
static const circulant_type_t I32 = CIRCULANT_INT32;

#define CALL(form, name, ...) \
    do { \
        circulant_request_t *request = NULL; \
        if (form == BLOCKING) { \
            OK (circulant_##name (on, __VA_ARGS__)); \
        } else if (form == NONBLOCKING) { \
            OK (circulant_i##name (on, __VA_ARGS__, &request)); \
            OK (circulant_wait (&request)); \
        } else { \
            OK (circulant_##name##_init (on, __VA_ARGS__, &request)); \
            OK (circulant_start (request)); \
            OK (circulant_wait (&request)); \
            OK (circulant_request_free (&request)); \
        } \
    } while (0)

static void grid (int periodic)
{
    int32_t out[2 * N], in[2 * N], field[N + 2];
    int dims[1], rings[1], left, right, form, ranks[2], targets[2], i;
    size_t sources = 0, destinations = 0;
    size_t one[2] = { 1, 1 }, inner[2] = { 1, N }, halo[2] = { 0, N + 1 }, uneven[2] = { 2, 3 }, swapped[2] = { 3, 2 };
    dims[0] = size;
    rings[0] = periodic;
    OK (circulant_cartesian (comm, dims, rings, 1, &on));
    OK (circulant_neighborhood_size (on, &sources, &destinations));
    CHECK (sources == 2 && destinations == 2);
    OK (circulant_neighborhood_ranks (on, ranks, targets));
    left = periodic ? (me + size - 1) % size : me - 1;
    right = periodic ? (me + 1) % size : me + 1 < size ? me + 1 : CIRCULANT_NO_RANK;
    CHECK (ranks[0] == (left < 0 ? CIRCULANT_NO_RANK : left) && ranks[1] == right);
    CHECK (targets[0] == ranks[0] && targets[1] == ranks[1]);
    for (form = BLOCKING; form <= PERSISTENT; form++) {
        for (i = 0; i < 2 * N; i++) {
            out[i] = 100 * me + i;
            in[i] = -7;
        }
        /* What we send to the left is what our left neighbour gets from its right. */
        CALL (form, neighbor_alltoall, out, in, N, I32);
        for (i = 0; i < N; i++) {
            CHECK (in[i] == (ranks[0] < 0 ? -7 : 100 * left + N + i));
            CHECK (in[N + i] == (right < 0 ? -7 : 100 * right + i));
        }
        for (i = 0; i < 2 * N; i++)
            in[i] = -7;
        CALL (form, neighbor_allgather, out, in, N, I32);
        for (i = 0; i < N; i++) {
            CHECK (in[i] == (ranks[0] < 0 ? -7 : 100 * left + i));
            CHECK (in[N + i] == (right < 0 ? -7 : 100 * right + i));
        }
        for (i = 0; i < 2 * N; i++)
            in[i] = -7;
        CALL (form, neighbor_alltoallv, out, uneven, NULL, in, swapped, NULL, I32);
        for (i = 0; i < 3; i++)
            CHECK (in[i] == (ranks[0] < 0 ? -7 : 100 * left + 2 + i));
        for (i = 0; i < 2; i++)
            CHECK (in[3 + i] == (right < 0 ? -7 : 100 * right + i));
        CHECK (in[5] == -7);
        /* A field and its halo in one buffer. */
        for (i = 0; i < N + 2; i++)
            field[i] = i == 0 || i == N + 1 ? -7 : 10 * me + i;
        CALL (form, neighbor_alltoallv, CIRCULANT_IN_PLACE, one, inner, field, one, halo, I32);
        CHECK (field[0] == (ranks[0] < 0 ? -7 : 10 * left + N) && field[N + 1] == (right < 0 ? -7 : 10 * right + 1));
        CHECK (field[1] == 10 * me + 1 && field[N] == 10 * me + N);
    }
    OK (circulant_neighborhood_free (&on));
    CHECK (on == NULL);
}

/* The others send to rank 0, each as many elements as its rank. */
static void star (void)
{
    int32_t mine[MOST], all[MOST * MOST];
    int others[MOST], zero = 0, form, r;
    size_t counts[MOST], displs[MOST], at = 0, i;
    for (r = 1; r < size; r++) {
        others[r - 1] = r;
        counts[r - 1] = (size_t) r;
        displs[r - 1] = at + 1;
        at += (size_t) r + 1;
    }
    for (i = 0; i < MOST; i++)
        mine[i] = me;
    if (me == 0)
        OK (circulant_dist_graph (comm, others, (size_t) size - 1, NULL, 0, &on));
    else
        OK (circulant_dist_graph (comm, NULL, 0, &zero, 1, &on));
    for (form = BLOCKING; form <= PERSISTENT; form++) {
        for (i = 0; i < at + 1; i++)
            all[i] = -7;
        CALL (form, neighbor_allgatherv, mine, (size_t) me, me == 0 ? all : NULL, counts, displs, I32);
        for (r = 1; me == 0 && r < size; r++) {
            CHECK (all[displs[r - 1] - 1] == -7);
            for (i = 0; i < (size_t) r; i++)
                CHECK (all[displs[r - 1] + i] == r);
        }
    }
    OK (circulant_neighborhood_free (&on));
}

/* Two edges from each rank to the next one: the k-th one there is the k-th here. */
static void twice (void)
{
    int next[2], before[2];
    int32_t out[2], in[2] = { -7, -7 };
    next[0] = next[1] = (me + 1) % size;
    before[0] = before[1] = (me + size - 1) % size;
    OK (circulant_dist_graph (comm, before, 2, next, 2, &on));
    out[0] = 2 * me;
    out[1] = 2 * me + 1;
    OK (circulant_neighbor_alltoall (on, out, in, 1, I32));
    CHECK (in[0] == 2 * before[0] && in[1] == 2 * before[0] + 1);
    OK (circulant_neighborhood_free (&on));
}

/* What this rank alone gets, and calls go on. */
static void refused (void)
{
    int dims[2] = { 1, 0 }, rings[2] = { 0, 0 };
    int32_t word[2] = { 0, 0 };
    size_t sources = 7;
    CHECK (circulant_cartesian (comm, dims, rings, 2, &on) == CIRCULANT_ERR_ARGUMENT && on == NULL);
    dims[1] = size + 1;
    CHECK (circulant_cartesian (comm, dims, rings, 2, &on) == CIRCULANT_ERR_ARGUMENT && on == NULL);
    dims[0] = -1;
    CHECK (circulant_cartesian (comm, dims, rings, 2, &on) == CIRCULANT_ERR_ARGUMENT && on == NULL);
    CHECK (circulant_cartesian (comm, NULL, rings, 2, &on) == CIRCULANT_ERR_ARGUMENT);
    CHECK (circulant_dist_graph (comm, NULL, 1, NULL, 0, &on) == CIRCULANT_ERR_ARGUMENT);
    CHECK (circulant_neighborhood_size (NULL, &sources, &sources) == CIRCULANT_ERR_ARGUMENT && sources == 7);
    CHECK (circulant_neighbor_alltoall (NULL, word, word + 1, 1, I32) == CIRCULANT_ERR_ARGUMENT);
    CHECK (!strcmp (circulant_last_error (), "on is NULL"));
    dims[0] = size;
    OK (circulant_cartesian (comm, dims, rings, 1, &on));
    CHECK (circulant_neighborhood_ranks (on, NULL, NULL) == CIRCULANT_ERR_ARGUMENT);
    CHECK (circulant_neighbor_allgather (on, CIRCULANT_IN_PLACE, word, 1, I32) == CIRCULANT_ERR_ARGUMENT);
    OK (circulant_neighborhood_free (&on));
    OK (circulant_neighborhood_free (&on));
}

static void all_of (circulant_world_t *world)
{
    OK (circulant_world_comm (world, &comm));
    OK (circulant_comm_rank (comm, &me));
    OK (circulant_comm_size (comm, &size));
    CHECK (size <= MOST);
    refused ();
    grid (0);
    grid (1);
    star ();
    twice ();
    OK (circulant_comm_free (&comm));
    OK (circulant_finalize (&world));
}

int main (int argc, char **argv)
{
    return run (argc, argv, all_of);
}
