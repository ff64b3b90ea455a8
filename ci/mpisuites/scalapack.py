"""ScaLAPACK's tests (Debian): broadcasts and sums of derived types on rows and columns of a grid, residuals checked."""

import re
from pathlib import Path

import lib

from . import mpis
from .runs import Seen, Unit

NAME = "scalapack"
MPIS = ["mpich4", "openmpi4"]
QUICK = ["xdllt"]
FULL = ["xdllt", "xdlu", "xdqr", "xdls", "xdinv", "xdnep", "xdsyevr", "xzlu", "xslu"]


def folder(mpi):
    """Where the programs for this MPI and their input lie."""
    mpis.need_packages(["scalapack-mpi-test"])
    kind = "mpich" if mpi.family == "hydra" else "openmpi"
    files = mpis.said(["dpkg", "-L", "scalapack-mpi-test"], "dpkg").splitlines()
    return Path(next(f for f in files if f.endswith("/xdllt") and kind in f)).parent


def judge(code, output):
    passed = sum(int(n) for n in re.findall(r"(\d+) tests? completed and passed residual checks", output))
    failed = sum(int(n) for n in re.findall(r"(\d+) tests? completed and failed\b", output))
    wrong = {f"residual {i}": "too large" for i in range(failed)}
    if code or not passed:
        wrong["run"] = f"exit code {code}: {lib.first_error(output)}"
    return Seen(passed + failed or 1, wrong)


def units(mpi, tier):
    at = folder(mpi)
    for program in QUICK if tier == "quick" else FULL:
        if (at / program).exists():
            yield Unit(program, 4, ("env", f"--chdir={at}", f"./{program}"), 1800.0, judge)
