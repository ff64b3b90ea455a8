"""The backend circulant where torch's variables say who is who (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), as under torchrun."""

from __future__ import annotations

import circulant.torch
import torch
import torch.distributed as dist

dist.init_process_group("circulant")
rank, size = dist.get_rank(), dist.get_world_size()
parts = [torch.empty(r + 1) for r in range(size)]
dist.all_gather(parts, torch.full((rank + 1,), float(rank)))
assert [part.tolist() for part in parts] == [[float(r)] * (r + 1) for r in range(size)]
circulant.torch.finalize()
if rank == 0:
    print(f"by torch's variables: {size} ranks")
