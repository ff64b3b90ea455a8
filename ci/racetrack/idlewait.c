/* Preloaded into a library that polls its sockets without pause: lets it wait where it has nothing to do.
 *
 * With more processes than cores, one that polls takes the core from one that has work, and what is measured is the
 * kernel's time slice. Here, a call of epoll_wait, epoll_pwait, poll or ppoll with a timeout of 0 is passed on
 * as it is; when IDLE_POLLS (3) of them in a row, in one thread, found nothing, the following ones wait until something
 * comes, but not longer than IDLE_MS (1) milliseconds. Any event ends the row. Calls with another timeout are not touched.
 *
 * MPI_Iprobe only asks: in it no call waits.
 *
 * Not for shared memory: what comes that way makes no event.
 *
 *     cc -O2 -shared -fPIC -o idlewait.so idlewait.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

static int polls = 3, most_ms = 1;
static _Thread_local int in_vain, asks;

/* The next definition of a function; looked up at its first call, as a constructor elsewhere may call it before ours. */
#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void settings(void)
{
    const char *text;
    if ((text = getenv("IDLE_POLLS"))) polls = atoi(text);
    if ((text = getenv("IDLE_MS"))) most_ms = atoi(text);
}

static int timeout_ms(void) { return asks || in_vain < polls ? 0 : most_ms; }

static int noted(int found)
{
    if (asks) return found;
    in_vain = found ? 0 : in_vain + (in_vain < polls);
    return found;
}

int epoll_wait(int fd, struct epoll_event *events, int most, int ms)
{
    NEXT(epoll_wait);
    return ms ? next(fd, events, most, ms) : noted(next(fd, events, most, timeout_ms()));
}

int epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask)
{
    NEXT(epoll_pwait);
    return ms ? next(fd, events, most, ms, mask) : noted(next(fd, events, most, timeout_ms(), mask));
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
    NEXT(poll);
    return ms ? next(fds, n, ms) : noted(next(fds, n, timeout_ms()));
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask)
{
    NEXT(ppoll);
    if (!time || time->tv_sec || time->tv_nsec) return next(fds, n, time, mask);
    struct timespec wait = { .tv_nsec = timeout_ms() * 1000000L };
    return noted(next(fds, n, &wait, mask));
}

/* A communicator is an int or a pointer, in one register either way. */
int PMPI_Iprobe(int source, int tag, void *comm, int *flag, void *status)
{
    NEXT(PMPI_Iprobe);
    asks++;
    int code = next(source, tag, comm, flag, status);
    asks--;
    return code;
}
