/* What the programs here share: counting of what is checked, and values that say whose they are. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long checks, wrong;
static int me, np;

#define CHECK(what, ...)                                                            \
    do {                                                                            \
        checks++;                                                                   \
        if (!(what) && wrong++ < 5) {                                               \
            fprintf(stderr, "rank %d, line %d: %s: ", me, __LINE__, #what);         \
            fprintf(stderr, __VA_ARGS__);                                           \
            fprintf(stderr, "\n");                                                  \
        }                                                                           \
    } while (0)

/* What rank r has at place i. */
static inline int value(int r, int i) { return (r + 1) * 1000 + i % 997; }

/* The sum of that over the ranks from 0 to r - 1. */
static inline int sum_below(int r, int i) { int s = 0; for (int k = 0; k < r; k++) s += value(k, i); return s; }

/* Says how it went, at rank 0, and returns what main does. */
static inline int verdict(void)
{
    long mine[2] = {checks, wrong}, all[2] = {0, 0};
    MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0) printf("%ld checks, %ld wrong\n", all[0], all[1]);
    MPI_Finalize();
    return all[1] != 0;
}
