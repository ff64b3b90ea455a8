/* MPI_ERRORS_RETURN: wrong arguments give the class that the MPI itself gives, the handler that the program set is called, and the
 * communicator goes on working. */
#include "suite.h"

static MPI_Comm comm;
static int handled;

static void handler(MPI_Comm *which, int *code, ...)
{
    (void)which;
    (void)code;
    handled++;
}

static int class_of(int code)
{
    int class = -1;
    if (code == MPI_SUCCESS)
        return MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

static void judge(const char *what, int ours, int theirs)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length, word = suite_rank, sum = -1;
    if (class_of(ours) != class_of(theirs))
        wrong("%s: class %d, not %d", what, class_of(ours), class_of(theirs));
    if (ours != MPI_SUCCESS && (MPI_Error_string(ours, text, &length) != MPI_SUCCESS || length == 0))
        wrong("%s: code %d has no text", what, ours);
    if (MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS || sum != suite_size * (suite_size - 1) / 2)
        wrong("after %s: the sum is %d", what, sum);
}

#define TRY(call) judge(#call, MPI_##call, REAL_##call)
#define REAL_Bcast REAL(MPI_Bcast)
#define REAL_Allreduce REAL(MPI_Allreduce)
#define REAL_Reduce REAL(MPI_Reduce)
#define REAL_Gather REAL(MPI_Gather)
#define REAL_Allgather REAL(MPI_Allgather)
#define REAL_Alltoallv REAL(MPI_Alltoallv)
#define REAL_Barrier REAL(MPI_Barrier)

static void wrong_arguments(void)
{
    int in[64] = {0}, out[64] = {0}, negative[64], zeros[64] = {0};
    MPI_Datatype raw;
    for (int i = 0; i < 64; i++)
        negative[i] = -1;
    TRY(Bcast(in, 4, MPI_INT, suite_size, comm));
    TRY(Bcast(in, 4, MPI_INT, -7, comm));
    TRY(Bcast(in, -1, MPI_INT, 0, comm));
    TRY(Bcast(in, 4, MPI_DATATYPE_NULL, 0, comm));
    TRY(Reduce(in, out, 4, MPI_INT, MPI_SUM, suite_size, comm));
    TRY(Allreduce(in, out, 4, MPI_INT, MPI_OP_NULL, comm));
    TRY(Allreduce(in, out, 4, MPI_DOUBLE, MPI_BAND, comm)); /* undefined on floating types */
    TRY(Gather(in, -1, MPI_INT, out, -1, MPI_INT, 0, comm));
    TRY(Allgather(in, 1, MPI_INT, out, 1, MPI_DATATYPE_NULL, comm));
    TRY(Alltoallv(in, negative, zeros, MPI_INT, out, negative, zeros, MPI_INT, comm));
    MPI_Type_contiguous(2, MPI_INT, &raw); /* not committed */
    TRY(Bcast(in, 1, raw, 0, comm));
    MPI_Type_free(&raw);
}

int main(int argc, char **argv)
{
    MPI_Errhandler own;
    suite_begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* MPI 4: where no communicator is meant */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    wrong_arguments();
    TRY(Barrier(MPI_COMM_NULL));
    TRY(Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_NULL));
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(comm, own);
    wrong_arguments();
    if (handled == 0 || handled % 2)
        wrong("the handler was called %d times: not as often for ours as for theirs", handled);
    MPI_Errhandler_free(&own);
    MPI_Comm_free(&comm);
    return suite_end();
}
