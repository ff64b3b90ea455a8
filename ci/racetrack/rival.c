/* `circulant bench` for MPI libraries: the same operations, sizes, distributions and protocol, by plain MPI calls.
 *
 *     rival OP,… [--bytes LIST] [--dist LIST] [--reps N] [--time S] [--calls N] [--root R] [--cold=BYTES] [--fresh] [--warm N] [--rest S [--one-clock]] [--check]
 *
 * For every repetition all ranks rest for S seconds and pass a barrier and, with --one-clock, end a second rest at one time, which rank 0 tells; then
 * each times the operation, and the slowest one counts; with --calls N each calls it so many times in a row, and times are those of one call. Lines of CSV on
 * rank 0 as from `circulant bench --format csv`, without the label. What a size means for an operation is told by
 * `circulant bench --help`; sizes here are multiples of 4. Names of distributions that do not fit an operation are
 * passed over. --warm: untimed repetitions ahead of the first two, which are not timed either; for libraries that try. --check compares every result once with what it must be, outside the timing; exit code 3 if wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIST = 64 };

static int rank, size, root, checks;
static long most_reps = 35, warm, calls = 1;
static double seconds = 1;
static double idle;             /* seconds for which every rank does nothing before a repetition, twice with one_clock */
static int one_clock;           /* all ranks end a second rest at one time, which rank 0 tells */
static size_t cold;             /* bytes of other memory that each rank reads before a repetition */
static int fresh;               /* each rank writes its buffers before a repetition */

/* Everything about one point, in ints. */
struct job {
    MPI_Comm comm;              /* of both groups, if there are two */
    int two, mine, first;       /* two groups; which one is ours; how many ranks the first one has */
    int block, total;           /* of each rank; of a vector */
    int *sends, *from;          /* counts and displacements of what we send, by rank */
    int *gets, *to;             /* and of what we receive */
    int *from_bytes, *to_bytes;
    MPI_Datatype *types;
    int *out, *in;
    int outs, ins;              /* ints of these */
};

static void fail(const char *text, const char *what)
{
    if (rank == 0) fprintf(stderr, "rival: %s %s\n", text, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static void *room(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 4096, bytes + 64)) fail("memory:", "there is not enough");
    memset(p, 0, bytes + 64);
    return p;
}

static int *ints(int n) { return room(sizeof(int) * (size_t)n); }

static int sum(const int *n, int k)
{
    long all = 0;
    for (int i = 0; i < k; i++) all += n[i];
    if (all > 500000000) fail("sizes:", "too much for this program");
    return (int)all;
}

static void displace(const int *counts, int *displacements, int k)
{
    for (int i = 0; i < k; i++) displacements[i] = i ? displacements[i - 1] + counts[i - 1] : 0;
}

/* --- how much each rank has --------------------------------------------------------------------------------------- */

static const char *DISTRIBUTIONS[] = { "regular", "broadcast", "spike", "half", "linear", "geometric", "irr3" };
static const char *SETTINGS[] = { "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8" };

static double weight(const char *dist, int i, int p)
{
    int level = 0;
    if (!strcmp(dist, "broadcast")) return i == 0;
    if (!strcmp(dist, "spike")) return i == 0 ? 0.5 : 0.5 / (p - 1);
    if (!strcmp(dist, "half")) return i % 2 == 0;
    if (!strcmp(dist, "linear")) return p - 1 - i;
    if (!strcmp(dist, "irr3")) return i % 3;
    if (strcmp(dist, "geometric")) return 1;
    while ((i + 1) >> (level + 1)) level++;
    return 1.0 / (double)(1L << level);
}

/* Of `total`, cut down to whole ints; the rest to the last rank with a share, for irr3 to the last rank. */
static void distribute(const char *dist, int total, int p, int *counts)
{
    double all = 0;
    int last = 0, rest = total;
    for (int i = 0; i < p; i++) all += weight(dist, i, p);
    for (int i = 0; i < p; i++) {
        double w = all > 0 ? weight(dist, i, p) / all : i == p - 1;
        counts[i] = (int)(total * w);
        rest -= counts[i];
        if (w > 0) last = i;
    }
    counts[strcmp(dist, "irr3") ? last : p - 1] += rest;
}

/* Two groups by setting s1 to s8: contributions of both, in the order of the ranks; gives the size of the first. */
static int groups(int setting, int most, int *counts)
{
    int halves = setting == 1 || setting == 5 || setting == 6, rising = setting == 6 || setting == 8;
    int first = halves ? size / 2 : (size * 25 + 16) / 32;
    if (first < 1) first = 1;
    if (first > size - 1) first = size - 1;
    for (int r = 0; r < size; r++) {
        int group = r >= first, k = group ? size - first : first, i = group ? r - first : r;
        int n = most / ((setting == 3 && group) || (setting == 4 && !group) ? 4 : 1);
        if (n < 1) n = most > 0;
        counts[r] = rising ? (int)((long)n * (i + 1) / k) : n;
    }
    return first;
}

/* --- operations --------------------------------------------------------------------------------------------- */

#define V j->out, j->sends, j->from, MPI_INT
static void bcast(struct job *j) { MPI_Bcast(j->in, j->total, MPI_INT, root, j->comm); }
static void allgather(struct job *j) { MPI_Allgather(j->out, j->sends[0], MPI_INT, j->in, j->gets[0], MPI_INT, j->comm); }
static void allgatherv(struct job *j)
{
    MPI_Allgatherv(j->out, j->sends[0], MPI_INT, j->in, j->gets, j->to, MPI_INT, j->comm);
}
static void gather(struct job *j) { MPI_Gather(j->out, j->block, MPI_INT, j->in, j->block, MPI_INT, root, j->comm); }
static void gatherv(struct job *j)
{
    MPI_Gatherv(j->out, j->sends[0], MPI_INT, j->in, j->gets, j->to, MPI_INT, root, j->comm);
}
static void scatter(struct job *j) { MPI_Scatter(j->out, j->block, MPI_INT, j->in, j->block, MPI_INT, root, j->comm); }
static void scatterv(struct job *j) { MPI_Scatterv(V, j->in, j->sends[rank], MPI_INT, root, j->comm); }
static void alltoall(struct job *j) { MPI_Alltoall(j->out, j->block, MPI_INT, j->in, j->block, MPI_INT, j->comm); }
static void alltoallv(struct job *j) { MPI_Alltoallv(V, j->in, j->gets, j->to, MPI_INT, j->comm); }
static void alltoallw(struct job *j)
{
    MPI_Alltoallw(j->out, j->sends, j->from_bytes, j->types, j->in, j->gets, j->to_bytes, j->types, j->comm);
}
static void reduce(struct job *j) { MPI_Reduce(j->out, j->in, j->total, MPI_INT, MPI_SUM, root, j->comm); }
static void allreduce(struct job *j) { MPI_Allreduce(j->out, j->in, j->total, MPI_INT, MPI_SUM, j->comm); }
static void reduce_scatter(struct job *j) { MPI_Reduce_scatter(j->out, j->in, j->sends, MPI_INT, MPI_SUM, j->comm); }
static void reduce_scatter_block(struct job *j)
{
    MPI_Reduce_scatter_block(j->out, j->in, j->block, MPI_INT, MPI_SUM, j->comm);
}
static void scan(struct job *j) { MPI_Scan(j->out, j->in, j->total, MPI_INT, MPI_SUM, j->comm); }
static void exscan(struct job *j) { MPI_Exscan(j->out, j->in, j->total, MPI_INT, MPI_SUM, j->comm); }
static void barrier(struct job *j) { MPI_Barrier(j->comm); }
static void inter_bcast(struct job *j)
{
    int home = (root < j->first) == (rank < j->first), there = root < j->first ? root : root - j->first;
    MPI_Bcast(j->in, j->total, MPI_INT, !home ? there : rank == root ? MPI_ROOT : MPI_PROC_NULL, j->comm);
}
static void pingpong(struct job *j)
{
    if (rank > 1) return;
    if (rank == 0) MPI_Send(j->out, j->total, MPI_INT, 1, 7, j->comm);
    MPI_Recv(j->in, j->total, MPI_INT, 1 - rank, 7, j->comm, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(j->in, j->total, MPI_INT, 0, 7, j->comm);
}

/* What an operation does with the contributions. */
enum kind { VECTOR, GATHER, SCATTER, TOTAL_EXCHANGE, FOLD, FOLD_PIECE, NOTHING, BETWEEN };
enum spread { NONE, REGULAR_UNLESS_ASKED, ALL, EVEN_SETTINGS, UNEVEN_SETTINGS };

static const struct operation {
    const char *name;
    void (*run)(struct job *);
    enum kind kind;
    enum spread spread;
    int rooted;
} OPERATIONS[] = {
    { "bcast", bcast, VECTOR, NONE, 0 },
    { "allgatherv", allgatherv, GATHER, ALL, 0 },
    { "allgather", allgather, GATHER, NONE, 0 },
    { "gather", gather, GATHER, NONE, 1 },
    { "gatherv", gatherv, GATHER, ALL, 1 },
    { "scatter", scatter, SCATTER, NONE, 0 },
    { "scatterv", scatterv, SCATTER, ALL, 0 },
    { "alltoall", alltoall, TOTAL_EXCHANGE, NONE, 0 },
    { "alltoallv", alltoallv, TOTAL_EXCHANGE, ALL, 0 },
    { "alltoallw", alltoallw, TOTAL_EXCHANGE, ALL, 0 },
    { "reduce", reduce, FOLD, NONE, 1 },
    { "allreduce", allreduce, FOLD, NONE, 0 },
    { "reduce_scatter", reduce_scatter, FOLD_PIECE, REGULAR_UNLESS_ASKED, 0 },
    { "reduce_scatter_block", reduce_scatter_block, FOLD_PIECE, NONE, 0 },
    { "scan", scan, FOLD, NONE, 0 },
    { "exscan", exscan, FOLD, NONE, 0 },
    { "barrier", barrier, NOTHING, NONE, 0 },
    { "inter_allgather", allgather, BETWEEN, EVEN_SETTINGS, 0 },
    { "inter_allgatherv", allgatherv, BETWEEN, UNEVEN_SETTINGS, 0 },
    { "inter_bcast", inter_bcast, VECTOR, NONE, 0 },
    { "inter_barrier", barrier, NOTHING, NONE, 0 },
    { "pingpong", pingpong, VECTOR, NONE, 0 },
};
enum { KNOWN = sizeof OPERATIONS / sizeof *OPERATIONS };

/* --- one point ---------------------------------------------------------------------------------------------- */

/* Int `i` of what rank `owner` contributes. */
static int value(int owner, long i)
{
    unsigned x = (unsigned)(owner + 1) * 2654435761u ^ (unsigned)i * 2246822519u;
    return (int)(x ^ x >> 15);
}

static int *in_bytes(const int *n)
{
    int *bytes = ints(size);
    for (int i = 0; i < size; i++) bytes[i] = 4 * n[i];
    return bytes;
}

static void two_groups(struct job *j)
{
    MPI_Comm own;
    j->two = 1;
    j->mine = rank >= j->first;
    MPI_Comm_split(MPI_COMM_WORLD, j->mine, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, j->mine ? 0 : j->first, 5, &j->comm);
    MPI_Comm_free(&own);
}

/* Counts of an operation that is neither a vector nor between groups. */
static void shape(struct job *j, const struct operation *o, const char *dist, int total)
{
    int *shares = ints(size);
    j->block = total > 0 && total / size < 1 ? 1 : total / size;
    for (int r = 0; r < size; r++) shares[r] = j->block;
    if (o->spread != NONE) distribute(dist, total, size, shares);
    for (int r = 0; r < size; r++) {
        j->gets[r] = o->kind == TOTAL_EXCHANGE ? shares[(rank + size - r) % size] : shares[r];
        j->sends[r] = o->kind == TOTAL_EXCHANGE ? shares[(r + size - rank) % size] : shares[r];
    }
    if (o->kind == GATHER) j->sends[0] = shares[rank];
    free(shares);
}

static void set_up(struct job *j, const struct operation *o, const char *dist, int total)
{
    int outs = total, ins = total;
    *j = (struct job){ .comm = MPI_COMM_WORLD, .total = total, .sends = ints(size), .from = ints(size),
                       .gets = ints(size), .to = ints(size), .types = room(sizeof(MPI_Datatype) * (size_t)size) };
    if (o->kind == BETWEEN) {
        int *counts = ints(size);
        j->first = groups(dist[1] - '0', total, counts);
        two_groups(j);
        j->sends[0] = outs = counts[rank];
        ins = j->mine ? j->first : size - j->first;
        memcpy(j->gets, counts + (j->mine ? 0 : j->first), sizeof(int) * (size_t)ins);
        displace(j->gets, j->to, ins);
        ins = sum(j->gets, ins);
        free(counts);
    } else if (!strncmp(o->name, "inter_", 6)) {
        j->first = size / 2;
        two_groups(j);
    } else if (o->kind == GATHER || o->kind == SCATTER || o->kind == TOTAL_EXCHANGE || o->kind == FOLD_PIECE) {
        shape(j, o, dist, total);
        displace(j->sends, j->from, size);
        displace(j->gets, j->to, size);
        outs = o->kind == GATHER ? j->sends[0] : sum(j->sends, size);
        ins = o->kind == SCATTER || o->kind == FOLD_PIECE ? j->sends[rank] : sum(j->gets, size);
    }
    j->from_bytes = in_bytes(j->from);
    j->to_bytes = in_bytes(j->to);
    for (int r = 0; r < size; r++) j->types[r] = MPI_INT;
    j->outs = outs;
    j->ins = ins;
    j->out = ints(outs);
    j->in = ints(ins);
    for (int i = 0; i < outs; i++) j->out[i] = value(rank, i);
    if (o->kind == VECTOR && rank == root) memcpy(j->in, j->out, sizeof(int) * (size_t)outs);
}

static void tear_down(struct job *j)
{
    void *all[] = { j->sends, j->from, j->gets, j->to, j->types, j->from_bytes, j->to_bytes, j->out, j->in };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    if (j->two) MPI_Comm_free(&j->comm);
}

/* Ints of `in` from `at` on that are not those of `owner`'s contribution from `from` on. */
static long differ(const struct job *j, int at, int n, int owner, long from)
{
    long wrong = 0;
    for (int i = 0; i < n; i++) wrong += j->in[at + i] != value(owner, from + i);
    return wrong;
}

/* Ints of `in` that are not the sum of the contributions of `ranks` ranks from int `from` on. */
static long misadded(const struct job *j, int n, int ranks, int from)
{
    long wrong = 0;
    for (int i = 0; i < n; i++) {
        unsigned all = 0;
        for (int r = 0; r < ranks; r++) all += (unsigned)value(r, from + i);
        wrong += (unsigned)j->in[i] != all;
    }
    return wrong;
}

static long wrong_ints(struct job *j, const struct operation *o)
{
    long wrong = 0;
    switch (o->kind) {
    case VECTOR:
        if (j->two && (rank < j->first) == (root < j->first)) return 0;
        if (!strcmp(o->name, "pingpong")) return rank > 1 ? 0 : differ(j, 0, j->total, 0, 0);
        return differ(j, 0, j->total, root, 0);
    case BETWEEN:
        for (int r = 0; r < (j->mine ? j->first : size - j->first); r++)
            wrong += differ(j, j->to[r], j->gets[r], j->mine ? r : j->first + r, 0);
        return wrong;
    case GATHER:
        for (int r = 0; r < size && !(o->rooted && rank != root); r++) wrong += differ(j, j->to[r], j->gets[r], r, 0);
        return wrong;
    case SCATTER:
        return differ(j, 0, j->sends[rank], root, j->from[rank]);
    case TOTAL_EXCHANGE:
        /* what r sends begins with its blocks for ranks 0, 1, …; block r → t is as long as ours → t − r + us */
        for (int r = 0; r < size; r++) {
            long from = 0;
            for (int t = 0; t < rank; t++) from += j->sends[(t + rank + size - r) % size];
            wrong += differ(j, j->to[r], j->gets[r], r, from);
        }
        return wrong;
    case FOLD:
        if (o->rooted && rank != root) return 0;
        if (!strcmp(o->name, "exscan")) return rank ? misadded(j, j->total, rank, 0) : 0;
        return misadded(j, j->total, !strcmp(o->name, "scan") ? rank + 1 : size, 0);
    case FOLD_PIECE:
        return misadded(j, j->sends[rank], size, j->from[rank]);
    case NOTHING:
        return 0;
    }
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* one clock for all processes of a machine */
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* Reads more than the caches hold, as circulant bench --cold does. */
static void sweep(void)
{
    static volatile unsigned long *words;
    unsigned long all = 0;
    if (!words && cold) {
        words = room(cold);
        for (size_t i = 0; i < cold / sizeof *words; i++) words[i] = 1;
    }
    for (size_t i = 0; i < cold / sizeof *words; i += 8) all ^= words[i];
    (void)all;
}

/* Writes to each cache line, as circulant bench --fresh does. */
static void write_lines(volatile int *words, int n)
{
    for (int i = 0; i < n; i += 16) words[i] = words[i];
}

/* Does nothing for a while. */
static void rest(double length)
{
    struct timespec t = { (time_t)length, (long)(1e9 * (length - (double)(time_t)length)) };
    if (length > 0) nanosleep(&t, NULL);
}

/* Rests and passes a barrier, as circulant bench --rest and --one-clock do. */
static void begin(void)
{
    rest(idle);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!one_clock) return;
    double at = now() + 1e6 * idle;
    MPI_Bcast(&at, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    rest(1e-6 * (at - now()));
}

/* What is ahead of each repetition. */
static void set_out(struct job *j)
{
    if (fresh) {
        write_lines(j->out, j->outs);
        write_lines(j->in, j->ins);
    }
    sweep();
    begin();
}

/* A repetition. */
static void repeat(struct job *j, const struct operation *o)
{
    for (long i = 0; i < calls; i++) o->run(j);
}

/* Untimed runs, one or two if no more are asked for; how many repetitions fit into the time. */
static long warm_up(struct job *j, const struct operation *o)
{
    double slowest = 0;
    for (long i = 0; i < warm; i++) {
        set_out(j);
        repeat(j, o);
    }
    for (int i = 0; i < 2 && slowest < 1e6 * seconds / 16; i++) {
        set_out(j);
        double start = now();
        repeat(j, o);
        slowest = now() - start;
        MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    double fit = 1e6 * seconds / (slowest + 1);
    if (fit < 3) fit = 3;
    return fit < (double)most_reps ? (long)fit : most_reps;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const struct operation *o, const char *dist, long bytes, const double *all, long reps)
{
    double *slowest = room(sizeof(double) * (size_t)reps), *spans = room(sizeof(double) * (size_t)reps);
    for (long i = 0; i < reps; i++) {
        double first = 1e300, last = 0;
        for (int r = 0; r < size; r++) {
            const double *t = all + 2 * (r * reps + i);
            if (t[1] - t[0] > slowest[i]) slowest[i] = t[1] - t[0];
            if (t[0] < first) first = t[0];
            if (t[1] > last) last = t[1];
        }
        slowest[i] /= (double)calls;
        spans[i] = (last - first) / (double)calls;
    }
    qsort(slowest, (size_t)reps, sizeof *slowest, ascending);
    qsort(spans, (size_t)reps, sizeof *spans, ascending);
    printf("%s,%s,%d,%ld,%.3f,%.3f,%.3f,%ld,%.3f\n", o->name, dist, size, bytes, slowest[0], slowest[reps / 2], spans[0], reps,
           spans[reps / 2]);
    fflush(stdout);
    free(slowest);
    free(spans);
}

static long measure(const struct operation *o, const char *dist, long bytes)
{
    struct job j;
    long wrong = 0;
    set_up(&j, o, dist, (int)(bytes / 4));
    long reps = warm_up(&j, o);
    if (checks) {
        wrong = wrong_ints(&j, o);
        MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (wrong && rank == 0) fprintf(stderr, "rival: %s %s %ld: %ld ints are WRONG\n", o->name, dist, bytes, wrong);
    }
    double *times = room(2 * sizeof(double) * (size_t)reps), *all = NULL;
    for (long i = 0; i < reps; i++) {
        set_out(&j);
        times[2 * i] = now();
        repeat(&j, o);
        times[2 * i + 1] = now();
    }
    if (rank == 0) all = room(2 * sizeof(double) * (size_t)(reps * size));
    MPI_Gather(times, (int)(2 * reps), MPI_DOUBLE, all, (int)(2 * reps), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) report(o, dist, bytes, all, reps);
    free(all);
    free(times);
    tear_down(&j);
    return wrong;
}

/* --- the command line --------------------------------------------------------------------------------------- */

static int split(char *text, char **words)
{
    int n = 0;
    for (char *w = strtok(text, ","); w; w = strtok(NULL, ",")) {
        if (n == LIST) fail("too long a list at", w);
        words[n++] = w;
    }
    return n;
}

static int is_among(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i])) return 1;
    return 0;
}

/* Whether the name is one for this operation. */
static int fits(const struct operation *o, const char *name)
{
    switch (o->spread) {
    case NONE: return 0;
    case EVEN_SETTINGS: return is_among(name, SETTINGS, 4);
    case UNEVEN_SETTINGS: return is_among(name, SETTINGS + 4, 4);
    default: return is_among(name, DISTRIBUTIONS, 7);
    }
}

static long points(const struct operation *o, char *const *dists, int ndists, char *const *sizes, int nsizes)
{
    long wrong = 0;
    const char *none[] = { "-" }, *const *names = none;
    int n = 1;
    if (o->spread != NONE && ndists) { names = (const char *const *)dists; n = ndists; }
    else if (o->spread == ALL) { names = DISTRIBUTIONS; n = 7; }
    else if (o->spread == EVEN_SETTINGS) { names = SETTINGS; n = 4; }
    else if (o->spread == UNEVEN_SETTINGS) { names = SETTINGS + 4; n = 4; }
    for (int d = 0; d < n; d++) {
        if (strcmp(names[d], "-") && !fits(o, names[d])) continue;
        for (int i = 0; i < (o->kind == NOTHING ? 1 : nsizes); i++) {
            long bytes = o->kind == NOTHING ? 0 : atol(sizes[i]);
            if (bytes < 0 || bytes % 4 || bytes > 2000000000) fail("sizes are multiples of 4 up to 2 GB, not", sizes[i]);
            wrong += measure(o, names[d], bytes);
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    char *ops[LIST], *sizes[LIST] = { "4", "1000", "100000", "1000000" }, *dists[LIST];
    int nops = 0, nsizes = 4, ndists = 0;
    long wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i++) {
        char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] != '-') { nops = split(argv[i], ops); continue; }
        if (!strcmp(argv[i], "--check")) { checks = 1; continue; }
        if (!strcmp(argv[i], "--fresh")) { fresh = 1; continue; }
        if (!strcmp(argv[i], "--one-clock")) { one_clock = 1; continue; }
        if (!strncmp(argv[i], "--cold=", 7)) { cold = (size_t)atol(argv[i] + 7); continue; }
        if (!value) fail("a value is missing after", argv[i]);
        if (!strcmp(argv[i], "--bytes")) nsizes = split(value, sizes);
        else if (!strcmp(argv[i], "--dist")) ndists = split(value, dists);
        else if (!strcmp(argv[i], "--reps")) most_reps = atol(value);
        else if (!strcmp(argv[i], "--calls")) calls = atol(value);
        else if (!strcmp(argv[i], "--warm")) warm = atol(value);
        else if (!strcmp(argv[i], "--time")) seconds = atof(value);
        else if (!strcmp(argv[i], "--rest")) idle = atof(value);
        else if (!strcmp(argv[i], "--root")) root = atoi(value);
        else fail("there is no option", argv[i]);
        i++;
    }
    if (!nops || most_reps < 1 || calls < 1 || seconds <= 0 || root < 0 || root >= size) fail("usage:", "see the head of rival.c");
    for (int i = 0; i < nops; i++) {
        int k = 0;
        while (k < KNOWN && strcmp(OPERATIONS[k].name, ops[i])) k++;
        if (k == KNOWN) fail("there is no operation", ops[i]);
        if (size == 1 && (OPERATIONS[k].run == pingpong || OPERATIONS[k].kind == BETWEEN || !strncmp(ops[i], "inter_", 6)))
            fail("two ranks are needed for", ops[i]);
        wrong += points(&OPERATIONS[k], dists, ndists, sizes, nsizes);
    }
    MPI_Finalize();
    return wrong ? 3 : 0;
}
