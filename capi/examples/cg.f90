! Conjugate gradients on the one-dimensional Laplacian, as cg.c: each rank has a part of n unknowns.
!
!     gfortran circulant.f90 cg.f90 $(pkg-config --libs circulant) -o cg && circulant run -n 4 ./cg
program cg
  use circulant
  implicit none
  integer, parameter :: n = 1000
  type(c_ptr) :: world, comm, halo
  integer(c_int) :: me, ranks
  integer :: first, mine, iteration
  integer(c_size_t), allocatable :: counts(:), from(:), to(:)
  real(c_double), allocatable :: p(:), q(:), r(:), x(:)
  real(c_double), target :: ends(2), got(2), worst
  real(c_double) :: rr, old, alpha

  call must(circulant_init(world))
  call must(circulant_world_comm(world, comm))
  call must(circulant_comm_rank(comm, me))
  call must(circulant_comm_size(comm, ranks))
  first = n * me / ranks
  mine = n * (me + 1) / ranks - first
  allocate (p(0:mine + 1), q(mine), r(mine), x(mine), source=0.0_c_double)
  allocate (counts(0:ranks - 1), from(0:ranks - 1), to(0:ranks - 1), source=0_c_size_t)
  ! Our ends go to the neighbours, and theirs come: one element each.
  got = 0
  if (me > 0) counts(me - 1) = 1
  if (me + 1 < ranks) then
    counts(me + 1) = 1
    from(me + 1) = 1
    to(me + 1) = 1
  end if
  call must(circulant_alltoallv_init(comm, c_loc(ends), counts, from, c_loc(got), counts, to, CIRCULANT_DOUBLE, halo))

  ! A x = b with b such that x = 1: b is 0 but for the ends.
  if (first == 0) r(1) = r(1) + 1
  if (first + mine == n) r(mine) = r(mine) + 1
  p(1:mine) = r
  rr = dot(r, r)
  do iteration = 0, 2 * n
    if (sqrt(rr) <= 1e-10_c_double) exit
    ends = [p(1), p(mine)]
    call must(circulant_start(halo))
    call must(circulant_wait(halo))
    p(0) = got(1)
    p(mine + 1) = got(2)
    q = 2 * p(1:mine) - p(0:mine - 1) - p(2:mine + 1)
    alpha = rr / dot(p(1:mine), q)
    x = x + alpha * p(1:mine)
    r = r - alpha * q
    old = rr
    rr = dot(r, r)
    p(1:mine) = r + rr / old * p(1:mine)
  end do
  worst = maxval(abs(x - 1))
  call must(circulant_allreduce(comm, circulant_in_place(), c_loc(worst), 1_c_size_t, CIRCULANT_DOUBLE, &
    circulant_op(CIRCULANT_MAX)))
  if (me == 0) then
    print '(a,a,i0,a,i0,a,i0,a,a)', circulant_world_provider(world), ": ", ranks, " ranks, ", n, " unknowns, ", iteration, &
      " iterations, error below 1e-6: ", merge("yes", "no ", worst < 1e-6_c_double)
  end if
  call must(circulant_request_free(halo))
  call must(circulant_comm_free(comm))
  call must(circulant_finalize(world))
  if (worst >= 1e-6_c_double) stop 1

contains

  real(c_double) function dot(a, b)
    real(c_double), intent(in) :: a(:), b(:)
    real(c_double), target :: total
    total = dot_product(a, b)
    call must(circulant_allreduce(comm, circulant_in_place(), c_loc(total), 1_c_size_t, CIRCULANT_DOUBLE, &
      circulant_op(CIRCULANT_SUM)))
    dot = total
  end function

  subroutine must(status)
    integer(c_int), intent(in) :: status
    if (status == CIRCULANT_OK) return
    print '(a)', circulant_message()
    stop 1
  end subroutine
end program cg
