! The wrappers of `use mpi` and the includes of mpif.h: what they pass is C's.
program world
  use mpi
  implicit none
  integer :: ierr, me, np, i, total, op
  integer :: mine(3), sums(3)
  logical :: yes, both
  double precision :: x(5), pairs(2), least(2)
  external :: larger
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  mine = [me, me + 1, -me]
  call MPI_Allreduce(mine, sums, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  total = np * (np - 1) / 2
  if (any(sums /= [total, total + np, -total])) stop 2
  call MPI_Allreduce(MPI_IN_PLACE, mine, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (any(mine /= sums)) stop 3
  yes = me == 0
  call MPI_Allreduce(yes, both, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierr)
  if (.not. both) stop 4
  call MPI_Allreduce(yes, both, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
  if (both .neqv. (np == 1)) stop 5
  x = 0
  if (me == 0) x = [(dble(i), i = 1, 5)]
  call MPI_Bcast(x, 5, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
  if (any(x /= [(dble(i), i = 1, 5)])) stop 6
  pairs = [dble(np - me), dble(me)]
  call MPI_Allreduce(pairs, least, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, MPI_COMM_WORLD, ierr)
  if (least(1) /= 1 .or. least(2) /= np - 1) stop 7
  call MPI_Op_create(larger, .true., op, ierr)
  mine = [me, -me, 7]
  call MPI_Allreduce(mine, sums, 3, MPI_INTEGER, op, MPI_COMM_WORLD, ierr)
  if (any(sums /= [np - 1, 0, 7])) stop 8
  call MPI_Op_free(op, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (me == 0) print '(a)', "9 checks, 0 wrong"
  call MPI_Finalize(ierr)
end program

subroutine larger(a, b, n, kind)
  use mpi
  implicit none
  integer :: n, kind, i
  integer :: a(n), b(n)
  if (kind /= MPI_INTEGER) stop 9
  do i = 1, n
    b(i) = max(a(i), b(i))
  end do
end subroutine
