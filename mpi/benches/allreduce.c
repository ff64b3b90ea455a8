/* An 8-byte allreduce by MPI, which the preloaded library takes, and the same by libcirculant, in turns in one run.
 *
 *   allreduce ROUNDS CALLS      rank 0 prints nanoseconds per call: the least and the median of the rounds of each, and the median
 *                               of what MPI's took more in the same round
 *   allreduce 0 CALLS           MPI's alone, for a profile
 */
#include <circulant.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int gather(void *context, const void *mine, void *all, size_t bytes)
{
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *(MPI_Comm *)context);
}

static int less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Not inlined, so that a profile has their names. */
__attribute__((noinline)) static void by_mpi(int calls)
{
    long one = 1, sum = 0;
    for (int i = 0; i < calls; i++)
        if (MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD) || sum < 2)
            MPI_Abort(MPI_COMM_WORLD, 1);
}

__attribute__((noinline)) static void by_circulant(const circulant_comm_t *comm, int calls)
{
    long one = 1, sum = 0;
    for (int i = 0; i < calls; i++)
        if (circulant_allreduce(comm, &one, &sum, 1, CIRCULANT_INT64, CIRCULANT_SUM) || sum < 2)
            MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100, calls = argc > 2 ? atoi(argv[2]) : 1000, given, rank, size;
    MPI_Comm own;
    /* libcirculant gathers in a thread of its own at its end. */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rounds == 0) {
        by_mpi(calls);
        return MPI_Finalize();
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    circulant_bootstrap_t bootstrap = {.bytes = sizeof bootstrap, .rank = rank, .size = size, .context = &own, .allgather = gather};
    circulant_world_t *world;
    circulant_comm_t *comm;
    if (given < MPI_THREAD_MULTIPLE || circulant_init_with(&bootstrap, NULL, 0, &world) || circulant_world_comm(world, &comm)) {
        fprintf(stderr, "%s\n", circulant_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    double *times[3];
    for (int k = 0; k < 3; k++) times[k] = malloc(sizeof(double) * (size_t)rounds);
    by_mpi(calls);
    by_circulant(comm, calls);
    for (int i = 0; i < rounds; i++) {
        double start = MPI_Wtime();
        by_mpi(calls);
        double middle = MPI_Wtime();
        by_circulant(comm, calls);
        times[0][i] = (middle - start) * 1e9 / calls;
        times[1][i] = (MPI_Wtime() - middle) * 1e9 / calls;
        times[2][i] = times[0][i] - times[1][i];
    }
    for (int k = 0; k < 3; k++) qsort(times[k], (size_t)rounds, sizeof(double), less);
    if (rank == 0)
        printf("MPI_Allreduce: %.0f least, %.0f median; circulant_allreduce: %.0f, %.0f; more: %.0f median\n", times[0][0],
               times[0][rounds / 2], times[1][0], times[1][rounds / 2], times[2][rounds / 2]);
    circulant_comm_free(&comm);
    if (circulant_finalize(&world)) fprintf(stderr, "%s\n", circulant_last_error());
    MPI_Comm_free(&own);
    MPI_Finalize();
    return 0;
}
