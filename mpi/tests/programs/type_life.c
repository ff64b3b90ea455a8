/* Derived types from their making to their end: not committed they are refused as by the MPI, and the handle of one that was freed is
 * another type when it is used again. */
#include "check.h"

static MPI_Comm comm;

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* Before and after the commit. */
static void commits(MPI_Datatype type, const char *what)
{
    int numbers[16];
    for (int i = 0; i < 16; i++) numbers[i] = me == 0 ? value(0, i) : -1;
    int code = MPI_Bcast(numbers, 1, type, 0, comm);
    CHECK(class_of(code) == MPI_ERR_TYPE, "%s: %d", what, code);
    code = MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, numbers, 1, type, comm);
    CHECK(class_of(code) == MPI_ERR_TYPE, "%s: %d", what, code);
    CHECK(numbers[0] == (me == 0 ? value(0, 0) : -1), "%s: %d", what, numbers[0]);
    MPI_Type_commit(&type);
    code = MPI_Bcast(numbers, 1, type, 0, comm);
    CHECK(code == MPI_SUCCESS && numbers[0] == value(0, 0), "%s: %d, %d", what, code, numbers[0]);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    MPI_Datatype type;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);

    MPI_Type_contiguous(3, MPI_INT, &type);
    commits(type, "contiguous");
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    commits(type, "vector");

    /* A copy of a committed type is committed (MPI 4.1, section 5.1.8), and lives on without the other one. */
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Datatype copy;
    MPI_Type_commit(&type);
    int two[2] = {me, me};
    MPI_Bcast(two, 1, type, 0, comm);
    MPI_Type_dup(type, &copy);
    MPI_Type_free(&type);
    two[0] = two[1] = me + 5;
    MPI_Bcast(two, 1, copy, 0, comm);
    CHECK(two[0] == 5 && two[1] == 5, "%d %d", two[0], two[1]);
    MPI_Type_free(&copy);

    for (int i = 0; i < 300; i++) {
        int n = 1 + i * 7 % 5, stride = 1 + i % 2, numbers[12];
        for (int k = 0; k < 12; k++) numbers[k] = me == 0 ? value(i, k) : -1;
        MPI_Type_vector(n, 1, stride, MPI_INT, &type);
        if (stride == 1) {
            MPI_Type_free(&type);
            MPI_Type_contiguous(n, MPI_INT, &type);
        }
        MPI_Type_commit(&type);
        MPI_Bcast(numbers, 1, type, 0, comm);
        for (int k = 0; k < 12; k++) {
            int moved = k % stride == 0 && k / stride < n;
            CHECK(numbers[k] == (moved || me == 0 ? value(i, k) : -1), "type %d, int %d: %d", i, k, numbers[k]);
        }
        MPI_Type_free(&type);
    }
    MPI_Comm_free(&comm);
    return verdict();
}
