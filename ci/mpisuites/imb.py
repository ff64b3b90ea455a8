"""The binaries of Intel's benchmarks (in the wheel impi-rt), on Intel's MPI and on MPICH 5: they end, and each operation is timed.
They do not check results."""

import re

from racetrack import rivals

from . import mpis
from .runs import Seen, Unit

NAME = "imb"
MPIS = ["impi", "mpich5"]
RANKS = 3
BLOCKING = """Bcast Allreduce Reduce Reduce_scatter Reduce_scatter_block Allgather Allgatherv Gather Gatherv Scatter Scatterv
Alltoall Alltoallv Barrier""".split()
NON_BLOCKING = "Ibcast Iallreduce Ireduce Ireduce_scatter Iallgather Iallgatherv Igather Iscatter Ialltoall Ibarrier".split()


def judge(names):
    def judged(code, output):
        done = re.findall(r"^# Benchmarking (\w+)", output, re.MULTILINE)
        wrong = {name: "not timed" for name in names if name.lower() not in (word.lower() for word in done)}
        if code or "All processes entering MPI_Finalize" not in output:
            wrong["run"] = f"exit code {code}, or it stopped after {done[-1:]}"
        return Seen(len(names), wrong)
    return judged


def units(mpi, tier):
    rivals.fetch("impi")
    at = rivals.home("impi") / "bin"
    # its binaries look for libmpi.so.12 where they are told to
    place = ["env", f"LD_LIBRARY_PATH={mpi.home()}/lib"] if mpi.wheel != "impi" else []
    sizes = ["-npmin", RANKS, "-iter", 5, "-msglog", "0:18"]
    yield Unit("IMB-MPI1", RANKS, (*place, at / "IMB-MPI1", *sizes, *BLOCKING), 900.0, judge(BLOCKING))
    if tier == "full":
        yield Unit("IMB-NBC", RANKS, (*place, at / "IMB-NBC", *sizes, *NON_BLOCKING), 900.0, judge(NON_BLOCKING))
