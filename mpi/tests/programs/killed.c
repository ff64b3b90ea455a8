/* MPI_ERRORS_RETURN: a rank is killed while the others are in collectives. Each of them gets an error code, and goes on.
 *
 * Each rank is a child of the process that the launcher started, and that ends well whatever becomes of it: launchers end all ranks of a
 * job when one dies. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int mine, sum = 0, code = MPI_SUCCESS;
    signal(SIGUSR1, SIG_IGN); /* by which MPICH's launcher tells that a rank has gone */
    pid_t child = fork();
    if (child > 0) {
        int status;
        while (waitpid(child, &status, 0) < 0) {}
        return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < 1000 && code == MPI_SUCCESS; round++) {
        if (round == 100 && me == 1) raise(SIGKILL);
        mine = value(me, round);
        code = MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (code == MPI_SUCCESS) CHECK(round < 100 && sum == sum_below(np, round), "round %d: %d", round, sum);
    }
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    CHECK(code != MPI_SUCCESS && MPI_Error_string(code, text, &length) == MPI_SUCCESS && length > 0, "code %d", code);
    fprintf(stderr, "rank %d learned of it\n", me);
    if (me == 0) printf("%ld checks, %ld wrong\n", checks, wrong);
    fflush(stdout);
    _exit(wrong != 0); /* no MPI_Finalize, which waits for the rank that is gone */
}
