/* Random datatypes: each rank describes the same signature by another type, and a large count of small elements at one rank may be
 * one large element at another. Results, and the bytes between elements, are compared with the MPI's own.
 *
 *   suite_types SEED ROUNDS
 */
#include "suite.h"

enum { MAX_UNITS = 48, MAX_EXTENT = 64 * 1024, PAD = 64 };

static uint64_t mine;   /* random numbers of this rank */
static uint64_t common; /* the same at all ranks */

/* A named type, the same at all ranks. */
static MPI_Datatype named(int which)
{
    const MPI_Datatype all[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_SHORT, MPI_FLOAT, MPI_INT64_T, MPI_BYTE, MPI_UNSIGNED};
    return all[which % 8];
}

struct Piece {
    MPI_Datatype type;
    int count;
};

/* `units` elements of `base` in some arrangement of this rank's own: count x type. */
static struct Piece arrange(MPI_Datatype base, int units)
{
    struct Piece piece = {base, units};
    MPI_Datatype made = MPI_DATATYPE_NULL, inner;
    MPI_Aint lower, extent;
    int lengths[MAX_UNITS], places[MAX_UNITS], half = units / 2;
    if (units == 0)
        return piece;
    MPI_Type_get_extent(base, &lower, &extent);
    switch (suite_below(&mine, 8)) {
    case 0: /* as it is */
        return piece;
    case 1:
        MPI_Type_contiguous(units, base, &made);
        piece.count = 1;
        break;
    case 2: /* every other one */
        MPI_Type_vector(units, 1, 2, base, &made);
        piece.count = 1;
        break;
    case 3: /* singles, the last one first */
        for (int i = 0; i < units; i++) {
            lengths[i] = 1;
            places[i] = 2 * (units - 1 - i);
        }
        MPI_Type_indexed(units, lengths, places, base, &made);
        piece.count = 1;
        break;
    case 4: { /* two parts with a gap, the second one in front */
        MPI_Aint at[2] = {(MPI_Aint)units * extent + 24, 0};
        int parts[2] = {half, units - half};
        MPI_Datatype types[2] = {base, base};
        MPI_Type_create_struct(2, parts, at, types, &made);
        piece.count = 1;
        break;
    }
    case 5: /* one element with room behind it, many times */
        MPI_Type_create_resized(base, 0, 3 * extent, &made);
        break;
    case 6: /* a copy of a contiguous pair, if the number is even */
        if (units % 2)
            return piece;
        MPI_Type_contiguous(2, base, &inner);
        MPI_Type_dup(inner, &made);
        MPI_Type_free(&inner);
        piece.count = half;
        break;
    default: /* a vector of vectors */
        if (units % 4)
            return piece;
        MPI_Type_vector(2, 1, 3, base, &inner);
        MPI_Type_create_hvector(units / 4, 2, 12 * extent, inner, &made);
        MPI_Type_free(&inner);
        piece.count = 1;
        break;
    }
    MPI_Type_commit(&made);
    piece.type = made;
    return piece;
}

static void drop(struct Piece *piece, MPI_Datatype base)
{
    if (piece->type != base)
        MPI_Type_free(&piece->type);
}

/* Three equal buffers of random bytes: input, ours, theirs. `where` is where data begins, at any alignment that the base allows. */
static unsigned char *input, *ours, *theirs;

static void fill(uint64_t seed)
{
    uint64_t state = suite_seed(seed, (uint64_t)suite_rank);
    for (int i = 0; i < MAX_EXTENT; i++) {
        input[i] = (unsigned char)(suite_next(&state) >> 32) & 0x3f;
        ours[i] = theirs[i] = (unsigned char)(0x80 | i);
    }
}

static void compare(const char *what, int round)
{
    for (int i = 0; i < MAX_EXTENT; i++)
        if (ours[i] != theirs[i]) {
            wrong("round %d: %s: byte %d is %#x, not %#x", round, what, i, ours[i], theirs[i]);
            return;
        }
}

static void one_per_rank(MPI_Datatype base, int units, int root, int round)
{
    struct Piece from = arrange(base, units), to = arrange(base, units);
    unsigned char *i = input + PAD, *o = ours + PAD, *t = theirs + PAD;
    fill((uint64_t)round);
    if (suite_rank == root) {
        memcpy(ours, input, MAX_EXTENT);
        memcpy(theirs, input, MAX_EXTENT);
    }
    MPI_Bcast(o, to.count, to.type, root, MPI_COMM_WORLD);
    REAL(MPI_Bcast)(t, to.count, to.type, root, MPI_COMM_WORLD);
    compare("bcast", round);

    fill((uint64_t)round);
    MPI_Gather(i, from.count, from.type, o, to.count, to.type, root, MPI_COMM_WORLD);
    REAL(MPI_Gather)(i, from.count, from.type, t, to.count, to.type, root, MPI_COMM_WORLD);
    compare("gather", round);

    fill((uint64_t)round);
    MPI_Allgather(i, from.count, from.type, o, to.count, to.type, MPI_COMM_WORLD);
    for (int r = 0; r < suite_size; r++) /* not by its allgather: Intel's goes wrong where ranks have different types */
        REAL(MPI_Gather)(i, from.count, from.type, t, to.count, to.type, r, MPI_COMM_WORLD);
    compare("allgather", round);

    fill((uint64_t)round);
    MPI_Scatter(i, from.count, from.type, o, to.count, to.type, root, MPI_COMM_WORLD);
    REAL(MPI_Scatter)(i, from.count, from.type, t, to.count, to.type, root, MPI_COMM_WORLD);
    compare("scatter", round);

    fill((uint64_t)round);
    MPI_Alltoall(i, from.count, from.type, o, to.count, to.type, MPI_COMM_WORLD);
    REAL(MPI_Alltoall)(i, from.count, from.type, t, to.count, to.type, MPI_COMM_WORLD);
    compare("alltoall", round);
    drop(&from, base);
    drop(&to, base);
}

/* Counts differ between ranks; displacements are each rank's own, in any order and with gaps. */
static void lists(MPI_Datatype base, int root, int round)
{
    int p = suite_size, units[p], counts[p], places[p], sent[p], from[p], got[p], to[p], size;
    unsigned char *i = input + PAD, *o = ours + PAD, *t = theirs + PAD;
    struct Piece piece;
    MPI_Type_size(base, &size);
    for (int r = 0; r < p; r++)
        counts[r] = units[r] = suite_below(&common, 12);
    int back = suite_below(&mine, 2), gap = suite_below(&mine, 3), at = 0;
    for (int k = 0; k < p; k++) {
        int r = back ? p - 1 - k : k;
        places[r] = at;
        at += counts[r] + gap;
    }
    piece = arrange(base, units[suite_rank]);
    fill((uint64_t)round);
#ifdef OPEN_MPI /* it chooses its algorithm by the size of the type that is sent, and hangs where ranks send different ones */
    drop(&piece, base);
    piece = (struct Piece){base, units[suite_rank]};
#endif
    MPI_Allgatherv(i, piece.count, piece.type, o, counts, places, base, MPI_COMM_WORLD);
    REAL(MPI_Allgatherv)(i, piece.count, piece.type, t, counts, places, base, MPI_COMM_WORLD);
    compare("allgatherv", round);

    fill((uint64_t)round); /* what only the root knows is rubbish elsewhere */
    int *known = suite_rank == root ? counts : NULL, *there = suite_rank == root ? places : NULL;
    MPI_Gatherv(i, piece.count, piece.type, o, known, there, base, root, MPI_COMM_WORLD);
    REAL(MPI_Gatherv)(i, piece.count, piece.type, t, known, there, base, root, MPI_COMM_WORLD);
    compare("gatherv", round);

    fill((uint64_t)round);
    MPI_Scatterv(i, known, there, base, o, piece.count, piece.type, root, MPI_COMM_WORLD);
    REAL(MPI_Scatterv)(i, known, there, base, t, piece.count, piece.type, root, MPI_COMM_WORLD);
    compare("scatterv", round);
    drop(&piece, base);

    /* rank r sends (r + 3 s) mod 7 units to rank s */
    int here = 0, far = 0;
    for (int r = 0; r < p; r++) {
        sent[r] = (suite_rank + 3 * r) % 7;
        got[r] = (r + 3 * suite_rank) % 7;
        from[r] = here;
        to[r] = far;
        here += sent[r] + gap;
        far += got[r] + (2 - gap);
    }
    fill((uint64_t)round);
    MPI_Alltoallv(i, sent, from, base, o, got, to, base, MPI_COMM_WORLD);
    REAL(MPI_Alltoallv)(i, sent, from, base, t, got, to, base, MPI_COMM_WORLD);
    compare("alltoallv", round);

    MPI_Datatype out[p], in[p];
    struct Piece pieces[2 * p];
    here = far = 0;
    for (int r = 0; r < p; r++) {
        MPI_Aint lower, extent;
        pieces[r] = arrange(base, (suite_rank + 3 * r) % 7);
        pieces[p + r] = arrange(base, (r + 3 * suite_rank) % 7);
        out[r] = pieces[r].type;
        in[r] = pieces[p + r].type;
        sent[r] = pieces[r].count;
        got[r] = pieces[p + r].count;
        from[r] = here;
        to[r] = far;
        MPI_Type_get_extent(out[r], &lower, &extent);
        here += (int)(extent * sent[r] + 8 * size - extent * sent[r] % size);
        MPI_Type_get_extent(in[r], &lower, &extent);
        far += (int)(extent * got[r] + 8 * size - extent * got[r] % size);
    }
    fill((uint64_t)round);
    MPI_Alltoallw(i, sent, from, out, o, got, to, in, MPI_COMM_WORLD);
    REAL(MPI_Alltoallw)(i, sent, from, out, t, got, to, in, MPI_COMM_WORLD);
    compare("alltoallw", round);
    for (int r = 0; r < 2 * p; r++)
        drop(&pieces[r], base);
}

/* An operator on a derived type: pairs (a, b) under (a1 a2, a2 b1 + b2), which does not commute. */
static void composed(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const unsigned *left = in;
    unsigned *right = inout;
    (void)type;
    for (int k = 0; k < 2 * *count; k += 2) {
        right[k + 1] = right[k] * left[k + 1] + right[k + 1];
        right[k] = left[k] * right[k];
    }
}

static void operators(int root, int round)
{
    MPI_Datatype pair;
    MPI_Op compose;
    int n = 1 + suite_below(&common, 40);
    MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(composed, 0, &compose);
    fill((uint64_t)round);
    MPI_Allreduce(input, ours, n, pair, compose, MPI_COMM_WORLD);
    REAL(MPI_Allreduce)(input, theirs, n, pair, compose, MPI_COMM_WORLD);
    compare("allreduce of pairs", round);
    MPI_Reduce(input, ours, n, pair, compose, root, MPI_COMM_WORLD);
    REAL(MPI_Reduce)(input, theirs, n, pair, compose, root, MPI_COMM_WORLD);
    compare("reduce of pairs", round);
    MPI_Scan(input, ours, n, pair, compose, MPI_COMM_WORLD);
    REAL(MPI_Scan)(input, theirs, n, pair, compose, MPI_COMM_WORLD);
    compare("scan of pairs", round);
    MPI_Exscan(input, ours, n, pair, compose, MPI_COMM_WORLD);
    REAL(MPI_Exscan)(input, theirs, n, pair, compose, MPI_COMM_WORLD);
    if (suite_rank) /* rank 0's is undefined */
        compare("exscan of pairs", round);
    memcpy(ours, theirs, MAX_EXTENT);
    MPI_Reduce_scatter_block(input, ours, n, pair, compose, MPI_COMM_WORLD);
    REAL(MPI_Reduce_scatter_block)(input, theirs, n, pair, compose, MPI_COMM_WORLD);
    compare("reduce_scatter_block of pairs", round);
    MPI_Op_free(&compose);
    MPI_Type_free(&pair);
}

int main(int argc, char **argv)
{
    suite_begin(&argc, &argv, MPI_THREAD_SINGLE);
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 25;
    if (suite_rank == 0)
        printf("seed %llu, %d rounds\n", (unsigned long long)seed, rounds);
    mine = suite_seed(seed, 1000 + (uint64_t)suite_rank);
    common = suite_seed(seed, 0);
    input = malloc(MAX_EXTENT);
    ours = malloc(MAX_EXTENT);
    theirs = malloc(MAX_EXTENT);
    for (int round = 0; round < rounds; round++) {
        MPI_Datatype base = named(suite_below(&common, 8));
        int units = suite_below(&common, MAX_UNITS), root = suite_below(&common, suite_size);
        one_per_rank(base, units, root, round);
        lists(base, root, round);
        operators(root, round);
    }
    return suite_end();
}
