/* A send that needs its sender's progress, while the sender waits in a collective: rank 1 enters it only with the message. */
#include "check.h"

int main(int argc, char **argv)
{
    enum { N = 8 << 20 };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    char *bytes = malloc(N);
    MPI_Request request;
    memset(bytes, me == 0 ? 42 : 0, N);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) MPI_Isend(bytes, N, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
    if (me == 1) {
        MPI_Recv(bytes, N, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(bytes[0] == 42 && bytes[N - 1] == 42, "the message");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    return verdict();
}
