/* The last rank's environment says what CHECK_OFF says, in CIRCULANT_MPI: the others must find out, and none may wait for it. */
#include "check.h"

int main(int argc, char **argv)
{
    const char *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE");
    if (!rank) rank = getenv("OMPI_COMM_WORLD_RANK"), size = getenv("OMPI_COMM_WORLD_SIZE");
    if (atoi(rank) == atoi(size) - 1) setenv("CIRCULANT_MPI", getenv("CHECK_OFF"), 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    int mine = value(me, 1), sum = -1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == sum_below(np, 1), "%d", sum);
    return verdict();
}
