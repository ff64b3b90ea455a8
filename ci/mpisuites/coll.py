"""MPICH's own tests of collectives (test/mpi/coll of Debian's source package), compiled with each MPI."""

import os
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from . import mpis
from .runs import Unit, no_errors

NAME = "coll"
MPIS = list(mpis.MPIS)

# All operations, in place, derived types, user operators, one intercommunicator; at 4 ranks, some seconds in all.
QUICK = """allred allred2 allred4 allgather2 allgatherv2 alltoall1 alltoallv alltoallw1 bcasttest coll4 coll5 coll9 coll12 coll13
exscan gather gather2 icbcast longuser opsum opminloc red_scat_block redscat scantst scatterv""".split()
FLAGS = "-O0"  # some are thousands of lines out of macros
# Names that MPI 3 removed are errors in Open MPI's header.
FLAGS_OPENMPI = " ".join(["-std=gnu99 -DOMPI_OMIT_MPI1_COMPAT_DECLS=1",
                          *(f"-DMPI_Type_{name}=MPI_Type_create_{name}" for name in ("hindexed", "hvector", "struct"))])
# What configure finds for gcc and glibc, of what these programs and their helpers ask; the helpers' own header asks nothing.
CONFIGURED = """HAVE_DOUBLE__COMPLEX HAVE_FLOAT__COMPLEX HAVE_GETRUSAGE HAVE_LONG_DOUBLE HAVE_LONG_DOUBLE__COMPLEX HAVE_LONG_LONG
HAVE_MPI_WIN_CREATE HAVE_STDARG_H HAVE_STDINT_H HAVE_STRING_H HAVE_SYS_RESOURCE_H HAVE_SYS_TIME_H HAVE_UNISTD_H HAVE_USLEEP HAVE__BOOL
USE_LONG_DOUBLE_COMPLEX USE_STRICT_MPI""".split()
SLOWER_THAN_ALONE = 4  # with the ranks of several tests on few cores; their limits are for machines with a core per rank


def apt(*words):
    """apt-get with lists of its own, of the sources of Debian's own packages: the system's often lack them."""
    folder = mpis.WORK / "apt"
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    form = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)"
    of = ["Created-By: Packages", "Origin: Debian", "Component: main"]
    told = mpis.had(["apt-get", "indextargets", "--format", form, *of], "apt-get indextargets")
    lines = set()
    for line in told.splitlines():
        uri, release, component, key = line.split("|")
        lines.add(f"deb-src {'' if key.startswith('$') or not key else f'[signed-by={key}] '}{uri} {release} {component}")
    (folder / "sources.list").write_text("\n".join(sorted(lines)) + "\n")
    places = {"Etc::sourcelist": folder / "sources.list", "Etc::sourceparts": "/dev/null", "State::lists": folder / "lists",
              "Cache::archives": folder / "archives", "Cache::pkgcache": "", "Cache::srcpkgcache": ""}
    options = [word for name, value in places.items() for word in ("-o", f"Dir::{name}={value}")]
    return mpis.had(["apt-get", "-q", *options, *words], f"apt-get {words[0]}", cwd=folder)


def source():
    """The folder test/mpi of MPICH's source."""
    at = mpis.WORK / "mpich-source"
    if not (at / "done").exists():
        mpis.need_packages(["dpkg-dev", "xz-utils"])
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir(parents=True)
        apt("update")
        apt("source", "--download-only", "mpich")
        archive = next((mpis.WORK / "apt").glob("mpich_*.orig.tar.*"))
        parts = ["--anchored", "--wildcards", "--no-wildcards-match-slash", "*/test", "*/confdb", "*/maint"]
        mpis.said(["tar", "-xf", archive, "-C", at, *parts], f"unpacking {archive.name}")
        (at / "done").touch()
    return next(at.glob("*/test/mpi"))


def flags(mpi):
    return f"{FLAGS} {FLAGS_OPENMPI}" if mpi.family == "openmpi" else FLAGS


def compile_some(mpi, programs):
    """Compiles these programs without configure and make, which take some 20 s; the folder that they are in."""
    at, tests = mpis.WORK / f"coll-quick-{mpi.name}", source()
    (at / "include").mkdir(parents=True, exist_ok=True)
    lines = [*(f"#define {name} 1" for name in CONFIGURED), "#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX"]
    (at / "include" / "mpitestconf.h").write_text("\n".join(lines) + "\n")
    (at / "dtpoolsconf.h").write_text("")
    folders = ["-Iinclude", *(f"-I{tests / folder}" for folder in ("include", "dtpools/include"))]
    command = [mpi.compiler(), "-w", *shlex.split(flags(mpi)), *folders]

    def compiled(name, *words):
        if not (at / name).exists():
            mpis.said([*command, *words], f"compiling {name} for {mpi.title}", cwd=at, env={**os.environ, **mpi.environment()})
        return name

    helpers = [*(tests / "util" / f"{name}.c" for name in ("mtest", "mtest_common", "mtest_single")), *tests.glob("dtpools/src/*.c")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(lambda helper: compiled(f"{helper.stem}.o", "-c", helper), helpers))
        list(pool.map(lambda name: compiled(name, "-o", name, tests / "coll" / f"{name}.c", *objects, "-lm"), programs))
    return at


def build(mpi):
    """Compiles all programs of coll; the folder that they are in."""
    at = mpis.WORK / f"coll-{mpi.name}"
    tests = source()
    if not (at / "configured").exists():
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir(parents=True)
        options = ["--disable-cxx", "--disable-fortran", "--disable-spawn", "--enable-strictmpi"]
        variables = {"MPICC": str(mpi.compiler()), "CC": "cc", **mpi.environment()}
        mpis.said([tests / "configure", *options], f"configuring the tests for {mpi.title}", cwd=at, env={**os.environ, **variables})
        (at / "configured").touch()
    jobs = f"-j{os.cpu_count()}"
    environment = {**os.environ, **mpi.environment()}
    given = f"CFLAGS={flags(mpi)}"
    mpis.said(["make", jobs, given, "-C", at / "util"], f"compiling the tests' helpers for {mpi.title}", env=environment)
    # what an MPI lacks does not compile: its runs fail with the library and without it
    with (mpis.WORK / f"coll-{mpi.name}.log").open("w") as log:
        for folder in ("dtpools", "coll"):
            if (at / folder / "Makefile").exists():
                words = ["make", "-k", jobs, given, "-C", str(at / folder)]
                subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return at / "coll"


def lines(listed):
    """(program, ranks, arguments, seconds) of each line of a list of tests."""
    for line in listed.read_text().splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2 or not words[1].isdigit():
            continue
        attributes = [word.split("=", 1) for word in words[2:] if "=" in word]
        arguments = tuple(value for name, value in attributes if name == "arg")
        limit = next((float(value) for name, value in attributes if name == "timeLimit"), 180.0)
        yield words[0], int(words[1]), arguments, limit


def units(mpi, tier):
    if tier == "quick":
        folder = compile_some(mpi, QUICK)
        listed = list(lines(source() / "coll" / "testlist.in"))
        first = {program: (program, 4, arguments, 60.0) for program, _, arguments, _ in reversed(listed)}
        chosen = [first[program] for program in QUICK]
    else:
        folder = build(mpi)
        chosen = lines(folder / "testlist")
    for program, ranks, arguments, limit in chosen:
        title = " ".join([program, f"-n {ranks}", *arguments])
        yield Unit(title, ranks, (folder / program, *arguments), limit * SLOWER_THAN_ALONE, no_errors)
