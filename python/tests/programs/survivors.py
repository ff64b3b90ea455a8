"""Ranks that go on without one that is killed: `circulant run -n 4 --on-failure continue python3 survivors.py`."""

from __future__ import annotations

import os
import signal

import circulant
import numpy as np

LOST = 2

world = circulant.init(deadline=60)
comm = world.comm
assert not comm.Is_revoked() and comm.Get_failed() == []
assert comm.Agree(6 if comm.rank == 0 else 3) == 2

# One that is revoked, while the other goes on.
copy = comm.Dup()
if comm.rank == 1:
    copy.Revoke()
try:
    copy.Barrier()
    raise AssertionError("a barrier on a communicator that is revoked")
except circulant.Error as e:
    assert e.survived and (e.kind, e.peer) == ("revoked", 1), e
assert copy.Is_revoked()
left = copy.Shrink()
assert left.size == comm.size
left.Barrier()
comm.Barrier()

# One that loses a rank.
if comm.rank == LOST:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        comm.Allreduce(circulant.IN_PLACE, np.ones(5))
except circulant.Error as e:
    assert e.survived and (e.kind, e.peer) == ("peer lost", LOST), e
left = comm.Shrink()
assert comm.Get_failed() == [LOST] and left.Agree() == 1
total = np.ones(5)
left.Allreduce(circulant.IN_PLACE, total)
assert left.size == comm.size - 1 and (total == left.size).all(), total
print(f"left among {left.size}", flush=True)
world.finalize()
