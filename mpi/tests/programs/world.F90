! MPI in Fortran by "use mpi".
#define INTERFACE 90
#include "world.inc"
