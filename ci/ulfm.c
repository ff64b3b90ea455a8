/* Loses ranks in the middle of short allreduces and shrinks the communicator, by MPI's fault-tolerance calls (ULFM): the last line of each
 * rank that is left says when the barrier on the new communicator has ended, that of each that dies when it died.
 *
 *   mpicc ci/ulfm.c -o ulfm && mpiexec --with-ft ulfm -n 16 ./ulfm 3
 *
 * examples/recover.rs does the same by circulant. */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CALLS_BEFORE = 200 };

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    int lost = argc > 1 ? atoi(argv[1]) : 1, rank, size, n;
    MPI_Comm world, left;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    for (long call = 0;; call++) {
        long one = 1, sum = 0;
        /* Ranks 1, 1 + size/lost, ...; also those that hear of another's death before. */
        int dies = rank % (size / lost) == 1 && rank / (size / lost) < lost;
        int ends = (dies && call == CALLS_BEFORE) || MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, world) != MPI_SUCCESS;
        if (ends && dies) {
            printf("died %lld\n", now_ns());
            fflush(stdout);
            raise(SIGKILL);
        }
        if (ends)
            break;
    }
    long long failed = now_ns();
    MPIX_Comm_revoke(world);
    if (MPIX_Comm_shrink(world, &left) != MPI_SUCCESS)
        return 1;
    MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    /* One more may be gone that was not known then. */
    while (MPI_Barrier(left) != MPI_SUCCESS) {
        MPI_Comm before = left;
        MPIX_Comm_revoke(before);
        if (MPIX_Comm_shrink(before, &left) != MPI_SUCCESS)
            return 2;
        MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    }
    long long works = now_ns();
    MPI_Comm_size(left, &n);
    printf("failed %lld works %lld among %d\n", failed, works, n);
    fflush(stdout);
    /* Finalize may wait for ranks that are gone, and the launcher loses what is printed just before the end. */
    sleep(1);
    _exit(0);
}
