"""torch.distributed over the backend circulant, on the CPU: `circulant run -n 3 python3 torch_backend.py`."""

from __future__ import annotations

import circulant.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

world = circulant.torch.init_process_group(circulant.init(deadline=120))
rank, size = dist.get_rank(), dist.get_world_size()
assert (rank, size, dist.get_backend()) == (world.rank, world.size, "circulant")
before = world.stats()["operations"]


def of(r: int, n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What a rank has: small numbers."""
    return ((torch.arange(n) * 7 + 5 * r) % 3 + r % 2).to(dtype)


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    assert a.dtype == b.dtype and torch.equal(a, b), (a, b)


for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
    total = of(rank, 50, dtype)
    dist.all_reduce(total)
    same(total, sum((of(r, 50, dtype) for r in range(1, size)), of(0, 50, dtype)))
most = of(rank, 50)
dist.all_reduce(most, dist.ReduceOp.MAX)
same(most, torch.stack([of(r, 50) for r in range(size)]).amax(0))
# Not contiguous: a column.
table = torch.zeros(5, 4)
table[:, 1] = of(rank, 5)
dist.all_reduce(table[:, 1])
same(table[:, 1], sum(of(r, 5) for r in range(size)))

for root in range(size):
    text = of(rank, 33)
    dist.broadcast(text, root)
    same(text, of(root, 33))
    flags = torch.tensor([rank == root, True])
    dist.broadcast(flags, root)
    same(flags, torch.tensor([True, True]))
    total = of(rank, 8)
    dist.reduce(total, root)
    same(total, sum(of(r, 8) for r in range(size)) if rank == root else of(rank, 8))

# Uneven: what each rank has as many as it has.
parts = [torch.empty(r + 2, 3) for r in range(size)]
dist.all_gather(parts, of(rank, (rank + 2) * 3).view(rank + 2, 3))
for r, part in enumerate(parts):
    same(part, of(r, (r + 2) * 3).view(r + 2, 3))
whole = torch.empty(size * 6)
getattr(dist, "all_gather_into_tensor", dist._all_gather_base)(whole, of(rank, 6))
same(whole, torch.cat([of(r, 6) for r in range(size)]))

mine = torch.empty(rank + 1)
inputs = [of(rank + r, r + 1) for r in range(size)]
dist.reduce_scatter(mine, inputs)
same(mine, sum(of(r + rank, rank + 1) for r in range(size)))
block = torch.empty(4)
getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)(block, of(rank, 4 * size))
same(block, sum(of(r, 4 * size) for r in range(size))[4 * rank : 4 * rank + 4])

received = [torch.empty(r + rank) for r in range(size)]
dist.all_to_all(received, [of(rank, rank + to) for to in range(size)])
for r, part in enumerate(received):
    same(part, of(r, r + rank))
sent_rows, received_rows = [to + 1 for to in range(size)], [rank + 1] * size
rows = torch.empty(sum(received_rows), 2)
dist.all_to_all_single(rows, of(rank, 2 * sum(sent_rows)).view(-1, 2), received_rows, sent_rows)
first = sum(sent_rows[:rank])
same(rows, torch.cat([of(r, 2 * sum(sent_rows)).view(-1, 2)[first : first + rank + 1] for r in range(size)]))
even = torch.empty(size)
dist.all_to_all_single(even, of(rank, size))
same(even, torch.stack([of(r, size)[rank] for r in range(size)]))

# Groups of some of the ranks, of which torch tells their members only.
for members in ([0, size - 1], [1], list(range(size))):
    group = dist.new_group(members)
    if rank in members:
        total = of(rank, 12)
        dist.all_reduce(total, group=group)
        same(total, sum(of(r, 12) for r in members))
        text = of(rank, 3)
        dist.broadcast(text, members[-1], group=group)
        same(text, of(members[-1], 3))

things: list[object] = [None] * size
dist.all_gather_object(things, {"rank": rank, "text": "x" * rank})
assert things == [{"rank": r, "text": "x" * r} for r in range(size)]
dist.barrier()

# Three steps of a model whose ranks see different data: as those of one process that sees all.
torch.manual_seed(1)
alone = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 1)).double()
model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 1)).double()
if rank == 0:
    model.load_state_dict(alone.state_dict())
# Rank 0's weights go to all.
spread = DistributedDataParallel(model)
for net, data in ((alone, [(r, step) for step in range(3) for r in range(size)]), (spread, [(rank, step) for step in range(3)])):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        seen = torch.cat([of(r + 2 * s, 60, torch.float64).view(10, 6) for r, s in data if s == step])
        net(seen).square().mean().backward()
        optimizer.step()
for one, other in zip(alone.parameters(), model.parameters()):
    assert torch.allclose(one, other, rtol=1e-12, atol=1e-12), (one, other)

assert world.stats()["operations"] > before + 20, "the calls did not go by circulant"
circulant.torch.finalize()
if rank == 0:
    print(f"torch {torch.__version__}: all calls and a model of {size} ranks agree")
