/* Non-blocking calls with lists of 64 bits that are passed on to an MPI that knows 32 bits only, with other lists each time: the lists that
 * are made for them end with the operation. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>

enum { MOST = 16, CALLS = 5000, LEAST_BYTES_OF_LISTS = 4 * 4 };
typedef int (*Start)(const void *, const int64_t *, const MPI_Aint *, MPI_Datatype, void *, const int64_t *, const MPI_Aint *, MPI_Datatype,
                     MPI_Comm, MPI_Request *);

static void calls(Start start, int n)
{
    static int in[MOST], all[CALLS + MOST];
    int64_t ones[MOST];
    MPI_Aint sent[MOST], places[MOST];
    for (int i = 0; i < np; i++) ones[i] = 1, sent[i] = i, in[i] = value(me, i);
    for (int call = 0; call < n; call++) {
        MPI_Request request;
        int flag = 0, *out = all + call;
        for (int i = 0; i < np; i++) places[i] = call + i, out[i] = 0;
        int code = start(in, ones, sent, MPI_INT, all, ones, places, MPI_INT, MPI_COMM_WORLD, &request);
        if (call % 2 == 0)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        else
            while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        for (int r = 0; r < np; r++) CHECK(code == 0 && out[r] == value(r, me), "call %d: %d of %d", call, out[r], r);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    Start start = (Start)dlsym(RTLD_DEFAULT, "MPI_Ialltoallv_c");
    CHECK(start != NULL, "MPI_Ialltoallv_c");
    calls(start, 500);
    size_t before = mallinfo2().uordblks;
    calls(start, CALLS);
    long more = (long)(mallinfo2().uordblks - before);
    CHECK(more < (long)CALLS * LEAST_BYTES_OF_LISTS, "%ld bytes more after %d calls", more, CALLS);
    return verdict();
}
