/* CIRCULANT_MPI_TAKE=auto: results are right while calls are tried on both sides and after, and all ranks choose alike where each alone
 * would choose otherwise: one of three takes long to combine, so that its own times are another's. */
#include "check.h"
#include <unistd.h>

/* Adds. The last rank takes its time. */
static void slowly(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    if (me == np - 1) usleep(300);
    for (int i = 0; i < *n; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void all(MPI_Comm comm, int n, int round)
{
    int *mine = malloc(sizeof(int) * (size_t)(n * np)), *theirs = malloc(sizeof(int) * (size_t)(n * np));
    int *counts = malloc(sizeof(int) * (size_t)np), *places = malloc(sizeof(int) * (size_t)np);
    for (int r = 0; r < np; r++) counts[r] = n, places[r] = (np - 1 - r) * n;
    for (int i = 0; i < n; i++) mine[i] = value(me, i + round);
    MPI_Barrier(comm);
    MPI_Allreduce(mine, theirs, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++) CHECK(theirs[i] == sum_below(np, i + round), "allreduce %d of %d: %d", round, n, theirs[i]);
    MPI_Allgatherv(mine, n, MPI_INT, theirs, counts, places, MPI_INT, comm);
    for (int r = 0; r < np; r++)
        for (int i = 0; i < n; i++) CHECK(theirs[places[r] + i] == value(r, i + round), "allgatherv %d of %d", round, n);
    MPI_Gatherv(mine, n, MPI_INT, theirs, counts, places, MPI_INT, round % np, comm);
    if (me == round % np)
        for (int r = 0; r < np; r++)
            for (int i = 0; i < n; i++) CHECK(theirs[places[r] + i] == value(r, i + round), "gatherv %d of %d", round, n);
    MPI_Bcast(mine, n, MPI_INT, round % np, comm);
    for (int i = 0; i < n; i++) CHECK(mine[i] == value(round % np, i + round), "bcast %d of %d: %d", round, n, mine[i]);
    free(mine), free(theirs), free(counts), free(places);
}

int main(int argc, char **argv)
{
    MPI_Op sum;
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Op_create(slowly, 1, &sum);
    for (int round = 0; round < 834; round++) { /* trials have no more calls */
        if (me == 1 && round % 12 == 0) usleep(500);
        all(MPI_COMM_WORLD, 1, round);
        all(MPI_COMM_WORLD, 5001, round);
        all(other, 7, round);
        int mine = value(me, round), total = -1;
        MPI_Allreduce(&mine, &total, 1, MPI_INT, sum, other);
        CHECK(total == sum_below(np, round), "the program's operator, %d: %d", round, total);
        MPI_Reduce(&mine, &total, 1, MPI_INT, sum, 0, other);
        if (me == 0) CHECK(total == sum_below(np, round), "to one rank, %d: %d", round, total);
    }
    MPI_Op_free(&sum);
    MPI_Comm_free(&other);
    return verdict();
}
