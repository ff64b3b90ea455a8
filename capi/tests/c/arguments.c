/* Wrong arguments of each function of circulant.h, and what the error says: a line for each, which the tables of docs/errors.md are compared with. */
#include "ranks.h"

static char text[2000];
static circulant_status_t last;

static void first (circulant_status_t status)
{
    CHECK (status != CIRCULANT_OK && strlen (circulant_last_error ()) + 1 < sizeof text);
    strcpy (text, circulant_last_error ());
    last = status;
}

/* The other forms of a call say the same. */
static void again (circulant_status_t status)
{
    CHECK (status == last && !strcmp (text, circulant_last_error ()));
}

static const char *name_of (circulant_status_t status)
{
    switch (status) {
    case CIRCULANT_ERR_ARGUMENT: return "ARGUMENT";
    case CIRCULANT_ERR_LAUNCH: return "LAUNCH";
    case CIRCULANT_ERR_CONFIG: return "CONFIG";
    case CIRCULANT_ERR_SYSTEM: return "SYSTEM";
    default: fprintf (stderr, "%s: a status of %d\n", text, status); exit (1);
    }
}

static void tell (const char *call, const char *what)
{
    printf ("%s\t%s\t%s\t%s\n", call, what, name_of (last), text);
    fflush (stdout);
}

#define OWN(name, what, ...) (first (circulant_##name (__VA_ARGS__)), tell (#name, what))
#define OWN3(name, what, ...) \
    (first (circulant_##name (__VA_ARGS__)), again (circulant_i##name (__VA_ARGS__, &request)), \
     again (circulant_##name##_init (__VA_ARGS__, &request)), CHECK (request == NULL), tell (#name, what))

#define IN CIRCULANT_IN_PLACE
#define D CIRCULANT_DOUBLE
#define SUM CIRCULANT_SUM
#define MANY ((size_t) -1)

static double x[8], y[8];
static circulant_request_t *request;
static size_t one[1] = { 1 }, many[1] = { MANY };

static void nothing (const void *left, void *right, size_t n, void *context)
{
    (void) left, (void) right, (void) n, (void) context;
}

static int fails (void *context, const void *mine, void *all, size_t bytes)
{
    (void) context, (void) mine, (void) all, (void) bytes;
    return 7;
}

static void hook (void *context) { (void) context; }

static void worlds (const circulant_world_t *world)
{
    circulant_world_t *made = NULL;
    circulant_comm_t *comm = NULL;
    circulant_finalizing_t *ending = NULL;
    circulant_setting_t unknown = { "deadlin", "20" }, wrong = { "deadline", "soon" }, nameless = { NULL, "1" }, empty = { "deadline", NULL };
    circulant_bootstrap_t bootstrap;
    int finished;
    memset (&bootstrap, 0, sizeof bootstrap);
    OWN (init, "settings that are NULL", NULL, 1, &made);
    OWN (init, "a setting without a name", &nameless, 1, &made);
    OWN (init, "a setting without a value", &empty, 1, &made);
    OWN (init, "an unknown setting", &unknown, 1, &made);
    OWN (init, "a value that cannot be", &wrong, 1, &made);
    OWN (init, "no place for the world", NULL, 0, NULL);
    OWN (init_with, "no bootstrap", NULL, NULL, 0, &made);
    OWN (init_with, "a structure of another size", &bootstrap, NULL, 0, &made);
    bootstrap.bytes = sizeof bootstrap;
    OWN (init_with, "no function", &bootstrap, NULL, 0, &made);
    bootstrap.allgather = fails;
    OWN (init_with, "no ranks", &bootstrap, NULL, 0, &made);
    bootstrap.rank = bootstrap.size = 3;
    OWN (init_with, "a rank that is none", &bootstrap, NULL, 0, &made);
    bootstrap.rank = 1;
    OWN (init_with, "a function that fails", &bootstrap, NULL, 0, &made);
    OWN (finalize, "no place of a world", NULL);
    OWN (finalize_start, "no place of a world", NULL, &ending);
    OWN (finalize_start, "no place for the ending", &made, NULL);
    OWN (finalize_test, "no place of an ending", NULL, &finished);
    OWN (finalize_test, "no place for the answer", &ending, NULL);
    OWN (abort, "no place of a world", NULL, 1, "why");
    OWN (abort, "no world", &made, 1, "why");
    OWN (while_waiting, "no world", NULL, hook, NULL);
    OWN (while_waiting, "no function", world, NULL, NULL);
    OWN (progress, "no world", NULL);
    OWN (world_comm, "no world", NULL, &comm);
    OWN (world_comm, "no place for the communicator", world, NULL);
    CHECK (made == NULL && comm == NULL && ending == NULL);
}

static void communicators (const circulant_comm_t *comm)
{
    circulant_comm_t *made = NULL;
    circulant_setting_t unknown = { "wind", "north" }, wrong = { "blocks", "some" }, nameless = { NULL, "1" };
    int rank = 0, below = -1;
    size_t n;
    uint64_t flags;
    void *memory = NULL;
    OWN (comm_rank, "no communicator", NULL, &rank);
    OWN (comm_rank, "no place for the rank", comm, NULL);
    OWN (comm_size, "no communicator", NULL, &rank);
    OWN (comm_size, "no place for the size", comm, NULL);
    OWN (comm_dup, "no communicator", NULL, &made);
    OWN (comm_dup, "no place for the copy", comm, NULL);
    OWN (comm_revoke, "no communicator", NULL);
    OWN (comm_revoke, "a world that ends with a rank", comm);
    OWN (comm_is_revoked, "no communicator", NULL, &rank);
    OWN (comm_is_revoked, "no place for the answer", comm, NULL);
    OWN (comm_gone, "no communicator", NULL, &rank, 1, &n);
    OWN (comm_gone, "no place for the number", comm, NULL, 0, NULL);
    OWN (comm_agree, "no communicator", NULL, 1, &flags);
    OWN (comm_agree, "no place for the flags", comm, 1, NULL);
    OWN (comm_shrink, "no communicator", NULL, &made);
    OWN (comm_shrink, "no place for the new one", comm, NULL);
    OWN (comm_split, "no communicator", NULL, 0, 0, &made);
    OWN (comm_split, "no place for the new one", comm, 0, 0, NULL);
    OWN (comm_split_by_node, "no communicator", NULL, &made);
    OWN (comm_split_by_node, "no place for the new one", comm, NULL);
    OWN (comm_create, "no communicator", NULL, &rank, 1, &made);
    OWN (comm_create, "no ranks, of one", comm, NULL, 1, &made);
    OWN (comm_create, "a rank below 0", comm, &below, 1, &made);
    OWN (comm_create, "no place for the new one", comm, &rank, 1, NULL);
    OWN (comm_assemble, "no communicator", NULL, &rank, 1, fails, NULL, &made);
    OWN (comm_assemble, "no ranks, of one", comm, NULL, 1, fails, NULL, &made);
    OWN (comm_assemble, "a rank below 0", comm, &below, 1, fails, NULL, &made);
    OWN (comm_assemble, "no function", comm, &rank, 1, NULL, NULL, &made);
    OWN (comm_assemble, "a function that fails", comm, &rank, 1, fails, NULL, &made);
    OWN (comm_assemble, "no place for the new one", comm, &rank, 1, fails, NULL, NULL);
    OWN (comm_with, "no communicator", NULL, &wrong, 1, &made);
    OWN (comm_with, "options that are NULL", comm, NULL, 1, &made);
    OWN (comm_with, "an option without a name", comm, &nameless, 1, &made);
    OWN (comm_with, "an unknown option", comm, &unknown, 1, &made);
    OWN (comm_with, "a value that cannot be", comm, &wrong, 1, &made);
    OWN (comm_free, "no place of a communicator", NULL);
    OWN (alloc, "no communicator", NULL, 8, &memory);
    OWN (alloc, "no place for the memory", comm, 8, NULL);
    OWN (alloc, "more than memory", comm, MANY, &memory);
    OWN (free, "no place of memory", NULL);
    memory = x;
    OWN (free, "memory of others", &memory);
    OWN (register, "no communicator", NULL, x, 8, CIRCULANT_MEMORY_HOST, 0, NULL, -1, 0);
    OWN (register, "no memory", comm, NULL, 8, CIRCULANT_MEMORY_HOST, 0, NULL, -1, 0);
    OWN (register, "a kind that there is not", comm, x, 8, 9, 0, NULL, -1, 0);
    OWN (register, "memory of a device without a function", comm, x, 8, CIRCULANT_MEMORY_CUDA, 0, NULL, -1, 0);
    OWN (deregister, "memory that is not registered", x);
    CHECK (made == NULL);
}

static void types_and_operators (void)
{
    circulant_op_t op = NULL;
    size_t bytes;
    OWN (type_size, "a type that there is not", 77, &bytes);
    OWN (type_size, "elements of no bytes", CIRCULANT_BYTES (0), &bytes);
    OWN (type_size, "no place for the size", D, NULL);
    OWN (op_create, "no name", NULL, D, 1, nothing, NULL, &op);
    OWN (op_create, "a name that is no UTF-8", "\xff", D, 1, nothing, NULL, &op);
    OWN (op_create, "a type that there is not", "x", 77, 1, nothing, NULL, &op);
    OWN (op_create, "no function", "x", D, 1, NULL, NULL, &op);
    OWN (op_create, "no place for the operator", "x", D, 1, nothing, NULL, NULL);
    OWN (op_free, "no place of an operator", NULL);
    CHECK (op == NULL);
}

static void requests (const circulant_comm_t *comm)
{
    circulant_request_t *none = NULL, *begun = NULL;
    int finished;
    size_t index;
    OWN (test, "no place of a request", NULL, &finished);
    OWN (test, "no place for the answer", &none, NULL);
    OWN (wait, "no place of a request", NULL);
    OWN (waitall, "no requests, of one", 1, NULL);
    OWN (testall, "no requests, of one", 1, NULL, &finished);
    OWN (testall, "no place for the answer", 1, &none, NULL);
    OWN (waitany, "no requests, of one", 1, NULL, &index);
    OWN (waitany, "no place for the index", 1, &none, NULL);
    OWN (start, "no request", NULL);
    OK (circulant_ibarrier (comm, &begun));
    OWN (start, "a request that is not persistent", begun);
    OK (circulant_wait (&begun));
    OWN (request_free, "no place of a request", NULL);
    OWN (ibcast, "no place for the request", comm, x, 1, D, 0, NULL);
    OWN (bcast_init, "no place for the request", comm, x, 1, D, 0, NULL);
}

static void to_all (const circulant_comm_t *c)
{
    OWN3 (barrier, "no communicator", NULL);
    OWN3 (bcast, "no communicator", NULL, x, 1, D, 0);
    OWN3 (bcast, "no memory", c, NULL, 1, D, 0);
    OWN3 (bcast, "in place", c, IN, 1, D, 0);
    OWN3 (bcast, "a type that there is not", c, x, 1, 77, 0);
    OWN3 (bcast, "a root below 0", c, x, 1, D, -2);
    OWN3 (bcast, "more than memory", c, x, MANY, D, 0);
    OWN3 (bcast, "the end behind all memory", c, x, MANY / 8, D, 0);
    OWN3 (allgather, "no communicator", NULL, x, y, 1, D);
    OWN3 (allgather, "nothing to send", c, NULL, y, 1, D);
    OWN3 (allgather, "no memory for the result", c, x, NULL, 1, D);
    OWN3 (allgather, "the result in place", c, x, IN, 1, D);
    OWN3 (allgather, "a type that there is not", c, x, y, 1, 77);
    OWN3 (allgather, "more than memory", c, x, y, MANY, D);
    OWN3 (allgather, "buffers that overlap", c, x, x, 1, D);
    OWN3 (allgatherv, "no communicator", NULL, x, 1, y, one, NULL, D);
    OWN3 (allgatherv, "nothing to send", c, NULL, 1, y, one, NULL, D);
    OWN3 (allgatherv, "no memory for the result", c, x, 1, NULL, one, NULL, D);
    OWN3 (allgatherv, "no counts", c, x, 1, y, NULL, NULL, D);
    OWN3 (allgatherv, "a count beyond memory", c, x, 1, y, many, NULL, D);
    OWN3 (allgatherv, "a displacement beyond memory", c, x, 1, y, one, many, D);
    OWN3 (allgatherv, "a type that there is not", c, x, 1, y, one, NULL, 77);
    OWN3 (allgatherv, "buffers that overlap", c, x, 1, x, one, NULL, D);
    OWN3 (allgatherv_local, "no communicator", NULL, x, 1, y, one, NULL, D);
    OWN3 (allgatherv_local, "no counts", c, x, 1, y, NULL, NULL, D);
    OWN3 (allgatherv_local, "a count beyond memory", c, x, 1, y, many, NULL, D);
    OWN3 (allgatherv_local, "buffers that overlap", c, x, 1, x, one, NULL, D);
}

static void to_and_from_a_root (const circulant_comm_t *c)
{
    OWN3 (gather, "no communicator", NULL, x, y, 1, D, 0);
    OWN3 (gather, "nothing to send", c, NULL, y, 1, D, 0);
    OWN3 (gather, "no memory for the result at the root", c, x, NULL, 1, D, 0);
    OWN3 (gather, "a type that there is not", c, x, y, 1, 77, 0);
    OWN3 (gather, "a root below 0", c, x, y, 1, D, -2);
    OWN3 (gather, "more than memory", c, x, y, MANY, D, 0);
    OWN3 (gather, "buffers that overlap", c, x, x, 1, D, 0);
    OWN3 (gatherv, "no communicator", NULL, x, 1, y, one, NULL, D, 0);
    OWN3 (gatherv, "no counts", c, x, 1, y, NULL, NULL, D, 0);
    OWN3 (gatherv, "a count beyond memory", c, x, 1, y, many, NULL, D, 0);
    OWN3 (gatherv, "a root below 0", c, x, 1, y, one, NULL, D, -2);
    OWN3 (gatherv, "buffers that overlap", c, x, 1, x, one, NULL, D, 0);
    OWN3 (gatherv_rooted, "no communicator", NULL, x, 1, y, one, NULL, D, 0);
    OWN3 (gatherv_rooted, "no counts at the root", c, x, 1, y, NULL, NULL, D, 0);
    OWN3 (gatherv_rooted, "a count beyond memory", c, x, 1, y, many, NULL, D, 0);
    OWN3 (gatherv_rooted, "a root below 0", c, x, 1, y, one, NULL, D, -2);
    OWN3 (gatherv_rooted, "buffers that overlap", c, x, 1, x, one, NULL, D, 0);
    OWN3 (scatter, "no communicator", NULL, x, y, 1, D, 0);
    OWN3 (scatter, "nothing to send at the root", c, NULL, y, 1, D, 0);
    OWN3 (scatter, "no memory for the result", c, x, NULL, 1, D, 0);
    OWN3 (scatter, "a type that there is not", c, x, y, 1, 77, 0);
    OWN3 (scatter, "a root below 0", c, x, y, 1, D, -2);
    OWN3 (scatter, "more than memory", c, x, y, MANY, D, 0);
    OWN3 (scatter, "buffers that overlap", c, x, x, 1, D, 0);
    OWN3 (scatterv, "no communicator", NULL, x, one, NULL, y, 1, D, 0);
    OWN3 (scatterv, "no counts", c, x, NULL, NULL, y, 1, D, 0);
    OWN3 (scatterv, "a count beyond memory", c, x, many, NULL, y, 1, D, 0);
    OWN3 (scatterv, "a root below 0", c, x, one, NULL, y, 1, D, -2);
    OWN3 (scatterv, "buffers that overlap", c, x, one, NULL, x, 1, D, 0);
    OWN3 (scatterv_rooted, "no communicator", NULL, x, one, NULL, y, 1, D, 0);
    OWN3 (scatterv_rooted, "no counts at the root", c, x, NULL, NULL, y, 1, D, 0);
    OWN3 (scatterv_rooted, "a count beyond memory", c, x, many, NULL, y, 1, D, 0);
    OWN3 (scatterv_rooted, "a root below 0", c, x, one, NULL, y, 1, D, -2);
}

static void among_all (const circulant_comm_t *c)
{
    circulant_piece_t piece = { 0, 8, 1, 0 }, long_ = { 0, 8, MANY / 8, 8 };
    circulant_layout_t layout = { NULL, 1 }, far = { NULL, 1 }, none = { NULL, 1 };
    layout.pieces = &piece;
    far.pieces = &long_;
    OWN3 (alltoall, "no communicator", NULL, x, y, 1, D);
    OWN3 (alltoall, "nothing to send", c, NULL, y, 1, D);
    OWN3 (alltoall, "no memory for the result", c, x, NULL, 1, D);
    OWN3 (alltoall, "a type that there is not", c, x, y, 1, 77);
    OWN3 (alltoall, "more than memory", c, x, y, MANY, D);
    OWN3 (alltoall, "buffers that overlap", c, x, x, 1, D);
    OWN3 (alltoallv, "no communicator", NULL, x, one, NULL, y, one, NULL, D);
    OWN3 (alltoallv, "no counts of what is sent", c, x, NULL, NULL, y, one, NULL, D);
    OWN3 (alltoallv, "no counts of what is received", c, x, one, NULL, y, NULL, NULL, D);
    OWN3 (alltoallv, "a count beyond memory", c, x, one, NULL, y, many, NULL, D);
    OWN3 (alltoallv, "buffers that overlap", c, x, one, NULL, x, one, NULL, D);
    OWN3 (alltoallw, "no communicator", NULL, x, &layout, y, &layout);
    OWN3 (alltoallw, "no layouts of what is sent", c, x, NULL, y, &layout);
    OWN3 (alltoallw, "no layouts of what is received", c, x, &layout, y, NULL);
    OWN3 (alltoallw, "a layout without pieces, of one", c, x, &none, y, &layout);
    OWN3 (alltoallw, "pieces beyond memory", c, x, &far, y, &layout);
    OWN3 (alltoallw, "buffers that overlap", c, x, &layout, x, &layout);
}

static void reducing (const circulant_comm_t *c)
{
    circulant_op_t mine = NULL;
    OK (circulant_op_create ("mine", CIRCULANT_INT32, 1, nothing, NULL, &mine));
    OWN3 (reduce, "no communicator", NULL, x, y, 1, D, SUM, 0);
    OWN3 (reduce, "nothing to send", c, NULL, y, 1, D, SUM, 0);
    OWN3 (reduce, "no memory for the result at the root", c, x, NULL, 1, D, SUM, 0);
    OWN3 (reduce, "a type that there is not", c, x, y, 1, 77, SUM, 0);
    OWN3 (reduce, "no operator", c, x, y, 1, D, NULL, 0);
    OWN3 (reduce, "an operator that the type has not", c, x, y, 1, D, CIRCULANT_BAND, 0);
    OWN3 (reduce, "a root below 0", c, x, y, 1, D, SUM, -2);
    OWN3 (reduce, "more than memory", c, x, y, MANY, D, SUM, 0);
    OWN3 (reduce, "buffers that overlap", c, x, x, 1, D, SUM, 0);
    OWN3 (allreduce, "no communicator", NULL, x, y, 1, D, SUM);
    OWN3 (allreduce, "nothing to send", c, NULL, y, 1, D, SUM);
    OWN3 (allreduce, "no memory for the result", c, x, NULL, 1, D, SUM);
    OWN3 (allreduce, "a type that there is not", c, x, y, 1, 77, SUM);
    OWN3 (allreduce, "no operator", c, x, y, 1, D, NULL);
    OWN3 (allreduce, "an operator that the type has not", c, x, y, 1, D, CIRCULANT_MINLOC);
    OWN3 (allreduce, "a built-in operator on bytes", c, x, y, 1, CIRCULANT_BYTES (8), SUM);
    OWN3 (allreduce, "an operator for another type", c, x, y, 1, D, mine);
    OWN3 (allreduce, "more than memory", c, x, y, MANY, D, SUM);
    OWN3 (allreduce, "buffers that overlap", c, x, x, 1, D, SUM);
    OWN3 (reduce_scatter_block, "no communicator", NULL, x, y, 1, D, SUM);
    OWN3 (reduce_scatter_block, "nothing to send", c, NULL, y, 1, D, SUM);
    OWN3 (reduce_scatter_block, "no memory for the result", c, x, NULL, 1, D, SUM);
    OWN3 (reduce_scatter_block, "no operator", c, x, y, 1, D, NULL);
    OWN3 (reduce_scatter_block, "buffers that overlap", c, x, x, 1, D, SUM);
    OWN3 (reduce_scatter, "no communicator", NULL, x, y, one, D, SUM);
    OWN3 (reduce_scatter, "no counts", c, x, y, NULL, D, SUM);
    OWN3 (reduce_scatter, "a count beyond memory", c, x, y, many, D, SUM);
    OWN3 (reduce_scatter, "no operator", c, x, y, one, D, NULL);
    OWN3 (reduce_scatter, "buffers that overlap", c, x, x, one, D, SUM);
    OWN3 (scan, "no communicator", NULL, x, y, 1, D, SUM);
    OWN3 (scan, "no memory for the result", c, x, NULL, 1, D, SUM);
    OWN3 (scan, "no operator", c, x, y, 1, D, NULL);
    OWN3 (scan, "buffers that overlap", c, x, x, 1, D, SUM);
    OWN3 (exscan, "no communicator", NULL, x, y, 1, D, SUM);
    OWN3 (exscan, "no memory for the result", c, x, NULL, 1, D, SUM);
    OWN3 (exscan, "no operator", c, x, y, 1, D, NULL);
    OWN3 (exscan, "buffers that overlap", c, x, x, 1, D, SUM);
    OK (circulant_op_free (&mine));
}

static void neighbors (const circulant_comm_t *comm)
{
    circulant_neighborhood_t *made = NULL, *on = NULL;
    int below = -1, ranks[1] = { 0 }, dims[1] = { 1 }, periodic[1] = { 1 }, two[1];
    size_t n;
    OWN (dist_graph, "no communicator", NULL, ranks, 1, ranks, 1, &made);
    OWN (dist_graph, "no sources, of one", comm, NULL, 1, ranks, 1, &made);
    OWN (dist_graph, "no destinations, of one", comm, ranks, 1, NULL, 1, &made);
    OWN (dist_graph, "a rank below 0", comm, &below, 1, ranks, 1, &made);
    OWN (dist_graph, "no place for the neighbours", comm, ranks, 1, ranks, 1, NULL);
    OWN (cartesian, "no communicator", NULL, dims, periodic, 1, &made);
    OWN (cartesian, "no dimensions, of one", comm, NULL, periodic, 1, &made);
    OWN (cartesian, "a dimension below 0", comm, &below, periodic, 1, &made);
    OWN (cartesian, "no place for the neighbours", comm, dims, periodic, 1, NULL);
    CHECK (made == NULL);
    OK (circulant_dist_graph (comm, ranks, 1, ranks, 1, &on));
    OWN (neighborhood_size, "no neighbours", NULL, &n, &n);
    OWN (neighborhood_size, "no place for the sources", on, NULL, &n);
    OWN (neighborhood_ranks, "no neighbours", NULL, two, two);
    OWN (neighborhood_ranks, "no place for the sources", on, NULL, two);
    OWN (neighborhood_free, "no place of neighbours", NULL);
    OWN3 (neighbor_allgather, "no neighbours", NULL, x, y, 1, D);
    OWN3 (neighbor_allgather, "nothing to send", on, NULL, y, 1, D);
    OWN3 (neighbor_allgather, "no memory for the result", on, x, NULL, 1, D);
    OWN3 (neighbor_allgather, "a type that there is not", on, x, y, 1, 77);
    OWN3 (neighbor_allgather, "more than memory", on, x, y, MANY, D);
    OWN3 (neighbor_allgather, "buffers that overlap", on, x, x, 1, D);
    OWN3 (neighbor_allgatherv, "no neighbours", NULL, x, 1, y, one, NULL, D);
    OWN3 (neighbor_allgatherv, "no counts", on, x, 1, y, NULL, NULL, D);
    OWN3 (neighbor_allgatherv, "a count beyond memory", on, x, 1, y, many, NULL, D);
    OWN3 (neighbor_allgatherv, "buffers that overlap", on, x, 1, x, one, NULL, D);
    OWN3 (neighbor_alltoall, "no neighbours", NULL, x, y, 1, D);
    OWN3 (neighbor_alltoall, "no memory for the result", on, x, NULL, 1, D);
    OWN3 (neighbor_alltoall, "buffers that overlap", on, x, x, 1, D);
    OWN3 (neighbor_alltoallv, "no neighbours", NULL, x, one, NULL, y, one, NULL, D);
    OWN3 (neighbor_alltoallv, "no counts of what is sent", on, x, NULL, NULL, y, one, NULL, D);
    OWN3 (neighbor_alltoallv, "no counts of what is received", on, x, one, NULL, y, NULL, NULL, D);
    OWN3 (neighbor_alltoallv, "a count beyond memory", on, x, one, NULL, y, many, NULL, D);
    OWN3 (neighbor_alltoallv, "buffers that overlap", on, x, one, NULL, x, one, NULL, D);
    OK (circulant_neighborhood_free (&on));
}

/* --- What ends the world: rank 1 of three is wrong, in a job of its own ---------------------------------------------------- */

static int form, row;
static size_t ones[3] = { 1, 1, 1 }, steps[3] = { 0, 1, 2 }, same[3] = { 0, 1, 1 };

#define ENDS3(name, ...) \
    (form == 0   ? circulant_##name (__VA_ARGS__) \
     : form == 1 ? circulant_i##name (__VA_ARGS__, &request) \
                 : circulant_##name##_init (__VA_ARGS__, &request))

static circulant_status_t root_of_bcast (circulant_comm_t *c, int w) { return ENDS3 (bcast, c, x, 1, D, w ? 3 : 0); }
static circulant_status_t root_of_gather (circulant_comm_t *c, int w) { return ENDS3 (gather, c, x, y, 1, D, w ? 3 : 0); }
static circulant_status_t root_of_gatherv (circulant_comm_t *c, int w) { return ENDS3 (gatherv, c, x, 1, y, ones, NULL, D, w ? 3 : 0); }
static circulant_status_t root_of_scatter (circulant_comm_t *c, int w) { return ENDS3 (scatter, c, x, y, 1, D, w ? 3 : 0); }
static circulant_status_t root_of_scatterv (circulant_comm_t *c, int w) { return ENDS3 (scatterv, c, x, ones, NULL, y, 1, D, w ? 3 : 0); }
static circulant_status_t root_of_reduce (circulant_comm_t *c, int w) { return ENDS3 (reduce, c, x, y, 1, D, SUM, w ? 3 : 0); }
static circulant_status_t rooted_gatherv (circulant_comm_t *c, int w) { return ENDS3 (gatherv_rooted, c, x, 1, y, ones, NULL, D, w ? 3 : 0); }
static circulant_status_t rooted_scatterv (circulant_comm_t *c, int w) { return ENDS3 (scatterv_rooted, c, x, ones, NULL, y, 1, D, w ? 3 : 0); }
static circulant_status_t in_place_elsewhere (circulant_comm_t *c, int w) { return ENDS3 (gather, c, w ? IN : x, y, 1, D, 0); }
static circulant_status_t in_place_of_scatter (circulant_comm_t *c, int w) { return ENDS3 (scatter, c, x, w ? IN : y, 1, D, 0); }
static circulant_status_t in_place_of_reduce (circulant_comm_t *c, int w) { return ENDS3 (reduce, c, w ? IN : x, y, 1, D, SUM, 0); }
static circulant_status_t parts_overlap (circulant_comm_t *c, int w) { return ENDS3 (allgatherv, c, x, 1, y, ones, w ? same : steps, D); }
static circulant_status_t local_parts_overlap (circulant_comm_t *c, int w)
{
    return ENDS3 (allgatherv_local, c, x, 1, y, ones, w ? same : steps, D);
}
static circulant_status_t other_count (circulant_comm_t *c, int w) { return ENDS3 (allgatherv, c, x, w ? 2 : 1, y, ones, NULL, D); }
static circulant_status_t other_count_received (circulant_comm_t *c, int w) { return ENDS3 (scatterv, c, x, ones, NULL, y, w ? 2 : 1, D, 0); }
static circulant_status_t received_overlap (circulant_comm_t *c, int w)
{
    return ENDS3 (alltoallv, c, x, ones, NULL, y, ones, w ? same : steps, D);
}

static const struct {
    const char *call, *what;
    circulant_status_t (*make) (circulant_comm_t *comm, int wrong);
} ENDS[] = {
    { "bcast", "a root that is no rank", root_of_bcast },
    { "gather", "a root that is no rank", root_of_gather },
    { "gather", "in place at another rank than the root", in_place_elsewhere },
    { "gatherv", "a root that is no rank", root_of_gatherv },
    { "gatherv_rooted", "a root that is no rank", rooted_gatherv },
    { "scatter", "a root that is no rank", root_of_scatter },
    { "scatter", "in place at another rank than the root", in_place_of_scatter },
    { "scatterv", "a root that is no rank", root_of_scatterv },
    { "scatterv", "another number received than the count", other_count_received },
    { "scatterv_rooted", "a root that is no rank", rooted_scatterv },
    { "allgatherv", "another number sent than the count", other_count },
    { "allgatherv", "parts that overlap", parts_overlap },
    { "allgatherv_local", "parts that overlap", local_parts_overlap },
    { "alltoallv", "received parts that overlap", received_overlap },
    { "reduce", "a root that is no rank", root_of_reduce },
    { "reduce", "in place at another rank than the root", in_place_of_reduce },
};

static void ending (circulant_world_t *world)
{
    circulant_comm_t *comm = NULL;
    circulant_status_t status;
    int rank;
    OK (circulant_world_comm (world, &comm));
    OK (circulant_comm_rank (comm, &rank));
    status = ENDS[row].make (comm, rank == 1);
    if (rank == 1) {
        first (status);
        printf ("ends\t");
        tell (ENDS[row].call, ENDS[row].what);
    } else if (status == CIRCULANT_OK) {
        /* A rank that had what it waits for learns of it in the next call. */
        CHECK (form == 0 || circulant_wait (&request) || circulant_barrier (comm));
        CHECK (form > 0 || circulant_barrier (comm));
    }
    _exit (fflush (stdout));
}

static void all (circulant_world_t *world)
{
    circulant_comm_t *comm = NULL;
    OK (circulant_world_comm (world, &comm));
    worlds (world);
    communicators (comm);
    types_and_operators ();
    requests (comm);
    to_all (comm);
    to_and_from_a_root (comm);
    among_all (comm);
    reducing (comm);
    neighbors (comm);
    OK (circulant_barrier (comm));
    OK (circulant_comm_free (&comm));
    OK (circulant_finalize (&world));
    for (row = 0; row < (int) (sizeof ENDS / sizeof *ENDS); row++)
        for (form = 0; form < 3; form++)
            CHECK (!run_forked (3, ending));
}

int main (int argc, char **argv)
{
    return run (argc, argv, all);
}
