! MPI in Fortran by "use mpi_f08".
#define INTERFACE 8
#include "world.inc"
