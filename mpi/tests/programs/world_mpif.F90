! MPI in Fortran by mpif.h.
#define INTERFACE 77
#include "world.inc"
