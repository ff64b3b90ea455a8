/* What is legal and rare: in place at some ranks only, nothing to send with null pointers, buffers at odd addresses, MPI_BOTTOM,
 * displacements of each rank's own, communicators of one rank and in another order, every operator on every type. All compared with
 * the MPI's own. */
#include "suite.h"

enum { BYTES = 1 << 16 };
static unsigned char *input, *ours, *theirs;

static void fill(int seed)
{
    for (int i = 0; i < BYTES; i++) {
        input[i] = (unsigned char)((i * 7 + seed * 13 + suite_rank * 5) & 0x1f);
        ours[i] = theirs[i] = (unsigned char)(0xa0 | (i & 15));
    }
}

static void compare(const char *what)
{
    for (int i = 0; i < BYTES; i++)
        if (ours[i] != theirs[i]) {
            wrong("%s: byte %d is %#x, not %#x", what, i, ours[i], theirs[i]);
            return;
        }
}

#define BOTH(what, call)                                                                                                         \
    do {                                                                                                                         \
        unsigned char *to = ours;                                                                                                \
        (void)to;                                                                                                                \
        MPI_##call;                                                                                                              \
        to = theirs;                                                                                                             \
        REAL_##call;                                                                                                             \
        compare(what);                                                                                                           \
    } while (0)
#define REAL_Allreduce REAL(MPI_Allreduce)
#define REAL_Reduce REAL(MPI_Reduce)
#define REAL_Scan REAL(MPI_Scan)
#define REAL_Exscan REAL(MPI_Exscan)
#define REAL_Allgather REAL(MPI_Allgather)
#define REAL_Allgatherv REAL(MPI_Allgatherv)
#define REAL_Alltoall REAL(MPI_Alltoall)
#define REAL_Alltoallv REAL(MPI_Alltoallv)
#define REAL_Alltoallw REAL(MPI_Alltoallw)
#define REAL_Gather REAL(MPI_Gather)
#define REAL_Gatherv REAL(MPI_Gatherv)
#define REAL_Scatter REAL(MPI_Scatter)
#define REAL_Scatterv REAL(MPI_Scatterv)
#define REAL_Bcast REAL(MPI_Bcast)
#define REAL_Reduce_scatter REAL(MPI_Reduce_scatter)
#define REAL_Reduce_scatter_block REAL(MPI_Reduce_scatter_block)

static void in_place(MPI_Comm comm)
{
    int p, r, n = 37;
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &r);
    int counts[p], places[p];
    MPI_Datatype types[p];
    for (int i = 0; i < p; i++) {
        counts[i] = 3 + i % 4;
        places[i] = 8 * i;
        types[i] = MPI_INT;
    }
    for (int root = 0; root < p; root++) {
        int here = r == root;
        fill(1);
        BOTH("reduce in place", Reduce(here ? MPI_IN_PLACE : input, here ? to : NULL, n, MPI_INT, MPI_SUM, root, comm));
        fill(2);
        BOTH("gather in place", Gather(here ? MPI_IN_PLACE : input, 5, MPI_INT, here ? to : NULL, 5, MPI_INT, root, comm));
        fill(3);
        BOTH("gatherv in place", Gatherv(here ? MPI_IN_PLACE : input, counts[r], MPI_INT, here ? to : NULL, counts, places, MPI_INT, root, comm));
        fill(4);
        BOTH("scatter in place", Scatter(here ? input : NULL, 5, MPI_INT, here ? MPI_IN_PLACE : to, 5, MPI_INT, root, comm));
        fill(5);
        BOTH("scatterv in place", Scatterv(here ? input : NULL, counts, places, MPI_INT, here ? MPI_IN_PLACE : to, counts[r], MPI_INT, root, comm));
    }
    fill(6);
    BOTH("allreduce in place", Allreduce(MPI_IN_PLACE, to, n, MPI_INT, MPI_BXOR, comm));
    fill(7);
    BOTH("allgather in place", Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, 7, MPI_SHORT, comm));
    fill(8);
    BOTH("allgatherv in place", Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, counts, places, MPI_INT, comm));
    fill(9);
    BOTH("alltoall in place", Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, 6, MPI_INT, comm));
    for (int i = 0; i < p; i++)
        counts[i] = 1 + (r + i) % 5; /* in place both directions are equal */
    fill(10);
    BOTH("alltoallv in place", Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, to, counts, places, MPI_INT, comm));
    for (int i = 0; i < p; i++)
        places[i] = 64 * i;
    fill(11);
    BOTH("alltoallw in place", Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, to, counts, places, types, comm));
    for (int i = 0; i < p; i++)
        counts[i] = 2 + i;
    fill(12);
    MPI_Reduce_scatter(MPI_IN_PLACE, ours, counts, MPI_INT, MPI_SUM, comm);
    REAL(MPI_Reduce_scatter)(MPI_IN_PLACE, theirs, counts, MPI_INT, MPI_SUM, comm);
    if (memcmp(ours, theirs, sizeof(int) * (size_t)counts[r])) /* what is behind the result is not said */
        wrong("reduce_scatter in place differs");

    /* each rank as it likes */
    int mine = r % 2;
    fill(13);
    if (mine) {
        memcpy(ours, input, BYTES);
        memcpy(theirs, input, BYTES);
    }
    BOTH("scan in place at odd ranks", Scan(mine ? MPI_IN_PLACE : input, to, n, MPI_INT, MPI_SUM, comm));
    fill(14);
    if (mine) {
        memcpy(ours, input, BYTES);
        memcpy(theirs, input, BYTES);
    }
    MPI_Exscan(mine ? MPI_IN_PLACE : input, ours, n, MPI_INT, MPI_SUM, comm);
    REAL(MPI_Exscan)(mine ? MPI_IN_PLACE : input, theirs, n, MPI_INT, MPI_SUM, comm);
    if (r)
        compare("exscan in place at odd ranks");
}

static void displacements(MPI_Comm comm)
{
    int p, r;
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &r);
    int counts[p], places[p];
    for (int i = 0; i < p; i++) {
        counts[i] = (i * 5) % 7;
        places[i] = 10 * ((i + r) % p) + r; /* of this rank alone */
    }
    fill(20);
    BOTH("allgatherv, own displacements", Allgatherv(input, counts[r], MPI_INT, to, counts, places, MPI_INT, comm));
    fill(21); /* displacements below the buffer's begin */
    for (int i = 0; i < p; i++)
        places[i] = -10 * (i + 1);
    BOTH("allgatherv, negative displacements",
         Allgatherv(input, counts[r], MPI_INT, to + 40 * (p + 1), counts, places, MPI_INT, comm));
    fill(22);
    BOTH("gatherv, negative displacements",
         Gatherv(input, counts[r], MPI_INT, to + 40 * (p + 1), counts, places, MPI_INT, p - 1, comm));
}

static void nothing(MPI_Comm comm)
{
    int p, r;
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &r);
    int zeros[p], one[p];
    for (int i = 0; i < p; i++) {
        zeros[i] = 0;
        one[i] = i == 0;
    }
    fill(30);
    BOTH("bcast of nothing", Bcast(NULL, 0, MPI_INT, 0, comm));
    BOTH("allreduce of nothing", Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, comm));
    BOTH("allgather of nothing", Allgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm));
    BOTH("alltoallv of nothing", Alltoallv(input, zeros, zeros, MPI_INT, NULL, zeros, zeros, MPI_INT, comm));
    BOTH("allgatherv of rank 0's", Allgatherv(r ? NULL : input, r ? 0 : 1, MPI_INT, to, one, zeros, MPI_INT, comm));
    BOTH("reduce_scatter to rank 0", Reduce_scatter(input, r ? NULL : to, one, MPI_INT, MPI_SUM, comm));
    MPI_Datatype empty;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    BOTH("bcast of an empty type", Bcast(NULL, 3, empty, 0, comm));
    MPI_Type_free(&empty);
}

static void addresses(MPI_Comm comm)
{
    int p, r;
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &r);
    fill(40);
    BOTH("allreduce at odd addresses", Allreduce(input + 1, to + 3, 55, MPI_DOUBLE, MPI_MAX, comm));
    fill(41);
    BOTH("allgather at odd addresses", Allgather(input + 1, 5, MPI_DOUBLE, to + 3, 5, MPI_DOUBLE, comm));
    fill(42);
    unsigned char *both[2] = {ours, theirs};
    for (int k = 0; k < 2; k++) { /* absolute addresses; rank 0's type covers one part, the others' two */
        MPI_Aint at[2];
        MPI_Datatype absolute;
        int lengths[2] = {6, r ? 10 : 0};
        if (!r)
            lengths[0] = 16;
        if (!r)
            memcpy(both[k] + 64, input, sizeof(int[16]));
        MPI_Get_address(both[k] + 64, &at[0]);
        MPI_Get_address(both[k] + 4096, &at[1]);
        MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &absolute);
        MPI_Type_commit(&absolute);
        if (k == 0)
            MPI_Bcast(MPI_BOTTOM, 1, absolute, 0, comm);
        else
            REAL(MPI_Bcast)(MPI_BOTTOM, 1, absolute, 0, comm);
        MPI_Type_free(&absolute);
    }
    compare("bcast of absolute addresses");
}

/* What an operator is defined for; what else an MPI takes is its own affair. */
static void operators(MPI_Comm comm)
{
    const MPI_Datatype integers[] = {MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT, MPI_UNSIGNED, MPI_LONG,
                                     MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_UINT16_T, MPI_INT32_T,
                                     MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT};
    const MPI_Datatype floats[] = {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE};
    const MPI_Datatype pairs[] = {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT};
    const MPI_Op arithmetic[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
    const MPI_Op logic[] = {MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    const MPI_Op places[] = {MPI_MINLOC, MPI_MAXLOC};
    char title[80];
    int n = 24;
    for (unsigned t = 0; t < sizeof integers / sizeof *integers; t++)
        for (unsigned o = 0; o < 10; o++) {
            MPI_Op op = o < 4 ? arithmetic[o] : logic[o - 4];
            if (t >= 17 && o >= 4 && o < 7) /* no logic on addresses, offsets and counts */
                continue;
            snprintf(title, sizeof title, "allreduce, integer type %u, operator %u", t, o);
            fill(50 + (int)o);
            BOTH(title, Allreduce(input, to, n, integers[t], op, comm));
        }
    for (unsigned o = 0; o < 4; o++) { /* no NaN: exponents of these bytes are small; sums of two orders may differ, so whole numbers */
        float f[24];
        double d[24], mine, theirs_d;
        long double l[24];
        for (int i = 0; i < n; i++)
            d[i] = f[i] = (float)(l[i] = (i + suite_rank) % 3 + 1);
        const void *from[] = {f, d, l};
        for (unsigned t = 0; t < 3; t++) {
            long double a[24], b[24]; /* padding bytes may differ: values are compared */
            MPI_Allreduce(from[t], a, n, floats[t], arithmetic[o], comm);
            REAL(MPI_Allreduce)(from[t], b, n, floats[t], arithmetic[o], comm);
            for (int i = 0; i < n; i++) {
                mine = t == 0 ? ((float *)a)[i] : t == 1 ? ((double *)a)[i] : (double)a[i];
                theirs_d = t == 0 ? ((float *)b)[i] : t == 1 ? ((double *)b)[i] : (double)b[i];
                if (mine != theirs_d)
                    wrong("floating type %u, operator %u: element %d is %g, not %g", t, o, i, mine, theirs_d);
            }
        }
    }
    for (unsigned t = 0; t < 6; t++)
        for (unsigned o = 0; o < 2; o++) {
            snprintf(title, sizeof title, "pair type %u, operator %u", t, o);
            fill(70);
            if (t == 5) /* of a long double some bytes are no value */
                for (int i = 0; i < n; i++) {
                    struct {
                        long double value;
                        int place;
                    } pair;
                    memset(&pair, 0, sizeof pair);
                    pair.value = (i * 3 + suite_rank) % 4;
                    pair.place = suite_rank - 1;
                    memcpy(input + i * (int)sizeof pair, &pair, sizeof pair);
                }
            MPI_Aint lower, extent;
            MPI_Type_get_extent(pairs[t], &lower, &extent);
            MPI_Allreduce(input, ours, n, pairs[t], places[o], comm);
            REAL(MPI_Allreduce)(input, theirs, n, pairs[t], places[o], comm);
            int value[] = {4, 8, 8, 4, 2, 10}, place[] = {4, 8, 8, 4, 4, 16};
            for (int i = 0; i < n; i++) { /* without the padding */
                long at = i * (long)extent;
                if (memcmp(ours + at, theirs + at, (size_t)value[t]) || memcmp(ours + at + place[t], theirs + at + place[t], 4)) {
                    wrong("%s: element %d differs", title, i);
                    break;
                }
            }
        }
}

int main(int argc, char **argv)
{
    MPI_Comm reversed, half, same;
    suite_begin(&argc, &argv, MPI_THREAD_SINGLE);
    input = malloc(BYTES);
    ours = malloc(BYTES);
    theirs = malloc(BYTES);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -suite_rank, &reversed);
    MPI_Comm_split(MPI_COMM_WORLD, suite_rank % 2, 0, &half);
    MPI_Comm_dup(MPI_COMM_WORLD, &same);
    MPI_Comm all[] = {MPI_COMM_WORLD, reversed, half, MPI_COMM_SELF, same};
    for (int i = 0; i < 5; i++) {
        in_place(all[i]);
        displacements(all[i]);
        nothing(all[i]);
        addresses(all[i]);
    }
    operators(MPI_COMM_WORLD);
    operators(reversed);
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&half);
    MPI_Comm_free(&same);
    return suite_end();
}
