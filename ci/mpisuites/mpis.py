"""The MPI libraries under test: where each comes from, its compiler, how it starts ranks, how the library is preloaded."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import lib
from racetrack import rivals
from racetrack.rivals import Trouble

WORK = lib.target() / "suites"


class Absent(Trouble):
    """What cannot be had here; a suite that needs it is skipped."""


@dataclass(frozen=True)
class Mpi:
    name: str
    title: str
    family: str  # hydra (MPICH, Intel) or openmpi: how ranks are started
    packages: tuple = ()  # of Debian
    wheel: str = ""  # of racetrack/rivals.py
    cc: str = "mpicc"

    def home(self):
        return rivals.home(self.wheel)

    def there(self):
        """Whether programs can be compiled and started with it."""
        return shutil.which(str(self.compiler())) is not None and shutil.which(str(self.launcher())) is not None

    def launcher(self):
        if self.wheel:
            return rivals.mpiexec(self.wheel) if self.family == "hydra" else self.home() / "bin" / "mpirun"
        return "mpiexec.mpich" if self.family == "hydra" else "mpirun.openmpi"

    def compiler(self):
        if self.wheel == "impi":
            return intel_compiler(self.home())
        return self.home() / "bin" / self.cc if self.wheel else self.cc

    def environment(self):
        """Of the launcher; ranks inherit it."""
        if self.wheel == "impi":
            at = self.home()
            return {"I_MPI_ROOT": str(at), "LD_LIBRARY_PATH": f"{at}/lib:{at}/lib/libfabric", "FI_PROVIDER_PATH": f"{at}/lib",
                    "I_MPI_THREAD_YIELD": "2"}
        if self.wheel == "mpich":  # it yields its core in vain, see racetrack/rivals.py
            count = "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT"
            return {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", count: "1"}
        if self.family == "openmpi":
            return {f"OMPI_{word}": "1" for word in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_mpi_yield_when_idle")}
        return {}

    def start(self, ranks, words, cluster=None, options=()):
        """(command, environment) of `words` on so many ranks, on the two nodes of a cluster if one is named."""
        variables = self.environment()
        if self.family == "hydra":
            place = rivals.Place(2 if cluster else 1, -(-ranks // 2) if cluster else ranks, cluster)
            if cluster:
                variables |= {"FI_TCP_IFACE": "eth0", "FI_PROVIDER": "tcp", "I_MPI_OFI_PROVIDER": "tcp", "MPIR_CVAR_CH4_NETMOD": "ofi"}
            line = rivals.hydra(self.launcher(), place, variables, words)
            at = line.index("-n")
            line[at : at + 2] = [*options, "-n", ranks]  # an odd number leaves one place of the second node free
        else:
            line = [self.launcher(), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *options, "-n", ranks]
            if cluster:
                line += ["--host", f"n0:{-(-ranks // 2)},n1:{ranks // 2}", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"]
                line += ["--mca", "btl_tcp_if_include", "eth0", "--mca", "plm_rsh_agent", rivals.RSH]
            line += ["env", *rivals.assign(variables), *words]
        if cluster:
            line = [rivals.CLUSTER, "--name", cluster, "exec", 0, *line]
            variables |= {"CI_CLUSTER": cluster}
        return [str(word) for word in line], variables


MPIS = {
    mpi.name: mpi
    for mpi in (
        Mpi("mpich4", "MPICH 4 (Debian)", "hydra", ("mpich", "libmpich-dev", "gcc", "libc6-dev", "make"), cc="mpicc.mpich"),
        Mpi("openmpi4", "Open MPI 4 (Debian)", "openmpi", ("openmpi-bin", "libopenmpi-dev", "gcc", "libc6-dev", "make"), cc="mpicc.openmpi"),
        Mpi("mpich5", "MPICH 5", "hydra", ("gcc", "libc6-dev", "make", "python3-venv"), "mpich"),
        Mpi("mpich5abi", "MPICH 5, standard ABI", "hydra", ("gcc", "libc6-dev", "make", "python3-venv"), "mpich", "mpicc_abi"),
        Mpi("impi", "Intel MPI", "hydra", ("gcc", "libc6-dev", "make", "python3-venv"), "impi"),
        Mpi("openmpi5", "Open MPI 5", "openmpi", ("gcc", "libc6-dev", "make", "python3-venv"), "openmpi"),
    )
}


def intel_compiler(home):
    """Intel's own mpicc does not find its header in a virtual environment; this one does."""
    script = WORK / "bin" / "mpicc-impi"
    words = f'exec cc -I"{home}/include" "$@" -L"{home}/lib" -Wl,-rpath,"{home}/lib" -lmpi\n'
    if not (home / "include" / "mpi.h").exists():
        return script
    if not script.exists() or script.read_text() != f"#!/bin/sh\n{words}":
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!/bin/sh\n{words}")
        script.chmod(0o755)
    return script


def said(command, what, **more):
    """The output of a command of the set-up; Trouble with its last line if it fails."""
    return rivals.said(command, what, stdin=subprocess.DEVNULL, **more)


def had(command, what, **more):
    """The same for what fetches something: Absent if it fails."""
    try:
        return said(command, what, **more)
    except Trouble as e:
        raise Absent(str(e)) from None


def need_packages(names):
    """Installs those Debian packages that are missing, as need_packages of lib.sh."""
    had(["bash", "-c", '. ci/lib.sh; need_packages "$@"', "suites", *names], f"installing {' '.join(names)}", cwd=lib.ROOT)


def install(mpi):
    need_packages(mpi.packages)
    try:
        if mpi.wheel:
            rivals.fetch(mpi.wheel)
    except Trouble as e:
        raise Absent(str(e)) from None
    if not mpi.there():
        raise Absent(f"{mpi.title}: no {mpi.compiler()} or no {mpi.launcher()}")


def library():
    """libcirculant_mpi.so, or $CI_MPI_LIBRARY."""
    if given := os.environ.get("CI_MPI_LIBRARY"):
        return Path(given).resolve()
    words = ["--locked", "--quiet", "--profile", "test", "-p", "circulant-mpi", "--lib"]
    subprocess.run(["cargo", "build", *words], cwd=lib.ROOT, check=True)
    return (lib.target() / "debug" / "libcirculant_mpi.so").resolve()
