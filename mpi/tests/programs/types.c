/* Datatypes and operators: ranks whose types differ and whose signatures agree, padding, gaps, and functions of the program. */
#include "check.h"
#include <stdbool.h>

/* 2 x 2 matrices: their product does not commute. */
typedef struct { int m[4]; } Matrix;
static Matrix times(Matrix a, Matrix b)
{
    return (Matrix){{a.m[0] * b.m[0] + a.m[1] * b.m[2], a.m[0] * b.m[1] + a.m[1] * b.m[3],
                     a.m[2] * b.m[0] + a.m[3] * b.m[2], a.m[2] * b.m[1] + a.m[3] * b.m[3]}};
}
static void product(void *in, void *inout, int *n, MPI_Datatype *t)
{
    (void)t;
    for (int i = 0; i < *n; i++) ((Matrix *)inout)[i] = times(((Matrix *)in)[i], ((Matrix *)inout)[i]);
}

/* Adds the two ints of an element that has a gap between them. */
typedef struct { int a, gap, b, end; } Sparse;
static void add_sparse(void *in, void *inout, int *n, MPI_Datatype *t)
{
    (void)t;
    for (int i = 0; i < *n; i++) ((Sparse *)inout)[i].a += ((Sparse *)in)[i].a, ((Sparse *)inout)[i].b += ((Sparse *)in)[i].b;
}

static void mixed(void)
{
    enum { N = 300 };
    MPI_Datatype column, pair;
    MPI_Type_vector(N, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    int wide[3 * N], flat[N];
    for (int i = 0; i < 3 * N; i++) wide[i] = -1;
    for (int i = 0; i < N; i++) wide[3 * i] = flat[i] = me == 0 ? value(0, i) : -1;
    /* the root has a vector, odd ranks pairs, even ones ints */
    if (me == 0) MPI_Bcast(wide, 1, column, 0, MPI_COMM_WORLD);
    else if (me % 2) MPI_Bcast(flat, N / 2, pair, 0, MPI_COMM_WORLD);
    else MPI_Bcast(flat, N, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) CHECK((me ? flat[i] : wide[3 * i]) == value(0, i), "bcast %d", i);
    /* and the other way round */
    for (int i = 0; i < 3 * N; i++) wide[i] = -1;
    for (int i = 0; i < N; i++) flat[i] = me == 0 ? value(0, i) : -1;
    if (me == 0) MPI_Bcast(flat, N, MPI_INT, 0, MPI_COMM_WORLD);
    else MPI_Bcast(wide, 1, column, 0, MPI_COMM_WORLD);
    if (me)
        for (int i = 0; i < 3 * N; i++) CHECK(wide[i] == (i % 3 ? -1 : value(0, i / 3)), "a vector at %d: %d", i, wide[i]);

    /* every rank sends a row and gets rows into columns, whose elements lie into each other */
    MPI_Datatype resized;
    MPI_Type_free(&pair);
    int *table = malloc(sizeof(int) * N * np);
    MPI_Type_vector(N, 1, np, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, sizeof(int), &resized);
    MPI_Type_commit(&resized);
    for (int i = 0; i < N; i++) flat[i] = value(me, i);
    MPI_Allgather(flat, N, MPI_INT, table, 1, resized, MPI_COMM_WORLD);
    for (int i = 0; i < N * np; i++) CHECK(table[i] == value(i % np, i / np), "transposed at %d: %d", i, table[i]);
    for (int i = 0; i < N * np; i++) if (i % np != me) table[i] = -1;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, table, 1, resized, MPI_COMM_WORLD);
    for (int i = 0; i < N * np; i++) CHECK(table[i] == value(i % np, i / np), "transposed in place at %d", i);
    int *rows = malloc(sizeof(int) * N * np);
    MPI_Gather(table, 1, resized, rows, N, MPI_INT, 0, MPI_COMM_WORLD);
    if (me == 0)
        for (int i = 0; i < N * np; i++) CHECK(rows[i] == value(0, i % N), "gathered columns at %d: %d", i, rows[i]);
    free(table); free(rows);

    /* a struct of four ints backwards: its size is its extent */
    MPI_Datatype backwards;
    int lengths[4] = {1, 1, 1, 1}, to[8];
    MPI_Aint places[4] = {12, 8, 4, 0};
    MPI_Type_create_hindexed(4, lengths, places, MPI_INT, &backwards);
    MPI_Type_commit(&backwards);
    int from[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (me == 0) memcpy(to, from, sizeof to);
    MPI_Bcast(to, me ? 2 : 8, me ? backwards : MPI_INT, 0, MPI_COMM_WORLD);
    if (me)
        for (int i = 0; i < 8; i++) CHECK(to[i] == i / 4 * 4 + 3 - i % 4, "backwards at %d: %d", i, to[i]);

    /* absolute addresses */
    MPI_Datatype absolute;
    MPI_Aint address;
    int four = 4, numbers[4] = {me + 5, me + 6, me + 7, me + 8};
    MPI_Get_address(numbers, &address);
    MPI_Type_create_hindexed(1, &four, &address, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Bcast(MPI_BOTTOM, 1, absolute, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++) CHECK(numbers[i] == 5 + i, "at an absolute address: %d", numbers[i]);
    MPI_Type_free(&column); MPI_Type_free(&pair); MPI_Type_free(&resized); MPI_Type_free(&backwards); MPI_Type_free(&absolute);
}

static void operators(void)
{
    struct { double x; int i; } low = {me % 2 ? -1.5 : 2.5, me}, least;
    MPI_Allreduce(&low, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(np < 2 ? least.x == 2.5 : least.x == -1.5 && least.i == 1, "minloc: %g at %d", least.x, least.i);
    struct { short x; int i; } high[2] = {{-me, me}, {7, me}}, most[2];
    MPI_Allreduce(high, most, 2, MPI_SHORT_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    CHECK(most[0].x == 0 && most[0].i == 0 && most[1].x == 7 && most[1].i == 0, "maxloc: %d at %d", most[1].x, most[1].i);
    int two[2] = {5, -me}, lowest[2];
    MPI_Allreduce(two, lowest, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(lowest[0] == 5 && lowest[1] == 1 - np, "minloc with negative indices: %d", lowest[1]);
    long double one = 0.5L, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == 0.5L * np, "long double: %Lg", sum);
    bool mine = me == 0, any = false, both = true;
    MPI_Allreduce(&mine, &any, 1, MPI_C_BOOL, MPI_LOR, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &both, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    CHECK(any && both == (np == 1), "bool: %d %d", any, both);
    unsigned char bit = 1 << (me % 8), bits = 0;
    MPI_Allreduce(&bit, &bits, 1, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    CHECK(bits == (unsigned char)((1u << (np < 8 ? np : 8)) - 1), "bytes: %d", bits);
    float few[3] = {1, 2, 3}, product3[3];
    MPI_Reduce(few, product3, 3, MPI_FLOAT, MPI_PROD, np - 1, MPI_COMM_WORLD);
    if (me == np - 1) CHECK(product3[0] == 1 && product3[1] == (float)(1 << np), "product: %g", product3[1]);
}

static void functions(void)
{
    MPI_Op op;
    MPI_Datatype matrix, sparse, gaps;
    enum { N = 37 };
    Matrix mine[N], got[N], before[N];
    MPI_Op_create(product, 0, &op);
    MPI_Type_contiguous(4, MPI_INT, &matrix);
    MPI_Type_commit(&matrix);
    for (int i = 0; i < N; i++) mine[i] = (Matrix){{1, me + i, me % 2, 1}};
    MPI_Allreduce(mine, got, N, matrix, op, MPI_COMM_WORLD);
    MPI_Exscan(mine, before, N, matrix, op, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) {
        Matrix all = {{1, 0, 0, 1}}, below = all;
        for (int r = 0; r < np; r++) {
            if (r == me) below = all;
            all = times(all, (Matrix){{1, r + i, r % 2, 1}});
        }
        CHECK(!memcmp(&all, &got[i], sizeof all), "product of matrices %d", i);
        CHECK(me == 0 || !memcmp(&below, &before[i], sizeof below), "product below us %d", i);
    }
    MPI_Op_free(&op);

    /* an element with gaps, which stay as they are */
    int one_each[2] = {1, 1};
    MPI_Aint at[2] = {0, 8};
    MPI_Type_create_hindexed(2, one_each, at, MPI_INT, &gaps);
    MPI_Type_create_resized(gaps, 0, sizeof(Sparse), &sparse);
    MPI_Type_commit(&sparse);
    MPI_Op_create(add_sparse, 1, &op);
    Sparse in[N], out[N];
    for (int i = 0; i < N; i++) in[i] = (Sparse){value(me, i), 1, -value(me, i), 2}, out[i] = (Sparse){0, -5, 0, -6};
    MPI_Allreduce(in, out, N, sparse, op, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++)
        CHECK(out[i].a == sum_below(np, i) && out[i].b == -out[i].a && out[i].gap == -5 && out[i].end == -6, "sparse %d: %d %d %d %d", i,
              out[i].a, out[i].gap, out[i].b, out[i].end);
    MPI_Op_free(&op);
    MPI_Type_free(&matrix); MPI_Type_free(&gaps); MPI_Type_free(&sparse);
}

/* The forms with counts of 64 bits. */
static void wide_counts(void)
{
#if MPI_VERSION >= 4
    enum { N = 11 };
    int one[N], all[N], *from = malloc(sizeof(int) * N * np), *to = malloc(sizeof(int) * N * np);
    MPI_Count n[64];
    MPI_Aint places[64], bytes[64];
    MPI_Datatype kinds[64];
    for (int i = 0; i < N; i++) one[i] = value(me, i);
    MPI_Allreduce_c(one, all, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) CHECK(all[i] == sum_below(np, i), "allreduce_c %d", i);
    MPI_Bcast_c(one, N, MPI_INT, np - 1, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) CHECK(one[i] == value(np - 1, i), "bcast_c %d", i);
    for (int k = 0; k < np; k++) n[k] = N, places[k] = (np - 1 - k) * N, bytes[k] = places[k] * sizeof(int), kinds[k] = MPI_INT;
    for (int i = 0; i < N * np; i++) to[i] = value(me, i);
    MPI_Alltoallv_c(to, n, places, MPI_INT, from, n, places, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < N * np; i++) CHECK(from[i] == value(np - 1 - i / N, (np - 1 - me) * N + i % N), "alltoallv_c %d", i);
    MPI_Alltoallw_c(to, n, bytes, kinds, from, n, bytes, kinds, MPI_COMM_WORLD);
    for (int i = 0; i < N * np; i++) CHECK(from[i] == value(np - 1 - i / N, (np - 1 - me) * N + i % N), "alltoallw_c %d", i);
    MPI_Reduce_scatter_c(to, one, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) CHECK(one[i] == sum_below(np, me * N + i), "reduce_scatter_c %d", i);
    free(from); free(to);
#endif
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    mixed();
    operators();
    functions();
    wide_counts();
    return verdict();
}
