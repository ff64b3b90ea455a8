/* Non-blocking collectives: all operations, on plain and on derived types that are freed while they are used, many outstanding at a time and
 * completed in another order at each rank, by each call that completes requests; mixed with messages and blocking collectives.
 *
 *   nonblocking            everything below, with the seed that it prints, or NONBLOCKING_SEED */
#include "check.h"
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, REDUCE, ALLREDUCE,
       REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, KINDS };
enum { JOBS = 3 * KINDS, GAP = -7, MANY = 300, LARGE = 1 << 16 };

/* An operation under way: n ints of each rank, or n + rank % 3 where lengths differ; an int in every `step` of the memory. */
typedef struct {
    int kind, root, n, step, in_place, id, length;
    int *in, *out, *counts, *displs, *bytes;
    MPI_Datatype *types;
    MPI_Request request;
} Job;

static uint64_t state;
static int below(int bound)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int)((state >> 11) % (uint64_t)bound);
}

/* Element i of what rank r has for rank to. */
static int datum(const Job *job, int r, int to, int i) { return value(r, job->id * 31 + to * 7 + i); }
static int count(const Job *job, int r) { return job->n + r % 3; }

static void add(void *in, void *inout, int *n, MPI_Datatype *type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(*type, &lb, &extent);
    for (int i = 0; i < *n; i++) ((int *)inout)[i * (extent / (int)sizeof(int))] += ((int *)in)[i * (extent / (int)sizeof(int))];
}

static void fill(Job *job, int *to, int at, int r, int dest, int n)
{
    for (int i = 0; i < n; i++) to[(at + i) * job->step] = datum(job, r, dest, i);
}

/* Whether elements from `at` on are those of rank r for rank dest. */
static void expect(Job *job, int at, int r, int dest, int n)
{
    for (int i = 0; i < n; i++)
        CHECK(job->out[(at + i) * job->step] == datum(job, r, dest, i), "kind %d id %d step %d: element %d of rank %d is %d", job->kind,
              job->id, job->step, i, r, job->out[(at + i) * job->step]);
}

static void expect_sum(Job *job, int dest, int n, int ranks)
{
    for (int i = 0; i < n; i++) {
        int sum = 0;
        for (int r = 0; r < ranks; r++) sum += datum(job, r, dest, i);
        CHECK(job->out[i * job->step] == sum, "kind %d id %d step %d: sum %d is %d, not %d", job->kind, job->id, job->step, i,
              job->out[i * job->step], sum);
    }
}

static void begin(Job *job, MPI_Comm comm)
{
    int n = job->n, all = 0, k = job->kind;
    MPI_Datatype type = MPI_INT, vector;
    MPI_Op op = MPI_SUM;
    /* Of what is sent, then of what is received where that differs. They stay until the operation has ended. */
    job->counts = malloc(2 * sizeof(int) * np), job->displs = malloc(2 * sizeof(int) * np), job->bytes = malloc(2 * sizeof(int) * np);
    job->types = malloc(sizeof(MPI_Datatype) * np);
    for (int r = 0; r < np; r++) job->counts[r] = count(job, r), job->displs[r] = all, all += job->counts[r] + 1;
    job->length = (all > np * (n + 3) ? all : np * (n + 3)) * job->step;
    job->in = malloc(sizeof(int) * job->length), job->out = malloc(sizeof(int) * job->length);
    for (int i = 0; i < job->length; i++) job->in[i] = job->out[i] = GAP;
    if (job->step > 1) {
        MPI_Type_contiguous(1, MPI_INT, &vector);
        MPI_Type_create_resized(vector, 0, sizeof(int) * job->step, &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&vector);
    }
    if (job->step > 1 || job->id % 2) MPI_Op_create(add, 1, &op);
    for (int r = 0; r < np; r++) job->bytes[r] = job->displs[r] * (int)sizeof(int) * job->step, job->types[r] = type;
    int in_place = job->in_place && (k == ALLGATHER || k == ALLGATHERV || k == ALLREDUCE || k == REDUCE_SCATTER_BLOCK || k == SCAN || k == EXSCAN ||
        ((k == GATHER || k == REDUCE) && me == job->root));
    int *own = in_place ? job->out : job->in, root = job->root;
    void *in = in_place ? MPI_IN_PLACE : job->in;
    MPI_Request *request = &job->request;
    switch (k) {
    case BARRIER: MPI_Ibarrier(comm, request); break;
    case BCAST:
        if (me == root) fill(job, job->out, 0, me, 0, n);
        MPI_Ibcast(job->out, n, type, root, comm, request);
        break;
    case GATHER:
    case ALLGATHER:
        fill(job, own, in_place ? me * n : 0, me, 0, n);
        if (k == GATHER) MPI_Igather(in, n, type, job->out, n, type, root, comm, request);
        else MPI_Iallgather(in, n, type, job->out, n, type, comm, request);
        break;
    case GATHERV:
    case ALLGATHERV:
        fill(job, own, in_place ? job->displs[me] : 0, me, 0, count(job, me));
        if (k == GATHERV) MPI_Igatherv(in, count(job, me), type, job->out, job->counts, job->displs, type, root, comm, request);
        else MPI_Iallgatherv(in, count(job, me), type, job->out, job->counts, job->displs, type, comm, request);
        break;
    case SCATTER:
    case ALLTOALL:
        for (int r = 0; r < np; r++) fill(job, job->in, r * n, me, r, n);
        if (k == SCATTER) MPI_Iscatter(job->in, n, type, job->out, n, type, root, comm, request);
        else MPI_Ialltoall(job->in, n, type, job->out, n, type, comm, request);
        break;
    case SCATTERV:
        for (int r = 0; r < np; r++) fill(job, job->in, job->displs[r], me, r, job->counts[r]);
        MPI_Iscatterv(job->in, job->counts, job->displs, type, job->out, count(job, me), type, root, comm, request);
        break;
    case ALLTOALLV: /* Every rank sends n + r % 3 to rank r, and gets n + me % 3 from each. */
    case ALLTOALLW:
        for (int r = 0; r < np; r++) fill(job, job->in, job->displs[r], me, r, job->counts[r]);
        for (int r = 0; r < np; r++) {
            job->counts[np + r] = count(job, me), job->displs[np + r] = r * (n + 2);
            job->bytes[np + r] = job->displs[np + r] * (int)sizeof(int) * job->step;
        }
        if (k == ALLTOALLV)
            MPI_Ialltoallv(job->in, job->counts, job->displs, type, job->out, job->counts + np, job->displs + np, type, comm, request);
        else
            MPI_Ialltoallw(job->in, job->counts, job->bytes, job->types, job->out, job->counts + np, job->bytes + np, job->types, comm,
                           request);
        break;
    case REDUCE_SCATTER:
        for (int r = 0, at = 0; r < np; at += job->counts[r++]) fill(job, job->in, at, me, r, job->counts[r]);
        MPI_Ireduce_scatter(job->in, job->out, job->counts, type, op, comm, request);
        break;
    case REDUCE_SCATTER_BLOCK:
        for (int r = 0; r < np; r++) fill(job, own, r * n, me, r, n);
        MPI_Ireduce_scatter_block(in, job->out, n, type, op, comm, request);
        break;
    default:
        fill(job, own, 0, me, 0, n);
        if (k == REDUCE) MPI_Ireduce(in, job->out, n, type, op, root, comm, request);
        else if (k == ALLREDUCE) MPI_Iallreduce(in, job->out, n, type, op, comm, request);
        else if (k == SCAN) MPI_Iscan(in, job->out, n, type, op, comm, request);
        else MPI_Iexscan(in, job->out, n, type, op, comm, request);
    }
    /* They are used until the operation has ended. */
    if (job->step > 1) {
        MPI_Type_free(&type);
        CHECK(type == MPI_DATATYPE_NULL, "a freed type");
    }
    if (op != MPI_SUM) {
        MPI_Op_free(&op);
        CHECK(op == MPI_OP_NULL, "a freed operator");
    }
}

static void end(Job *job)
{
    int n = job->n;
    CHECK(job->request == MPI_REQUEST_NULL, "kind %d: a request that is complete", job->kind);
    switch (job->kind) {
    case BCAST: expect(job, 0, job->root, 0, n); break;
    case GATHER: if (me != job->root) break; /* fall through */
    case ALLGATHER: for (int r = 0; r < np; r++) expect(job, r * n, r, 0, n); break;
    case GATHERV: if (me != job->root) break; /* fall through */
    case ALLGATHERV: for (int r = 0; r < np; r++) expect(job, job->displs[r], r, 0, count(job, r)); break;
    case SCATTER: expect(job, 0, job->root, me, n); break;
    case SCATTERV: expect(job, 0, job->root, me, count(job, me)); break;
    case ALLTOALL: for (int r = 0; r < np; r++) expect(job, r * n, r, me, n); break;
    case ALLTOALLV:
    case ALLTOALLW: for (int r = 0; r < np; r++) expect(job, r * (n + 2), r, me, count(job, me)); break;
    case REDUCE: if (me == job->root) expect_sum(job, 0, n, np); break;
    case ALLREDUCE: expect_sum(job, 0, n, np); break;
    case REDUCE_SCATTER: expect_sum(job, me, count(job, me), np); break;
    case REDUCE_SCATTER_BLOCK: expect_sum(job, me, n, np); break;
    case SCAN: expect_sum(job, 0, n, me + 1); break;
    case EXSCAN: if (me > 0) expect_sum(job, 0, n, me); break;
    }
    for (int i = 0; i < job->length; i++)
        if (i % job->step) CHECK(job->out[i] == GAP, "kind %d: a gap was written to", job->kind);
    free(job->in), free(job->out), free(job->counts), free(job->displs), free(job->bytes), free(job->types);
}

/* Completes what is outstanding in the manner of this round. */
static void complete(MPI_Request *requests, int n, int manner)
{
    int done = 0, some, which, flag, *places = malloc(sizeof(int) * n);
    MPI_Status *statuses = malloc(sizeof(MPI_Status) * n);
    switch (manner) {
    case 0: MPI_Waitall(n, requests, statuses); break;
    case 1: MPI_Waitall(n, requests, MPI_STATUSES_IGNORE); break;
    case 2: /* one after the other, in an order of this rank's own */
        for (int i = 0; i < n; i++) places[i] = i;
        for (int i = n - 1; i >= 0; i--) {
            int j = below(i + 1), k = places[j];
            places[j] = places[i];
            MPI_Wait(&requests[k], &statuses[0]);
        }
        break;
    case 3: for (; done < n; done += some) MPI_Testsome(n, requests, &some, places, statuses); break;
    case 4: for (; done < n; done += some) MPI_Waitsome(n, requests, &some, places, statuses); break;
    case 5:
        for (; done < n; done++) {
            MPI_Waitany(n, requests, &which, statuses);
            CHECK(which >= 0 && which < n, "%d", which);
        }
        break;
    case 6: for (flag = 0; !flag;) MPI_Testall(n, requests, &flag, statuses); break;
    case 7: for (; done < n; done += flag && which >= 0) MPI_Testany(n, requests, &which, &flag, statuses); break;
    case 8:
        for (int i = n - 1; i >= 0; i--) {
            for (flag = 0; !flag;) MPI_Request_get_status(requests[i], &flag, statuses);
            MPI_Test_cancelled(statuses, &flag);
            CHECK(!flag, "it was not cancelled");
            MPI_Test(&requests[i], &flag, statuses);
            CHECK(flag, "a request that is complete");
        }
        break;
    default: for (int i = 0; i < n; i++) for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
    }
    free(places), free(statuses);
}

static void round_of(MPI_Comm comm, int manner)
{
    static Job jobs[JOBS];
    MPI_Request requests[JOBS + 2];
    int word = me, got = -1, sum = 0, large = below(2), turn = below(KINDS);
    for (int i = 0; i < JOBS; i++) {
        Job job = {(i * 5 + turn) % KINDS, below(np), large ? 700 + below(3000) : below(40), 1 + below(2) * 2, below(2), manner * JOBS + i};
        jobs[i] = job;
        begin(&jobs[i], comm);
        if (i == JOBS / 3) MPI_Barrier(comm);
        if (i == JOBS / 2) {
            MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK(sum == np * (np - 1) / 2, "%d", sum);
        }
    }
    MPI_Irecv(&got, 1, MPI_INT, (me + np - 1) % np, manner, comm, &requests[JOBS]);
    MPI_Isend(&word, 1, MPI_INT, (me + 1) % np, manner, comm, &requests[JOBS + 1]);
    for (int i = 0; i < JOBS; i++) requests[i] = jobs[i].request;
    /* Draws differ from rank to rank from here on, and agree again in the next round. */
    uint64_t common = state;
    state += (uint64_t)me * 0x9e3779b97f4a7c15u;
    complete(requests, JOBS + 2, manner);
    state = common;
    for (int i = 0; i < JOBS; i++) jobs[i].request = requests[i], end(&jobs[i]);
    CHECK(got == (me + np - 1) % np, "a message: %d", got);
}

/* Rank 0 has begun its part, and blocks in a receive until all others have finished theirs, which need it. */
static void needed(void)
{
    int *in = malloc(sizeof(int) * LARGE), *out = malloc(sizeof(int) * LARGE), word = 0;
    MPI_Request request;
    for (int i = 0; i < LARGE; i++) in[i] = value(me, i), out[i] = 0;
    MPI_Iallreduce(in, out, LARGE, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    for (int r = 1; me == 0 && r < np; r++) MPI_Recv(&word, 1, MPI_INT, r, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (me) MPI_Send(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    for (int i = 0; i < LARGE; i++) CHECK(out[i] == sum_below(np, i), "element %d", i);
    free(in), free(out);
}

/* More than a world of the library has room for; a communicator that is freed while operations are under way. */
static void many(void)
{
    static int words[MANY];
    static MPI_Request requests[MANY];
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Barrier(copy);
    for (int i = 0; i < MANY; i++) words[i] = me == i % np ? i : -1, MPI_Ibcast(&words[i], 1, MPI_INT, i % np, copy, &requests[i]);
    MPI_Comm_free(&copy);
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) CHECK(words[i] == i, "broadcast %d: %d", i, words[i]);
}

int main(int argc, char **argv)
{
    const char *given = getenv("NONBLOCKING_SEED");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    state = given ? strtoull(given, NULL, 0) : ((uint64_t)time(NULL) << 20 | (uint64_t)getpid()) + 1;
    MPI_Bcast(&state, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (me == 0) fprintf(stderr, "NONBLOCKING_SEED=%llu\n", (unsigned long long)state);
    needed();
    for (int manner = 0; manner < 10; manner++) round_of(MPI_COMM_WORLD, manner);
    many();
    return verdict();
}
