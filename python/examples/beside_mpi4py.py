"""An Allreduce by this module beside mpi4py's, in one run, in turn: `mpiexec -n 2 python3 python/examples/beside_mpi4py.py`.

Times of a call in microseconds, as means of a round: the quickest round, and the median of all. Wants mpi4py, numpy and a free core for each rank:
ranks that share one time the scheduler.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import circulant
import numpy as np
from mpi4py import MPI

SIZES = [8, 1 << 20]  # bytes
ROUNDS = 100
TIME = 0.01  # seconds of calls in a round


def measure(call: Callable[[], object], reps: int) -> float:
    """Microseconds of a call."""
    MPI.COMM_WORLD.Barrier()
    start = time.perf_counter()
    for _ in range(reps):
        call()
    return (time.perf_counter() - start) / reps * 1e6


def main() -> None:
    theirs = MPI.COMM_WORLD
    with circulant.init(comm=theirs) as world:
        ours = world.comm
        if ours.rank == 0:
            library = " ".join(MPI.Get_library_version().strip("\0").split()[:3])
            print(f"{ours.size} ranks, {world.provider} beside {library}")
            print("    bytes  call                      quickest     median")
        for size in SIZES:
            mine, total = np.ones(size // 8), np.empty(size // 8)
            planned = ours.Allreduce_init(mine, total)

            def again() -> None:
                planned.Start()
                planned.Wait()

            calls: dict[str, Callable[[], object]] = {
                "circulant": lambda: ours.Allreduce(mine, total),
                "mpi4py": lambda: theirs.Allreduce(mine, total),
                "circulant, persistent": again,
            }
            reps = 1
            while theirs.allreduce(measure(calls["mpi4py"], reps), MPI.MAX) * reps < TIME * 1e6:
                reps *= 2
            rounds = [[measure(call, reps) for call in calls.values()] for _ in range(ROUNDS)]
            assert total[0] == ours.size
            if ours.rank == 0:
                for name, times in zip(calls, zip(*rounds)):
                    print(f"{size:>9}  {name:<22} {min(times):>11.2f} {statistics.median(times):>10.2f}", flush=True)
            planned.Free()


main()
