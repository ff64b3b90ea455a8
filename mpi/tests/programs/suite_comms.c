/* Communicators made, used and freed by the thousand, from three threads where the MPI lets them, with memory that stays flat.
 *
 *   suite_comms ROUNDS     of each thread
 */
#include "suite.h"
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 3, PHASES = 3 };
static int rounds;

struct Own {
    MPI_Comm comm;
    int thread;
};

/* Pages in memory now. */
static long resident(void)
{
    long all = 0, here = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &here) != 2)
        here = 0;
    if (file)
        fclose(file);
    return here;
}

static void use(MPI_Comm comm, int round, int thread)
{
    int p, r, sum = -1, word;
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &r);
    word = r + round;
    MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != p * (p - 1) / 2 + p * round)
        wrong("thread %d, round %d: the sum is %d", thread, round, sum);
    word = r == round % p ? 77 + round : -1;
    MPI_Bcast(&word, 1, MPI_INT, round % p, comm);
    if (word != 77 + round)
        wrong("thread %d, round %d: bcast gave %d", thread, round, word);
}

static void *work(void *argument)
{
    struct Own *own = argument;
    MPI_Comm base = own->comm, made, part;
    int thread = own->thread;
    for (int round = 0; round < rounds; round++) {
        MPI_Comm_dup(base, &made);
        use(made, round, thread);
        MPI_Comm_split(made, suite_rank % 2, -suite_rank, &part);
        use(part, round, thread);
        if (round % 2)
            MPI_Comm_free(&made);
        MPI_Comm_free(&part);
        if (!(round % 2))
            MPI_Comm_free(&made);
        use(base, round, thread);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct Own own[THREADS];
    pthread_t threads[THREADS];
    int given = suite_begin(&argc, &argv, MPI_THREAD_MULTIPLE), many = given == MPI_THREAD_MULTIPLE;
    int all = argc > 1 ? atoi(argv[1]) : 200;
    long after[PHASES];
    for (int t = 0; t < THREADS; t++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &own[t].comm);
        own[t].thread = t;
    }
    rounds = all / PHASES;
    for (int phase = 0; phase < PHASES; phase++) { /* what the first needed must do for the others */
        for (int t = 0; t < THREADS; t++) {
            if (many)
                pthread_create(&threads[t], NULL, work, &own[t]);
            else
                work(&own[t]);
        }
        for (int t = 0; many && t < THREADS; t++)
            pthread_join(threads[t], NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        after[phase] = resident();
    }
    /* A leak stays in each phase. An allocator may take some hundred KiB more in one of them, when threads contend for its arenas. */
    long second = after[1] - after[0], third = after[2] - after[1], grown = second < third ? second : third;
    long each = grown * sysconf(_SC_PAGESIZE) / (THREADS * 2 * (rounds ? rounds : 1)); /* bytes a communicator */
    printf("rank %d: %d threads, %d communicators, %ld bytes more a communicator in the second or third phase\n", suite_rank,
           many ? THREADS : 1, 2 * PHASES * THREADS * rounds, each);
    if (each > 4096) /* one page each would be a leak */
        wrong("%ld bytes stay for each communicator", each);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_free(&own[t].comm);
    return suite_end();
}
