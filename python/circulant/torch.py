"""A backend of torch.distributed for tensors on the CPU: `import circulant.torch` registers it under the name "circulant".

Under torchrun, or whatever sets what torch wants: `torch.distributed.init_process_group("circulant")`. Under `circulant run`, which does not:
`circulant.torch.init_process_group()`. At the end, in both cases: `circulant.torch.finalize()`.

Lists of tensors may be of different lengths: `all_gather` and `all_to_all` of what each rank has as many as it has, `reduce_scatter`
of parts that differ. Every call has finished when it returns, with `async_op=True` too. There are no sends and receives.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future

from ._buffers import IN_PLACE
from ._comm import Comm
from ._ops import BAND, BOR, BXOR, MAX, MIN, PROD, SUM, Op
from ._world import World, init, init_by

NAME = "circulant"

_OPS = [
    (dist.ReduceOp.SUM, SUM),
    (dist.ReduceOp.PRODUCT, PROD),
    (dist.ReduceOp.MIN, MIN),
    (dist.ReduceOp.MAX, MAX),
    (dist.ReduceOp.BAND, BAND),
    (dist.ReduceOp.BOR, BOR),
    (dist.ReduceOp.BXOR, BXOR),
]

_world: World | None = None


def _done(tensors: list[torch.Tensor]) -> Any:
    """What a call returns: it has finished. Made by torch, as C++ code loses a subclass of its `Work` once Python has dropped it."""
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    return _create_work_from_future(future)


def _operator(op: Any) -> tuple[Op, bool]:
    """The operator, and whether its result is then divided by the number of ranks."""
    if op == dist.ReduceOp.AVG:
        return SUM, True
    for theirs, ours in _OPS:
        if op == theirs:
            return ours, False
    raise NotImplementedError(f"reductions by {op}")


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as calls take it: without gradient, and with bytes for what DLPack of older versions does not know."""
    tensor = tensor.detach()
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


class _Written:
    """Memory to receive into: of the tensor, or beside it where that is not contiguous."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.memory = tensor if tensor.is_contiguous() else tensor.contiguous()

    def finish(self) -> None:
        if self.memory is not self.tensor:
            self.tensor.detach().copy_(self.memory)


def _flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All of them one behind the other."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _fill(tensors: Sequence[torch.Tensor], flat: torch.Tensor) -> None:
    """The tensors from where they stand one behind the other."""
    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
        tensor.detach().copy_(part.view(tensor.shape))


def _counts(splits: Sequence[int], tensor: torch.Tensor, size: int) -> list[int]:
    """Elements for each rank, of parts of the first dimension; without, equal ones."""
    rows = tensor.shape[0] if tensor.dim() else 1
    each = tensor.numel() // rows if rows else 0
    return [n * each for n in (splits or [rows // size] * size)]


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The calls of a group, by those of a communicator of the same ranks."""

    def __init__(self, comm: Comm) -> None:
        super().__init__(comm.rank, comm.size)
        self._comm = comm

    def getBackendName(self) -> str:
        return NAME

    def name(self) -> str:
        return NAME

    def barrier(self, opts: Any = None) -> Any:
        self._comm.Barrier()
        return _done([torch.empty(0)])

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        written = _Written(tensors[0])
        self._comm.Bcast(_memory(written.memory), opts.rootRank)
        written.finish()
        return _done(tensors)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        op, average = _operator(opts.reduceOp)
        written = _Written(tensors[0])
        self._comm.Allreduce(IN_PLACE, _reduced(written.memory), op)
        written.finish()
        if average:
            tensors[0].detach().div_(self._comm.size)
        return _done(tensors)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        op, average = _operator(opts.reduceOp)
        written, root = _Written(tensors[0]), opts.rootRank
        memory = _reduced(written.memory)
        if self._comm.rank != root:
            self._comm.Reduce(memory, None, op, root)
            return _done(tensors)
        self._comm.Reduce(IN_PLACE, memory, op, root)
        written.finish()
        if average:
            tensors[0].detach().div_(self._comm.size)
        return _done(tensors)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        counts = [tensor.numel() for tensor in outputs[0]]
        flat = inputs[0].new_empty(sum(counts))
        self._comm.Allgatherv(_memory(inputs[0].contiguous()), [_memory(flat), counts])
        _fill(outputs[0], flat)
        return _done(outputs[0])

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        written = _Written(output)
        self._comm.Allgather(_memory(input.contiguous()), _memory(written.memory))
        written.finish()
        return _done([output])

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> Any:
        mine = _memory(inputs[0].contiguous())
        if self._comm.rank != opts.rootRank:
            self._comm.Gatherv(mine, None, opts.rootRank)
            return _done([torch.empty(0)])
        counts = [tensor.numel() for tensor in outputs[0]]
        flat = inputs[0].new_empty(sum(counts))
        self._comm.Gatherv(mine, [_memory(flat), counts], opts.rootRank)
        _fill(outputs[0], flat)
        return _done(outputs[0])

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> Any:
        written, sent = _Written(outputs[0]), None
        if self._comm.rank == opts.rootRank:
            sent = [_memory(_flat(inputs[0])), [tensor.numel() for tensor in inputs[0]]]
        self._comm.Scatterv(sent, _memory(written.memory), opts.rootRank)
        written.finish()
        return _done(outputs)

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> Any:
        op, average = _operator(opts.reduceOp)
        counts = [tensor.numel() for tensor in inputs[0]]
        written = _Written(outputs[0])
        self._comm.Reduce_scatter(_reduced(_flat(inputs[0])), _reduced(written.memory), counts, op)
        written.finish()
        if average:
            outputs[0].detach().div_(self._comm.size)
        return _done(outputs)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Any:
        op, average = _operator(opts.reduceOp)
        written = _Written(output)
        self._comm.Reduce_scatter_block(_reduced(input.contiguous()), _reduced(written.memory), op)
        written.finish()
        if average:
            output.detach().div_(self._comm.size)
        return _done([output])

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        sent, received = _flat(inputs), _flat(outputs)
        counts = [[tensor.numel() for tensor in tensors] for tensors in (inputs, outputs)]
        self._comm.Alltoallv([_memory(sent), counts[0]], [_memory(received), counts[1]])
        _fill(outputs, received)
        return _done(outputs)

    def alltoall_base(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Any:
        written, size = _Written(output), self._comm.size
        sent = [_memory(input.contiguous()), _counts(input_splits, input, size)]
        self._comm.Alltoallv(sent, [_memory(written.memory), _counts(output_splits, output, size)])
        written.finish()
        return _done([output])


def _reduced(tensor: torch.Tensor) -> Any:
    """As `_memory`, of bool with its own type, on which not every operator is defined."""
    return [_memory(tensor), "bool"] if tensor.dtype == torch.bool else _memory(tensor)


def _by_store(store: Any, rank: int, size: int) -> Any:
    """An allgather of bytes by a store of torch."""
    turns = itertools.count()

    def allgather(mine: bytes) -> list[bytes]:
        turn = next(turns)
        store.set(f"circulant/{turn}/{rank}", mine)
        return [store.get(f"circulant/{turn}/{r}") for r in range(size)]

    return allgather


def _create(store: Any, rank: int, size: int, timeout: Any) -> ProcessGroup:
    """What torch calls for a new group, at its members."""
    global _world
    exchange = _by_store(store, rank, size)
    if _world is None:
        _world = init_by(rank, size, exchange)
    # The ranks of torch's store are those of the group: each names its own of the world.
    ranks = [int.from_bytes(number, "little") for number in exchange(_world.rank.to_bytes(8, "little"))]
    return ProcessGroup(_world.comm.Create_group(ranks, exchange))


def init_process_group(world: World | None = None) -> World:
    """Makes torch's process group of the ranks of a world, by default that of this job, which it begins. Collective."""
    global _world
    _world = world or init()
    comm, store = _world.comm, None
    if comm.rank == 0:
        host = "127.0.0.1" if len(set(_world.nodes)) == 1 else socket.gethostname()
        store = dist.TCPStore(host, 0, comm.size, True, wait_for_workers=False)
        comm.bcast((host, store.port))
    else:
        host, port = comm.bcast()
        store = dist.TCPStore(host, port, comm.size, False, wait_for_workers=False)
    dist.init_process_group(NAME, store=store, rank=comm.rank, world_size=comm.size)
    return _world


def finalize() -> None:
    """Ends torch's process group and the world under it, at all ranks."""
    global _world
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    if _world is not None:
        _world.finalize()
    _world = None


dist.Backend.register_backend(NAME, _create)
