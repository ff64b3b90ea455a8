! circulant for Fortran 2018: the functions of circulant.h by iso_c_binding.  What each does is said there.
!
!     use circulant
!     type(c_ptr) :: world, comm
!     real(c_double), target :: total
!     if (circulant_init(world) /= CIRCULANT_OK) stop circulant_message()
!
! Differences to C: handles are type(c_ptr), buffers are passed by c_loc (of contiguous targets), operators are type(c_ptr) that
! circulant_op makes of the constants, and what is in place is circulant_in_place(). Ranks and displacements count from 0, as in C.
! Lists that are not present are NULL, names end in c_null_char, and functions of the program are passed by c_funloc.
module circulant
  use, intrinsic :: iso_c_binding
  implicit none
  private :: text_of

  integer(c_int), parameter :: CIRCULANT_OK = 0, CIRCULANT_ERR_ARGUMENT = -1, CIRCULANT_ERR_MISMATCH = -2, &
    CIRCULANT_ERR_TIMEOUT = -3, CIRCULANT_ERR_PEER_LOST = -4, CIRCULANT_ERR_ABORTED = -5, CIRCULANT_ERR_TRANSPORT = -6, &
    CIRCULANT_ERR_LAUNCH = -7, CIRCULANT_ERR_CONFIG = -8, CIRCULANT_ERR_LIBRARY = -9, CIRCULANT_ERR_SYSTEM = -10, &
    CIRCULANT_ERR_REVOKED = -11, &
    CIRCULANT_ERR_OTHER = -99, CIRCULANT_ERR_INTERNAL = -100

  integer(c_int), parameter :: CIRCULANT_INT8 = 1, CIRCULANT_INT16 = 2, CIRCULANT_INT32 = 3, CIRCULANT_INT64 = 4, &
    CIRCULANT_UINT8 = 5, CIRCULANT_UINT16 = 6, CIRCULANT_UINT32 = 7, CIRCULANT_UINT64 = 8, CIRCULANT_FLOAT16 = 9, &
    CIRCULANT_BFLOAT16 = 10, CIRCULANT_FLOAT = 11, CIRCULANT_DOUBLE = 12, CIRCULANT_COMPLEX_FLOAT = 13, &
    CIRCULANT_COMPLEX_DOUBLE = 14, CIRCULANT_FLOAT_INT = 15, CIRCULANT_DOUBLE_INT = 16, CIRCULANT_INT_INT = 17, &
    CIRCULANT_INT64_INT = 18, CIRCULANT_INT16_INT = 19, CIRCULANT_BYTE = 5

  ! For circulant_op.
  integer(c_intptr_t), parameter :: CIRCULANT_SUM = 1, CIRCULANT_PROD = 2, CIRCULANT_MIN = 3, CIRCULANT_MAX = 4, &
    CIRCULANT_LAND = 5, CIRCULANT_LOR = 6, CIRCULANT_LXOR = 7, CIRCULANT_BAND = 8, CIRCULANT_BOR = 9, CIRCULANT_BXOR = 10, &
    CIRCULANT_MINLOC = 11, CIRCULANT_MAXLOC = 12

  integer(c_int64_t), parameter :: CIRCULANT_NO_COLOUR = -huge(0_c_int64_t) - 1

  ! Beyond the border of a grid.
  integer(c_int), parameter :: CIRCULANT_NO_RANK = -1
  integer(c_int), parameter :: CIRCULANT_MEMORY_HOST = 0, CIRCULANT_MEMORY_CUDA = 1, CIRCULANT_MEMORY_ROCM = 2, &
    CIRCULANT_MEMORY_LEVEL_ZERO = 3

  ! A setting or an option, whose texts end in c_null_char.
  type, bind(c) :: circulant_setting
    type(c_ptr) :: name, value
  end type circulant_setting

  ! Of a layout: count pieces of bytes bytes each, the first at offset, each stride behind the one before.
  type, bind(c) :: circulant_piece
    integer(c_size_t) :: offset, bytes, count, stride
  end type circulant_piece

  ! For circulant_alltoallw: n pieces, by c_loc.
  type, bind(c) :: circulant_layout
    type(c_ptr) :: pieces = c_null_ptr
    integer(c_size_t) :: n = 0
  end type circulant_layout

  ! For circulant_init_with; bytes is c_sizeof of it.
  type, bind(c) :: circulant_bootstrap
    integer(c_size_t) :: bytes
    integer(c_int) :: rank, size
    type(c_ptr) :: context = c_null_ptr
    type(c_funptr) :: allgather, abort = c_null_funptr
  end type circulant_bootstrap

  interface
    integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

  ! Made of circulant.h by capi/tests/fortran.rs.
  interface
    type(c_ptr) function c_strerror(status) bind(c, name="circulant_strerror")
      import :: c_ptr, c_int
      integer(c_int), value :: status
    end function
    type(c_ptr) function c_last_error() bind(c, name="circulant_last_error")
      import :: c_ptr
    end function
    type(c_ptr) function c_error_remedy() bind(c, name="circulant_error_remedy")
      import :: c_ptr
    end function
    type(c_ptr) function c_error_operation() bind(c, name="circulant_error_operation")
      import :: c_ptr
    end function
    integer(c_int64_t) function circulant_error_sequence() bind(c)
      import :: c_int64_t
    end function
    type(c_ptr) function c_error_provider() bind(c, name="circulant_error_provider")
      import :: c_ptr
    end function
    integer(c_int) function circulant_error_rank() bind(c)
      import :: c_int
    end function
    integer(c_int) function circulant_error_peer() bind(c)
      import :: c_int
    end function
    integer(c_int) function circulant_error_reporter() bind(c)
      import :: c_int
    end function
    integer(c_int) function circulant_error_round() bind(c)
      import :: c_int
    end function
    integer(c_int) function circulant_error_survived() bind(c)
      import :: c_int
    end function
    type(c_ptr) function c_version() bind(c, name="circulant_version")
      import :: c_ptr
    end function
    integer(c_int) function c_init(settings, n, world) bind(c, name="circulant_init")
      import :: c_ptr, c_int, c_size_t, circulant_setting
      type(circulant_setting), intent(in), optional :: settings(*)
      integer(c_size_t), value :: n
      type(c_ptr), intent(out) :: world
    end function
    integer(c_int) function circulant_init_with(bootstrap, settings, n, world) bind(c)
      import :: c_ptr, c_int, c_size_t, circulant_setting, circulant_bootstrap
      type(circulant_bootstrap), intent(in) :: bootstrap
      type(circulant_setting), intent(in), optional :: settings(*)
      integer(c_size_t), value :: n
      type(c_ptr), intent(out) :: world
    end function
    integer(c_int) function circulant_finalize(world) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: world
    end function
    integer(c_int) function circulant_finalize_start(world, ending) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: world
      type(c_ptr), intent(out) :: ending
    end function
    integer(c_int) function circulant_finalize_test(ending, finished) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: ending
      integer(c_int), intent(out) :: finished
    end function
    integer(c_int) function circulant_abort(world, code, message) bind(c)
      import :: c_ptr, c_int, c_char
      type(c_ptr), intent(inout) :: world
      integer(c_int), value :: code
      character(kind=c_char), intent(in) :: message(*)
    end function
    integer(c_int) function circulant_while_waiting(world, hook, context) bind(c)
      import :: c_ptr, c_funptr, c_int
      type(c_ptr), value :: world, context
      type(c_funptr), value :: hook
    end function
    integer(c_int) function circulant_progress(world) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: world
    end function
    type(c_ptr) function c_world_provider(world) bind(c, name="circulant_world_provider")
      import :: c_ptr
      type(c_ptr), value :: world
    end function
    type(c_ptr) function c_world_launcher(world) bind(c, name="circulant_world_launcher")
      import :: c_ptr
      type(c_ptr), value :: world
    end function
    integer(c_int) function circulant_world_comm(world, comm) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: world
      type(c_ptr), intent(out) :: comm
    end function
    integer(c_int) function circulant_comm_rank(comm, rank) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
      integer(c_int), intent(out) :: rank
    end function
    integer(c_int) function circulant_comm_size(comm, size) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
      integer(c_int), intent(out) :: size
    end function
    integer(c_int) function circulant_comm_dup(comm, made) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_comm_revoke(comm) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
    end function
    integer(c_int) function circulant_comm_is_revoked(comm, revoked) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
      integer(c_int), intent(out) :: revoked
    end function
    integer(c_int) function circulant_comm_gone(comm, ranks, n, count) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm
      integer(c_int), intent(out), optional :: ranks(*)
      integer(c_size_t), value :: n
      integer(c_size_t), intent(out) :: count
    end function
    integer(c_int) function circulant_comm_agree(comm, flags, agreed) bind(c)
      import :: c_ptr, c_int, c_int64_t
      type(c_ptr), value :: comm
      integer(c_int64_t), value :: flags
      integer(c_int64_t), intent(out) :: agreed
    end function
    integer(c_int) function circulant_comm_shrink(comm, made) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_comm_split(comm, colour, key, made) bind(c)
      import :: c_ptr, c_int, c_int64_t
      type(c_ptr), value :: comm
      integer(c_int64_t), value :: colour, key
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_comm_split_by_node(comm, made) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_comm_create(comm, ranks, n, made) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm
      integer(c_int), intent(in), optional :: ranks(*)
      integer(c_size_t), value :: n
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_comm_assemble(comm, ranks, n, allgather, context, made) bind(c)
      import :: c_ptr, c_funptr, c_int, c_size_t
      type(c_ptr), value :: comm, context
      integer(c_int), intent(in), optional :: ranks(*)
      integer(c_size_t), value :: n
      type(c_funptr), value :: allgather
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_comm_with(comm, options, n, made) bind(c)
      import :: c_ptr, c_int, c_size_t, circulant_setting
      type(c_ptr), value :: comm
      type(circulant_setting), intent(in), optional :: options(*)
      integer(c_size_t), value :: n
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_comm_free(comm) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: comm
    end function
    integer(c_int) function circulant_alloc(comm, bytes, memory) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm
      integer(c_size_t), value :: bytes
      type(c_ptr), intent(out) :: memory
    end function
    integer(c_int) function circulant_free(memory) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: memory
    end function
    integer(c_int) function circulant_register(comm, memory, bytes, kind, device, copy, dmabuf, offset) bind(c)
      import :: c_ptr, c_funptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: comm, memory
      integer(c_size_t), value :: bytes
      integer(c_int), value :: kind, device, dmabuf
      type(c_funptr), value :: copy
      integer(c_int64_t), value :: offset
    end function
    integer(c_int) function circulant_deregister(memory) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: memory
    end function
    integer(c_int) function circulant_type_size(type, size) bind(c)
      import :: c_int, c_size_t
      integer(c_int), value :: type
      integer(c_size_t), intent(out) :: size
    end function
    integer(c_int) function circulant_op_create(name, type, commutative, function, context, op) bind(c)
      import :: c_ptr, c_funptr, c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: type, commutative
      type(c_funptr), value :: function
      type(c_ptr), value :: context
      type(c_ptr), intent(out) :: op
    end function
    integer(c_int) function circulant_op_free(op) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: op
    end function
    integer(c_int) function circulant_test(request, finished) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: request
      integer(c_int), intent(out) :: finished
    end function
    integer(c_int) function circulant_wait(request) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: request
    end function
    integer(c_int) function circulant_waitall(n, requests) bind(c)
      import :: c_ptr, c_int, c_size_t
      integer(c_size_t), value :: n
      type(c_ptr), intent(inout) :: requests(*)
    end function
    integer(c_int) function circulant_testall(n, requests, finished) bind(c)
      import :: c_ptr, c_int, c_size_t
      integer(c_size_t), value :: n
      type(c_ptr), intent(inout) :: requests(*)
      integer(c_int), intent(out) :: finished
    end function
    integer(c_int) function circulant_waitany(n, requests, index) bind(c)
      import :: c_ptr, c_int, c_size_t
      integer(c_size_t), value :: n
      type(c_ptr), intent(inout) :: requests(*)
      integer(c_size_t), intent(out) :: index
    end function
    integer(c_int) function circulant_start(request) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: request
    end function
    integer(c_int) function circulant_request_free(request) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: request
    end function
    integer(c_int) function circulant_barrier(comm) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
    end function
    integer(c_int) function circulant_ibarrier(comm, request) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_barrier_init(comm, request) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: comm
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_bcast(comm, buffer, count, type, root) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, buffer
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
    end function
    integer(c_int) function circulant_ibcast(comm, buffer, count, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, buffer
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_bcast_init(comm, buffer, count, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, buffer
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_allgather(comm, send, recv, count, type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_iallgather(comm, send, recv, count, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_allgather_init(comm, send, recv, count, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_allgatherv(comm, send, sendcount, recv, counts, displs, type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_iallgatherv(comm, send, sendcount, recv, counts, displs, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_allgatherv_init(comm, send, sendcount, recv, counts, displs, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_allgatherv_local(comm, send, sendcount, recv, counts, displs, type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_iallgatherv_local(comm, send, sendcount, recv, counts, displs, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_allgatherv_local_init(comm, send, sendcount, recv, counts, displs, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_gather(comm, send, recv, count, type, root) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
    end function
    integer(c_int) function circulant_igather(comm, send, recv, count, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_gather_init(comm, send, recv, count, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_gatherv(comm, send, sendcount, recv, counts, displs, type, root) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type, root
    end function
    integer(c_int) function circulant_igatherv(comm, send, sendcount, recv, counts, displs, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_gatherv_init(comm, send, sendcount, recv, counts, displs, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_gatherv_rooted(comm, send, sendcount, recv, counts, displs, type, root) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type, root
    end function
    integer(c_int) function circulant_igatherv_rooted(comm, send, sendcount, recv, counts, displs, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_gatherv_rooted_init(comm, send, sendcount, recv, counts, displs, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_scatter(comm, send, recv, count, type, root) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
    end function
    integer(c_int) function circulant_iscatter(comm, send, recv, count, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_scatter_init(comm, send, recv, count, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_scatterv(comm, send, counts, displs, recv, recvcount, type, root) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_size_t), value :: recvcount
      integer(c_int), value :: type, root
    end function
    integer(c_int) function circulant_iscatterv(comm, send, counts, displs, recv, recvcount, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_size_t), value :: recvcount
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_scatterv_init(comm, send, counts, displs, recv, recvcount, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_size_t), value :: recvcount
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_scatterv_rooted(comm, send, counts, displs, recv, recvcount, type, root) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_size_t), value :: recvcount
      integer(c_int), value :: type, root
    end function
    integer(c_int) function circulant_iscatterv_rooted(comm, send, counts, displs, recv, recvcount, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_size_t), value :: recvcount
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_scatterv_rooted_init(comm, send, counts, displs, recv, recvcount, type, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_size_t), value :: recvcount
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_alltoall(comm, send, recv, count, type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_ialltoall(comm, send, recv, count, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_alltoall_init(comm, send, recv, count, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_alltoallv(comm, send, sendcounts, senddispls, recv, recvcounts, recvdispls, type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: sendcounts(*), senddispls(*), recvcounts(*), recvdispls(*)
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_ialltoallv(comm, send, sendcounts, senddispls, recv, recvcounts, recvdispls, type, &
        request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: sendcounts(*), senddispls(*), recvcounts(*), recvdispls(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_alltoallv_init(comm, send, sendcounts, senddispls, recv, recvcounts, recvdispls, type, &
        request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv
      integer(c_size_t), intent(in), optional :: sendcounts(*), senddispls(*), recvcounts(*), recvdispls(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_alltoallw(comm, send, sent, recv, received) bind(c)
      import :: c_ptr, c_int, circulant_layout
      type(c_ptr), value :: comm, send, recv
      type(circulant_layout), intent(in), optional :: sent(*), received(*)
    end function
    integer(c_int) function circulant_ialltoallw(comm, send, sent, recv, received, request) bind(c)
      import :: c_ptr, c_int, circulant_layout
      type(c_ptr), value :: comm, send, recv
      type(circulant_layout), intent(in), optional :: sent(*), received(*)
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_alltoallw_init(comm, send, sent, recv, received, request) bind(c)
      import :: c_ptr, c_int, circulant_layout
      type(c_ptr), value :: comm, send, recv
      type(circulant_layout), intent(in), optional :: sent(*), received(*)
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_reduce(comm, send, recv, count, type, op, root) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
    end function
    integer(c_int) function circulant_ireduce(comm, send, recv, count, type, op, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_reduce_init(comm, send, recv, count, type, op, root, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_allreduce(comm, send, recv, count, type, op) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_iallreduce(comm, send, recv, count, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_allreduce_init(comm, send, recv, count, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_reduce_scatter_block(comm, send, recv, count, type, op) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_ireduce_scatter_block(comm, send, recv, count, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_reduce_scatter_block_init(comm, send, recv, count, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_reduce_scatter(comm, send, recv, counts, type, op) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), intent(in), optional :: counts(*)
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_ireduce_scatter(comm, send, recv, counts, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), intent(in), optional :: counts(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_reduce_scatter_init(comm, send, recv, counts, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), intent(in), optional :: counts(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_scan(comm, send, recv, count, type, op) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_iscan(comm, send, recv, count, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_scan_init(comm, send, recv, count, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_exscan(comm, send, recv, count, type, op) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_iexscan(comm, send, recv, count, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_exscan_init(comm, send, recv, count, type, op, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm, send, recv, op
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_dist_graph(comm, sources, nsources, destinations, ndestinations, made) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm
      integer(c_int), intent(in), optional :: sources(*), destinations(*)
      integer(c_size_t), value :: nsources, ndestinations
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_cartesian(comm, dims, periodic, ndims, made) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: comm
      integer(c_int), intent(in), optional :: dims(*), periodic(*)
      integer(c_size_t), value :: ndims
      type(c_ptr), intent(out) :: made
    end function
    integer(c_int) function circulant_neighborhood_size(on, sources, destinations) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on
      integer(c_size_t), intent(out) :: sources, destinations
    end function
    integer(c_int) function circulant_neighborhood_ranks(on, sources, destinations) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), value :: on
      integer(c_int), intent(out), optional :: sources(*), destinations(*)
    end function
    integer(c_int) function circulant_neighborhood_free(on) bind(c)
      import :: c_ptr, c_int
      type(c_ptr), intent(inout) :: on
    end function
    integer(c_int) function circulant_neighbor_allgather(on, send, recv, count, type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_ineighbor_allgather(on, send, recv, count, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_neighbor_allgather_init(on, send, recv, count, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_neighbor_allgatherv(on, send, sendcount, recv, counts, displs, type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_ineighbor_allgatherv(on, send, sendcount, recv, counts, displs, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_neighbor_allgatherv_init(on, send, sendcount, recv, counts, displs, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: sendcount
      integer(c_size_t), intent(in), optional :: counts(*), displs(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_neighbor_alltoall(on, send, recv, count, type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_ineighbor_alltoall(on, send, recv, count, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_neighbor_alltoall_init(on, send, recv, count, type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_neighbor_alltoallv(on, send, sendcounts, senddispls, recv, recvcounts, recvdispls, &
        type) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), intent(in), optional :: sendcounts(*), senddispls(*), recvcounts(*), recvdispls(*)
      integer(c_int), value :: type
    end function
    integer(c_int) function circulant_ineighbor_alltoallv(on, send, sendcounts, senddispls, recv, recvcounts, recvdispls, type, &
        request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), intent(in), optional :: sendcounts(*), senddispls(*), recvcounts(*), recvdispls(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function circulant_neighbor_alltoallv_init(on, send, sendcounts, senddispls, recv, recvcounts, recvdispls, &
        type, request) bind(c)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: on, send, recv
      integer(c_size_t), intent(in), optional :: sendcounts(*), senddispls(*), recvcounts(*), recvdispls(*)
      integer(c_int), value :: type
      type(c_ptr), intent(out) :: request
    end function
  end interface
  ! The end of what is made of circulant.h.

contains

  ! Begins a world with the settings of the environment; options are pairs of a name and a value, such as ["deadline", "20      "].
  integer(c_int) function circulant_init(world, options)
    type(c_ptr), intent(out) :: world
    character(len=*), intent(in), optional :: options(:)
    character(len=4096, kind=c_char), allocatable, target :: texts(:)
    type(circulant_setting), allocatable, target :: settings(:)
    integer :: i
    if (.not. present(options)) then
      circulant_init = c_init(n=0_c_size_t, world=world)
      return
    end if
    allocate (texts(size(options)), settings(size(options) / 2))
    do i = 1, size(options)
      texts(i) = trim(options(i)) // c_null_char
    end do
    do i = 1, size(settings)
      settings(i)%name = c_loc(texts(2 * i - 1))
      settings(i)%value = c_loc(texts(2 * i))
    end do
    circulant_init = c_init(settings, int(size(settings), c_size_t), world)
  end function

  ! A predefined operator, by its constant.
  pure type(c_ptr) function circulant_op(number)
    integer(c_intptr_t), intent(in) :: number
    circulant_op = transfer(number, c_null_ptr)
  end function

  ! Stands in place of a buffer.
  pure type(c_ptr) function circulant_in_place()
    circulant_in_place = transfer(-1_c_intptr_t, c_null_ptr)
  end function

  ! The last error of this thread, with what to do about it.
  function circulant_message() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_last_error())
  end function

  ! Its parts; empty where they are not known. (circulant_error_rank and so on are those of C.)
  function circulant_error_remedy() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_error_remedy())
  end function

  function circulant_error_operation() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_error_operation())
  end function

  function circulant_error_provider() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_error_provider())
  end function

  ! The library's version.
  function circulant_version() result(text)
    character(len=:), allocatable :: text
    text = text_of(c_version())
  end function

  ! What a status means.
  function circulant_strerror(status) result(text)
    integer(c_int), intent(in) :: status
    character(len=:), allocatable :: text
    text = text_of(c_strerror(status))
  end function

  ! The wire in use.
  function circulant_world_provider(world) result(text)
    type(c_ptr), intent(in) :: world
    character(len=:), allocatable :: text
    text = text_of(c_world_provider(world))
  end function

  ! How the job was started.
  function circulant_world_launcher(world) result(text)
    type(c_ptr), intent(in) :: world
    character(len=:), allocatable :: text
    text = text_of(c_world_launcher(world))
  end function

  function text_of(from) result(text)
    type(c_ptr), intent(in) :: from
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    text = ""
    if (.not. c_associated(from)) return
    call c_f_pointer(from, letters, [c_strlen(from)])
    text = repeat(" ", size(letters))
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function
end module circulant
