/* Collectives between the groups of intercommunicators: groups of unequal sizes and turned orders, copies, derived types on one side, an
 * operator that does not commute, roots on both sides; and a call that the MPI refuses, after which all ranks must still be in step.
 * Each result is compared with that of the MPI's own function. */
#include "suite.h"

enum { MOST = 64, ROOM = 4096 };

static MPI_Comm comm;
static int mine, ours, theirs; /* rank and size in our group, size of the other one */
static int is_low;
static int send[ROOM], got[ROOM], wanted[ROOM];
static int counts[MOST], places[MOST];              /* what each rank of the other group gives alike to all of ours, and back */
static int pairs[MOST], pair_places[MOST], at[MOST]; /* what passes between it and us; `at` in bytes */
static MPI_Datatype strided, types[MOST];
static MPI_Op composed;

/* Composes maps x -> a x + b, pairs (a, b) modulo 2^32: it does not commute. */
static void compose(void *in, void *inout, int *n, MPI_Datatype *type)
{
    unsigned *f = in, *g = inout;
    (void)type;
    for (int i = 0; i + 1 < 2 * *n; i += 2) {
        g[i + 1] += g[i] * f[i + 1];
        g[i] *= f[i];
    }
}

static void fill(int seed)
{
    for (int i = 0; i < ROOM; i++) {
        send[i] = (suite_rank + 1) * 7919 + seed * 31 + i;
        got[i] = wanted[i] = -1 - i;
    }
}

static void same(const char *what, int seed)
{
    for (int i = 0; i < ROOM; i++)
        if (got[i] != wanted[i]) {
            wrong("%s of %d and %d ranks, number %d: %d at %d, not %d", what, ours, theirs, seed, got[i], i, wanted[i]);
            return;
        }
}

/* By the preloaded library and by the MPI. */
#define BOTH(what, function, ...)                     \
    do {                                              \
        int *recv;                                    \
        fill(seed);                                   \
        recv = got;                                   \
        if (function(__VA_ARGS__)) wrong(what);       \
        recv = wanted;                                \
        if (REAL(function)(__VA_ARGS__)) wrong(what); \
        same(what, seed);                             \
    } while (0)

/* `root`: as MPI names it. One group receives or sends `n` ints, of which the low one has them with gaps. */
static void rooted(int seed, int root, int n)
{
    MPI_Datatype type = is_low ? strided : MPI_INT;
    int receives = root >= 0;
    if (root == MPI_PROC_NULL) n = 77; /* nothing is looked at there */
    fill(seed);
    if (!receives) memcpy(got, send, sizeof send), memcpy(wanted, send, sizeof send);
    if (MPI_Bcast(got, n, type, root, comm) || REAL(MPI_Bcast)(wanted, n, type, root, comm)) wrong("bcast");
    same("bcast", seed);
    BOTH("gather", MPI_Gather, send, n, type, recv, n, type, root, comm);
    BOTH("scatter", MPI_Scatter, send, n, type, recv, n, type, root, comm);
    BOTH("gatherv", MPI_Gatherv, send, mine + n, type, recv, counts, places, type, root, comm);
    BOTH("scatterv", MPI_Scatterv, send, counts, places, type, recv, mine + n, type, root, comm);
    BOTH("reduce", MPI_Reduce, send, recv, n, MPI_INT, MPI_SUM, root, comm);
    BOTH("reduce, operator of our own", MPI_Reduce, send, recv, n, MPI_2INT, composed, root, comm);
}

static void everywhere(int seed, int n)
{
    MPI_Datatype type = is_low ? strided : MPI_INT;
    int own = is_low ? n : n + 2, other = is_low ? n + 2 : n; /* groups may give blocks of different lengths */
    MPI_Barrier(comm);
    BOTH("allgather", MPI_Allgather, send, own, type, recv, other, type, comm);
    BOTH("alltoall", MPI_Alltoall, send, own, type, recv, other, type, comm);
    BOTH("allgatherv", MPI_Allgatherv, send, mine + n, type, recv, counts, places, type, comm);
    BOTH("alltoallv", MPI_Alltoallv, send, pairs, pair_places, type, recv, pairs, pair_places, type, comm);
    BOTH("alltoallw", MPI_Alltoallw, send, pairs, at, types, recv, pairs, at, types, comm);
    BOTH("allreduce", MPI_Allreduce, send, recv, n, MPI_INT, MPI_SUM, comm);
    BOTH("allreduce, operator of our own", MPI_Allreduce, send, recv, n, MPI_2INT, composed, comm);
    int each = n * theirs; /* as many elements for each group together */
    BOTH("reduce_scatter_block", MPI_Reduce_scatter_block, send, recv, each, MPI_INT, MPI_MAX, comm);
    int blocks[MOST];
    for (int r = 0; r < ours; r++) blocks[r] = each;
    if (ours > 1) blocks[0] = 0, blocks[ours - 1] = 2 * each;
    BOTH("reduce_scatter", MPI_Reduce_scatter, send, recv, blocks, MPI_INT, MPI_SUM, comm);
    BOTH("reduce_scatter, operator of our own", MPI_Reduce_scatter, send, recv, blocks, MPI_2INT, composed, comm);
    MPI_Request request;
    fill(seed);
    MPI_Iallreduce(send, got, n, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    REAL(MPI_Allreduce)(send, wanted, n, MPI_INT, MPI_SUM, comm);
    same("iallreduce", seed);
}

/* From the last rank on, with gaps. */
static void lists(int n)
{
    for (int q = theirs - 1, end = 0, pair_end = 0; q >= 0; q--) {
        counts[q] = q + n, places[q] = end, end += counts[q] + 1;
        pairs[q] = mine + q + n, pair_places[q] = pair_end, pair_end += pairs[q] + 1;
        types[q] = is_low ? strided : MPI_INT, at[q] = pair_places[q] * (is_low ? 8 : 4);
    }
}

/* A sum of pairs is refused; ranks beside the root cannot know it. */
static void refused(int root)
{
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int code = MPI_Reduce(send, got, 1, MPI_2INT, MPI_SUM, root, comm);
    if (root != MPI_PROC_NULL && code == MPI_SUCCESS) wrong("a sum of pairs");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/* What this rank passes for root number `root` of the low or the high group. */
static int as_root(int root, int in_low)
{
    if (in_low != is_low) return root;
    return root == mine ? MPI_ROOT : MPI_PROC_NULL;
}

static void all(int rounds)
{
    uint64_t state = suite_seed(17, 4);
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &ours);
    MPI_Comm_remote_size(comm, &theirs);
    int least = ours < theirs ? ours : theirs;
    for (int round = 0; round < rounds; round++) {
        int n = round == 1 ? 0 : 1 + suite_below(&state, 9);
        lists(n);
        everywhere(round, n);
        for (int root = 0; root < least; root++)
            for (int low = 0; low < 2; low++) rooted(round, as_root(root, low), n);
    }
    for (int low = 0; low < 2; low++) {
        refused(as_root(least - 1, low));
        lists(3);
        rooted(99, as_root(0, low), 3);
    }
}

/* A group of the first `low` ranks and one of the others, each in turned order if `turned`. */
static void groups(int low, int turned)
{
    MPI_Comm own, copy;
    is_low = suite_rank < low;
    MPI_Comm_split(MPI_COMM_WORLD, is_low, turned ? -suite_rank : suite_rank, &own);
    int leader = is_low ? (turned ? suite_size - 1 : low) : (turned ? low - 1 : 0);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, leader, 5, &comm);
    all(3);
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_free(&comm);
    comm = copy;
    all(1);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&own);
}

int main(int argc, char **argv)
{
    suite_begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Type_vector(1, 1, 2, MPI_INT, &types[0]);
    MPI_Type_create_resized(types[0], 0, 2 * sizeof(int), &strided);
    MPI_Type_commit(&strided);
    MPI_Type_free(&types[0]);
    MPI_Op_create(compose, 0, &composed);
    for (int low = 1; low < suite_size; low++)
        for (int turned = 0; turned < 2; turned++) groups(low, turned);
    MPI_Op_free(&composed);
    MPI_Type_free(&strided);
    return suite_end();
}
