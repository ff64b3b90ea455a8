/* What the programs suite_*.c share: the MPI's own functions past a preloaded library, errors, random numbers.
 *
 * Each program compares what MPI_X gives with what the MPI's own PMPI_X gives, prints " No Errors" at rank 0 and exits with 0 if all is
 * equal. Without a preloaded library both are the same function. */
#ifndef SUITE_H
#define SUITE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int suite_rank, suite_size, suite_errors;

/* The library that this program was linked with, whatever else defines PMPI_…: by its file's name. */
static int suite_is_mpi(struct dl_phdr_info *info, size_t size, void *found)
{
    const char *base = strrchr(info->dlpi_name, '/');
    (void)size;
    base = base ? base + 1 : info->dlpi_name;
    if (strncmp(base, "libmpi.so", 9) && strncmp(base, "libmpich.so", 11) && strncmp(base, "libmpi_abi.so", 13))
        return 0;
    *(void **)found = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    return *(void **)found != NULL;
}

static void *suite_real(const char *name)
{
    static void *library;
    void *symbol = NULL;
    if (!library)
        dl_iterate_phdr(suite_is_mpi, &library);
    if (library)
        symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "there is no %s in the MPI library\n", name);
        exit(3);
    }
    return symbol;
}
/* REAL(MPI_Bcast)(…): the MPI's own. */
#define REAL(function) ((__typeof__(&P##function))suite_real("P" #function))

__attribute__((format(printf, 1, 2), unused)) static void wrong(const char *form, ...)
{
    va_list list;
    if (__atomic_fetch_add(&suite_errors, 1, __ATOMIC_RELAXED) >= 5)
        return;
    va_start(list, form);
    fprintf(stderr, "rank %d: ", suite_rank);
    vfprintf(stderr, form, list);
    fputc('\n', stderr);
    va_end(list);
}

/* Of a seed; never 0. */
__attribute__((unused)) static uint64_t suite_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
__attribute__((unused)) static int suite_below(uint64_t *state, int bound) { return (int)((suite_next(state) >> 11) % (uint64_t)bound); }
__attribute__((unused)) static uint64_t suite_seed(uint64_t a, uint64_t b)
{
    uint64_t state = (a + 1) * 0x9e3779b97f4a7c15u ^ (b + 1) * 0xbf58476d1ce4e5b9u;
    if (!state)
        state = 1;
    for (int i = 0; i < 8; i++)
        suite_next(&state);
    return state;
}

/* `wanted`: the level of thread support; less is given back where the MPI has less. */
__attribute__((unused)) static int suite_begin(int *argc, char ***argv, int wanted)
{
    int given;
    MPI_Init_thread(argc, argv, wanted, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &suite_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &suite_size);
    return given;
}

__attribute__((unused)) static int suite_end(void)
{
    int mine = suite_errors, all = 0;
    REAL(MPI_Allreduce)(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (suite_rank == 0) {
        if (all)
            printf(" Found %d errors\n", all);
        else
            printf(" No Errors\n");
        fflush(stdout);
    }
    MPI_Finalize();
    return all != 0;
}
#endif
