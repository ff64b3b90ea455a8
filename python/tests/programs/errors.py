"""An error at one rank is one at all: `circulant run -n 3 python3 errors.py CASE`. Each rank checks what it gets."""

from __future__ import annotations

import sys

import circulant
import numpy as np

world = circulant.init(deadline=60)
comm = world.comm
case = sys.argv[1]
try:
    if case == "mismatch":
        # Rank 1 names another root.
        comm.Bcast(np.zeros(100_000), 1 if comm.rank == 1 else 0)
        comm.Barrier()
    elif case == "argument":
        comm.Bcast(np.zeros(4), comm.size)
    elif case == "operator":

        def fails(left: memoryview, right: memoryview, kind: str) -> None:
            raise ZeroDivisionError("as told")

        comm.Allreduce(np.zeros(4), np.ones(4), circulant.Op.Create(fails))
        comm.Barrier()
    elif case == "lost":
        if comm.rank == 1:
            # As a rank that leaves its block by an exception.
            world.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
            sys.exit(0)
        comm.Barrier()
except circulant.Error as e:
    assert isinstance(e, RuntimeError) and str(e), repr(e)
    print(f"{e.kind=} {e.rank=} {e.peer=} {e.operation=} {e.sequence=} {e.round=} {e.remedy=} {e}", flush=True)
    kinds = {
        "mismatch": {"mismatch", "argument", "aborted"},
        "argument": {"argument", "aborted"},
        "operator": {"argument", "aborted"},
        "lost": {"peer lost", "aborted"},
    }
    assert e.kind in kinds[case], e.kind
    assert e.rank is not None and e.message in str(e)
    if case == "argument":
        assert (e.operation, e.kind) == ("bcast", "argument") and f"root {comm.size}" in str(e)
    if case == "operator":
        assert "ZeroDivisionError" in str(e) and "as told" in str(e), str(e)
    if case == "lost":
        assert e.peer == 1, e.peer
    # It is final.
    try:
        comm.Barrier()
    except circulant.Error:
        sys.exit(0)
sys.exit("no error")
