/* Every blocking collective, with lengths of each kind, in place and not, on the world and on parts of it in another order. */
#include "check.h"

static int *ints(long n) { int *p = malloc((n + 1) * sizeof(int)); for (long i = 0; i <= n; i++) p[i] = -1; return p; }

static void rooted(MPI_Comm c, int r, int p, int n, int root)
{
    int *one = ints(n), *all = ints((long)n * p);
    for (int i = 0; i < n; i++) one[i] = r == root ? value(root, i) : -1;
    MPI_Bcast(one, n, MPI_INT, root, c);
    for (int i = 0; i < n; i++) CHECK(one[i] == value(root, i), "bcast %d: %d", i, one[i]);

    for (int i = 0; i < n; i++) one[i] = value(r, i);
    MPI_Gather(one, n, MPI_INT, all, n, MPI_INT, root, c);
    if (r == root)
        for (long i = 0; i < (long)n * p; i++) CHECK(all[i] == value(i / n, i % n), "gather %ld", i);
    if (r == root) MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, all, n, MPI_INT, root, c);
    else MPI_Gather(one, n, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, c);
    if (r == root)
        for (long i = 0; i < (long)n * p; i++) CHECK(all[i] == value(i / n, i % n), "gather in place %ld", i);

    for (int i = 0; i < n; i++) one[i] = -1;
    MPI_Scatter(all, n, MPI_INT, one, n, MPI_INT, root, c);
    for (int i = 0; i < n; i++) CHECK(one[i] == value(r, i), "scatter %d", i);
    if (r == root) MPI_Scatter(all, n, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root, c);
    else MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, one, n, MPI_INT, root, c);
    for (int i = 0; i < n; i++) CHECK(one[i] == value(r, i), "scatter in place %d", i);

    int *sum = ints(n);
    MPI_Reduce(one, r == root ? sum : NULL, n, MPI_INT, MPI_SUM, root, c);
    if (r == root)
        for (int i = 0; i < n; i++) CHECK(sum[i] == sum_below(p, i), "reduce %d: %d", i, sum[i]);
    if (r == root) memcpy(sum, one, n * sizeof(int));
    MPI_Reduce(r == root ? MPI_IN_PLACE : one, sum, n, MPI_INT, MPI_SUM, root, c);
    if (r == root)
        for (int i = 0; i < n; i++) CHECK(sum[i] == sum_below(p, i), "reduce in place %d", i);
    free(one); free(all); free(sum);
}

static void everywhere(MPI_Comm c, int r, int p, int n)
{
    int *one = ints(n), *all = ints((long)n * p), *got = ints((long)n * p);
    for (int i = 0; i < n; i++) one[i] = value(r, i);
    MPI_Allgather(one, n, MPI_INT, all, n, MPI_INT, c);
    for (long i = 0; i < (long)n * p; i++) CHECK(all[i] == value(i / n, i % n), "allgather %ld", i);
    for (long i = 0; i < (long)n * p; i++) if (i / n != r) all[i] = -1;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INT, c);
    for (long i = 0; i < (long)n * p; i++) CHECK(all[i] == value(i / n, i % n), "allgather in place %ld", i);

    for (long i = 0; i < (long)n * p; i++) all[i] = value(r, i);
    MPI_Alltoall(all, n, MPI_INT, got, n, MPI_INT, c);
    for (long i = 0; i < (long)n * p; i++) CHECK(got[i] == value(i / n, (long)r * n + i % n), "alltoall %ld", i);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, all, n, MPI_INT, c);
    for (long i = 0; i < (long)n * p; i++) CHECK(all[i] == got[i], "alltoall in place %ld", i);

    int *sum = ints((long)n * p);
    MPI_Allreduce(one, sum, n, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < n; i++) CHECK(sum[i] == sum_below(p, i), "allreduce %d", i);
    memcpy(sum, one, n * sizeof(int));
    MPI_Allreduce(MPI_IN_PLACE, sum, n, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < n; i++) CHECK(sum[i] == sum_below(p, i), "allreduce in place %d", i);

    MPI_Scan(one, sum, n, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < n; i++) CHECK(sum[i] == sum_below(r + 1, i), "scan %d", i);
    for (int i = 0; i < n; i++) sum[i] = r % 2 ? one[i] : -7;
    /* in place at some ranks only */
    MPI_Scan(r % 2 ? MPI_IN_PLACE : one, sum, n, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < n; i++) CHECK(sum[i] == sum_below(r + 1, i), "scan in place %d", i);
    for (int i = 0; i < n; i++) sum[i] = r % 2 ? one[i] : -7;
    MPI_Exscan(r % 2 ? MPI_IN_PLACE : one, sum, n, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < n; i++) CHECK(sum[i] == (r ? sum_below(r, i) : -7), "exscan %d: %d", i, sum[i]);

    for (long i = 0; i < (long)n * p; i++) all[i] = value(r, i);
    MPI_Reduce_scatter_block(all, sum, n, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < n; i++) CHECK(sum[i] == sum_below(p, r * n + i), "reduce_scatter_block %d", i);
    MPI_Reduce_scatter_block(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < n; i++) CHECK(all[i] == sum_below(p, r * n + i), "reduce_scatter_block in place %d", i);
    free(one); free(all); free(got); free(sum);
}

/* Lists of counts: rank r has n * (r % 3) elements, and they stand in an order of each rank's own. */
static void ragged(MPI_Comm c, int r, int p, int n, int root)
{
    int *counts = malloc(p * sizeof(int)), *displs = malloc(p * sizeof(int)), *equal = malloc(p * sizeof(int));
    int *places = malloc(p * sizeof(int));
    long total = 0, sparse = 0;
    for (int k = 0; k < p; k++) counts[k] = n * (k % 3), equal[k] = n, places[k] = k * n;
    for (int k = 0; k < p; k++) { int q = (k + r) % p; displs[q] = total; total += counts[q]; }
    int *one = ints(counts[r]), *all = ints(total);
    for (int i = 0; i < counts[r]; i++) one[i] = value(r, i);
    MPI_Allgatherv(one, counts[r], MPI_INT, all, counts, displs, MPI_INT, c);
    for (int k = 0; k < p; k++)
        for (int i = 0; i < counts[k]; i++) CHECK(all[displs[k] + i] == value(k, i), "allgatherv from %d at %d", k, i);
    for (int k = 0; k < p; k++)
        for (int i = 0; i < counts[k]; i++) if (k != r) all[displs[k] + i] = -1;
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INT, all, counts, displs, MPI_INT, c);
    for (int k = 0; k < p; k++)
        for (int i = 0; i < counts[k]; i++) CHECK(all[displs[k] + i] == value(k, i), "allgatherv in place from %d", k);
    free(all);

    /* with a gap of three before each, which stays */
    for (int k = 0; k < p; k++) { displs[k] = sparse + 3; sparse += counts[k] + 3; }
    all = ints(sparse);
    MPI_Gatherv(one, counts[r], MPI_INT, r == root ? all : NULL, r == root ? counts : NULL, r == root ? displs : NULL, MPI_INT, root, c);
    if (r == root)
        for (int k = 0; k < p; k++) {
            for (int i = 0; i < counts[k]; i++) CHECK(all[displs[k] + i] == value(k, i), "gatherv from %d", k);
            CHECK(all[displs[k] - 1] == -1, "gatherv: gap before %d", k);
        }
    if (r == root) MPI_Gatherv(MPI_IN_PLACE, 0, MPI_INT, all, counts, displs, MPI_INT, root, c);
    else MPI_Gatherv(one, counts[r], MPI_INT, NULL, NULL, NULL, MPI_DATATYPE_NULL, root, c);
    if (r == root)
        for (int k = 0; k < p; k++)
            for (int i = 0; i < counts[k]; i++) CHECK(all[displs[k] + i] == value(k, i), "gatherv in place from %d", k);
    for (int i = 0; i < counts[r]; i++) one[i] = -1;
    MPI_Scatterv(all, counts, displs, MPI_INT, one, counts[r], MPI_INT, root, c);
    for (int i = 0; i < counts[r]; i++) CHECK(one[i] == value(r, i), "scatterv %d: %d", i, one[i]);
    if (r == root) MPI_Scatterv(all, counts, displs, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root, c);
    else MPI_Scatterv(NULL, NULL, NULL, MPI_INT, one, counts[r], MPI_INT, root, c);
    for (int i = 0; i < counts[r]; i++) CHECK(one[i] == value(r, i), "scatterv in place %d", i);
    free(all);

    /* rank r sends n * ((r + k) % 2) elements to rank k */
    int *sn = malloc(p * sizeof(int)), *sd = malloc(p * sizeof(int)), *bytes = malloc(p * sizeof(int)), *back = malloc(p * sizeof(int));
    MPI_Datatype *types = malloc(p * sizeof(MPI_Datatype));
    total = 0;
    for (int k = 0; k < p; k++) sn[k] = n * ((r + k) % 2), sd[k] = total, total += sn[k], types[k] = MPI_INT, bytes[k] = sd[k] * sizeof(int);
    for (int k = 0; k < p; k++) back[k] = (p - 1 - k) * n;
    int *to = ints(total), *from = ints((long)n * p);
    for (int k = 0; k < p; k++) for (int i = 0; i < sn[k]; i++) to[sd[k] + i] = value(r, k * 31 + i);
    MPI_Alltoallv(to, sn, sd, MPI_INT, from, sn, back, MPI_INT, c);
    for (int k = 0; k < p; k++)
        for (int i = 0; i < n; i++)
            CHECK(from[back[k] + i] == (i < sn[k] ? value(k, r * 31 + i) : -1), "alltoallv from %d at %d", k, i);
    for (int k = 0; k < p; k++) back[k] *= sizeof(int);
    for (long i = 0; i < (long)n * p; i++) from[i] = -1;
    MPI_Alltoallw(to, sn, bytes, types, from, sn, back, types, c);
    for (int k = 0; k < p; k++)
        for (int i = 0; i < sn[k]; i++)
            CHECK(from[back[k] / (int)sizeof(int) + i] == value(k, r * 31 + i), "alltoallw from %d at %d", k, i);
    free(to); free(from);

    from = ints((long)n * p);
    for (int k = 0; k < p; k++) for (int i = 0; i < n; i++) from[places[k] + i] = value(r, k * 31 + i);
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, from, equal, places, MPI_INT, c);
    for (int k = 0; k < p; k++) for (int i = 0; i < n; i++) CHECK(from[places[k] + i] == value(k, r * 31 + i), "alltoallv in place %d", k);

    total = 0;
    for (int k = 0; k < p; k++) total += counts[k];
    int *whole = ints(total), *mine = ints(total), before = 0;
    for (int k = 0; k < r; k++) before += counts[k];
    for (long i = 0; i < total; i++) whole[i] = mine[i] = value(r, i);
    MPI_Reduce_scatter(whole, one, counts, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < counts[r]; i++) CHECK(one[i] == sum_below(p, before + i), "reduce_scatter %d", i);
    /* in place at some ranks only */
    MPI_Reduce_scatter(r % 2 ? MPI_IN_PLACE : whole, r % 2 ? mine : one, counts, MPI_INT, MPI_SUM, c);
    for (int i = 0; i < counts[r]; i++) CHECK((r % 2 ? mine : one)[i] == sum_below(p, before + i), "reduce_scatter in place %d", i);
    free(whole); free(mine); free(one); free(from); free(sn); free(sd); free(bytes); free(back); free(types);
    free(counts); free(displs); free(equal); free(places);
}

static void all_of(MPI_Comm c)
{
    static const int lengths[] = {0, 1, 7, 1000, 40000};
    int r, p;
    MPI_Comm_rank(c, &r);
    MPI_Comm_size(c, &p);
    for (int l = 0; l < 5; l++) {
        MPI_Barrier(c);
        for (int root = 0; root < p; root += p > 2 ? p - 1 : 1) rooted(c, r, p, lengths[l], root);
        everywhere(c, r, p, lengths[l]);
        if (lengths[l]) ragged(c, r, p, lengths[l], p / 2);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    all_of(MPI_COMM_WORLD);
    MPI_Comm backwards, half, copy;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &backwards);
    all_of(backwards);
    MPI_Comm_split(backwards, me % 2, me, &half);
    all_of(half);
    MPI_Comm_free(&backwards);
    /* handles are used again: each copy is another communicator */
    for (int i = 0; i < 200; i++) {
        int sum, r, p;
        MPI_Comm_dup(i % 2 ? half : MPI_COMM_WORLD, &copy);
        MPI_Comm_rank(copy, &r);
        MPI_Comm_size(copy, &p);
        MPI_Allreduce(&r, &sum, 1, MPI_INT, MPI_SUM, copy);
        CHECK(sum == p * (p - 1) / 2, "copy %d: %d", i, sum);
        MPI_Comm_free(&copy);
    }
    MPI_Comm_free(&half);
    return verdict();
}
