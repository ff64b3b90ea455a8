/* Errors: what is wrong before a call is this rank's own, what the library finds is that of all ranks, and nothing crashes. */
#include "ranks.h"

#define FAILS(call, status, words) \
    do { \
        CHECK ((call) == (status)); \
        CHECK (strstr (circulant_last_error (), words) != NULL); \
    } while (0)
#define REFUSED(call, words) FAILS (call, CIRCULANT_ERR_ARGUMENT, words)

static void nothing (const void *left, void *right, size_t n, void *context)
{
    (void) left, (void) right, (void) n, (void) context;
}

/* Wrong before anything is sent: the world goes on. */
static void own (circulant_world_t *world, circulant_comm_t *comm)
{
    circulant_comm_t *made = NULL;
    circulant_request_t *request = NULL, *none = NULL;
    circulant_setting_t unknown = { "wind", "north" }, wrong = { "blocks", "some" }, nameless = { NULL, "1" };
    circulant_bootstrap_t bootstrap;
    circulant_world_t *second = NULL;
    circulant_op_t op = NULL;
    double x[4] = { 1, 2, 3, 4 };
    size_t counts[64] = { 1 }, bytes = 0;
    circulant_piece_t piece = { 0, 8, 1, 0 };
    circulant_layout_t layouts[64] = { { NULL, 0 } };
    int finished, rank = -1;
    void *memory = x;

    REFUSED (circulant_barrier (NULL), "comm is NULL");
    REFUSED (circulant_comm_rank (comm, NULL), "rank is NULL");
    REFUSED (circulant_comm_dup (NULL, &made), "comm is NULL");
    REFUSED (circulant_world_comm (world, NULL), "comm is NULL");
    REFUSED (circulant_bcast (comm, NULL, 3, CIRCULANT_DOUBLE, 0), "is NULL");
    REFUSED (circulant_bcast (comm, CIRCULANT_IN_PLACE, 3, CIRCULANT_DOUBLE, 0), "CIRCULANT_IN_PLACE");
    REFUSED (circulant_bcast (comm, x, 3, 77, 0), "there is no type 77");
    REFUSED (circulant_bcast (comm, x, 3, CIRCULANT_BYTES (0), 0), "there is no type");
    REFUSED (circulant_bcast (comm, x, 3, CIRCULANT_DOUBLE, -2), "root is -2");
    REFUSED (circulant_bcast (comm, x, (size_t) -1, CIRCULANT_DOUBLE, 0), "more than memory");
    REFUSED (circulant_allreduce (comm, x, x + 1, 3, CIRCULANT_DOUBLE, CIRCULANT_SUM), "overlap");
    CHECK (strstr (circulant_error_remedy (), "CIRCULANT_IN_PLACE") != NULL);
    REFUSED (circulant_allreduce (comm, x, x + 2, 2, CIRCULANT_DOUBLE, NULL), "op is NULL");
    REFUSED (circulant_allreduce (comm, x, x + 2, 2, CIRCULANT_DOUBLE, CIRCULANT_BAND), "band is not defined on f64");
    REFUSED (circulant_allreduce (comm, x, x + 2, 2, CIRCULANT_BYTES (8), CIRCULANT_SUM), "sum is not defined on elements of 8 bytes");
    REFUSED (circulant_allgatherv (comm, x, 1, x + 1, NULL, NULL, CIRCULANT_DOUBLE), "counts is NULL");
    REFUSED (circulant_ibcast (comm, x, 3, CIRCULANT_DOUBLE, 0, NULL), "request is NULL");
    counts[0] = (size_t) -1;
    REFUSED (circulant_gatherv (comm, x, 1, x + 1, counts, NULL, CIRCULANT_DOUBLE, 0), "more than memory");

    layouts[0].n = 1;
    REFUSED (circulant_alltoallw (comm, x, NULL, x + 2, layouts), "pieces is NULL");
    layouts[0].pieces = &piece;
    REFUSED (circulant_alltoallw (comm, x, NULL, x + 2, layouts), "sent is NULL");
    REFUSED (circulant_alltoallw (comm, x, layouts, x + 2, NULL), "received is NULL");
    REFUSED (circulant_alltoallw (comm, x, layouts, x, layouts), "overlap");
    piece.count = (size_t) -1 / 8;
    REFUSED (circulant_alltoallw (comm, x, layouts, x + 2, layouts), "more than memory");
    piece.stride = (size_t) -1 / 8;
    REFUSED (circulant_alltoallw (comm, x, layouts, x + 2, layouts), "more than memory");
    REFUSED (circulant_waitany (1, NULL, &bytes), "requests is NULL");
    REFUSED (circulant_waitany (0, NULL, NULL), "index is NULL");
    REFUSED (circulant_testall (1, &none, NULL), "finished is NULL");
    REFUSED (circulant_finalize_start (&second, NULL), "ending is NULL");
    REFUSED (circulant_finalize_test (NULL, &finished), "ending is NULL");

    REFUSED (circulant_op_create (NULL, CIRCULANT_INT32, 1, nothing, NULL, &op), "name is NULL");
    REFUSED (circulant_op_create ("x", CIRCULANT_INT32, 1, NULL, NULL, &op), "function is NULL");
    CHECK (op == NULL);
    OK (circulant_op_create ("x", CIRCULANT_INT32, 1, nothing, NULL, &op));
    REFUSED (circulant_allreduce (comm, x, x + 2, 2, CIRCULANT_DOUBLE, op), "for another type");
    OK (circulant_op_free (&op));
    OK (circulant_op_free (&op));
    op = CIRCULANT_SUM;
    OK (circulant_op_free (&op));

    REFUSED (circulant_comm_with (comm, &unknown, 1, &made), "there is no option \"wind\"");
    REFUSED (circulant_comm_with (comm, &wrong, 1, &made), "\"blocks\" cannot be \"some\"");
    REFUSED (circulant_comm_with (comm, &nameless, 1, &made), "a name is NULL");
    REFUSED (circulant_comm_with (comm, NULL, 1, &made), "settings is NULL");
    CHECK (made == NULL);
    REFUSED (circulant_free (&memory), "not allocated by circulant_alloc");
    REFUSED (circulant_start (NULL), "request is NULL");
    REFUSED (circulant_type_size (0, &bytes), "there is no type 0");
    OK (circulant_type_size (CIRCULANT_BYTES (24), &bytes));
    CHECK (bytes == 24);

    memset (&bootstrap, 0, sizeof bootstrap);
    REFUSED (circulant_init_with (NULL, NULL, 0, &second), "bootstrap is NULL");
    REFUSED (circulant_init_with (&bootstrap, NULL, 0, &second), "sizeof");
    bootstrap.bytes = sizeof bootstrap;
    REFUSED (circulant_init_with (&bootstrap, NULL, 0, &second), "no allgather");
    bootstrap.allgather = gather;
    bootstrap.rank = 3;
    bootstrap.size = 3;
    REFUSED (circulant_init_with (&bootstrap, NULL, 0, &second), "rank 3 of 3");
    CHECK (second == NULL);

    /* What is not there has finished, and is freed. */
    OK (circulant_test (&none, &finished));
    CHECK (finished);
    OK (circulant_wait (&none));
    OK (circulant_request_free (&none));
    OK (circulant_waitall (0, NULL));
    OK (circulant_comm_free (&made));

    OK (circulant_ibarrier (comm, &request));
    REFUSED (circulant_start (request), "not persistent");
    OK (circulant_wait (&request));
    OK (circulant_comm_rank (comm, &rank));
    CHECK (rank >= 0);
    OK (circulant_barrier (comm));
}

/* An allgather among the ranks backwards, by another communicator. */
static int backwards (void *context, const void *mine, void *all, size_t bytes)
{
    const circulant_comm_t *other = context;
    char found[64 * 16];
    int size, r;
    if (bytes > 16 || circulant_comm_size (other, &size) || circulant_allgather (other, mine, found, bytes, CIRCULANT_BYTE))
        return 1;
    for (r = 0; r < size; r++)
        memcpy ((char *) all + (size_t) r * bytes, found + (size_t) (size - 1 - r) * bytes, bytes);
    return 0;
}

static int no_way (void *context, const void *mine, void *all, size_t bytes)
{
    (void) context, (void) mine, (void) all, (void) bytes;
    return 7;
}

static void assembled (circulant_comm_t *comm)
{
    circulant_comm_t *other = NULL, *made = NULL;
    int me, size, r, ranks[64], rank;
    OK (circulant_comm_rank (comm, &me));
    OK (circulant_comm_size (comm, &size));
    for (r = 0; r < size; r++)
        ranks[r] = size - 1 - r;
    OK (circulant_comm_dup (comm, &other));
    REFUSED (circulant_comm_assemble (comm, ranks, (size_t) size, NULL, NULL, &made), "allgather is NULL");
    FAILS (circulant_comm_assemble (comm, ranks, (size_t) size, no_way, NULL, &made), CIRCULANT_ERR_LAUNCH, "it returned 7");
    CHECK (made == NULL);
    OK (circulant_comm_assemble (comm, ranks, (size_t) size, backwards, other, &made));
    OK (circulant_comm_rank (made, &rank));
    CHECK (rank == size - 1 - me);
    OK (circulant_barrier (made));
    OK (circulant_comm_free (&made));
    OK (circulant_comm_free (&other));
}

/* Leaves a file of this name, once. */
static void tell (void *context)
{
    static int told;
    FILE *file = told++ ? NULL : fopen (context, "w");
    if (file)
        fclose (file);
}

/* Those that wait for rank 0 call the hook meanwhile: it comes when rank 1 has done so. */
static void hooked (circulant_world_t *world, circulant_comm_t *comm)
{
    static char name[64]; /* until the world ends */
    int me, size, tries, pid = (int) getpid ();
    OK (circulant_comm_rank (comm, &me));
    OK (circulant_comm_size (comm, &size));
    REFUSED (circulant_while_waiting (world, NULL, NULL), "hook is NULL");
    REFUSED (circulant_while_waiting (NULL, tell, NULL), "world is NULL");
    REFUSED (circulant_progress (NULL), "world is NULL");
    OK (circulant_progress (world));
    OK (circulant_bcast (comm, &pid, 1, CIRCULANT_INT32, 0));
    snprintf (name, sizeof name, "/tmp/circulant-hook-%d", pid);
    if (me == 1)
        OK (circulant_while_waiting (world, tell, name));
    for (tries = 0; me == 0 && size > 1 && access (name, F_OK) != 0; tries++) {
        struct timespec moment = { 0, 10 * 1000 * 1000 };
        CHECK (tries < 6000);
        nanosleep (&moment, NULL);
    }
    OK (circulant_barrier (comm));
    unlink (name);
}

/* A communicator per parity, in the order backwards; and one with options. */
static void communicators (circulant_comm_t *comm)
{
    circulant_comm_t *half = NULL, *few = NULL, *same = NULL, *node = NULL, *other = NULL;
    circulant_setting_t options[] = { { "algorithm", "circulant" }, { "blocks", "3" }, { "deadline", "30" } };
    int me, size, rank, n, first = 0;
    int64_t sum = 1;
    OK (circulant_comm_rank (comm, &me));
    OK (circulant_comm_size (comm, &size));
    OK (circulant_comm_split (comm, me % 2, -me, &half));
    OK (circulant_comm_rank (half, &rank));
    OK (circulant_comm_size (half, &n));
    CHECK (n == (size + 1 - me % 2) / 2 && rank == n - 1 - me / 2);
    OK (circulant_comm_split (comm, me == 0 ? 0 : CIRCULANT_NO_COLOUR, 0, &few));
    CHECK ((few != NULL) == (me == 0));
    OK (circulant_comm_free (&few));
    OK (circulant_comm_create (comm, &first, 1, &few));
    CHECK ((few != NULL) == (me == 0));
    OK (circulant_comm_dup (comm, &same));
    OK (circulant_comm_split_by_node (comm, &node));
    OK (circulant_comm_with (same, options, 3, &other));
    OK (circulant_bcast (other, &sum, 1, CIRCULANT_INT64, 0));
    OK (circulant_allreduce (node, CIRCULANT_IN_PLACE, &sum, 1, CIRCULANT_INT64, CIRCULANT_SUM));
    CHECK (sum == size);
    OK (circulant_comm_free (&half));
    OK (circulant_comm_free (&few));
    OK (circulant_comm_free (&same));
    OK (circulant_comm_free (&node));
    OK (circulant_comm_free (&other));
}

/* The last rank gives a root that there is not: all get the error under its name. */
static void everywhere (circulant_comm_t *comm)
{
    int me, size, finished;
    int64_t x = 0, y = 0;
    circulant_request_t *request = NULL;
    circulant_status_t status;
    OK (circulant_comm_rank (comm, &me));
    OK (circulant_comm_size (comm, &size));
    /* Those that had what they wait for before the error came learn of it in the next call. */
    status = circulant_bcast (comm, &x, 1, CIRCULANT_INT64, me == size - 1 ? size : 0);
    if (status == CIRCULANT_OK)
        status = circulant_barrier (comm);
    REFUSED (status, "is out of range");
    CHECK (!strcmp (circulant_error_operation (), "bcast") && circulant_error_sequence () > 0);
    CHECK (circulant_error_rank () == me && circulant_error_reporter () == (me == size - 1 ? -1 : size - 1));
    CHECK (circulant_error_peer () == -1 && circulant_error_round () == -1);
    /* And so does each call after it. */
    CHECK (circulant_barrier (comm) != CIRCULANT_OK);
    CHECK (circulant_iallreduce (comm, &x, &y, 1, CIRCULANT_INT64, CIRCULANT_SUM, &request) != CIRCULANT_OK);
    CHECK (request == NULL);
    OK (circulant_test (&request, &finished));
}

static void all_of (circulant_world_t *world)
{
    circulant_comm_t *comm = NULL;
    CHECK (!strcmp (circulant_strerror (CIRCULANT_ERR_TIMEOUT), "a deadline passed"));
    CHECK (!strcmp (circulant_strerror (12345), "no status of libcirculant"));
    CHECK (!strcmp (circulant_last_error (), "") && circulant_error_remedy () == NULL && circulant_error_rank () == -1);
    CHECK (circulant_version ()[0] >= '0' && circulant_version ()[0] <= '9');
    CHECK (strlen (circulant_world_provider (world)) > 0);
    OK (circulant_world_comm (world, &comm));
    own (world, comm);
    communicators (comm);
    assembled (comm);
    hooked (world, comm);
    everywhere (comm);
    CHECK (circulant_finalize (&world) != CIRCULANT_OK);
    CHECK (world == NULL);
    OK (circulant_finalize (&world));
    OK (circulant_comm_free (&comm));
}

int main (int argc, char **argv)
{
    return run (argc, argv, all_of);
}
