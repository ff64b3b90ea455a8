"""What is raced: clusters, operations, sizes; and the reference C of each point."""

import os
from dataclasses import dataclass, replace
from math import ceil, log2
from pathlib import Path

KB, MB = 1000, 1_000_000
DISTRIBUTIONS = ["regular", "broadcast", "spike", "half", "linear", "geometric", "irr3"]
LAYER = "circulant preloaded"  # a setting of an MPI
AGAIN = "default again"  # another one
COLD = "-cold"  # what names of figures with cold buffers end in
FRESH = "-fresh"  # and with buffers that are written before each repetition
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# Calls after which a kind of call has had its trials, at most: four of 64 calls, the first behind 64 others, each later one behind 256 (core/src/select/trial.rs).
SETTLED = 1088
TRIED_ONCE = 128  # likewise to the end of the first trial
SETTLED_OF_MPIS = 200  # calls of 64 KB by Intel MPI get faster up to the 200th (docs/bindings.md)
EVEN, UNEVEN = ["s1", "s2", "s3", "s4"], ["s5", "s6", "s7", "s8"]


@dataclass(frozen=True)
class Race:
    """Operations with the same distributions and sizes."""

    ops: tuple
    sizes: tuple
    dists: tuple = ()


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    nodes: int
    races: tuple
    per_node: int = 1
    rate: str | None = "100mbit"  # None: no cluster, all on this machine
    latency: str = "natural"
    groups: int = 1  # of nodes
    taper: int = 1
    rounds: int = 3
    reps: int = 5
    calls: int = 1  # of a repetition, in a row
    cold: int = 0  # bytes of other memory that each rank reads before a repetition
    fresh: bool = False  # each rank writes its buffers before a repetition
    more: int = 2  # rounds that may follow for points of which too few rows are left
    programs: tuple = ("circulant", "mpich", "impi", "openmpi")
    preload: bool = False  # each MPI at its defaults, with libcirculant_mpi.so preloaded and without
    auto: bool = False  # by trial (CIRCULANT_MPI_TAKE=auto): both runs wait alike, as the MPI may have a call in either
    warm: int = 0  # untimed repetitions of each point ahead of the others
    warm_of_mpis: int | None = None  # the same of MPIs; none: as many
    verbs: bool = False  # over soft-RoCE, in the virtual machine of ci/rdma-vm
    apart: bool = False  # each rank has a core of its own

    @property
    def ranks(self):
        return self.nodes * self.per_node

    def where(self):
        return self.place() + (", cold buffers" if self.cold else "") + (", buffers that are written before" if self.fresh else "")

    def place(self):
        if self.verbs:
            return f"{self.ranks} ranks over soft-RoCE in an emulated machine (ci/rdma-vm), without shared memory"
        if self.rate is None:
            return f"{self.ranks} ranks on one machine" + (", a core for each" if self.apart else "")
        ranks = f"{self.nodes} nodes" + (f" × {self.per_node} ranks" if self.per_node > 1 else "")
        wire = "natural latency" if self.latency == "natural" else f"{self.latency.replace('us', ' µs')} one way"
        groups = f", {self.groups} groups whose links are tapered 1:{self.taper}" if self.groups > 1 else ""
        return f"{ranks}, {self.rate.replace('mbit', ' Mbit/s')}, {wire}{groups}"


def figures():
    bcast = Race(("bcast",), (KB, 10 * KB, 40 * KB, 100 * KB, 400 * KB, MB, 4 * MB))
    floor = Race(("bcast",), (100 * KB, MB, 4 * MB))
    irregular = Race(("allgatherv",), (10 * KB, 100 * KB, MB), tuple(DISTRIBUTIONS))
    others = (
        Race(("allreduce", "reduce", "reduce_scatter_block", "allgather", "alltoall", "gather", "scatter", "scan"), (100 * KB, MB)),
        Race(("reduce_scatter", "gatherv", "scatterv"), (100 * KB, MB), ("regular", "irr3")),
        Race(("barrier",), (0,)),
    )
    short = (
        Race(("bcast", "allreduce", "reduce", "reduce_scatter_block", "allgather", "alltoall", "gather", "scatter", "scan"), (8, KB, 10 * KB, 30 * KB)),
        Race(("allgatherv", "gatherv", "scatterv"), (8, KB, 10 * KB, 30 * KB), ("irr3",)),
    )
    natural = (Race(("bcast",), (100 * KB, MB, 4 * MB)), Race(("allgatherv",), (100 * KB, MB), ("regular", "broadcast", "irr3")))
    inter = (Race(("inter_allgather",), (100 * KB,), tuple(EVEN)), Race(("inter_allgatherv",), (100 * KB,), tuple(UNEVEN)))
    groups = (Race(("bcast", "allgather", "allreduce", "alltoall"), (100 * KB, MB)),)
    full = (Race(("bcast",), (100 * KB, MB)), Race(("allgatherv",), (100 * KB, MB), ("regular", "irr3", "broadcast")))
    small = tuple(4 * 8**i for i in range(9))  # 4 B to 64 MiB
    shm = (
        Race(("bcast", "allgather", "allreduce"), small),
        Race(("allgatherv",), small, ("regular", "irr3")),
        Race(("barrier",), (0,)),
    )
    # Calls in a row without a barrier in between, as of a program that calls in a loop: a rank may be some calls ahead. (Two looks at the clock take half as long as a call of 0.1 µs.)
    loop = (
        Race(("bcast", "reduce", "allreduce", "allgather", "alltoall", "gather", "scatter", "scan", "reduce_scatter_block"), (8, 64, 256, 2048, 16384, 131072)),
        Race(("barrier",), (0,)),
    )
    late, slow = {"latency": "1000us"}, {"rate": "50mbit"}
    one = {"rate": None, "rounds": 3}
    # As in programs that iterate: by then two ranks have tried cross-memory attach (src/comm/short/cross_memory.rs).
    tried = {**one, "warm": 20}
    # Calls of some bytes differ by a third among five: the least of them is luck.
    settled = {"warm": SETTLED, "warm_of_mpis": SETTLED_OF_MPIS, "reps": 40}
    # Where groups of nodes are not known only a trial finds what spares their links. Calls take up to 0.4 s: one trial, not four, and MPIs, which have none, have what a few calls set up.
    once = {"warm": TRIED_ONCE, "warm_of_mpis": 8}
    several = ("bcast", "reduce", "allreduce", "allgather", "alltoall")
    layer = lambda *sizes: (Race(several, sizes), Race(("allgatherv",), sizes, ("irr3",)), Race(("barrier",), (0,)))  # noqa: E731
    preload = {"preload": True, "programs": ("mpich", "impi", "openmpi")}
    # a trial has 102 calls before anything is taken where the MPI gets no faster, and 834 at most, as over shared memory (mpi/src/trials.rs)
    auto = {**preload, "auto": True, "warm": 110, "rounds": 5}
    # plain emulation: a start takes seconds, and 80 calls of 1 MB half a minute
    verbs = {"verbs": True, "programs": ("mpich",), "more": 0}
    return [
        Figure("bcast-16", "Broadcast, 16 nodes", 16, (bcast,), **late),
        Figure("floor-16", "Broadcast beside a bare TCP program, 16 nodes", 16, (floor,), programs=("circulant", "bare"), **late),
        Figure("bcast-36", "Broadcast, 36 nodes", 36, (bcast,), **late, **slow),
        Figure("allgatherv-16", "Irregular all-gather, 16 nodes", 16, (irregular,), **late),
        Figure("allgatherv-36", "Irregular all-gather, 36 nodes", 36, (irregular,), **late, **slow),
        Figure("natural-8", "Natural latency, 8 nodes", 8, natural),
        Figure("natural-16", "Natural latency, 16 nodes", 16, natural),
        Figure("natural-36", "Natural latency, 36 nodes", 36, natural, **slow),
        Figure("others-16", "The other operations, 16 nodes", 16, others, **late),
        Figure("short-16", "Short messages, 16 nodes", 16, short, **settled, **late),
        Figure("short-natural-16", "Short messages, 16 nodes, natural latency", 16, short, **settled),
        Figure("others-natural-16", "The other operations, 16 nodes, natural latency", 16, others),
        Figure("groups-16", "Two groups of nodes, 16 nodes", 16, groups, groups=2, taper=4, programs=("circulant", "mpich", "openmpi"), **once, **late),
        Figure("full-nodes", "8 nodes with 4 ranks each", 8, full, per_node=4),
        Figure("inter-8", "Between two groups, 8 nodes", 8, inter),
        Figure("inter-16", "Between two groups, 16 nodes", 16, inter),
        # Whether two cores of a virtual machine have a cache in common changes every few seconds: each program has to meet both.
        *(Figure(f"shm-{p}", f"Shared memory, {p} ranks", p, shm, **{**tried, "rounds": rounds}) for p, rounds in ((2, 10), (4, 6), (8, 3))),
        *(Figure(f"loop-{p}", f"Shared memory, {p} ranks, calls in a loop", p, loop, **one, calls=1000) for p in (2, 4, 8)),
        *(Figure(f"cores-{p}", f"Shared memory, {p} ranks with a core each", p, shm, **tried, apart=True) for p in (4, 8, 16)),
        Figure("preload-8", "MPI programs with the library preloaded, 8 ranks", 8, layer(64, 4 * KB, 64 * KB, MB), **preload, **one),
        Figure("preload-16", "MPI programs with the library preloaded, 16 nodes", 16, layer(KB, 10 * KB, 100 * KB, MB), **preload, **late),
        Figure("preload-verbs", "MPI programs with the library preloaded, RDMA verbs", 4, layer(64, 4 * KB, 64 * KB, MB), **{**one, **preload, **verbs}),
        Figure("auto-8", "MPI programs with the library preloaded, by trial, 8 ranks", 8, layer(64, 4 * KB, 64 * KB, MB), **{**one, **auto, "rounds": 6, "warm": 840}, reps=40),
        Figure("auto-verbs", "MPI programs with the library preloaded, by trial, RDMA verbs", 4, layer(64, 4 * KB, 64 * KB), **{**one, **auto, **verbs, "rounds": 6, "warm": 650}, reps=40),
        Figure("auto-16", "MPI programs with the library preloaded, by trial, 16 nodes", 16, layer(KB, 10 * KB, 100 * KB, MB), **auto, **late),
    ]


# Every operation, so that each is seen to be known and right everywhere; in one race, as starting takes longest.
SMOKE = Figure(
    "smoke", "Does the machinery work?", 3,
    (
        Race(
            tuple(
                "bcast allgatherv allgather gather gatherv scatter scatterv alltoall alltoallv alltoallw reduce allreduce "
                "reduce_scatter reduce_scatter_block scan exscan barrier inter_allgather inter_allgatherv".split()
            ),
            (10 * KB,), ("irr3", "s4", "s8"),
        ),
    ),
    latency="1000us", rounds=1, reps=3, more=0,
)


def cores():
    """Of this machine, that we may use."""
    return len(os.sched_getaffinity(0))


def chosen(names):
    """The figures of these names; `shm` is all of its kind, `all` are all that this machine has the cores for."""
    known = {f.name: f for f in [*figures(), SMOKE]}
    found = []
    for name in names:
        if name == "all":
            found += [f for f in figures() if not f.apart or f.ranks <= cores()]
        elif name == "shm":
            found += [f for f in figures() if f.name.startswith("shm-")]
        elif name in known:
            found.append(known[name])
        else:
            raise ValueError(f"there is no figure {name!r}; there are {', '.join(known)}, shm, all")
    return list(dict.fromkeys(found))


def colder(figure):
    """The same figure with cold buffers: the ranks, which share a machine, read twice its largest cache together."""
    sizes = [p.read_text().strip() for p in CACHES.glob("index*/size")]
    largest = max([1024 * int(s[:-1]) for s in sizes if s.endswith("K")], default=64 << 20)
    return replace(figure, name=figure.name + COLD, title=f"{figure.title}, cold buffers", cold=max(8 << 20, 2 * largest // figure.ranks))


def fresher(figure):
    """The same figure with buffers that are written before each repetition, as by a program that computes what it sends."""
    return replace(figure, name=figure.name + FRESH, title=f"{figure.title}, fresh data", fresh=True)


def cut(figure, ops=None, sizes=None, dists=None):
    """A figure with fewer operations, other sizes, fewer distributions."""
    races = []
    for race in figure.races:
        kept = tuple(op for op in race.ops if not ops or op in ops)
        spreads = tuple(d for d in race.dists if not dists or d in dists)
        if kept and (spreads or not race.dists):
            sized = race.sizes == (0,) or not sizes
            races.append(Race(kept, race.sizes if sized else tuple(sizes), spreads))
    return replace(figure, races=tuple(races))


# --- the reference ------------------------------------------------------------------------------------------------


def weight(dist, i, p):
    return {
        "broadcast": float(i == 0),
        "spike": 0.5 if i == 0 else 0.5 / max(1, p - 1),
        "half": float(i % 2 == 0),
        "linear": float(p - 1 - i),
        "irr3": float(i % 3),
        "geometric": 1 / (1 << ((i + 1).bit_length() - 1)),
    }.get(dist, 1.0)


def counts(dist, bytes_, p):
    """Bytes of each rank, as `circulant bench` and rival.c divide them."""
    weights = [weight(dist, i, p) for i in range(p)]
    if not sum(weights):
        weights[-1] = 1.0
    ints = [int(bytes_ // 4 * (w / sum(weights))) for w in weights]
    last = p - 1 if dist == "irr3" else max(i for i, w in enumerate(weights) if w)
    ints[last] += bytes_ // 4 - sum(ints)
    return [4 * n for n in ints]


def groups(setting, bytes_, p):
    """Contributions of the ranks of both groups."""
    halves, rising = setting in ("s1", "s5", "s6"), setting in ("s6", "s8")
    first = min(max(1, p // 2 if halves else (p * 25 + 16) // 32), p - 1)
    both = []
    for group, k in enumerate((first, p - first)):
        most = max(1, bytes_ // 4 // (4 if setting == ("s4", "s3")[group] else 1))
        both.append([4 * (most * (i + 1) // k if rising else most) for i in range(k)])
    return both


def reference(op, dist, p, m, wire):
    """C = βV + γF + q(L+o) in microseconds, with root 0; `wire`: the figures of `circulant bench put` in nanoseconds."""
    q = ceil(log2(p))
    block, folded = max(4, m // 4 // p * 4), 0
    shares = counts(dist if dist != "-" else "regular", m, p)
    if op in ("inter_allgather", "inter_allgatherv"):
        both = groups(dist, m, p)
        volume, q = max(map(sum, both)), ceil(log2(max(map(len, both)) + 1))
    elif op == "allgatherv":
        volume = m - min(shares)
    elif op in ("gatherv", "scatterv", "alltoallv", "alltoallw"):
        volume = m - shares[0]
    elif op in ("allgather", "gather", "scatter", "alltoall"):
        volume = block * (p - 1)
    elif op == "barrier":
        volume = 0
    elif op == "allreduce":
        volume, folded = 2 * m * (p - 1) / p, m * (p - 1) / p
    elif op == "reduce_scatter_block":
        volume = folded = block * (p - 1)
    elif op == "reduce_scatter":
        volume, folded = m - min(shares), m * (p - 1) / p
    else:
        volume = m
        folded = m * (p - {"reduce": 1, "scan": 1, "exscan": 2}.get(op, p)) / p
    ns = wire["byte_ns"] * volume + wire["fold_ns"] * folded + q * (wire["latency_ns"] + wire["overhead_ns"])
    return ns / 1e3
