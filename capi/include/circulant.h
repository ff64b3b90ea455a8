/*
 * circulant: round-optimal collectives over one-sided puts, without MPI.  The interface for C (C99) and C++.
 *
 *     circulant_world_t *world;
 *     circulant_comm_t *comm;
 *     double sum = 1.0;
 *     if (circulant_init (NULL, 0, &world) || circulant_world_comm (world, &comm)
 *         || circulant_allreduce (comm, CIRCULANT_IN_PLACE, &sum, 1, CIRCULANT_DOUBLE, CIRCULANT_SUM))
 *         fprintf (stderr, "%s\n", circulant_last_error ());
 *     circulant_comm_free (&comm);
 *     circulant_finalize (&world);
 *
 * Functions return a status: 0, or one of circulant_status below; what went wrong is said by circulant_last_error.
 *
 * ERRORS.  What the library itself finds wrong in a call, or on the way, is final for the world: all ranks get the error, under the
 * culprit's name, and later calls fail at once.  What can be seen before the call is made (NULL, a type that there is not, buffers that
 * overlap, a negative rank) is an error of this rank alone: nothing was sent, and the call may be made again.
 *
 * POINTERS to results (world, made, request, ...) are written on success only.  Functions that free take the address of a handle, set it
 * to NULL, and do nothing if it is NULL already.
 *
 * THREADS.  Functions may be called from several threads at the same time, those of one communicator in the same order at all ranks.  One
 * request is used by one thread at a time.  Nothing may be called in an operator or in a function of a bootstrap but circulant_strerror.
 *
 * BUFFERS are aligned as the program likes, and of memory from circulant_alloc nothing is copied or registered in a call.  A non-blocking
 * call borrows its buffers until circulant_wait, or circulant_test, has said that it has finished; a persistent operation from circulant_start
 * until then.  What is sent may be read meanwhile and not written; what is received may be neither read nor written.
 *
 * Counts and displacements are in elements; ranks are those of the communicator.
 */
#ifndef CIRCULANT_H
#define CIRCULANT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Status ------------------------------------------------------------------------------------------------- */

/* 0 is success.  The numbers never change; there may be more of them. */
typedef int circulant_status_t;

enum circulant_status {
    CIRCULANT_OK = 0,
    CIRCULANT_ERR_ARGUMENT = -1,  /* an argument is wrong */
    CIRCULANT_ERR_MISMATCH = -2,  /* ranks disagree about an operation, its arguments or a setting */
    CIRCULANT_ERR_TIMEOUT = -3,   /* a deadline passed */
    CIRCULANT_ERR_PEER_LOST = -4, /* a rank is gone, or its connection broke */
    CIRCULANT_ERR_ABORTED = -5,   /* another rank met an error, or this world did before */
    CIRCULANT_ERR_TRANSPORT = -6, /* the provider refused or failed something */
    CIRCULANT_ERR_LAUNCH = -7,    /* the launcher or the bootstrap failed */
    CIRCULANT_ERR_CONFIG = -8,    /* a setting cannot be understood or satisfied */
    CIRCULANT_ERR_LIBRARY = -9,   /* a library is missing or too old */
    CIRCULANT_ERR_SYSTEM = -10,   /* the operating system refused */
    CIRCULANT_ERR_REVOKED = -11,  /* a rank has revoked the communicator */
    CIRCULANT_ERR_OTHER = -99,    /* an error that is younger than this header */
    CIRCULANT_ERR_INTERNAL = -100 /* a fault in libcirculant */
};

/* What a status means, in words; never NULL, never freed. */
const char *circulant_strerror (circulant_status_t status);

/* The last error of this thread, in one line with what to do about it; "" before the first one.  Texts of this and the functions
 * below stay until the next error of the thread. */
const char *circulant_last_error (void);

/* Its parts.  What is not known is NULL, or -1. */
const char *circulant_error_remedy (void);    /* what to do about it */
const char *circulant_error_operation (void); /* the operation, such as "allreduce" ... */
uint64_t circulant_error_sequence (void);     /* ... and its number on its communicator (0 without operation) */
const char *circulant_error_provider (void);  /* the wire it happened on */
int circulant_error_rank (void);              /* the rank that met it */
int circulant_error_peer (void);              /* the rank at fault */
int circulant_error_reporter (void);          /* the rank that told us of it */
int circulant_error_round (void);             /* the round of the algorithm */
int circulant_error_survived (void);          /* 1: the world goes on (circulant_comm_shrink); 0: it does not */

/* The library's version, such as "0.1.0". */
const char *circulant_version (void);

/* --- Worlds ------------------------------------------------------------------------------------------------- */

/* All ranks of a job, connected. */
typedef struct circulant_world circulant_world_t;
/* Some of them, which call collectives together. */
typedef struct circulant_comm circulant_comm_t;

/* A setting by its name, such as { "deadline", "20" }; the names and values are those of docs/launch.md and `circulant settings`. */
typedef struct circulant_setting {
    const char *name;
    const char *value;
} circulant_setting_t;

/* Finds the launcher (circulant run, mpiexec, mpirun, srun, ...; without one the job has one rank), and connects.  The n settings go
 * before those of the environment; settings may be NULL if n is 0.  All ranks call it. */
circulant_status_t circulant_init (const circulant_setting_t *settings, size_t n, circulant_world_t **world);

/* Gathers `bytes` bytes of each rank, the same number at all, into `all` at all ranks, in rank order; returns 0 on success. */
typedef int (*circulant_allgather_fn) (void *context, const void *mine, void *all, size_t bytes);

/* How ranks find each other where the program has a way of its own. */
typedef struct circulant_bootstrap {
    size_t bytes; /* sizeof (circulant_bootstrap_t) */
    int rank;     /* of this process */
    int size;     /* of the job */
    void *context; /* passed to the functions */
    /* Called within circulant_init_with, and within circulant_finalize by another thread while the caller waits. */
    circulant_allgather_fn allgather;
    /* Ends the whole job; may be NULL, and may return. */
    void (*abort) (void *context, int code, const char *message);
} circulant_bootstrap_t;

/* As circulant_init, for a job that the bootstrap describes.  The structure is read in the call; the functions and what context leads to
 * stay until the world is finalized. */
circulant_status_t circulant_init_with (const circulant_bootstrap_t *bootstrap, const circulant_setting_t *settings, size_t n,
                                        circulant_world_t **world);

/* Waits until all ranks came here and no data is left on the way, then disconnects.  The world is gone then, also after an
 * error.  Its communicators, requests and memory are still to be freed, before or after. */
circulant_status_t circulant_finalize (circulant_world_t **world);

/* A world that ends, a step at a time. */
typedef struct circulant_finalizing circulant_finalizing_t;

/* circulant_finalize for programs that have something else to move on until all ranks have come: the first function returns at once,
 * the second one does what can be done now, and is called often, until it says that this rank has closed (or fails): ending is freed then, and
 * set to NULL.  It does not wait, but in the last step for the launcher.  The world is gone after the first one, also after an error.
 * Ranks may end by either way.  An ending of NULL has finished. */
circulant_status_t circulant_finalize_start (circulant_world_t **world, circulant_finalizing_t **ending);
circulant_status_t circulant_finalize_test (circulant_finalizing_t **ending, int *finished);

/* Asks the launcher to end the whole job with this exit code; the world is gone. */
circulant_status_t circulant_abort (circulant_world_t **world, int code, const char *message);

/* Called on each turn of a call that waits, by the thread that is in it: what moves another library on.  It calls nothing of this header, does
 * not throw and does not jump out.  What context leads to stays until the world is finalized.  A second one replaces the first. */
typedef void (*circulant_hook_fn) (void *context);
circulant_status_t circulant_while_waiting (const circulant_world_t *world, circulant_hook_fn hook, void *context);

/* The counterpart: moves on, once, what is under way and what is still to be sent, and returns at once; for what another library calls while
 * it waits.  Any thread may call it.  It does nothing while another thread is in a call of the world, and inside an operator.  An error ends
 * the world, and is returned by the next call that waits. */
circulant_status_t circulant_progress (const circulant_world_t *world);

/* The wire in use ("shm", "tcp", "verbs", "self" of one rank, ...), and how the job was started.  The texts stay as long as the world. */
const char *circulant_world_provider (const circulant_world_t *world);
const char *circulant_world_launcher (const circulant_world_t *world);

/* --- Communicators ------------------------------------------------------------------------------------------ */

/* The communicator of all ranks; to be freed. */
circulant_status_t circulant_world_comm (const circulant_world_t *world, circulant_comm_t **comm);

circulant_status_t circulant_comm_rank (const circulant_comm_t *comm, int *rank);
circulant_status_t circulant_comm_size (const circulant_comm_t *comm, int *size);

/* The same ranks, with calls that never mix with those of the other.  Collective. */
circulant_status_t circulant_comm_dup (const circulant_comm_t *comm, circulant_comm_t **made);

/* Going on without ranks that are gone, where the setting on-failure is "continue" (circulant run --on-failure continue).  An error for which
 * circulant_error_survived is 1 ends calls on communicators that such a rank is in, or that are revoked, and nothing else.
 *
 * Ends all calls on the communicator, at all its ranks, but circulant_comm_agree and circulant_comm_shrink.  Not collective. */
circulant_status_t circulant_comm_revoke (const circulant_comm_t *comm);
/* Whether this rank knows that it is revoked. */
circulant_status_t circulant_comm_is_revoked (const circulant_comm_t *comm, int *revoked);
/* The ranks of it that this rank knows to be gone: at most n are written; count is how many they are.  ranks may be NULL if n is 0. */
circulant_status_t circulant_comm_gone (const circulant_comm_t *comm, int *ranks, size_t n, size_t *count);
/* The flags that all ranks set that live.  Collective among these, also on a communicator that is revoked or has lost ranks. */
circulant_status_t circulant_comm_agree (const circulant_comm_t *comm, uint64_t flags, uint64_t *agreed);
/* The ranks that live, in their order here.  Collective as circulant_comm_agree. */
circulant_status_t circulant_comm_shrink (const circulant_comm_t *comm, circulant_comm_t **made);

/* In none of the communicators that a split makes. */
#define CIRCULANT_NO_COLOUR INT64_MIN

/* Communicators of the ranks that name the same colour, ordered by key (then by rank).  Without colour NULL is made.  Collective. */
circulant_status_t circulant_comm_split (const circulant_comm_t *comm, int64_t colour, int64_t key, circulant_comm_t **made);

/* One communicator per node.  Collective. */
circulant_status_t circulant_comm_split_by_node (const circulant_comm_t *comm, circulant_comm_t **made);

/* A communicator of these n ranks, in this order; NULL for the others.  Collective over comm; all members name the same. */
circulant_status_t circulant_comm_create (const circulant_comm_t *comm, const int *ranks, size_t n, circulant_comm_t **made);

/* A communicator of these n ranks, in this order, made by its members alone: they need not be in a call of comm.  What they tell each
 * other goes through allgather, among the members in this order, which is called once before this returns; it may call another communicator. */
circulant_status_t circulant_comm_assemble (const circulant_comm_t *comm, const int *ranks, size_t n, circulant_allgather_fn allgather,
                                            void *context, circulant_comm_t **made);

/* The same communicator with options for the calls made through the result: algorithm (a name of `circulant algorithms`), blocks,
 * deadline (in seconds), reproducible (yes or no).  Not collective, but all ranks use the same, except for the deadline. */
circulant_status_t circulant_comm_with (const circulant_comm_t *comm, const circulant_setting_t *options, size_t n,
                                        circulant_comm_t **made);

/* Frees a handle.  Not collective. */
circulant_status_t circulant_comm_free (circulant_comm_t **comm);

/* --- Memory ------------------------------------------------------------------------------------------------- */

/* So many zeroed bytes of registered memory, aligned for any type.  Not collective. */
circulant_status_t circulant_alloc (const circulant_comm_t *comm, size_t bytes, void **memory);

/* Frees what circulant_alloc gave; no call may use it. */
circulant_status_t circulant_free (void **memory);

/* Kinds of memory. */
typedef int circulant_memory_t;

enum circulant_memory {
    CIRCULANT_MEMORY_HOST = 0,
    CIRCULANT_MEMORY_CUDA = 1,
    CIRCULANT_MEMORY_ROCM = 2,
    CIRCULANT_MEMORY_LEVEL_ZERO = 3
};

/* Copies bytes, at least one of both places being memory of a device, and returns when they are there: 0, or the number of an error.  Such
 * as a function around cudaMemcpy with cudaMemcpyDefault.  It is called in the threads that call the library. */
typedef int (*circulant_copy_fn) (void *to, const void *from, size_t bytes);

/* Registers memory of the program's for the calls of a world, until it is deregistered: such calls register nothing.  It may be memory of a
 * device, by its number and with the function that copies it (of host memory: 0, NULL); dmabuf is the descriptor of the file by
 * which the kernel knows it, where it begins at offset, or -1.  A wire that does not take the memory is an error that says so;
 * `circulant info` shows which take what.  Not collective.
 *
 * Calls that reduce refuse memory of a device.  Buffers that begin in it must end in it, and while a call has them, kernels of the device
 * leave them alone.  What peers may reach after an error (over EFA, and where libfabric caches registrations) stays allocated and
 * unused then until the job has ended; there, what goes beside memory of a device in a call is to be registered, too. */
circulant_status_t circulant_register (const circulant_comm_t *comm, void *memory, size_t bytes, circulant_memory_t kind, int device,
                                       circulant_copy_fn copy, int dmabuf, uint64_t offset);

/* Ends that, by the address that was registered; no call may use the memory, and no persistent request have it. */
circulant_status_t circulant_deregister (void *memory);

/* --- Types -------------------------------------------------------------------------------------------------- */

typedef int circulant_type_t;

enum circulant_type {
    CIRCULANT_INT8 = 1,
    CIRCULANT_INT16 = 2,
    CIRCULANT_INT32 = 3,
    CIRCULANT_INT64 = 4,
    CIRCULANT_UINT8 = 5,
    CIRCULANT_UINT16 = 6,
    CIRCULANT_UINT32 = 7,
    CIRCULANT_UINT64 = 8,
    CIRCULANT_FLOAT16 = 9,         /* IEEE 754, two bytes */
    CIRCULANT_BFLOAT16 = 10,       /* the upper half of a float */
    CIRCULANT_FLOAT = 11,
    CIRCULANT_DOUBLE = 12,
    CIRCULANT_COMPLEX_FLOAT = 13,  /* float _Complex, or two floats */
    CIRCULANT_COMPLEX_DOUBLE = 14, /* double _Complex, or two doubles */
    /* For minloc and maxloc: struct { float value; int index; } and so on, padding included. */
    CIRCULANT_FLOAT_INT = 15,
    CIRCULANT_DOUBLE_INT = 16,
    CIRCULANT_INT_INT = 17,
    CIRCULANT_INT64_INT = 18,
    CIRCULANT_INT16_INT = 19,
    CIRCULANT_BYTE = CIRCULANT_UINT8
};

/* Elements of n bytes, 1 <= n < 2^30: CIRCULANT_BYTES (sizeof (struct s)).  They can be moved, and reduced by an operator of the program. */
#define CIRCULANT_BYTES(n) ((circulant_type_t) (0x40000000 | (n)))

/* Bytes of one element. */
circulant_status_t circulant_type_size (circulant_type_t type, size_t *size);

/* --- Operators ---------------------------------------------------------------------------------------------- */

typedef const struct circulant_op *circulant_op_t;

/* Integers have all of them but the last two, other numbers sum and prod, and those that are not complex min and max.  The logical ones take
 * any number but 0 for true.  Pairs have the last two: the lowest or highest value, and of equal ones the lowest index. */
#define CIRCULANT_SUM ((circulant_op_t) 1)
#define CIRCULANT_PROD ((circulant_op_t) 2)
#define CIRCULANT_MIN ((circulant_op_t) 3)
#define CIRCULANT_MAX ((circulant_op_t) 4)
#define CIRCULANT_LAND ((circulant_op_t) 5)
#define CIRCULANT_LOR ((circulant_op_t) 6)
#define CIRCULANT_LXOR ((circulant_op_t) 7)
#define CIRCULANT_BAND ((circulant_op_t) 8)
#define CIRCULANT_BOR ((circulant_op_t) 9)
#define CIRCULANT_BXOR ((circulant_op_t) 10)
#define CIRCULANT_MINLOC ((circulant_op_t) 11)
#define CIRCULANT_MAXLOC ((circulant_op_t) 12)

/* Combines n elements: right[i] becomes left[i] (*) right[i], where left comes from the lower ranks.  Associative.  It may be called by any
 * thread that is in a call, and by one of the library; it calls nothing of this header, does not throw and does not jump out. */
typedef void (*circulant_op_fn) (const void *left, void *right, size_t n, void *context);

/* An operator of the program on elements of one type.  Ranks compare operators by name, size of the elements and commutative (0: operands
 * stay in rank order).  What context leads to stays until the operator is freed and no call uses it. */
circulant_status_t circulant_op_create (const char *name, circulant_type_t type, int commutative, circulant_op_fn function,
                                        void *context, circulant_op_t *op);

/* Frees what circulant_op_create gave.  Requests that use it may still be under way. */
circulant_status_t circulant_op_free (circulant_op_t *op);

/* --- Requests ----------------------------------------------------------------------------------------------- */

/* A non-blocking call under way, or a persistent operation. */
typedef struct circulant_request circulant_request_t;

/* Whether it has finished here; moves on everything that is under way, once.  A non-blocking call that has finished is freed, and its
 * request set to NULL.  NULL, and a persistent operation that was not started, have finished. */
circulant_status_t circulant_test (circulant_request_t **request, int *finished);

/* Waits until it has finished here.  A non-blocking call is freed, and its request set to NULL. */
circulant_status_t circulant_wait (circulant_request_t **request);

/* Waits for n of them; stops at the first error. */
circulant_status_t circulant_waitall (size_t n, circulant_request_t **requests);

/* Whether all n of them have finished here; if so the non-blocking calls are freed, and set to NULL, else none is.  It does not wait. */
circulant_status_t circulant_testall (size_t n, circulant_request_t **requests, int *finished);

/* Waits until one of n has finished, and says which: the first in the list of several.  A non-blocking call is freed, and its request set to NULL.
 * NULL, and persistent operations that are not under way, do not count; if there is no other index becomes n.  No request is in the list twice. */
circulant_status_t circulant_waitany (size_t n, circulant_request_t **requests, size_t *index);

/* Starts a persistent operation, on what stands in its buffers now; all ranks start it in the same order among their other calls.  It has
 * finished when circulant_test or circulant_wait says so, and can be started again then. */
circulant_status_t circulant_start (circulant_request_t *request);

/* Frees a request of any kind; waits for what is under way. */
circulant_status_t circulant_request_free (circulant_request_t **request);

/* --- Collectives -------------------------------------------------------------------------------------------- */

/* Each in three forms: X, which returns when it has finished here; iX, which returns at once with a request; X_init, which makes a persistent
 * operation (itself a collective call).  Ranks of a communicator make their calls in the same order.
 *
 * Instead of send (of recv, where scatter and scatterv say so): what is sent stands where it would be received. */
#define CIRCULANT_IN_PLACE ((void *) -1)

circulant_status_t circulant_barrier (const circulant_comm_t *comm);
circulant_status_t circulant_ibarrier (const circulant_comm_t *comm, circulant_request_t **request);
circulant_status_t circulant_barrier_init (const circulant_comm_t *comm, circulant_request_t **request);

/* The root's buffer to all. */
circulant_status_t circulant_bcast (const circulant_comm_t *comm, void *buffer, size_t count, circulant_type_t type, int root);
circulant_status_t circulant_ibcast (const circulant_comm_t *comm, void *buffer, size_t count, circulant_type_t type, int root,
                                     circulant_request_t **request);
circulant_status_t circulant_bcast_init (const circulant_comm_t *comm, void *buffer, size_t count, circulant_type_t type, int root,
                                         circulant_request_t **request);

/* count elements of each rank to all, in rank order: recv has size * count.  In place: what rank r sends stands at recv[r * count]. */
circulant_status_t circulant_allgather (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                        circulant_type_t type);
circulant_status_t circulant_iallgather (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                         circulant_type_t type, circulant_request_t **request);
circulant_status_t circulant_allgather_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                             circulant_type_t type, circulant_request_t **request);

/* counts[r] elements of each rank r to all, to recv[displs[r]].  The lists are the same at all ranks; without displs (NULL) the parts stand
 * one behind the other, here and below.  sendcount is counts[rank].  In place as above, at recv[displs[r]]. */
circulant_status_t circulant_allgatherv (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                         const size_t *counts, const size_t *displs, circulant_type_t type);
circulant_status_t circulant_iallgatherv (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                          const size_t *counts, const size_t *displs, circulant_type_t type,
                                          circulant_request_t **request);
circulant_status_t circulant_allgatherv_init (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                              const size_t *counts, const size_t *displs, circulant_type_t type,
                                              circulant_request_t **request);

/* The same with displacements of this rank's own, as MPI has it: counts are the same at all ranks, displs need not be.  Parts that do not stand one
 * behind the other are received by way of a copy; where all ranks have the same displacements the function above has none. */
circulant_status_t circulant_allgatherv_local (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                               const size_t *counts, const size_t *displs, circulant_type_t type);
circulant_status_t circulant_iallgatherv_local (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                                const size_t *counts, const size_t *displs, circulant_type_t type,
                                                circulant_request_t **request);
circulant_status_t circulant_allgatherv_local_init (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                                    const size_t *counts, const size_t *displs, circulant_type_t type,
                                                    circulant_request_t **request);

/* count elements of each rank to the root, where recv has size * count.  recv is used there only.  In place at the root only. */
circulant_status_t circulant_gather (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                     circulant_type_t type, int root);
circulant_status_t circulant_igather (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                      circulant_type_t type, int root, circulant_request_t **request);
circulant_status_t circulant_gather_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                          circulant_type_t type, int root, circulant_request_t **request);

/* counts[r] elements of each rank r to recv[displs[r]] of the root.  All ranks give the same lists.  In place at the root only. */
circulant_status_t circulant_gatherv (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                      const size_t *counts, const size_t *displs, circulant_type_t type, int root);
circulant_status_t circulant_igatherv (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                       const size_t *counts, const size_t *displs, circulant_type_t type, int root,
                                       circulant_request_t **request);
circulant_status_t circulant_gatherv_init (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                           const size_t *counts, const size_t *displs, circulant_type_t type, int root,
                                           circulant_request_t **request);

/* The same with lists that are used at the root only, as MPI has it; without a tree. */
circulant_status_t circulant_gatherv_rooted (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                             const size_t *counts, const size_t *displs, circulant_type_t type, int root);
circulant_status_t circulant_igatherv_rooted (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                              const size_t *counts, const size_t *displs, circulant_type_t type, int root,
                                              circulant_request_t **request);
circulant_status_t circulant_gatherv_rooted_init (const circulant_comm_t *comm, const void *send, size_t sendcount, void *recv,
                                                  const size_t *counts, const size_t *displs, circulant_type_t type, int root,
                                                  circulant_request_t **request);

/* count elements of the root's send, which has size * count, to each rank.  send is used there only.  The root's recv may be
 * CIRCULANT_IN_PLACE: its part stays in send. */
circulant_status_t circulant_scatter (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                      circulant_type_t type, int root);
circulant_status_t circulant_iscatter (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                       circulant_type_t type, int root, circulant_request_t **request);
circulant_status_t circulant_scatter_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                           circulant_type_t type, int root, circulant_request_t **request);

/* counts[r] elements from send[displs[r]] of the root to each rank r; recvcount is counts[rank].  All ranks give the same lists.  The root's
 * recv may be CIRCULANT_IN_PLACE. */
circulant_status_t circulant_scatterv (const circulant_comm_t *comm, const void *send, const size_t *counts, const size_t *displs,
                                       void *recv, size_t recvcount, circulant_type_t type, int root);
circulant_status_t circulant_iscatterv (const circulant_comm_t *comm, const void *send, const size_t *counts, const size_t *displs,
                                        void *recv, size_t recvcount, circulant_type_t type, int root,
                                        circulant_request_t **request);
circulant_status_t circulant_scatterv_init (const circulant_comm_t *comm, const void *send, const size_t *counts,
                                            const size_t *displs, void *recv, size_t recvcount, circulant_type_t type, int root,
                                            circulant_request_t **request);

/* The same with lists that are used at the root only, as MPI has it; without a tree. */
circulant_status_t circulant_scatterv_rooted (const circulant_comm_t *comm, const void *send, const size_t *counts,
                                              const size_t *displs, void *recv, size_t recvcount, circulant_type_t type, int root);
circulant_status_t circulant_iscatterv_rooted (const circulant_comm_t *comm, const void *send, const size_t *counts,
                                               const size_t *displs, void *recv, size_t recvcount, circulant_type_t type, int root,
                                               circulant_request_t **request);
circulant_status_t circulant_scatterv_rooted_init (const circulant_comm_t *comm, const void *send, const size_t *counts,
                                                   const size_t *displs, void *recv, size_t recvcount, circulant_type_t type,
                                                   int root, circulant_request_t **request);

/* count elements from send[r * count] to each rank r; those of rank r come to recv[r * count].  In place recv is sent, by way of a copy. */
circulant_status_t circulant_alltoall (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                       circulant_type_t type);
circulant_status_t circulant_ialltoall (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                        circulant_type_t type, circulant_request_t **request);
circulant_status_t circulant_alltoall_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                            circulant_type_t type, circulant_request_t **request);

/* sendcounts[r] elements from send[senddispls[r]] to each rank r; recvcounts[r] come to recv[recvdispls[r]].  No rank needs another one's
 * lists.  In place recv is sent, by way of a copy, and the first two lists are not used. */
circulant_status_t circulant_alltoallv (const circulant_comm_t *comm, const void *send, const size_t *sendcounts,
                                        const size_t *senddispls, void *recv, const size_t *recvcounts, const size_t *recvdispls,
                                        circulant_type_t type);
circulant_status_t circulant_ialltoallv (const circulant_comm_t *comm, const void *send, const size_t *sendcounts,
                                         const size_t *senddispls, void *recv, const size_t *recvcounts, const size_t *recvdispls,
                                         circulant_type_t type, circulant_request_t **request);
circulant_status_t circulant_alltoallv_init (const circulant_comm_t *comm, const void *send, const size_t *sendcounts,
                                             const size_t *senddispls, void *recv, const size_t *recvcounts,
                                             const size_t *recvdispls, circulant_type_t type, circulant_request_t **request);

/* Pieces of a buffer, in bytes: count of them, each of so many bytes, the first one at offset, each stride behind the beginning of the one
 * before (what MPI_Type_create_hvector is for).  A single one is { offset, bytes, 1, 0 }. */
typedef struct circulant_piece {
    size_t offset;
    size_t bytes;
    size_t count;
    size_t stride;
} circulant_piece_t;

/* The bytes that go to one rank, or come from it: those of n pieces (NULL of none), in this order. */
typedef struct circulant_layout {
    const circulant_piece_t *pieces;
    size_t n;
} circulant_layout_t;

/* The bytes of sent[r] of send to each rank r; those that it sends come to received[r] of recv.  Each list has size layouts, and the two sides
 * may cut the bytes into different pieces; as many go to each rank as it expects.  Received pieces do not overlap; bytes in none of them stay as
 * they are.  Where each layout is one piece nothing is copied.  Layouts are read in the call (and by X_init), not later.  In place the pieces of
 * received are sent, by way of a copy, and sent is not used. */
circulant_status_t circulant_alltoallw (const circulant_comm_t *comm, const void *send, const circulant_layout_t *sent, void *recv,
                                        const circulant_layout_t *received);
circulant_status_t circulant_ialltoallw (const circulant_comm_t *comm, const void *send, const circulant_layout_t *sent, void *recv,
                                         const circulant_layout_t *received, circulant_request_t **request);
circulant_status_t circulant_alltoallw_init (const circulant_comm_t *comm, const void *send, const circulant_layout_t *sent,
                                             void *recv, const circulant_layout_t *received, circulant_request_t **request);

/* Combines count elements of all ranks, one by one, into recv of the root; recv is used there only.  In place at the root only. */
circulant_status_t circulant_reduce (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                     circulant_type_t type, circulant_op_t op, int root);
circulant_status_t circulant_ireduce (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                      circulant_type_t type, circulant_op_t op, int root, circulant_request_t **request);
circulant_status_t circulant_reduce_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                          circulant_type_t type, circulant_op_t op, int root, circulant_request_t **request);

/* Combines count elements of all ranks into recv of all: the same bits at all ranks. */
circulant_status_t circulant_allreduce (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                        circulant_type_t type, circulant_op_t op);
circulant_status_t circulant_iallreduce (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                         circulant_type_t type, circulant_op_t op, circulant_request_t **request);
circulant_status_t circulant_allreduce_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                             circulant_type_t type, circulant_op_t op, circulant_request_t **request);

/* Combines size * count elements of all ranks; rank r gets count of them, from r * count on.  In place recv has all of them, and its
 * beginning gets the result. */
circulant_status_t circulant_reduce_scatter_block (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                                   circulant_type_t type, circulant_op_t op);
circulant_status_t circulant_ireduce_scatter_block (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                                    circulant_type_t type, circulant_op_t op, circulant_request_t **request);
circulant_status_t circulant_reduce_scatter_block_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                                        circulant_type_t type, circulant_op_t op, circulant_request_t **request);

/* The same with counts[r] elements for rank r, one part behind the other; the same list at all ranks. */
circulant_status_t circulant_reduce_scatter (const circulant_comm_t *comm, const void *send, void *recv, const size_t *counts,
                                             circulant_type_t type, circulant_op_t op);
circulant_status_t circulant_ireduce_scatter (const circulant_comm_t *comm, const void *send, void *recv, const size_t *counts,
                                              circulant_type_t type, circulant_op_t op, circulant_request_t **request);
circulant_status_t circulant_reduce_scatter_init (const circulant_comm_t *comm, const void *send, void *recv, const size_t *counts,
                                                  circulant_type_t type, circulant_op_t op, circulant_request_t **request);

/* Combines count elements of the ranks up to this one, in their order. */
circulant_status_t circulant_scan (const circulant_comm_t *comm, const void *send, void *recv, size_t count, circulant_type_t type,
                                   circulant_op_t op);
circulant_status_t circulant_iscan (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                    circulant_type_t type, circulant_op_t op, circulant_request_t **request);
circulant_status_t circulant_scan_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                        circulant_type_t type, circulant_op_t op, circulant_request_t **request);

/* The same of the ranks before this one; rank 0's recv stays as it is. */
circulant_status_t circulant_exscan (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                     circulant_type_t type, circulant_op_t op);
circulant_status_t circulant_iexscan (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                      circulant_type_t type, circulant_op_t op, circulant_request_t **request);
circulant_status_t circulant_exscan_init (const circulant_comm_t *comm, const void *send, void *recv, size_t count,
                                          circulant_type_t type, circulant_op_t op, circulant_request_t **request);

/* --- Neighbourhoods ----------------------------------------------------------------------------------------- */

/* The ranks that this one receives from (sources) and sends to (destinations), in an order that buffers and lists follow.  Its calls are calls of
 * the communicator that it was made of: all ranks make them, in the same order among their other calls. */
typedef struct circulant_neighborhood circulant_neighborhood_t;

/* Beyond the border of a grid: it keeps its place in buffers and lists, which is not touched. */
#define CIRCULANT_NO_RANK (-1)

/* A graph of which each rank gives its own edges, as of MPI_Dist_graph_create_adjacent.  A rank may be in a list several times, and may be this
 * one; each edge is a destination at its one end and a source at the other.  A list of no ranks may be NULL.  Collective. */
circulant_status_t circulant_dist_graph (const circulant_comm_t *comm, const int *sources, size_t nsources, const int *destinations,
                                         size_t ndestinations, circulant_neighborhood_t **made);

/* A grid of all ranks, row-major: the last coordinate runs fastest.  A dimension is a ring where periodic is not 0.  Neighbours, as MPI orders
 * them: for each dimension the one in negative, then the one in positive direction, which are both sources and destinations.  Not collective; the
 * product of dims is the size. */
circulant_status_t circulant_cartesian (const circulant_comm_t *comm, const int *dims, const int *periodic, size_t ndims,
                                        circulant_neighborhood_t **made);

/* How many they are, and which: each list gets as many ranks, some of which may be CIRCULANT_NO_RANK. */
circulant_status_t circulant_neighborhood_size (const circulant_neighborhood_t *on, size_t *sources, size_t *destinations);
circulant_status_t circulant_neighborhood_ranks (const circulant_neighborhood_t *on, int *sources, int *destinations);

/* Frees a handle.  Not collective. */
circulant_status_t circulant_neighborhood_free (circulant_neighborhood_t **on);

/* count elements to each destination, the same to all; as many of source i come to recv[i * count]. */
circulant_status_t circulant_neighbor_allgather (const circulant_neighborhood_t *on, const void *send, void *recv, size_t count,
                                                 circulant_type_t type);
circulant_status_t circulant_ineighbor_allgather (const circulant_neighborhood_t *on, const void *send, void *recv, size_t count,
                                                  circulant_type_t type, circulant_request_t **request);
circulant_status_t circulant_neighbor_allgather_init (const circulant_neighborhood_t *on, const void *send, void *recv,
                                                      size_t count, circulant_type_t type, circulant_request_t **request);

/* sendcount elements to each destination; counts[i] of source i come to recv[displs[i]].  Lists are this rank's own, here and below. */
circulant_status_t circulant_neighbor_allgatherv (const circulant_neighborhood_t *on, const void *send, size_t sendcount, void *recv,
                                                  const size_t *counts, const size_t *displs, circulant_type_t type);
circulant_status_t circulant_ineighbor_allgatherv (const circulant_neighborhood_t *on, const void *send, size_t sendcount, void *recv,
                                                   const size_t *counts, const size_t *displs, circulant_type_t type,
                                                   circulant_request_t **request);
circulant_status_t circulant_neighbor_allgatherv_init (const circulant_neighborhood_t *on, const void *send, size_t sendcount,
                                                       void *recv, const size_t *counts, const size_t *displs,
                                                       circulant_type_t type, circulant_request_t **request);

/* count elements from send[i * count] to destination i; those of source i come to recv[i * count]. */
circulant_status_t circulant_neighbor_alltoall (const circulant_neighborhood_t *on, const void *send, void *recv, size_t count,
                                                circulant_type_t type);
circulant_status_t circulant_ineighbor_alltoall (const circulant_neighborhood_t *on, const void *send, void *recv, size_t count,
                                                 circulant_type_t type, circulant_request_t **request);
circulant_status_t circulant_neighbor_alltoall_init (const circulant_neighborhood_t *on, const void *send, void *recv, size_t count,
                                                     circulant_type_t type, circulant_request_t **request);

/* sendcounts[i] elements from send[senddispls[i]] to destination i; recvcounts[i] of source i come to recv[recvdispls[i]].  In place blocks are sent
 * from recv itself, without a copy (a field and its halo in one buffer): what is sent is not received into. */
circulant_status_t circulant_neighbor_alltoallv (const circulant_neighborhood_t *on, const void *send, const size_t *sendcounts,
                                                 const size_t *senddispls, void *recv, const size_t *recvcounts,
                                                 const size_t *recvdispls, circulant_type_t type);
circulant_status_t circulant_ineighbor_alltoallv (const circulant_neighborhood_t *on, const void *send, const size_t *sendcounts,
                                                  const size_t *senddispls, void *recv, const size_t *recvcounts,
                                                  const size_t *recvdispls, circulant_type_t type, circulant_request_t **request);
circulant_status_t circulant_neighbor_alltoallv_init (const circulant_neighborhood_t *on, const void *send, const size_t *sendcounts,
                                                      const size_t *senddispls, void *recv, const size_t *recvcounts,
                                                      const size_t *recvdispls, circulant_type_t type,
                                                      circulant_request_t **request);

#ifdef __cplusplus
}
#endif

#endif
