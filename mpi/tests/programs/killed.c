/* MPI_ERRORS_RETURN: a rank is killed while the others are in collectives. Each of them gets an error code, and goes on.
 * KILLED_IN_REQUESTS: in non-blocking ones.
 *
 * Each rank is a child of the process that the launcher started: launchers end all ranks of a job when one dies, or ends without
 * MPI_Finalize. So these processes end well, whatever becomes of the ranks, and when all ranks are through: each leaves a file. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* This rank is through: it has said what it had to say. */
static void leave_file(void)
{
    char name[32];
    snprintf(name, sizeof name, "through-%d-of-%d", me, np);
    fclose(fopen(name, "w"));
}

static int all_are_through(void)
{
    char name[32];
    for (int n = 1; n < 64; n++) {
        int there = 0;
        for (int r = 0; r < n; r++) snprintf(name, sizeof name, "through-%d-of-%d", r, n), there += access(name, F_OK) == 0;
        if (there == n) return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int mine, sum = 0, code = MPI_SUCCESS;
    signal(SIGUSR1, SIG_IGN); /* by which MPICH's launcher tells that a rank has gone */
    pid_t child = fork();
    if (child > 0) {
        int status;
        while (waitpid(child, &status, 0) < 0) {}
        for (int tries = 0; tries < 6000 && !all_are_through(); tries++) usleep(10 * 1000);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < 1000 && code == MPI_SUCCESS; round++) {
        if (round == 100 && me == 1) leave_file(), raise(SIGKILL);
        mine = value(me, round);
        if (getenv("KILLED_IN_REQUESTS")) {
            MPI_Request request;
            code = MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
            if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            code = MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
        if (code == MPI_SUCCESS) CHECK(round < 100 && sum == sum_below(np, round), "round %d: %d", round, sum);
    }
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    CHECK(code != MPI_SUCCESS && MPI_Error_string(code, text, &length) == MPI_SUCCESS && length > 0, "code %d", code);
    fprintf(stderr, "rank %d learned of it\n", me);
    if (me == 0) printf("%ld checks, %ld wrong\n", checks, wrong);
    fflush(stdout);
    leave_file();
    _exit(wrong != 0); /* no MPI_Finalize, which waits for the rank that is gone */
}
