/* Every collective in its three forms, against what it is defined to leave; in place too; operators of the program. */
#include "ranks.h"

enum { N = 301 };
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static circulant_comm_t *comm;
static int me, size;
static int64_t *out, *in;
static const circulant_type_t I64 = CIRCULANT_INT64;

#define ONE_FORM(form, call, icall, init, args, args_and_request) \
    do { \
        circulant_request_t *request = NULL; \
        int finished = 0; \
        if (form == BLOCKING) { \
            OK (call args); \
        } else if (form == NONBLOCKING) { \
            OK (icall args_and_request); \
            while (!finished) \
                OK (circulant_test (&request, &finished)); \
            CHECK (request == NULL); \
        } else { \
            OK (init args_and_request); \
            OK (circulant_start (request)); \
            OK (circulant_wait (&request)); \
            OK (circulant_request_free (&request)); \
            CHECK (request == NULL); \
        } \
    } while (0)
#define CALL(form, name, ...) \
    ONE_FORM (form, circulant_##name, circulant_i##name, circulant_##name##_init, (comm, __VA_ARGS__), \
              (comm, __VA_ARGS__, &request))

/* What rank r sends as its element i. */
static int64_t value (int r, size_t i)
{
    return (int64_t) (r + 1) * 1000003 + (int64_t) i * 7919;
}

static int64_t sum (int ranks, size_t i)
{
    int64_t all = 0;
    int r;
    for (r = 0; r < ranks; r++)
        all += value (r, i);
    return all;
}

static void fill (void)
{
    size_t i;
    for (i = 0; i < (size_t) size * N + 100; i++) {
        out[i] = value (me, i);
        in[i] = -1;
    }
}

#define EACH(i, n, found, wanted) \
    do { \
        size_t i; \
        for (i = 0; i < (size_t) (n); i++) \
            CHECK ((found) == (wanted)); \
    } while (0)

static void moves (enum form form)
{
    int root = size - 1, r;
    fill ();
    CALL (form, bcast, out, N, I64, root);
    EACH (i, N, out[i], value (root, i));
    fill ();
    CALL (form, allgather, out, in, N, I64);
    for (r = 0; r < size; r++)
        EACH (i, N, in[r * N + i], value (r, i));
    EACH (i, N, in[me * N + i], value (me, i));
    for (r = 0; r < size; r++)
        EACH (i, N, in[r * N + i] = r == me ? in[r * N + i] : -1, r == me ? value (me, i) : -1);
    CALL (form, allgather, CIRCULANT_IN_PLACE, in, N, I64);
    for (r = 0; r < size; r++)
        EACH (i, N, in[r * N + i], value (r, i));
    fill ();
    CALL (form, gather, out, me == root ? in : NULL, N, I64, root);
    for (r = 0; me == root && r < size; r++)
        EACH (i, N, in[r * N + i], value (r, i));
    fill ();
    CALL (form, scatter, me == root ? out : NULL, in, N, I64, root);
    EACH (i, N, in[i], value (root, (size_t) me * N + i));
    if (me == root)
        CALL (form, scatter, out, CIRCULANT_IN_PLACE, N, I64, root);
    else
        CALL (form, scatter, NULL, in, N, I64, root);
    EACH (i, N, me == root ? out[me * N + i] : in[i], value (root, (size_t) me * N + i));
    fill ();
    CALL (form, alltoall, out, in, N, I64);
    for (r = 0; r < size; r++)
        EACH (i, N, in[r * N + i], value (r, (size_t) me * N + i));
}

/* Rank r has r + 1 elements; they stand in the order of ranks backwards, each behind one that is in no part. */
static void parts (enum form form)
{
    size_t counts[64], displs[64], own[64], n = (size_t) me + 1, at = 0;
    int root = 0, r;
    for (r = size - 1; r >= 0; r--) {
        counts[r] = (size_t) r + 1;
        displs[r] = at + 1;
        at += counts[r] + 1;
    }
    fill ();
    CALL (form, allgatherv, out, n, in, counts, displs, I64);
    for (r = 0; r < size; r++) {
        EACH (i, counts[r], in[displs[r] + i], value (r, i));
        CHECK (in[displs[r] - 1] == -1);
    }
    fill ();
    CALL (form, allgatherv, out, n, in, counts, NULL, I64);
    CHECK (in[0] == value (0, 0) && in[1] == (size > 1 ? value (1, 0) : -1));
    /* Each rank places the parts in the order of ranks from its own on. */
    for (r = 0, at = 0; r < size; r++) {
        own[(me + r) % size] = at;
        at += counts[(me + r) % size] + 2;
    }
    fill ();
    CALL (form, allgatherv_local, out, n, in, counts, own, I64);
    for (r = 0; r < size; r++) {
        EACH (i, counts[r], in[own[r] + i], value (r, i));
        CHECK (in[own[r] + counts[r]] == -1);
    }
    fill ();
    CALL (form, gatherv, out, n, me == root ? in : NULL, counts, displs, I64, root);
    for (r = 0; me == root && r < size; r++)
        EACH (i, counts[r], in[displs[r] + i], value (r, i));
    fill ();
    CALL (form, gatherv_rooted, out, n, me == root ? in : NULL, me == root ? counts : NULL, displs, I64, root);
    for (r = 0; me == root && r < size; r++)
        EACH (i, counts[r], in[displs[r] + i], value (r, i));
    fill ();
    CALL (form, scatterv, me == root ? out : NULL, counts, displs, in, n, I64, root);
    EACH (i, n, in[i], value (root, displs[me] + i));
    fill ();
    CALL (form, scatterv_rooted, out, me == root ? counts : NULL, displs, in, n, I64, root);
    EACH (i, n, in[i], value (root, displs[me] + i));
}

/* Rank r sends r + s elements to rank s. */
static void exchange (enum form form)
{
    size_t sent[64], from[64], got[64], to[64], a = 0, b = 0;
    int r;
    for (r = 0; r < size; r++) {
        sent[r] = got[r] = (size_t) (me + r);
        from[r] = a;
        to[r] = b + 2;
        a += sent[r];
        b += got[r] + 2;
    }
    CHECK (b <= (size_t) size * N + 100);
    fill ();
    CALL (form, alltoallv, out, sent, from, in, got, to, I64);
    for (r = 0; r < size; r++) {
        /* Where rank r's elements for us begin. */
        size_t start = 0;
        int s;
        for (s = 0; s < me; s++)
            start += (size_t) (r + s);
        EACH (i, got[r], in[to[r] + i], value (r, start + i));
        CHECK (in[to[r] - 1] == -1);
    }
}

/* Column s of a matrix of three rows, of size + 1 elements each, goes to rank s, which gets it as two pieces and one behind a gap. */
static void columns (enum form form)
{
    circulant_piece_t out_pieces[64], in_pieces[64][3];
    circulant_layout_t sent[64], got[64];
    const size_t word = sizeof (int64_t), row = (size_t) size + 1;
    int r, k;
    for (r = 0; r < size; r++) {
        circulant_piece_t column = { 0, 0, 3, 0 };
        column.offset = (size_t) r * word;
        column.bytes = word;
        column.stride = row * word;
        out_pieces[r] = column;
        sent[r].pieces = &out_pieces[r];
        sent[r].n = 1;
        for (k = 0; k < 2; k++) {
            /* The later one first, then two as one piece, the second of them of no bytes. */
            circulant_piece_t piece = { 0, 0, 1, 0 };
            piece.offset = ((size_t) r * 5 + (k == 0 ? 4 : 0)) * word;
            piece.bytes = word;
            piece.count = k == 0 ? 1 : 2;
            piece.stride = word;
            in_pieces[r][k] = piece;
        }
        in_pieces[r][2].offset = in_pieces[r][2].stride = 0;
        in_pieces[r][2].bytes = 0;
        in_pieces[r][2].count = 7;
        got[r].pieces = in_pieces[r];
        got[r].n = 3;
    }
    fill ();
    CALL (form, alltoallw, out, sent, in, got);
    for (r = 0; r < size; r++) {
        CHECK (in[r * 5 + 4] == value (r, (size_t) me));
        CHECK (in[r * 5] == value (r, row + (size_t) me) && in[r * 5 + 1] == value (r, 2 * row + (size_t) me));
        CHECK (in[r * 5 + 2] == -1 && in[r * 5 + 3] == -1);
    }
    /* In place what is received is sent; of a rank that gets nothing nothing is looked at. */
    for (r = 0; r < size; r++) {
        got[r].n = r == me ? 0 : 3;
        got[r].pieces = r == me ? NULL : in_pieces[r];
        EACH (i, 5, (in[r * 5 + i] = value (me, (size_t) r * 5 + i), 0), 0);
    }
    CALL (form, alltoallw, CIRCULANT_IN_PLACE, NULL, in, got);
    for (r = 0; r < size; r++) {
        int of = r == me ? me : r, at = r == me ? r : me;
        CHECK (in[r * 5 + 4] == value (of, (size_t) at * 5 + 4) && in[r * 5] == value (of, (size_t) at * 5));
        CHECK (in[r * 5 + 2] == value (me, (size_t) r * 5 + 2));
    }
}

static void reductions (enum form form)
{
    size_t counts[64], at = 0;
    int root = size / 2, r;
    fill ();
    CALL (form, reduce, out, me == root ? in : NULL, N, I64, CIRCULANT_SUM, root);
    if (me == root)
        EACH (i, N, in[i], sum (size, i));
    fill ();
    CALL (form, allreduce, out, in, N, I64, CIRCULANT_SUM);
    EACH (i, N, in[i], sum (size, i));
    CALL (form, allreduce, CIRCULANT_IN_PLACE, out, N, I64, CIRCULANT_MAX);
    EACH (i, N, out[i], value (size - 1, i));
    fill ();
    CALL (form, reduce_scatter_block, out, in, N, I64, CIRCULANT_SUM);
    EACH (i, N, in[i], sum (size, (size_t) me * N + i));
    for (r = 0; r < size; r++)
        counts[r] = (size_t) r;
    for (r = 0; r < me; r++)
        at += counts[r];
    fill ();
    CALL (form, reduce_scatter, out, in, counts, I64, CIRCULANT_SUM);
    EACH (i, counts[me], in[i], sum (size, at + i));
    CHECK (in[counts[me]] == -1);
    fill ();
    CALL (form, scan, out, in, N, I64, CIRCULANT_SUM);
    EACH (i, N, in[i], sum (me + 1, i));
    fill ();
    CALL (form, exscan, out, in, N, I64, CIRCULANT_SUM);
    EACH (i, N, in[i], me == 0 ? -1 : sum (me, i));
}

/* f(x) = a x + b, which do not commute. */
struct affine {
    int32_t a, b, calls;
};

static void compose (const void *left, void *right, size_t n, void *context)
{
    const struct affine *l = left;
    struct affine *r = right;
    size_t i;
    for (i = 0; i < n; i++) {
        /* First left, then right; small numbers, so that nothing overflows. */
        r[i].b = (r[i].a * l[i].b + r[i].b) % 10007;
        r[i].a = r[i].a * l[i].a % 10007;
        r[i].calls += *(const int *) context;
    }
}

static void operators (enum form form)
{
    struct affine mine[N], all[N], wanted;
    circulant_op_t op;
    int one = 1, r;
    size_t i;
    OK (circulant_op_create ("compose", CIRCULANT_BYTES (sizeof mine[0]), 0, compose, &one, &op));
    for (i = 0; i < N; i++) {
        mine[i].a = me + 2;
        mine[i].b = (int32_t) i + me;
        mine[i].calls = 0;
    }
    CALL (form, allreduce, mine, all, N, CIRCULANT_BYTES (sizeof mine[0]), op);
    for (i = 0; i < N; i++) {
        wanted.a = 1;
        wanted.b = 0;
        for (r = 0; r < size; r++) {
            wanted.b = ((r + 2) * wanted.b + (int32_t) i + r) % 10007;
            wanted.a = wanted.a * (r + 2) % 10007;
        }
        CHECK (all[i].a == wanted.a && all[i].b == wanted.b && (size == 1 || all[i].calls > 0));
    }
    OK (circulant_op_free (&op));
    CHECK (op == NULL);
}

/* The lowest value and where it is; of equal ones the lowest index, which may be negative. */
static void located (enum form form)
{
    struct {
        double value;
        int index;
    } mine[2], found[2];
    memset (mine, 0xff, sizeof mine);
    mine[0].value = me == 0 ? 5.0 : -1.0;
    mine[0].index = me;
    mine[1].value = 2.5;
    mine[1].index = -me;
    CALL (form, allreduce, mine, found, 2, CIRCULANT_DOUBLE_INT, CIRCULANT_MINLOC);
    CHECK (found[0].value == (size > 1 ? -1.0 : 5.0) && found[0].index == (size > 1));
    CHECK (found[1].value == 2.5 && found[1].index == 1 - size);
}

/* A persistent operation takes what stands in its buffer when it is started, also in memory that is not registered. */
static void again (int64_t *mine, int64_t *all)
{
    circulant_request_t *request = NULL;
    int finished = 0, turn;
    OK (circulant_allreduce_init (comm, mine, all, N, I64, CIRCULANT_SUM, &request));
    OK (circulant_test (&request, &finished));
    CHECK (finished && request != NULL);
    for (turn = 1; turn <= 3; turn++) {
        EACH (i, N, (mine[i] = turn * value (me, i), all[i] = -1), -1);
        OK (circulant_start (request));
        OK (circulant_wait (&request));
        EACH (i, N, all[i], turn * sum (size, i));
    }
    OK (circulant_request_free (&request));
}

static void several (void)
{
    circulant_request_t *requests[3] = { NULL, NULL, NULL };
    double mine[4] = { 0.5, 0.5, 0.5, 0.5 }, all[4];
    unsigned char bytes[12] = { 1 };
    OK (circulant_iallreduce (comm, mine, all, 4, CIRCULANT_DOUBLE, CIRCULANT_SUM, &requests[0]));
    OK (circulant_ibarrier (comm, &requests[1]));
    /* Seven bytes that are aligned to nothing. */
    memset (bytes, me, sizeof bytes);
    OK (circulant_ibcast (comm, bytes + 1, 7, CIRCULANT_BYTE, size - 1, &requests[2]));
    OK (circulant_waitall (3, requests));
    CHECK (all[3] == 0.5 * size && bytes[0] == me && bytes[7] == size - 1 && bytes[8] == me);
    CHECK (!requests[0] && !requests[1] && !requests[2]);
    OK (circulant_barrier_init (comm, &requests[0]));
    OK (circulant_start (requests[0]));
    OK (circulant_wait (&requests[0]));
    OK (circulant_request_free (&requests[0]));
}

/* Of several one after the other, and all or none. */
static void any_of_them (void)
{
    circulant_request_t *requests[4] = { NULL, NULL, NULL, NULL };
    int64_t word = me;
    size_t index = 9;
    int finished = 0, seen = 0, i;
    OK (circulant_waitany (4, requests, &index));
    CHECK (index == 4);
    OK (circulant_testall (4, requests, &finished));
    CHECK (finished == 1);
    OK (circulant_testall (0, NULL, &finished));
    OK (circulant_ibarrier (comm, &requests[1]));
    OK (circulant_barrier_init (comm, &requests[2]));
    OK (circulant_ibcast (comm, &word, 1, I64, size - 1, &requests[3]));
    for (i = 0; i < 2; i++) {
        OK (circulant_waitany (4, requests, &index));
        CHECK ((index == 1 || index == 3) && requests[index] == NULL);
        seen |= 1 << index;
    }
    CHECK (seen == (1 << 1 | 1 << 3) && word == size - 1);
    /* The one that is left was not started. */
    OK (circulant_waitany (4, requests, &index));
    CHECK (index == 4 && requests[2] != NULL);
    OK (circulant_start (requests[2]));
    OK (circulant_waitany (4, requests, &index));
    CHECK (index == 2 && requests[2] != NULL);
    OK (circulant_start (requests[2]));
    OK (circulant_ibarrier (comm, &requests[0]));
    for (finished = 0; !finished;) {
        OK (circulant_testall (4, requests, &finished));
        CHECK (finished == (requests[0] == NULL) && requests[2] != NULL);
    }
    OK (circulant_request_free (&requests[2]));
}

/* The last rank comes late: until then the others ask in vain. */
static void end (circulant_world_t *world)
{
    circulant_finalizing_t *ending = NULL;
    circulant_world_t *gone = world;
    int finished = 0, last = me == size - 1;
    size_t asked = 0;
    if (last)
        nanosleep (&(struct timespec) { 0, 50000000 }, NULL);
    if (last) {
        OK (circulant_finalize (&gone));
    } else {
        OK (circulant_finalize_start (&gone, &ending));
        while (!finished) {
            CHECK (ending != NULL);
            OK (circulant_finalize_test (&ending, &finished));
            asked++;
        }
        CHECK (asked > 1);
    }
    CHECK (gone == NULL && ending == NULL);
    /* What is not there has ended. */
    OK (circulant_finalize_start (&gone, &ending));
    OK (circulant_finalize_test (&ending, &finished));
    CHECK (finished == 1);
}

static void all_of (circulant_world_t *world)
{
    void *memory[2];
    int form;
    OK (circulant_world_comm (world, &comm));
    OK (circulant_comm_rank (comm, &me));
    OK (circulant_comm_size (comm, &size));
    OK (circulant_barrier (comm));
    CHECK (size <= 64 && (out = malloc (((size_t) size * N + 100) * sizeof *out)) != NULL);
    CHECK ((in = malloc (((size_t) size * N + 100) * sizeof *in)) != NULL);
    for (form = BLOCKING; form <= PERSISTENT; form++) {
        moves ((enum form) form);
        parts ((enum form) form);
        exchange ((enum form) form);
        columns ((enum form) form);
        reductions ((enum form) form);
        operators ((enum form) form);
        located ((enum form) form);
    }
    again (out, in);
    OK (circulant_alloc (comm, N * sizeof *out, &memory[0]));
    OK (circulant_alloc (comm, N * sizeof *out, &memory[1]));
    again (memory[0], memory[1]);
    OK (circulant_free (&memory[0]));
    OK (circulant_free (&memory[1]));
    CHECK (memory[0] == NULL);
    several ();
    any_of_them ();
    free (out);
    free (in);
    OK (circulant_comm_free (&comm));
    CHECK (comm == NULL);
    end (world);
}

int main (int argc, char **argv)
{
    return run (argc, argv, all_of);
}
