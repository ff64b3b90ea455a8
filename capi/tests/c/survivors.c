/* Ranks that go on without one that is killed: circulant run -n 4 --on-failure continue survivors */
#define _POSIX_C_SOURCE 200809L
#include <circulant.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf ("line %d: %s: %s\n", __LINE__, #condition, circulant_last_error ()); \
            exit (1); \
        } \
    } while (0)

enum { LOST = 2 };

int main (void)
{
    circulant_world_t *world;
    circulant_comm_t *comm, *copy, *left;
    int rank, size, n, revoked = 0, gone[8], status, members = 0;
    size_t count = 9;
    uint64_t agreed = 0;
    double one = 1;

    CHECK (circulant_init (NULL, 0, &world) == CIRCULANT_OK && circulant_world_comm (world, &comm) == CIRCULANT_OK);
    CHECK (circulant_comm_rank (comm, &rank) == CIRCULANT_OK && circulant_comm_size (comm, &size) == CIRCULANT_OK);
    CHECK (circulant_comm_is_revoked (comm, &revoked) == CIRCULANT_OK && revoked == 0);
    CHECK (circulant_comm_gone (comm, NULL, 0, &count) == CIRCULANT_OK && count == 0);
    CHECK (circulant_comm_agree (comm, rank == 0 ? 6 : 3, &agreed) == CIRCULANT_OK && agreed == 2);
    CHECK (circulant_comm_agree (comm, 1, NULL) == CIRCULANT_ERR_ARGUMENT && circulant_error_survived () == 0);

    /* One that is revoked, while the other goes on. */
    CHECK (circulant_comm_dup (comm, &copy) == CIRCULANT_OK);
    if (rank == 1)
        CHECK (circulant_comm_revoke (copy) == CIRCULANT_OK);
    CHECK (circulant_barrier (copy) == CIRCULANT_ERR_REVOKED && circulant_error_survived () == 1);
    CHECK (circulant_comm_is_revoked (copy, &revoked) == CIRCULANT_OK && revoked == 1);
    CHECK (circulant_comm_shrink (copy, &left) == CIRCULANT_OK);
    CHECK (circulant_barrier (left) == CIRCULANT_OK && circulant_barrier (comm) == CIRCULANT_OK);
    CHECK (circulant_comm_free (&copy) == CIRCULANT_OK && circulant_comm_free (&left) == CIRCULANT_OK);

    /* One that loses a rank. */
    if (rank == LOST)
        raise (SIGKILL);
    while ((status = circulant_allreduce (comm, CIRCULANT_IN_PLACE, &one, 1, CIRCULANT_DOUBLE, CIRCULANT_MAX)) == CIRCULANT_OK)
        ;
    CHECK (status == CIRCULANT_ERR_PEER_LOST && circulant_error_survived () == 1 && circulant_error_peer () == LOST);
    CHECK (circulant_comm_shrink (comm, &left) == CIRCULANT_OK && circulant_comm_size (left, &n) == CIRCULANT_OK && n == size - 1);
    CHECK (circulant_comm_gone (comm, gone, 8, &count) == CIRCULANT_OK && count == 1 && gone[0] == LOST);
    CHECK (circulant_allreduce (left, &(int) { 1 }, &members, 1, CIRCULANT_INT32, CIRCULANT_SUM) == CIRCULANT_OK && members == n);
    printf ("left among %d\n", n);
    CHECK (circulant_comm_free (&left) == CIRCULANT_OK && circulant_comm_free (&comm) == CIRCULANT_OK);
    return circulant_finalize (&world) != CIRCULANT_OK;
}
