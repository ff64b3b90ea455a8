/* Calls that go to the MPI for good are kept by their handles, which an MPI uses again: what a freed communicator or datatype decided
 * decides nothing of the next one. The report tells whether each call went where it belongs. */
#include "check.h"
#include <stdint.h>

enum { ROUNDS = 50, LARGE = 2048 };

static char data[LARGE];

/* Rank 0's byte arrives at all. */
static void bcast(int n, MPI_Datatype type, MPI_Comm comm, int round)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    data[0] = rank == 0 ? (char)round : -1;
    MPI_Bcast(data, n, type, 0, comm);
    CHECK(data[0] == (char)round, "round %d: %d", round, data[0]);
}

/* A handle as a number. */
static uint64_t number(const void *handle, size_t size)
{
    uint64_t number = 0;
    memcpy(&number, handle, size);
    return number;
}

int main(int argc, char **argv)
{
    MPI_Comm alone, all;
    MPI_Datatype small, large;
    int again = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm_split(MPI_COMM_WORLD, me, 0, &alone);
        uint64_t before = number(&alone, sizeof alone);
        for (int i = 0; i < 2; i++) bcast(LARGE, MPI_BYTE, alone, round); /* goes to the MPI */
        MPI_Comm_free(&alone);
        MPI_Comm_dup(MPI_COMM_WORLD, &all);
        again += before == number(&all, sizeof all);
        for (int i = 0; i < 2; i++) bcast(LARGE, MPI_BYTE, all, round); /* is taken */
        MPI_Comm_free(&all);

        MPI_Type_contiguous(4, MPI_BYTE, &small);
        MPI_Type_commit(&small);
        before = number(&small, sizeof small);
        for (int i = 0; i < 2; i++) bcast(1, small, MPI_COMM_WORLD, round); /* goes to the MPI: CIRCULANT_MPI_TAKE=bcast:1K- */
        MPI_Type_free(&small);
        MPI_Type_contiguous(LARGE, MPI_BYTE, &large);
        MPI_Type_commit(&large);
        again += before == number(&large, sizeof large);
        for (int i = 0; i < 2; i++) bcast(1, large, MPI_COMM_WORLD, round); /* is taken */
        MPI_Type_free(&large);
    }
    CHECK(again > ROUNDS / 2, "handles are used again: %d", again);
    return verdict();
}
