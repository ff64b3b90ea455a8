"""mpi4py's tests (its sdist) with its wheel, which runs on each MPI: every numpy type by every operator, in place, vectors, objects."""

import glob
import re
import sys
import tarfile

from . import mpis
from .runs import Seen, Unit

NAME = "mpi4py"
MPIS = [name for name in mpis.MPIS if name != "mpich5abi"]
VERSION = "4.1.2"
PACKAGES = [f"mpi4py=={VERSION}", "numpy==2.2.6"]
BLOCKING = ["test_cco_buf", "test_cco_vec", "test_cco_obj"]
# mostly passed on: they show that nothing is in the way
OTHERS = ["test_cco_nb_buf", "test_cco_nb_vec", "test_cco_pr_buf", "test_cco_buf_inter", "test_cco_vec_inter", "test_cco_obj_inter",
          "test_cco_ngh_buf", "test_comm", "test_comm_inter", "test_comm_topo", "test_op", "test_datatype", "test_exceptions",
          "test_errhandler", "test_p2p_buf", "test_threads", "test_environ"]


def install():
    """(python, the folder of the tests)"""
    mpis.need_packages(["python3-venv"])
    home, tests = mpis.WORK / "python", mpis.WORK / f"mpi4py-{VERSION}"
    if not (home / "bin" / "pip").exists():
        mpis.said([sys.executable, "-m", "venv", home], f"a virtual environment in {home}")
    have = mpis.said([home / "bin" / "pip", "freeze"], "pip freeze").split()
    if missing := [package for package in PACKAGES if package not in have]:
        mpis.had([home / "bin" / "pip", "install", "--quiet", "--only-binary", ":all:", *missing], "installing mpi4py and numpy")
    if not (tests / "test" / "main.py").exists():
        words = ["download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-d", mpis.WORK, f"mpi4py=={VERSION}"]
        mpis.had([home / "bin" / "pip", "install", "--quiet", "setuptools"], "installing setuptools")
        mpis.had([home / "bin" / "pip", *words], "downloading mpi4py's tests")
        with tarfile.open(mpis.WORK / f"mpi4py-{VERSION}.tar.gz") as packed:
            packed.extractall(mpis.WORK, filter="data")
    return home / "bin" / "python", tests


def libmpi(mpi):
    """Its libmpi, by path: the wheel's own search knows no Debian names and no virtual environment but its own."""
    if mpi.wheel:
        names = [mpi.home() / "lib" / name for name in ("libmpi.so.12", "libmpi.so.40")]
    else:
        name = "libmpich.so.12" if mpi.family == "hydra" else "libmpi.so.40"
        names = glob.glob(f"/usr/lib/*/{name}")
    return next(str(name) for name in names if glob.glob(str(name)))


def judge(ranks):
    def judged(code, output):
        ran = [int(n) for n in re.findall(r"^Ran (\d+) tests? in", output, re.MULTILINE)]
        wrong = {name: "failed" for name in re.findall(r"^(?:FAIL|ERROR): (.+?)\s*$", output, re.MULTILINE)}
        if len(ran) != ranks:
            wrong["run"] = f"{len(ran)} of {ranks} ranks came to the end, exit code {code}"
        elif code and not wrong:
            wrong["run"] = f"exit code {code}"
        return Seen(sum(ran) or 1, wrong)
    return judged


def units(mpi, tier):
    python, tests = install()
    chosen = [("blocking", BLOCKING, 3 if mpi.family == "hydra" else 2, 900.0)]
    if tier == "full":
        chosen += [(name, [name], 2, 600.0) for name in OTHERS]
    for title, modules, ranks, limit in chosen:
        words = ["env", f"MPI4PY_LIBMPI={libmpi(mpi)}", python, tests / "test" / "main.py", "-q", "--no-builddir"]
        words += [word for module in modules for word in ("-i", f"^{module}$" if tier == "full" and title != "blocking" else module)]
        yield Unit(title, ranks, tuple(words), limit, judge(ranks))
