/* The forms with counts of 64 bits, blocking and non-blocking, found by name as mpi4py finds them: there, whether the MPI has them or not, and right where they are
 * taken (MPI_COMM_WORLD) and where they are passed on (one rank, two groups). Lists that do not matter are no lists. */
#define _GNU_SOURCE
#include "check.h"
#include <ctype.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST = 16 };
typedef MPI_Aint At;
typedef int64_t N;
static void *const NOWHERE = (void *)8;

static void *found(const char *prefix, const char *operation)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s_c", prefix, operation);
    if (strcmp(prefix, "MPI_I") == 0) name[5] = (char)tolower(name[5]);
    void *f = dlsym(RTLD_DEFAULT, name);
    if (!f) fprintf(stderr, "there is no %s\n", name), MPI_Abort(MPI_COMM_WORLD, 2);
    return f;
}

/* int NAME(arguments), and INAME(arguments, request) */
#define FIND(name, ...)                                                     \
    int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))found("MPI_", #name);  \
    int (*I##name)(__VA_ARGS__, MPI_Request *) = (int (*)(__VA_ARGS__, MPI_Request *))found("MPI_I", #name)

static int requests; /* whether the non-blocking ones are called */
static MPI_Request request;
static int waited(int code) { return code ? code : MPI_Wait(&request, MPI_STATUS_IGNORE); }
#define CALL(name, ...) (requests ? waited(I##name(__VA_ARGS__, &request)) : name(__VA_ARGS__))

static int in[MOST], out[MOST];

static void fill(void)
{
    for (int i = 0; i < MOST; i++) in[i] = value(me, i), out[i] = -1;
}

static int sum(int first, int n, int i)
{
    int s = 0;
    for (int r = first; r < first + n; r++) s += value(r, i);
    return s;
}

/* `first` to `first + n - 1`: the ranks of the world that send to this one; `own` are those of its own group. */
static void lists(MPI_Comm comm, int first, int n, int root, int at_root, int root_rank)
{
    FIND(Gatherv, const void *, N, MPI_Datatype, void *, const N *, const At *, MPI_Datatype, int, MPI_Comm);
    FIND(Scatterv, const void *, const N *, const At *, MPI_Datatype, void *, N, MPI_Datatype, int, MPI_Comm);
    FIND(Allgatherv, const void *, N, MPI_Datatype, void *, const N *, const At *, MPI_Datatype, MPI_Comm);
    FIND(Alltoallv, const void *, const N *, const At *, MPI_Datatype, void *, const N *, const At *, MPI_Datatype, MPI_Comm);
    FIND(Alltoallw, const void *, const N *, const At *, const MPI_Datatype *, void *, const N *, const At *, const MPI_Datatype *, MPI_Comm);
    N ones[MOST];
    At apart[MOST], bytes[MOST];
    MPI_Datatype types[MOST];
    for (int i = 0; i < MOST; i++) ones[i] = 1, apart[i] = 2 * i, bytes[i] = 8 * i, types[i] = MPI_INT;

    fill();
    CHECK(CALL(Allgatherv, in, 1, MPI_INT, out, ones, apart, MPI_INT, comm) == 0, "failed");
    for (int r = 0; r < n; r++) CHECK(out[2 * r] == value(first + r, 0) && out[2 * r + 1] == -1, "allgatherv: %d", out[2 * r]);
    fill();
    CHECK(CALL(Alltoallv, in, ones, apart, MPI_INT, out, ones, apart, MPI_INT, comm) == 0, "failed");
    for (int r = 0; r < n; r++) CHECK(out[2 * r + 1] == -1 && out[2 * r] > 0, "alltoallv: %d", out[2 * r]);
    fill();
    CHECK(CALL(Alltoallw, in, ones, bytes, types, out, ones, bytes, types, comm) == 0, "failed");
    for (int r = 0; r < n; r++) CHECK(out[2 * r + 1] == -1 && out[2 * r] > 0, "alltoallw: %d", out[2 * r]);
    fill();
    if (at_root) CHECK(CALL(Gatherv, in, 1, MPI_INT, out, ones, apart, MPI_INT, root, comm) == 0, "failed");
    else CHECK(CALL(Gatherv, in, 1, MPI_INT, NULL, NOWHERE, NOWHERE, MPI_INT, root, comm) == 0, "failed");
    for (int r = 0; at_root && r < n; r++) CHECK(out[2 * r] == value(first + r, 0), "gatherv: %d", out[2 * r]);
    fill();
    if (at_root) CHECK(CALL(Scatterv, in, ones, apart, MPI_INT, out, 1, MPI_INT, root, comm) == 0, "failed");
    else CHECK(CALL(Scatterv, NULL, NOWHERE, NOWHERE, MPI_INT, out, 1, MPI_INT, root, comm) == 0, "failed");
    if (!at_root && root >= 0) CHECK(out[0] > root_rank * 1000 && out[0] < root_rank * 1000 + 2000, "scatterv: %d", out[0]);
}

/* The same arguments. */
static void numbers(MPI_Comm comm, int first, int n)
{
    FIND(Allgather, const void *, N, MPI_Datatype, void *, N, MPI_Datatype, MPI_Comm);
    FIND(Alltoall, const void *, N, MPI_Datatype, void *, N, MPI_Datatype, MPI_Comm);
    FIND(Allreduce, const void *, void *, N, MPI_Datatype, MPI_Op, MPI_Comm);
    FIND(Reduce_scatter, const void *, void *, const N *, MPI_Datatype, MPI_Op, MPI_Comm);
    FIND(Reduce_scatter_block, const void *, void *, N, MPI_Datatype, MPI_Op, MPI_Comm);
    N two[MOST];
    int mine;
    MPI_Comm_rank(comm, &mine);
    for (int i = 0; i < MOST; i++) two[i] = 2 * n; /* the same total in both groups: 2 * n * the other n */
    fill();
    CHECK(CALL(Allgather, in, 2, MPI_INT, out, 2, MPI_INT, comm) == 0, "failed");
    for (int r = 0; r < n; r++) CHECK(out[2 * r + 1] == value(first + r, 1), "allgather: %d", out[2 * r + 1]);
    fill();
    CHECK(CALL(Alltoall, in, 1, MPI_INT, out, 1, MPI_INT, comm) == 0, "failed");
    for (int r = 0; r < n; r++) CHECK(out[r] == value(first + r, mine), "alltoall: %d", out[r]);
    fill();
    CHECK(CALL(Allreduce, in, out, 3, MPI_INT, MPI_SUM, comm) == 0, "failed");
    for (int i = 0; i < 3; i++) CHECK(out[i] == sum(first, n, i), "allreduce: %d", out[i]);
    fill();
    CHECK(CALL(Reduce_scatter, in, out, two, MPI_INT, MPI_SUM, comm) == 0, "failed");
    CHECK(out[0] == sum(first, n, 2 * n * mine), "reduce_scatter: %d", out[0]);
    fill();
    CHECK(CALL(Reduce_scatter_block, in, out, 2 * n, MPI_INT, MPI_SUM, comm) == 0, "failed");
    CHECK(out[2 * n - 1] == sum(first, n, 2 * n * mine + 2 * n - 1), "reduce_scatter_block: %d", out[2 * n - 1]);
}

/* Those that have a root in the same group. */
static void rooted(MPI_Comm comm, int first, int n)
{
    FIND(Bcast, void *, N, MPI_Datatype, int, MPI_Comm);
    FIND(Gather, const void *, N, MPI_Datatype, void *, N, MPI_Datatype, int, MPI_Comm);
    FIND(Scatter, const void *, N, MPI_Datatype, void *, N, MPI_Datatype, int, MPI_Comm);
    FIND(Reduce, const void *, void *, N, MPI_Datatype, MPI_Op, int, MPI_Comm);
    FIND(Scan, const void *, void *, N, MPI_Datatype, MPI_Op, MPI_Comm);
    FIND(Exscan, const void *, void *, N, MPI_Datatype, MPI_Op, MPI_Comm);
    int mine;
    MPI_Comm_rank(comm, &mine);
    fill();
    CHECK(CALL(Bcast, in, 4, MPI_INT, 0, comm) == 0 && in[3] == value(first, 3), "bcast: %d", in[3]);
    fill();
    CHECK(CALL(Gather, in, 1, MPI_INT, out, 1, MPI_INT, n - 1, comm) == 0, "failed");
    for (int r = 0; mine == n - 1 && r < n; r++) CHECK(out[r] == value(first + r, 0), "gather: %d", out[r]);
    fill();
    CHECK(CALL(Scatter, in, 1, MPI_INT, out, 1, MPI_INT, 0, comm) == 0 && out[0] == value(first, mine), "scatter: %d", out[0]);
    fill();
    CHECK(CALL(Reduce, in, out, 2, MPI_INT, MPI_SUM, n - 1, comm) == 0 && (mine < n - 1 || out[1] == sum(first, n, 1)), "reduce: %d", out[1]);
    fill();
    CHECK(CALL(Scan, in, out, 2, MPI_INT, MPI_SUM, comm) == 0 && out[1] == sum(first, mine + 1, 1), "scan: %d", out[1]);
    fill();
    CHECK(CALL(Exscan, in, out, 2, MPI_INT, MPI_SUM, comm) == 0 && (mine == 0 || out[1] == sum(first, mine, 1)), "exscan: %d", out[1]);
}

/* Of the MPI that knows 32 bits only, an error. */
static void too_large(void)
{
#ifdef OPEN_MPI
    FIND(Bcast, void *, N, MPI_Datatype, int, MPI_Comm);
    CHECK(CALL(Bcast, in, (N)3 << 30, MPI_BYTE, 0, MPI_COMM_SELF) != 0, "no error");
#endif
}

int main(int argc, char **argv)
{
    MPI_Comm half, between;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    int low = me < 1, others = low ? np - 1 : 1;
    MPI_Comm_split(MPI_COMM_WORLD, low, me, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? 1 : 0, 5, &between);
    for (requests = 0; requests < 2; requests++) {
        for (int root = 0; root < np; root++) lists(MPI_COMM_WORLD, 0, np, root, me == root, root);
        lists(MPI_COMM_SELF, me, 1, 0, 1, 0);
        numbers(MPI_COMM_SELF, me, 1);
        rooted(MPI_COMM_WORLD, 0, np);
        rooted(MPI_COMM_SELF, me, 1);
        lists(between, low ? 1 : 0, others, low ? MPI_ROOT : 0, low, 0);
        numbers(between, low ? 1 : 0, others);
        too_large();
    }
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    return verdict();
}
