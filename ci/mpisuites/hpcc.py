"""The HPC Challenge (Debian, Open MPI 4): HPL, PTRANS, FFT and others over their own checks."""

import re

from . import mpis
from .runs import Seen, Unit

NAME = "hpcc"
MPIS = ["openmpi4"]
RANKS = 4

# HPL's file of input: one problem of some seconds on a 2 x 2 grid.
INPUT = """HPLinpack benchmark input file
of a test
HPL.out output file name (if any)
8 device out (6=stdout,7=stderr,file)
1 # of problems sizes (N)
600 Ns
1 # of NBs
40 NBs
0 PMAP process mapping (0=Row-,1=Column-major)
1 # of process grids (P x Q)
2 Ps
2 Qs
16.0 threshold
1 # of panel fact
2 PFACTs (0=left, 1=Crout, 2=Right)
1 # of recursive stopping criterium
4 NBMINs (>= 1)
1 # of panels in recursion
2 NDIVs
1 # of recursive panel fact.
1 RFACTs (0=left, 1=Crout, 2=Right)
1 # of broadcast
1 BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1 # of lookahead depth
1 DEPTHs (>=0)
2 SWAP (0=bin-exch,1=long,2=mix)
64 swapping threshold
0 L1 in (0=transposed,1=no-transposed) form
0 U in (0=transposed,1=no-transposed) form
1 Equilibration (0=no,1=yes)
8 memory alignment in double (> 0)
0 Number of additional problem sizes for PTRANS
1200 values of N
0 number of additional blocking sizes for PTRANS
40 values of NB
"""


def units(mpi, tier):
    mpis.need_packages(["hpcc"])
    at = mpis.WORK / f"hpcc-{mpi.name}"
    at.mkdir(parents=True, exist_ok=True)
    (at / "hpccinf.txt").write_text(INPUT)
    result = at / "hpccoutf.txt"

    def judge(code, output):
        told = result.read_text(errors="replace") if result.exists() else ""
        wrong = {f"residual {i}": "too large" for i, _ in enumerate(re.findall(r"\.{2,} *FAILED", told))}
        if code or "Success=1" not in told:
            wrong["run"] = f"exit code {code}, {'no ' if 'Success=1' not in told else ''}success"
        return Seen(1 + len(re.findall(r"\.{2,} *(?:PASSED|FAILED)", told)), wrong)

    yield Unit("hpcc", RANKS, ("env", f"--chdir={at}", "hpcc"), 1800.0, judge, before=lambda: result.unlink(missing_ok=True))
