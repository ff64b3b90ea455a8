/* Registered memory: the program's own, and that of a device which is memory without access, copied by a function of the program's. */
#define _DEFAULT_SOURCE
#include "ranks.h"
#include <stdint.h>
#include <sys/mman.h>

#define REFUSED(call, words) \
    do { \
        CHECK ((call) == CIRCULANT_ERR_ARGUMENT); \
        CHECK (strstr (circulant_last_error (), words) != NULL); \
    } while (0)
#define N 5000
#define BYTES (64 * N * sizeof (int))

/* The memory of the device, and where the function that copies finds it. */
static char *device, *seen;

static void *reachable (const void *at)
{
    return (uintptr_t) at - (uintptr_t) device < BYTES ? seen + ((uintptr_t) at - (uintptr_t) device) : (char *) (uintptr_t) at;
}

static int copy (void *to, const void *from, size_t bytes)
{
    memcpy (reachable (to), reachable (from), bytes);
    return 0;
}

/* Blocking, non-blocking and persistent calls on two halves of one registration, and beside memory that is not registered. */
static void moves (circulant_comm_t *comm, int *memory, int *shown)
{
    circulant_request_t *request = NULL;
    int rank, size, i, run, own[N], *all;
    OK (circulant_comm_rank (comm, &rank));
    OK (circulant_comm_size (comm, &size));
    CHECK ((all = (int *) malloc ((size_t) size * N * sizeof (int))) != NULL);
    for (i = 0; i < N; i++)
        shown[i] = rank == size - 1 ? i : 0;
    OK (circulant_bcast (comm, memory, N, CIRCULANT_INT32, size - 1));
    for (i = 0; i < N; i++) {
        CHECK (shown[i] == i);
        shown[i] = own[i] = 100 * rank + i;
    }
    OK (circulant_iallgather (comm, memory, memory + N, N, CIRCULANT_INT32, &request));
    OK (circulant_wait (&request));
    CHECK (request == NULL && shown[(size - 1) * N + N + 7] == 100 * (size - 1) + 7);
    memset (shown + N, 0, (size_t) size * N * sizeof (int));
    OK (circulant_allgather (comm, own, memory + N, N, CIRCULANT_INT32));
    CHECK (shown[(size - 1) * N + N + 7] == 100 * (size - 1) + 7);
    OK (circulant_allgather (comm, memory, all, N, CIRCULANT_INT32));
    CHECK (!memcmp (all, shown + N, (size_t) size * N * sizeof (int)));
    OK (circulant_bcast_init (comm, memory + N, N, CIRCULANT_INT32, 0, &request));
    for (run = 0; run < 3; run++) {
        int finished = 0;
        shown[N + 3] = rank == 0 ? run : -1;
        OK (circulant_start (request));
        if (run == 1)
            while (!finished)
                OK (circulant_test (&request, &finished));
        else
            OK (circulant_wait (&request));
        CHECK (shown[N + 3] == run);
    }
    OK (circulant_request_free (&request));
    free (all);
}

/* Only one rank has registered its buffers: all take the same way. */
static void beside_others (circulant_comm_t *comm)
{
    int rank, size, word[2] = {0, 1}, sum = 0;
    OK (circulant_comm_rank (comm, &rank));
    OK (circulant_comm_size (comm, &size));
    if (rank == size - 1) {
        OK (circulant_register (comm, word, sizeof word, CIRCULANT_MEMORY_HOST, 0, NULL, -1, 0));
        word[0] = 77;
    }
    OK (circulant_bcast (comm, word, 1, CIRCULANT_INT32, size - 1));
    OK (circulant_allreduce (comm, word + 1, &sum, 1, CIRCULANT_INT32, CIRCULANT_SUM));
    CHECK (word[0] == 77 && sum == size);
    if (rank == size - 1)
        OK (circulant_deregister (word));
}

static void body (circulant_world_t *world)
{
    circulant_comm_t *comm = NULL;
    int *memory = (int *) malloc (BYTES), size, sum = 0;
    OK (circulant_world_comm (world, &comm));
    OK (circulant_comm_size (comm, &size));
    CHECK (memory != NULL);

    OK (circulant_register (comm, memory, BYTES, CIRCULANT_MEMORY_HOST, 0, NULL, -1, 0));
    REFUSED (circulant_register (comm, memory + 1, 4, CIRCULANT_MEMORY_HOST, 0, NULL, -1, 0), "registered already");
    moves (comm, memory, memory);
    memory[0] = 1;
    OK (circulant_allreduce (comm, CIRCULANT_IN_PLACE, memory, 1, CIRCULANT_INT32, CIRCULANT_SUM));
    CHECK (memory[0] == size);
    memory[0] = 1;
    OK (circulant_allreduce (comm, memory, &sum, 1, CIRCULANT_INT32, CIRCULANT_SUM));
    CHECK (sum == size);
    OK (circulant_deregister (memory));
    REFUSED (circulant_deregister (memory), "deregistered before");
    moves (comm, memory, memory);
    beside_others (comm);

    REFUSED (circulant_register (comm, memory, 8, 77, 0, NULL, -1, 0), "no kind of memory 77");
    REFUSED (circulant_register (comm, memory, 8, CIRCULANT_MEMORY_CUDA, -1, copy, -1, 0), "device is -1");
    REFUSED (circulant_register (comm, memory, 8, CIRCULANT_MEMORY_CUDA, 0, NULL, -1, 0), "without a function that copies it");
    REFUSED (circulant_register (comm, NULL, 8, CIRCULANT_MEMORY_HOST, 0, NULL, -1, 0), "NULL");
    if (size > 1) {
        /* They share memory, which is read by the processor. */
        REFUSED (circulant_register (comm, memory, 8, CIRCULANT_MEMORY_CUDA, 3, copy, -1, 0), "CUDA memory (device 3) cannot be registered");
    } else {
        FILE *file = tmpfile ();
        CHECK (file != NULL && !ftruncate (fileno (file), BYTES));
        device = (char *) mmap (NULL, BYTES, PROT_NONE, MAP_SHARED, fileno (file), 0);
        seen = (char *) mmap (NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno (file), 0);
        CHECK (device != (char *) MAP_FAILED && seen != (char *) MAP_FAILED);
        OK (circulant_register (comm, device, BYTES, CIRCULANT_MEMORY_CUDA, 3, copy, -1, 0));
        moves (comm, (int *) (void *) device, (int *) (void *) seen);
        REFUSED (circulant_bcast (comm, device + 4, BYTES / sizeof (int), CIRCULANT_INT32, 0), "behind the memory that was registered");
        /* As any error of a call, it ends the world. */
        REFUSED (circulant_allreduce (comm, memory, device, 1, CIRCULANT_INT32, CIRCULANT_SUM), "allreduce of CUDA memory (device 3)");
        OK (circulant_deregister (device));
        fclose (file);
    }
    OK (circulant_comm_free (&comm));
    CHECK ((circulant_finalize (&world) == CIRCULANT_OK) == (size > 1));
    free (memory);
}

int main (int argc, char **argv)
{
    return run (argc, argv, body);
}
