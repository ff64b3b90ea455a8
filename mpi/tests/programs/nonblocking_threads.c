/* Threads that begin and complete non-blocking collectives at the same time, each on communicators of its own; what one thread has begun
 * another one waits for. Beside them a thread in blocking calls. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 60, N = 3000, LARGE = 40000 };

static MPI_Comm comms[THREADS + 1];
static MPI_Request handed[THREADS];
static int data[THREADS][3][N];
static pthread_barrier_t meeting;
static long failed;

static void note(int ok, const char *what, int thread, int round)
{
    if (!ok && __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED) < 5) fprintf(stderr, "rank %d, thread %d, round %d: %s\n", me, thread, round, what);
}

static void sums(int thread, int round)
{
    for (int i = 0; i < N; i++) note(data[thread][1][i] == sum_below(np, i + round), "a wrong sum", thread, round);
}

static void *collect(void *argument)
{
    int thread = (int)(size_t)argument, other = (thread + 1) % THREADS, flag;
    MPI_Comm comm = comms[thread];
    for (int round = 0; round < ROUNDS; round++) {
        int root = round % np, word = me == root ? round : -1;
        MPI_Request requests[2];
        for (int i = 0; i < N; i++) data[thread][0][i] = value(me, i + round);
        MPI_Iallreduce(data[thread][0], data[thread][1], N, MPI_INT, MPI_SUM, comm, &handed[thread]);
        MPI_Ibcast(&word, 1, MPI_INT, root, comm, &requests[0]);
        MPI_Ibarrier(comm, &requests[1]);
        if (round % 3 == 0) {
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        } else if (round % 3 == 1) {
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        } else {
            do MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE); while (!flag);
        }
        note(word == round, "a wrong word", thread, round);
        pthread_barrier_wait(&meeting);
        MPI_Wait(&handed[other], MPI_STATUS_IGNORE);
        pthread_barrier_wait(&meeting);
        sums(thread, round);
    }
    return NULL;
}

static void add(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++) ((int *)inout)[i] += ((int *)in)[i];
}

/* By an operator of the program, which the library leaves to the MPI: while another thread is in the MPI's progress. */
static void *block(void *argument)
{
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    (void)argument;
    int *mine = malloc(sizeof(int) * LARGE), *all = malloc(sizeof(int) * LARGE);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LARGE; i++) mine[i] = value(me, i + round);
        MPI_Allreduce(mine, all, LARGE, MPI_INT, round % 4 ? op : MPI_SUM, comms[THREADS]);
        for (int i = 0; i < LARGE; i += 97) note(all[i] == sum_below(np, i + round), "a wrong sum", THREADS, round);
    }
    free(mine), free(all);
    MPI_Op_free(&op);
    return NULL;
}

int main(int argc, char **argv)
{
    int given;
    pthread_t threads[THREADS + 1];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    for (int i = 0; i <= THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]), MPI_Barrier(comms[i]);
    if (given == MPI_THREAD_MULTIPLE) {
        pthread_barrier_init(&meeting, NULL, THREADS);
        for (int i = 0; i <= THREADS; i++) pthread_create(&threads[i], NULL, i < THREADS ? collect : block, (void *)(size_t)i);
        for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
    }
    CHECK(failed == 0, "%ld wrong", failed);
    CHECK(given == MPI_THREAD_MULTIPLE, "the MPI gives level %d", given);
    for (int i = 0; i <= THREADS; i++) MPI_Comm_free(&comms[i]);
    return verdict();
}
