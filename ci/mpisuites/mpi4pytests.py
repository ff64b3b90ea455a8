"""mpi4py's tests (its sdist) with its wheel, which runs on each MPI: every numpy type by every operator, in place, vectors, objects."""

import glob
import re
import sys

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
        mpis.had([home / "bin" / "pip", "install", "--quiet", "--no-compile", "--only-binary", ":all:", *missing], "installing mpi4py and numpy")
    if not (tests / "test" / "main.py").exists():
        words = ["download", "--quiet", "--no-deps", "--no-binary", "mpi4py", "-d", mpis.WORK, f"mpi4py=={VERSION}"]
        mpis.had([home / "bin" / "pip", *words], "downloading mpi4py's tests")
        # by tar: Debian 12's tarfile knows no filter
        mpis.had(["tar", "-xzf", mpis.WORK / f"mpi4py-{VERSION}.tar.gz", "-C", mpis.WORK], "unpacking mpi4py's tests")
    return home / "bin" / "python", tests


def libmpi(mpi):
    """Its libmpi by the name that the wheel was linked with, in a folder of ours where Debian gives it another."""
    name = "libmpi.so.12" if mpi.family == "hydra" else "libmpi.so.40"
    if mpi.wheel:
        return mpi.home() / "lib" / name
    link = mpis.WORK / f"links-{mpi.name}" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(glob.glob(f"/usr/lib/*/{name.replace('mpi.so.12', 'mpich.so.12')}")[0])
    return link


def judge(ranks):
    def judged(code, output):
        ran = [int(n) for n in re.findall(r"^Ran (\d+) tests? in", output, re.MULTILINE)]
        wrong = {name: "failed" for name in re.findall(r"^(?:FAIL|ERROR): (.+?)\s*$", output, re.MULTILINE)}
        if len(ran) != ranks:
            wrong["run"] = f"{len(ran)} of {ranks} ranks came to the end, exit code {code}"
        elif code and not wrong:
            wrong["run"] = f"exit code {code}"
        if not sum(ran):
            wrong["run"] = "no tests ran"
        return Seen(sum(ran) or 1, wrong)
    return judged


def units(mpi, tier):
    python, tests = install()
    # hydra's ranks spin: more than there are cores are slow
    chosen = [("blocking", BLOCKING, 3 if tier == "full" and mpi.family == "hydra" else 2, 900.0)]
    if tier == "full":
        chosen += [(name, [name], 2, 600.0) for name in OTHERS]
    library = libmpi(mpi)
    places = f"{library.parent}:{mpi.environment().get('LD_LIBRARY_PATH', '')}".rstrip(":")
    for title, modules, ranks, limit in chosen:
        words = ["env", f"MPI4PY_LIBMPI={library}", f"LD_LIBRARY_PATH={places}", python, tests / "test" / "main.py", "-q", "--no-builddir"]
        words += [word for module in modules for word in ("-i", rf"^{module}\.py$")]
        yield Unit(title, ranks, tuple(words), limit, judge(ranks))
