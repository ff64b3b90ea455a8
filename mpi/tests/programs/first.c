/* Non-blocking collectives that are the first on a new communicator, however that was made; while a rank is in a receive that the others' end
 * leads to; more communicators than a rank has call slots for. */
#include "check.h"

enum { N = 5000, MANY = 40, ROUNDS = 10 };

/* The first two collectives on `comm`, which this frees, of which the first ends last. */
static void first(MPI_Comm comm)
{
    static int in[N], out[N];
    MPI_Request requests[2];
    int rank, size, all[16] = {0};
    if (comm == MPI_COMM_NULL) return;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < N; i++) in[i] = value(rank, i), out[i] = 0;
    MPI_Iallreduce(in, out, N, MPI_INT, MPI_SUM, comm, &requests[0]);
    MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm, &requests[1]);
    MPI_Comm_free(&comm);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    for (int r = 0; r < size; r++) CHECK(all[r] == r, "rank %d: %d", r, all[r]);
    for (int i = 0; i < N; i++) CHECK(out[i] == sum_below(size, i), "element %d: %d", i, out[i]);
}

/* By all functions that return a communicator at once. */
static void made(int round)
{
    MPI_Comm comm, other;
    MPI_Group all, some;
    int dims[] = {np, 1}, rings[] = {1, 0}, keeps[] = {1, 0}, left = (me + np - 1) % np, right = (me + 1) % np;
    int last = np - 1, *index = malloc(sizeof(int) * np), *edges = malloc(sizeof(int) * np);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    first(comm);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
    first(comm);
    MPI_Comm_split(MPI_COMM_WORLD, me == round % np ? MPI_UNDEFINED : me % 2, -me, &comm);
    first(comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &comm);
    first(comm);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &last, &some);
    MPI_Comm_create(MPI_COMM_WORLD, some, &comm);
    first(comm);
    if (me != last) {
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 7, &comm);
        first(comm);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, rings, 0, &comm);
    MPI_Cart_sub(comm, keeps, &other);
    first(comm);
    first(other);
    for (int r = 0; r < np; r++) index[r] = r + 1, edges[r] = (r + 1) % np;
    MPI_Graph_create(MPI_COMM_WORLD, np, index, edges, 0, &comm);
    first(comm);
#ifndef OPEN_MPI /* Of 4.1.4 it waits for ever now and then, after an MPI_Comm_split and with no library preloaded. */
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, (int[]){1}, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    first(comm);
#endif
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    first(comm);
    MPI_Comm_split(MPI_COMM_WORLD, me == 0, me, &comm);
    MPI_Intercomm_create(comm, 0, MPI_COMM_WORLD, me == 0 ? 1 : 0, 9, &other);
    MPI_Comm_free(&comm);
    MPI_Intercomm_merge(other, me != 0, &comm);
    MPI_Comm_free(&other);
    first(comm);
    free(index), free(edges);
}

/* Rank 0 has begun its part, and blocks in a receive until all others have finished theirs, which need it. */
static void needed(void)
{
    MPI_Comm comm;
    MPI_Request request;
    int *in = malloc(sizeof(int) * N), *out = malloc(sizeof(int) * N), word = 0;
    for (int i = 0; i < N; i++) in[i] = value(me, i), out[i] = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Iallreduce(in, out, N, MPI_INT, MPI_SUM, comm, &request);
    for (int r = 1; me == 0 && r < np; r++) MPI_Recv(&word, 1, MPI_INT, r, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (me) MPI_Send(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) CHECK(out[i] == sum_below(np, i), "element %d", i);
    MPI_Comm_free(&comm);
    free(in), free(out);
}

/* Many at a time, whose first collectives begin in another order at each rank; blocking ones then, in between. */
static void many(void)
{
    static MPI_Comm comms[MANY];
    static MPI_Request requests[MANY];
    static int sums[MANY];
    for (int i = 0; i < MANY; i++) MPI_Comm_dup(i ? comms[i / 2] : MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < MANY; i++) {
        int j = me % 2 ? MANY - 1 - i : i;
        sums[j] = me + j;
        MPI_Iallreduce(MPI_IN_PLACE, &sums[j], 1, MPI_INT, MPI_SUM, comms[j], &requests[j]);
    }
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) {
        int one = 1, all = 0;
        CHECK(sums[i] == np * (np - 1) / 2 + np * i, "sum %d: %d", i, sums[i]);
        MPI_Ibarrier(comms[i], &requests[i]);
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comms[i]);
        CHECK(all == np, "%d of %d", all, np);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        MPI_Comm_free(&comms[i]);
    }
}

/* A communicator that is not there when the call returns that makes it. */
static void later(void)
{
    MPI_Comm comm;
    MPI_Request request;
    int sum = 0;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ireduce(&np, &sum, 1, MPI_INT, MPI_SUM, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(me != 0 || sum == np * np, "sum %d", sum);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    for (int round = 0; round < ROUNDS; round++) made(round), needed();
    many();
    later();
    return verdict();
}
