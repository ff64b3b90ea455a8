/* Ranks for the tests: those of a launcher, or children of this process (--fork N) that find each other by the bootstrap of the interface. */
#ifndef RANKS_H
#define RANKS_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "circulant.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) \
    ((condition) ? (void) 0 \
                 : (fprintf (stderr, "%s:%d: not so: %s; %s\n", __FILE__, __LINE__, #condition, circulant_last_error ()), exit (1)))
#define OK(call) CHECK ((call) == CIRCULANT_OK)

static int whole (int fd, void *bytes, size_t n, int writes)
{
    char *at = (char *) bytes;
    while (n > 0) {
        ssize_t done = writes ? write (fd, at, n) : read (fd, at, n);
        if (done <= 0)
            return -1;
        at += done;
        n -= (size_t) done;
    }
    return 0;
}

struct rank {
    int fd, rank, size;
};

/* The bootstrap's function: by way of the parent. */
static int gather (void *context, const void *mine, void *all, size_t bytes)
{
    const struct rank *r = (const struct rank *) context;
    char *copy = (char *) malloc (bytes + 1);
    int status = copy == NULL;
    if (!status) {
        memcpy (copy, mine, bytes);
        status = whole (r->fd, &bytes, sizeof bytes, 1) || whole (r->fd, copy, bytes, 1)
                 || whole (r->fd, all, bytes * (size_t) r->size, 0);
    }
    free (copy);
    return status;
}

/* Gathers for the children until they have gone. */
static void serve (int *fds, int size)
{
    for (;;) {
        size_t bytes = 0, one;
        char *all = NULL;
        int r;
        for (r = 0; r < size; r++) {
            if (whole (fds[r], &one, sizeof one, 0))
                return;
            CHECK (r == 0 || one == bytes);
            bytes = one;
            if (r == 0)
                CHECK ((all = (char *) malloc (bytes * (size_t) size + 1)) != NULL);
            CHECK (!whole (fds[r], all + (size_t) r * bytes, bytes, 0));
        }
        for (r = 0; r < size; r++)
            CHECK (!whole (fds[r], all, bytes * (size_t) size, 1));
        free (all);
    }
}

static int run_forked (int size, void (*body) (circulant_world_t *))
{
    int fds[64], status = 0, r;
    CHECK (size > 0 && size <= 64);
    for (r = 0; r < size; r++) {
        int pair[2];
        CHECK (!socketpair (AF_UNIX, SOCK_STREAM, 0, pair));
        if (fork () == 0) {
            struct rank me;
            circulant_bootstrap_t bootstrap;
            circulant_setting_t settings[] = { { "deadline", "60" }, { "provider", "shm" } };
            circulant_world_t *world = NULL;
            int i;
            for (i = 0; i < r; i++)
                close (fds[i]);
            close (pair[0]);
            me.fd = pair[1];
            me.rank = r;
            me.size = size;
            memset (&bootstrap, 0, sizeof bootstrap);
            bootstrap.bytes = sizeof bootstrap;
            bootstrap.rank = r;
            bootstrap.size = size;
            bootstrap.context = &me;
            bootstrap.allgather = gather;
            OK (circulant_init_with (&bootstrap, settings, 2, &world));
            CHECK (!strcmp (circulant_world_launcher (world), "bootstrap"));
            body (world);
            exit (0);
        }
        close (pair[1]);
        fds[r] = pair[0];
    }
    serve (fds, size);
    for (r = 0; r < size; r++) {
        int how;
        close (fds[r]);
        wait (&how);
        status |= how != 0;
    }
    return status;
}

static int run (int argc, char **argv, void (*body) (circulant_world_t *))
{
    circulant_world_t *world = NULL;
    if (argc == 3 && !strcmp (argv[1], "--fork"))
        return run_forked (atoi (argv[2]), body);
    OK (circulant_init (NULL, 0, &world));
    body (world);
    return 0;
}

#endif
