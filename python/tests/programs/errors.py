"""An error at one rank is one at all: `circulant run -n 3 python3 errors.py CASE`. Each rank checks what it gets."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import circulant
import numpy as np

world = circulant.init(deadline=60)
comm = world.comm
case = sys.argv[1]


def interrupt_when_waiting() -> None:
    """Sends a signal to this process when its main thread is in a call."""
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "_run":
        time.sleep(0.01)
    time.sleep(0.1)  # from there into the library
    os.kill(os.getpid(), signal.SIGINT)


def raises() -> None:
    raise LookupError("by the hook")


def interrupted() -> None:
    """Rank 0 leaves a call in which it waits for the others, by Ctrl-C or by what its hook raises; they call when it has told them so by a
    file."""
    told, expected = Path(sys.argv[2]), KeyboardInterrupt if case == "interrupt" else LookupError
    if comm.rank == 0:
        thread = threading.Thread(target=interrupt_when_waiting)
        if case == "hook":
            world.while_waiting(raises)
        else:
            thread.start()
        try:
            comm.Barrier()
        except (KeyboardInterrupt, LookupError) as e:
            assert isinstance(e, expected), e
            told.touch()
        else:
            sys.exit("a call returned that could not")
    give_up = time.monotonic() + 60
    while not told.exists():
        if time.monotonic() > give_up:
            sys.exit("rank 0 has not left its call")
        time.sleep(0.01)
    # The first one is that which rank 0 has begun.
    comm.Barrier()
    comm.Barrier()


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
    elif case in ("interrupt", "hook"):
        interrupted()
except circulant.Error as e:
    assert isinstance(e, RuntimeError) and str(e), repr(e)
    print(f"{e.kind=} {e.rank=} {e.peer=} {e.operation=} {e.sequence=} {e.round=} {e.remedy=} {e}", flush=True)
    kinds = {
        "mismatch": {"mismatch", "argument", "aborted"},
        "argument": {"argument", "aborted"},
        "operator": {"argument", "aborted"},
        "lost": {"peer lost", "aborted"},
        "interrupt": {"peer lost", "aborted"},
        "hook": {"peer lost", "aborted"},
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
