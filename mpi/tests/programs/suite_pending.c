/* Point-to-point messages that need progress while ranks are in collectives, and the reverse.
 *
 *   suite_pending send      a rendezvous send is pending while its sender waits in a collective, which its receiver enters only
 *                           after it has the message
 *   suite_pending ssend     the same with synchronous sends of one byte
 *   suite_pending receive   a rank that has left a collective blocks in a receive, while others are in it and may need that rank's
 *                           acknowledgements or its queued output
 */
#include "suite.h"

enum { LARGE = 8 << 20, ROUNDS = 3, OPERATIONS = 5 };

static char *in, *out;

static void collective(int which, int bytes)
{
    int root = which % suite_size;
    switch (which) {
    case 0: MPI_Barrier(MPI_COMM_WORLD); break;
    case 1: MPI_Bcast(in, bytes, MPI_BYTE, root, MPI_COMM_WORLD); break;
    case 2: MPI_Allreduce(in, out, bytes / 8, MPI_INT64_T, MPI_BXOR, MPI_COMM_WORLD); break;
    case 3: MPI_Allgather(in, bytes / suite_size, MPI_BYTE, out, bytes / suite_size, MPI_BYTE, MPI_COMM_WORLD); break;
    default: MPI_Alltoall(in, bytes / suite_size, MPI_BYTE, out, bytes / suite_size, MPI_BYTE, MPI_COMM_WORLD); break;
    }
}

static void send(int synchronous)
{
    static const int sizes[] = {1, 1 << 16, LARGE};
    char *message = malloc(LARGE);
    for (int round = 0; round < ROUNDS * OPERATIONS; round++) {
        int bytes = synchronous ? 1 : sizes[round % 3], fill = 1 + round, partner = suite_rank ^ 1;
        MPI_Request request = MPI_REQUEST_NULL;
        if (partner >= suite_size) {
            collective(round / ROUNDS, 4096);
            continue;
        }
        if (suite_rank % 2 == 0) {
            memset(message, fill, (size_t)bytes);
            if (synchronous)
                MPI_Issend(message, bytes, MPI_BYTE, partner, round, MPI_COMM_WORLD, &request);
            else
                MPI_Isend(message, bytes, MPI_BYTE, partner, round, MPI_COMM_WORLD, &request);
        } else {
            memset(message, 0, (size_t)bytes);
            MPI_Recv(message, bytes, MPI_BYTE, partner, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (message[0] != fill || message[bytes - 1] != fill)
                wrong("round %d: %d bytes came wrong", round, bytes);
        }
        collective(round / ROUNDS, 4096);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    free(message);
}

static void receive(void)
{
    static const int sizes[] = {4096, 1 << 17, 4 << 20};
    for (int round = 0; round < 3 * ROUNDS * OPERATIONS; round++) {
        int last = round % suite_size, word = round;
        collective(round % OPERATIONS, sizes[round / OPERATIONS % 3]);
        if (suite_rank == last) {
            for (int r = 0; r < suite_size; r++)
                if (r != last)
                    MPI_Send(&word, 1, MPI_INT, r, round, MPI_COMM_WORLD);
        } else {
            word = -1;
            MPI_Recv(&word, 1, MPI_INT, last, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (word != round)
                wrong("round %d: received %d", round, word);
        }
    }
}

int main(int argc, char **argv)
{
    suite_begin(&argc, &argv, MPI_THREAD_SINGLE);
    in = calloc(1, LARGE);
    out = calloc(1, LARGE);
    if (argc > 1 && !strcmp(argv[1], "receive"))
        receive();
    else
        send(argc > 1 && !strcmp(argv[1], "ssend"));
    return suite_end();
}
