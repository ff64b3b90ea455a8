/* Repeated collectives with lists allocate nothing in the library: malloc and its kin are this program's, and count who calls them. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

static uintptr_t first, last; /* where the library's code is */
static int counted;

static void seen(const void *caller)
{
    counted += (uintptr_t)caller - first < last - first;
}

void *malloc(size_t n)
{
    seen(__builtin_return_address(0));
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    seen(__builtin_return_address(0));
    return __libc_calloc(n, size);
}

void *realloc(void *at, size_t n)
{
    seen(__builtin_return_address(0));
    return __libc_realloc(at, n);
}

int posix_memalign(void **at, size_t alignment, size_t n)
{
    seen(__builtin_return_address(0));
    *at = __libc_memalign(alignment, n);
    return *at ? 0 : ENOMEM;
}

static int segments(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    if (!strstr(info->dlpi_name, "libcirculant_mpi.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            last = first + info->dlpi_phdr[i].p_memsz;
        }
    *(int *)found = 1;
    return 1;
}

#define BLOCK 5

static int *counts, *places, *turned, *bytes, *turned_bytes;
static MPI_Datatype *types;
static long *mine, *all, *theirs;

/* Blocks in the order of ranks, and the other way round. */
static void calls(int n)
{
    for (int i = 0; i < n; i++) {
        int root = i % np;
        MPI_Allgatherv(mine, BLOCK, MPI_LONG, all, counts, places, MPI_LONG, MPI_COMM_WORLD);
        MPI_Allgatherv(mine, BLOCK, MPI_LONG, all, counts, turned, MPI_LONG, MPI_COMM_WORLD);
        MPI_Gatherv(mine, BLOCK, MPI_LONG, all, counts, turned, MPI_LONG, root, MPI_COMM_WORLD);
        MPI_Scatterv(all, counts, turned, MPI_LONG, mine, BLOCK, MPI_LONG, root, MPI_COMM_WORLD);
        MPI_Alltoallv(all, counts, places, MPI_LONG, theirs, counts, turned, MPI_LONG, MPI_COMM_WORLD);
        MPI_Alltoallw(all, counts, bytes, types, theirs, counts, turned_bytes, types, MPI_COMM_WORLD);
        MPI_Reduce_scatter(all, mine, counts, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int found = 0, least = 1 << 30;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    dl_iterate_phdr(segments, &found);
    CHECK(found, "the library is not loaded");
    counts = malloc(5 * np * sizeof *counts);
    places = counts + np, turned = places + np, bytes = turned + np, turned_bytes = bytes + np;
    types = malloc(np * sizeof *types);
    mine = calloc(3 * np * BLOCK, sizeof *mine), all = mine + np * BLOCK, theirs = all + np * BLOCK;
    for (int i = 0; i < np; i++) {
        counts[i] = BLOCK, types[i] = MPI_LONG;
        places[i] = i * BLOCK, turned[i] = (np - 1 - i) * BLOCK;
        bytes[i] = places[i] * (int)sizeof *all, turned_bytes[i] = turned[i] * (int)sizeof *all;
    }
    calls(20);
    /* A rank that waits for long on a busy machine allocates what it says of that. */
    for (int round = 0; round < 20 && least > 0; round++) {
        counted = 0;
        calls(20);
        least = counted < least ? counted : least;
        MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    CHECK(least == 0, "%d allocations in 140 calls, in each of 20 rounds", least);
    return verdict();
}
