"""Programs of our own for what the others' suites miss (mpi/tests/programs/suite_*.c)."""

import shutil

import lib

from . import mpis
from .runs import Seen, Unit, no_errors

NAME = "own"
MPIS = list(mpis.MPIS)
SOURCES = lib.ROOT / "mpi" / "tests" / "programs"
LIMIT = 240.0  # seconds; each takes some
WIRES = ("tcp", "rxm", "sockets")  # besides shared memory, which `auto` takes within a machine
LACKS = {"mpich": ("sockets",), "impi": ("rxm", "sockets")}  # by wheel: what the libfabric that it loads has not
SOCKETS = {
    "mpich": ("MPIR_CVAR_NOLOCAL=1", "MPIR_CVAR_CH4_NETMOD=ofi", "FI_PROVIDER=tcp"),
    "impi": ("I_MPI_FABRICS=ofi", "I_MPI_OFI_PROVIDER=tcp"),
}  # by wheel: messages within a machine by sockets
DEADLINE = 5  # seconds, of a run that must not end well


def build(mpi):
    """Each program compiled with this MPI: name -> path."""
    at = mpis.WORK / f"own-{mpi.name}"
    at.mkdir(parents=True, exist_ok=True)
    shared = max(file.stat().st_mtime for file in SOURCES.glob("suite*.h"))
    programs = {}
    for source in sorted(SOURCES.glob("suite_*.c")):
        program = at / source.stem
        if not program.exists() or program.stat().st_mtime < max(shared, source.stat().st_mtime):
            flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
            mpis.said([mpi.compiler(), *flags, "-o", program, source, "-ldl", "-lm"], f"compiling {source.name} for {mpi.title}")
        programs[source.stem] = program
    return programs


def killed(mpi, program, ranks):
    """One of the ranks is killed: each of the others must say in a file that it learned of it."""
    folder = mpis.WORK / f"killed-{mpi.name}"

    def empty():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def judge(code, output):
        told = [file for file in folder.iterdir() if "learned of it" in file.read_text()]
        wrong = {"": f"{len(told)} of {ranks - 1} ranks learned of it, exit code {code}: {lib.first_error(output)}"}
        return Seen(1, {} if len(told) == ranks - 1 else wrong)

    # Hydra ends all if its own child is killed, and tells the others by a signal that ends them, too
    words = ("sh", "-c", 'trap "" USR1; "$@"; exit 0', "sh", program, folder)
    return Unit("killed", ranks, words, LIMIT, judge, before=empty, options=("-disable-auto-cleanup",), alone=True)


def stuck(code, output):
    """Without the hook a rank waits in a collective for one that waits for its message, until the deadline says so."""
    wrong = {"": f"it does without the hook: exit code {code}: {lib.first_error(output)}"}
    return Seen(1, {} if f"has not ended within {DEADLINE} s" in output and "No Errors" not in output else wrong)


def units(mpi, tier):
    program = build(mpi)
    many = tier == "full"

    def unit(title, ranks, words, options=()):
        return Unit(title, ranks, words, LIMIT, no_errors, options=options)

    # otherwise the receiver copies out of the sender's memory, which needs nothing of the sender
    sockets = ("--mca", "pml", "ob1", "--mca", "btl", "self,tcp") if mpi.family == "openmpi" else ()
    by_sockets = SOCKETS.get(mpi.wheel, ())
    for what in ("send", "ssend", "receive"):
        for wire in ("auto", *(wire for wire in WIRES if many and wire not in LACKS.get(mpi.wheel, ()))):
            words = ("env", *by_sockets, f"CIRCULANT_PROVIDER={wire}", program["suite_pending"], what)
            yield unit(f"pending {what} {wire}", 4, words, sockets)
            # a receive needs no hook, as a rank that has left a call is not needed; a small synchronous send only MPICH 4's over UCX does
            if what == "send":
                off = ("env", "CIRCULANT_MPI_PROGRESS=0", f"CIRCULANT_DEADLINE={DEADLINE}", *words[1:])
                yield Unit(f"pending {what} {wire}, hook off", 4, off, LIMIT, stuck, options=sockets, alone=True)
    for seed in range(1, 9 if many else 3):
        yield unit(f"types seed {seed}", 4, (program["suite_types"], seed, 60 if many else 12))
    if many:
        yield unit("types seed 100 -n 7", 7, (program["suite_types"], 100, 40))
    for ranks in (1, 2, 3, 5) if many else (3,):
        yield unit(f"odd -n {ranks}", ranks, (program["suite_odd"],))
    for ranks in (2, 3, 5) if many else (3,):
        yield unit(f"inter -n {ranks}", ranks, (program["suite_inter"],))
    # Intel's grows at first; MPICH's own calls that make communicators, by three threads at each of three ranks, keep all cores busy
    yield unit("comms", 3, (program["suite_comms"], 1000 if many else 100 if mpi.wheel == "impi" else 30))
    yield unit("errors", 3, (program["suite_errors"],))
    if mpi.family == "hydra" and mpi.wheel != "impi":
        yield killed(mpi, program["suite_killed"], 4)
