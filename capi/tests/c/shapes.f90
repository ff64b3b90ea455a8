! One function of each shape of circulant.f90, in the forms that differ.
module counting
  use, intrinsic :: iso_c_binding
  implicit none
contains

  subroutine hook(context) bind(c)
    type(c_ptr), value :: context
    integer(c_int), pointer :: turns
    call c_f_pointer(context, turns)
    turns = turns + 1
  end subroutine
end module counting

program shapes
  use circulant
  use counting
  implicit none
  type(c_ptr) :: world, comm, other, request, requests(2), ring, ending
  integer(c_int) :: me, p, finished, ranks(2), targets(2), dims(1), rings(1), order(1)
  integer(c_int), target :: color
  integer(c_size_t) :: sources, destinations, which, bytes, i
  integer(c_int64_t), target :: mine(4), words(64)
  integer(c_size_t) :: counts(32), places(32)
  type(circulant_piece), target :: pieces(32)
  type(circulant_layout) :: sent(32), got(32)

  call ok(circulant_init(world), "init")
  call ok(circulant_world_comm(world, comm), "world_comm")
  call ok(circulant_comm_rank(comm, me), "comm_rank")
  call ok(circulant_comm_size(comm, p), "comm_size")
  if (p > 16) error stop "at most 16 ranks"
  call ok(circulant_type_size(CIRCULANT_INT64, bytes), "type_size")
  call so(bytes == 8 .and. len(circulant_version()) > 0 .and. len(circulant_world_launcher(world)) > 0, "version")
  color = 0
  call ok(circulant_while_waiting(world, c_funloc(hook), c_loc(color)), "while_waiting")
  call ok(circulant_comm_split(comm, int(mod(me, 2), c_int64_t), 0_c_int64_t, other), "comm_split")
  call ok(circulant_comm_free(other), "comm_free")
  order(1) = 0
  call ok(circulant_comm_create(comm, order, 1_c_size_t, other), "comm_create")
  call so(c_associated(other) .eqv. me == 0, "members")
  call ok(circulant_comm_free(other), "comm_free")

  call ok(circulant_barrier(comm), "barrier")
  mine = me
  call ok(circulant_ibcast(comm, c_loc(mine), 1_c_size_t, CIRCULANT_INT64, p - 1, requests(1)), "ibcast")
  requests(2) = c_null_ptr
  call ok(circulant_waitany(2_c_size_t, requests, which), "waitany")
  call so(which == 0 .and. mine(1) == p - 1, "bcast")
  mine = me
  call ok(circulant_alltoall_init(comm, c_loc(words(33)), c_loc(words), 1_c_size_t, CIRCULANT_INT64, request), &
    "alltoall_init")
  words(33:) = me
  call ok(circulant_start(request), "start")
  call ok(circulant_wait(request), "wait")
  call ok(circulant_request_free(request), "request_free")
  call so(all_are_ranks(1), "alltoall")
  call ok(circulant_gather(comm, c_loc(mine), c_loc(words), 1_c_size_t, CIRCULANT_INT64, 0), "gather")
  call so(me > 0 .or. all_are_ranks(1), "gather")
  counts = 2
  words = -1
  call ok(circulant_allgatherv(comm, c_loc(mine), 2_c_size_t, c_loc(words), counts, type=CIRCULANT_INT64), "allgatherv")
  call so(all_are_ranks(2), "allgatherv")
  places = [(2 * (p - 1 - i), i = 0, 31)]
  call ok(circulant_allgatherv_local(comm, c_loc(mine), 2_c_size_t, c_loc(words), counts, places, CIRCULANT_INT64), "local")
  call so(words(1) == p - 1 .and. words(2 * p) == 0, "allgatherv_local")
  call ok(circulant_gatherv(comm, c_loc(mine), 2_c_size_t, c_loc(words), counts, type=CIRCULANT_INT64, root=0), "gatherv")
  call so(me > 0 .or. all_are_ranks(2), "gatherv")
  words = [(i - 1, i = 1, 64)]
  call ok(circulant_scatterv(comm, c_loc(words), counts, recv=c_loc(mine), recvcount=2_c_size_t, type=CIRCULANT_INT64, &
    root=0), "scatterv")
  call so(mine(1) == 2 * me .and. mine(2) == 2 * me + 1, "scatterv")
  words(33:) = me
  call ok(circulant_alltoallv(comm, c_loc(words(33)), counts, recv=c_loc(words), recvcounts=counts, &
    type=CIRCULANT_INT64), "alltoallv")
  call so(all_are_ranks(2), "alltoallv")
  ! To rank r the words r and p + r; they come one behind the other.
  do i = 1, p
    pieces(i) = circulant_piece(8 * (i - 1), 8, 2, 8 * p)
    sent(i) = circulant_layout(c_loc(pieces(i)), 1)
    pieces(16 + i) = circulant_piece(16 * (i - 1), 16, 1, 0)
    got(i) = circulant_layout(c_loc(pieces(16 + i)), 1)
  end do
  words(33:) = [(100 * me + i, i = 0, 31)]
  call ok(circulant_alltoallw(comm, c_loc(words(33)), sent, c_loc(words), got), "alltoallw")
  call so(words(2 * p - 1) == 100 * (p - 1) + me .and. words(2 * p) == 100 * (p - 1) + p + me, "alltoallw")

  mine = me + 1
  call ok(circulant_reduce(comm, c_loc(mine), c_loc(words), 1_c_size_t, CIRCULANT_INT64, circulant_op(CIRCULANT_SUM), &
    0), "reduce")
  call so(me > 0 .or. words(1) == p * (p + 1) / 2, "reduce")
  call ok(circulant_iscan(comm, c_loc(mine), c_loc(words), 1_c_size_t, CIRCULANT_INT64, circulant_op(CIRCULANT_SUM), &
    request), "iscan")
  finished = 0
  do while (finished == 0)
    call ok(circulant_test(request, finished), "test")
  end do
  call so(words(1) == (me + 1) * (me + 2) / 2, "iscan")
  words(33:) = 1
  call ok(circulant_reduce_scatter(comm, c_loc(words(33)), c_loc(words), counts, CIRCULANT_INT64, &
    circulant_op(CIRCULANT_SUM)), "parts")
  call so(words(1) == p .and. words(2) == p, "reduce_scatter")

  dims = p
  rings = 1
  call ok(circulant_cartesian(comm, dims, rings, 1_c_size_t, ring), "cartesian")
  call ok(circulant_neighborhood_size(ring, sources, destinations), "neighborhood_size")
  call ok(circulant_neighborhood_ranks(ring, ranks, targets), "neighborhood_ranks")
  call so(sources == 2 .and. destinations == 2 .and. ranks(2) == mod(me + 1, p), "neighbours")
  mine = me
  call ok(circulant_neighbor_alltoall(ring, c_loc(mine), c_loc(words), 1_c_size_t, CIRCULANT_INT64), "neighbor_alltoall")
  call so(words(1) == ranks(1) .and. words(2) == ranks(2), "neighbor_alltoall")
  call ok(circulant_neighborhood_free(ring), "neighborhood_free")
  call ok(circulant_dist_graph(comm, nsources=0_c_size_t, ndestinations=0_c_size_t, made=ring), "dist_graph")
  call ok(circulant_neighborhood_free(ring), "neighborhood_free")

  call so(circulant_barrier(c_null_ptr) == CIRCULANT_ERR_ARGUMENT, "no communicator")
  call so(circulant_message() == "comm is NULL" .and. circulant_error_remedy() == "" .and. circulant_error_peer() == -1, "message")
  call ok(circulant_comm_free(comm), "comm_free")
  call ok(circulant_finalize_start(world, ending), "finalize_start")
  finished = 0
  do while (finished == 0)
    call ok(circulant_finalize_test(ending, finished), "finalize_test")
  end do
  call so(p == 1 .or. color > 0, "the hook was called")
  if (me == 0) print '(a)', "all shapes"

contains

  ! words has n words of each rank, each its number.
  logical function all_are_ranks(n)
    integer, intent(in) :: n
    integer :: k
    all_are_ranks = all(words(1:n * p) == [(int((k - 1) / n, c_int64_t), k = 1, n * p)])
  end function

  subroutine ok(status, what)
    integer(c_int), intent(in) :: status
    character(len=*), intent(in) :: what
    if (status == CIRCULANT_OK) return
    print '(4a)', what, ": ", circulant_message()
    error stop 1
  end subroutine

  subroutine so(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    print '(2a)', "not so: ", what
    error stop 1
  end subroutine
end program shapes
