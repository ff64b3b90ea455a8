/*
 * Conjugate gradients on the one-dimensional Laplacian: n unknowns, of which each rank has a part.  Halos go to the two neighbours by
 * alltoallv, dot products are allreduces.
 *
 *     cc cg.c $(pkg-config --cflags --libs circulant) -lm -o cg && circulant run -n 4 ./cg
 */
#include "circulant.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must (circulant_status_t status)
{
    if (status != CIRCULANT_OK) {
        fprintf (stderr, "%s\n", circulant_last_error ());
        exit (1);
    }
}

static double dot (const circulant_comm_t *comm, const double *a, const double *b, size_t n)
{
    double sum = 0;
    size_t i;
    for (i = 0; i < n; i++)
        sum += a[i] * b[i];
    must (circulant_allreduce (comm, CIRCULANT_IN_PLACE, &sum, 1, CIRCULANT_DOUBLE, CIRCULANT_SUM));
    return sum;
}

int main (int argc, char **argv)
{
    size_t n = argc > 1 ? strtoul (argv[1], NULL, 10) : 1000, first, mine, i, iteration;
    int me, size;
    circulant_world_t *world;
    circulant_comm_t *comm;
    circulant_request_t *halo;
    void *memory;
    double *p, *q, *r, *x, *ends, *got, rr, old, worst = 0;
    size_t *counts, *from, *to;

    must (circulant_init (NULL, 0, &world));
    must (circulant_world_comm (world, &comm));
    must (circulant_comm_rank (comm, &me));
    must (circulant_comm_size (comm, &size));
    first = n * (size_t) me / (size_t) size;
    mine = n * (size_t) (me + 1) / (size_t) size - first;
    if (n / (size_t) size == 0) {
        fprintf (stderr, "at least one unknown for each of %d ranks, please\n", size);
        return 1;
    }
    /* Our ends, and those of the neighbours: registered memory, as they are sent and received in each iteration. */
    must (circulant_alloc (comm, 4 * sizeof (double), &memory));
    ends = memory;
    got = ends + 2;
    p = calloc (mine + 2, sizeof *p);
    q = calloc (mine, sizeof *q);
    r = calloc (mine, sizeof *r);
    x = calloc (mine, sizeof *x);
    counts = calloc ((size_t) size, sizeof *counts);
    from = calloc ((size_t) size, sizeof *from);
    to = calloc ((size_t) size, sizeof *to);
    if (!p || !q || !r || !x || !counts || !from || !to)
        return 1;
    /* Our ends go to the neighbours, and theirs come: one element each. */
    if (me > 0)
        counts[me - 1] = 1, from[me - 1] = 0, to[me - 1] = 0;
    if (me + 1 < size)
        counts[me + 1] = 1, from[me + 1] = 1, to[me + 1] = 1;
    must (circulant_alltoallv_init (comm, ends, counts, from, got, counts, to, CIRCULANT_DOUBLE, &halo));

    /* A x = b with b such that x = 1: b is 0 but for the ends. */
    r[0] += first == 0;
    r[mine - 1] += first + mine == n;
    memcpy (p + 1, r, mine * sizeof *r);
    rr = dot (comm, r, r, mine);
    for (iteration = 0; iteration < 2 * n && sqrt (rr) > 1e-10; iteration++) {
        double alpha;
        ends[0] = p[1];
        ends[1] = p[mine];
        must (circulant_start (halo));
        must (circulant_wait (&halo));
        p[0] = got[0];
        p[mine + 1] = got[1];
        for (i = 0; i < mine; i++)
            q[i] = 2 * p[i + 1] - p[i] - p[i + 2];
        alpha = rr / dot (comm, p + 1, q, mine);
        for (i = 0; i < mine; i++) {
            x[i] += alpha * p[i + 1];
            r[i] -= alpha * q[i];
        }
        old = rr;
        rr = dot (comm, r, r, mine);
        for (i = 0; i < mine; i++)
            p[i + 1] = r[i] + rr / old * p[i + 1];
    }
    for (i = 0; i < mine; i++)
        worst = fmax (worst, fabs (x[i] - 1));
    must (circulant_allreduce (comm, CIRCULANT_IN_PLACE, &worst, 1, CIRCULANT_DOUBLE, CIRCULANT_MAX));
    if (me == 0)
        printf ("%s: %d ranks, %zu unknowns, %zu iterations, error below 1e-6: %s\n", circulant_world_provider (world), size, n,
                iteration, worst < 1e-6 ? "yes" : "no");
    must (circulant_request_free (&halo));
    must (circulant_free (&memory));
    free (p), free (q), free (r), free (x), free (counts), free (from), free (to);
    must (circulant_comm_free (&comm));
    must (circulant_finalize (&world));
    return worst < 1e-6 ? 0 : 1;
}
