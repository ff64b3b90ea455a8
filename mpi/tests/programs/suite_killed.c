/* A rank is killed. The others are in a collective and must get an error from it; the launcher is told to let them live.
 *
 *   suite_killed FOLDER     each rank that learned of it says so in a file there
 */
#include "suite.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int word, sum, code = MPI_SUCCESS;
    suite_begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < 1000 && code == MPI_SUCCESS; round++) {
        word = round;
        code = MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (round == 100 && suite_rank == 1)
            raise(SIGKILL);
    }
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_Error_string(code, text, &length);
        char path[4096];
        snprintf(path, sizeof path, "%s/rank%d", argc > 1 ? argv[1] : ".", suite_rank);
        FILE *file = fopen(path, "w");
        if (file) {
            fprintf(file, "rank %d learned of it: %s\n", suite_rank, text);
            fclose(file);
        }
    }
    _exit(code == MPI_SUCCESS); /* no MPI_Finalize: it waits for the rank that is gone */
}
