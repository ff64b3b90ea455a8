"""Runs: programs take turns on one cluster, batch by batch; what comes out goes into a CSV file.

A *batch* is one start of one program with one setting for the points of one race, with a few repetitions of each.
Every round has a batch of each, so that all programs see the same of whatever else the machine does. A row of a batch
is dropped when more than 1 % of the frames that were carried for it were late: then the processors were measured.
Such points are run again, a few times.
"""

import contextlib
import csv
import datetime
import importlib.machinery
import importlib.util
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import lib

from . import figures, rivals
from .rivals import DEFAULT, Place, Setting, Trouble

RESULTS = lib.ROOT / "docs" / "performance"
TUNED = RESULTS / "tuned.json"
DEVICES = Path("/sys/class/infiniband")
AGAIN = Setting(figures.AGAIN)  # an MPI at its defaults a second time: how far two runs of the same differ here
LATE = 0.01  # share of late frames above which a row tells about the processors
PRIORITY = {"nice": ["nice", "-n", "-15"], "rr": ["chrt", "-r", "1"], "none": []}
ROW = re.compile(r"^([a-z_]+),([a-z0-9-]+),(\d+),(\d+),([\d.]+),([\d.]+),([\d.]+),(\d+)(?:,(.*))?$")
TOOK = re.compile(r"circulant: rank 0: taken [1-9]")  # of the report of libcirculant_mpi.so
COLUMNS = (
    "figure program setting op dist p bytes min_us median_us span_us spread reps batches dropped limited reference_us spans_us".split()
)


@dataclass(frozen=True)
class Point:
    op: str
    dist: str
    bytes: int


@dataclass
class Row:
    point: Point
    p: int
    least: float
    median: float
    span: float  # the shortest
    middle_span: float | None  # the median; only the MPI benchmark tells it
    reps: int
    late: float  # share of frames


class Watched(lib.Case):
    """A case whose lines call `seen` as they come."""

    def __init__(self, command, limit, env, seen):
        super().__init__(command, limit, env)
        self.seen = seen

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))
            self.seen(line.rstrip("\n"))


# --- the cluster --------------------------------------------------------------------------------------------------


def cluster(*words):
    return rivals.said([rivals.CLUSTER, *map(str, words)], "ci/cluster/cluster")


@contextlib.contextmanager
def raised(figure):
    """The figure's cluster, if it has one; gives the place where its ranks run."""
    if figure.verbs and not any(DEVICES.glob("*")):
        raise Trouble(f"{figure.name} wants an RDMA device; `ci/race run` starts a machine that has one")
    if figure.apart and figure.ranks > figures.cores():
        raise Trouble(f"{figure.name} wants {figure.ranks} cores, and there are {figures.cores()}")
    if figure.rate is None:
        yield Place(figure.nodes, verbs=figure.verbs)
        return
    name = f"race-{os.getpid()}"
    # a kill of this process must take the cluster along as INT does
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        divided = ["--groups", figure.groups, "--taper", figure.taper] if figure.groups > 1 else []
        cluster("--name", name, "up", figure.nodes, "--rate", figure.rate, "--latency", figure.latency, *divided)
        yield Place(figure.nodes, figure.per_node, name)
    finally:
        cluster("--name", name, "down")
        signal.signal(signal.SIGTERM, previous)


def by_itself(path):
    """A script as a module: the counts are asked for after each row, and a new process would be in the way of the next."""
    loader = importlib.machinery.SourceFileLoader(path.name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


SWITCH = by_itself(rivals.CLUSTER)


def frames(place):
    """(frames, late ones) so far; None where no switch counts."""
    counted = SWITCH.frames(place.cluster) if place.cluster else None
    return counted and (counted["frames"], counted["late"])


def rest(figure):
    """Seconds for which each rank does nothing before a repetition. A link shaped by the kernel lets a bucket of bytes through at once;
    without a rest a program whose barrier takes longer, in which the bucket fills, has a faster link."""
    if figure.rate is None or figure.latency != "natural":
        return 0
    return 1.25 * 8 * SWITCH.BUCKET / SWITCH.bits_per_second(figure.rate)


def late_share(before, after):
    return (after[1] - before[1]) / max(1, after[0] - before[0]) if before and after else 0.0


def packets():
    """How many packets all RDMA devices have sent, where they count them as soft-RoCE does."""
    return sum(int(counter.read_text()) for counter in DEVICES.glob("*/ports/*/hw_counters/sent_pkts"))


# --- one batch ----------------------------------------------------------------------------------------------------


@dataclass
class Batch:
    program: str
    setting: Setting
    race: figures.Race

    def words(self, figure, reps, check):
        dists = ["--dist", ",".join(self.race.dists)] if self.race.dists else []
        sizes = ["--bytes", ",".join(map(str, self.race.sizes))]
        more = [f"--cold={figure.cold}"] if figure.cold else []
        more += ["--fresh"] if figure.fresh else []
        more += ["--calls", figure.calls] if figure.calls > 1 else []
        more += ["--warm", self.warm(figure)] if self.warm(figure) else []
        more += ["--rest", rest(figure), "--one-clock"] if rest(figure) else []
        more += ["--check"] if check else []
        return [",".join(self.race.ops), *sizes, *dists, "--reps", reps, "--time", 8, *more]

    def warm(self, figure):
        return figure.warm if self.program == "circulant" or figure.warm_of_mpis is None else figure.warm_of_mpis

    def title(self):
        ops = self.race.ops
        return ",".join(ops) if len(ops) < 4 else f"{len(ops)} operations"

    def points(self):
        return len(self.race.ops) * len(self.race.sizes) * max(1, len(self.race.dists))


@dataclass
class Track:
    """What stays the same for all batches of a figure."""

    figure: figures.Figure
    place: Place
    tool: str
    priority: str = "rr"

    def run(self, batch, reps, check=False, timeout_factor=1.0):
        """(rows, what went wrong or None)"""
        words = batch.words(self.figure, reps, check)
        line, env = rivals.command(batch.program, self.place, batch.setting, words, self.tool)
        limit = timeout_factor * (60 + 2 * self.place.ranks + (10 + batch.warm(self.figure) / 4) * batch.points())
        rows, before, sent = [], frames(self.place), packets()

        def seen(text):
            nonlocal before
            found = ROW.match(text)
            if found:
                try:
                    after = frames(self.place)
                    late, before = late_share(before, after), after
                except SWITCH.Trouble:  # it is being torn down, and this row is not needed any more
                    late = 1.0
                op, dist, p, bytes_, least, median, span, n, more = found.groups()
                middle = float(more) if batch.program != "circulant" and more else None
                rows.append(Row(Point(op, dist, int(bytes_)), int(p), float(least), float(median), float(span), middle, int(n), late))

        with Watched([*PRIORITY[self.priority], *line], limit, env, seen) as case:
            code, out, took = case.finish()
        if code is None:
            return rows, f"over the limit of {took:.0f} s"
        if code == 0 and batch.setting.layer and not TOOK.search(out):
            return [], "the preloaded library took no call"
        if code == 0 and self.place.verbs and packets() == sent:
            return [], "no packet left by the RDMA device"
        return rows, None if code == 0 else f"exit code {code}: {lib.first_error(out)}"

    def wire(self):
        """L, o, β and γ, by `circulant bench put` between nodes 0 and 1."""
        place = replace(self.place, nodes=2, per_node=1)
        words = ["bench", "put,reduce", "--bytes", "8", "--reps", "3", "--format", "json"]
        line, env = rivals.circulant(place, DEFAULT, self.tool, words)
        if place.cluster:
            line = [rivals.CLUSTER, "--name", place.cluster, "exec", 0, *line]
        env = {**env, "CI_CLUSTER": place.cluster or ""}
        with lib.Case([*PRIORITY[self.priority], *line], 90, env) as case:
            code, out, _ = case.finish()
        start = out.find("{")
        if code != 0 or start < 0:
            raise Trouble(f"circulant bench put: exit code {code}: {lib.first_error(out)}")
        setting = json.JSONDecoder().raw_decode(out[start:])[0]["setting"]
        return {k: setting[k] for k in ("latency_ns", "overhead_ns", "byte_ns", "fold_ns")}


# --- settings of a figure -----------------------------------------------------------------------------------------


def tuned(figure, program, op):
    """Settings beside the default: found by `ci/race tune`, else those known to be good."""
    try:
        found = json.loads(TUNED.read_text())[figure.name.removesuffix(figures.COLD).removesuffix(figures.FRESH)][op][program]
    except (OSError, KeyError, ValueError):
        found = rivals.GOOD.get(op, {}).get(program, [])
    return rivals.named(program, op, found)


def our_settings(figure, knobs):
    """Ours: the default, and on one node slices of plain memory, too, and where nodes are in groups with these known; `knobs` are given to all."""
    settings = [DEFAULT] if figure.rate else [DEFAULT, Setting("plain memory", {}, ("--memory", "plain"))]
    if figure.groups > 1:
        known = {"CIRCULANT_GROUPS": figure.nodes // figure.groups, "CIRCULANT_TAPER": figure.taper}
        settings.append(Setting("groups known", known))
    return [Setting(s.name, {**s.knobs, **knobs}, s.words) for s in settings]


def layer(figure, knobs):
    """An MPI's defaults, with our library preloaded. What helps the MPI to wait is left out where ours has the calls: it waits by itself, and
    the MPI's polls in its waits would last. By trial either may have them, so both runs are helped alike."""
    take = {"CIRCULANT_MPI_TAKE": "auto"} if figure.auto else {}
    variables = {"LD_PRELOAD": rivals.our_library(), "CIRCULANT_MPI_REPORT": 1, **take, **knobs}
    return Setting(figures.LAYER, layer=variables, helped=figure.auto)


def batches(figure, programs, knobs):
    """Of one round."""
    made = []
    settings = [DEFAULT, layer(figure, knobs), *([AGAIN] if figure.auto else [])] if figure.preload else []
    for race in figure.races:
        for program in programs:
            if settings:
                made += [Batch(program, s, race) for s in settings]
            elif program == "circulant":
                made += [Batch(program, s, race) for s in our_settings(figure, knobs)]
            else:
                made.append(Batch(program, DEFAULT, race))
                for op in race.ops:
                    one = figures.Race((op,), race.sizes, race.dists)
                    made += [Batch(program, s, one) for s in tuned(figure, program, op)]
    return made


# --- a whole figure -----------------------------------------------------------------------------------------------


@dataclass
class Results:
    rows: dict = field(default_factory=dict)  # (program, setting name, point) -> rows
    wrong: dict = field(default_factory=dict)  # (program, setting name) -> what went wrong
    broken: set = field(default_factory=set)  # of these, what did not run to its end

    def add(self, batch, rows, wrong):
        for row in rows:
            self.rows.setdefault((batch.program, batch.setting.name, row.point), []).append(row)
        if wrong:
            self.wrong[batch.program, batch.setting.name] = wrong
            if len(rows) < batch.points():
                self.broken.add((batch.program, batch.setting.name))

    def lacking(self, batch, rounds):
        """What of a batch has too few rows that count; None: nothing."""
        races = batch.race
        few = [
            point for (program, name, point), rows in self.rows.items()
            if (program, name) == (batch.program, batch.setting.name)
            and point.op in races.ops and sum(r.late <= LATE for r in rows) < rounds
        ]
        if not few:
            return None
        pick = lambda values, found: tuple(v for v in values if v in found)  # noqa: E731
        race = figures.Race(
            pick(races.ops, {p.op for p in few}), pick(races.sizes, {p.bytes for p in few}) or races.sizes,
            pick(races.dists, {p.dist for p in few}),
        )
        return Batch(batch.program, batch.setting, race)

    def lines(self, figure, wire):
        """Of the CSV file."""
        for (program, setting, point), rows in self.rows.items():
            good = [r for r in rows if r.late <= LATE]
            used = good or [min(rows, key=lambda r: r.late)]
            least = [r.least for r in used]
            p = rows[0].p
            yield {
                "figure": figure.name, "program": program, "setting": setting,
                "op": point.op, "dist": point.dist, "p": p, "bytes": point.bytes,
                "min_us": f"{min(least):.3f}", "median_us": f"{statistics.median(r.median for r in used):.3f}",
                "span_us": f"{min(r.span for r in used):.3f}",
                "spread": f"{max(least) / min(least) - 1:.3f}", "reps": sum(r.reps for r in used), "batches": len(used),
                "dropped": len(rows) - len(used), "limited": "" if good else "yes",
                "reference_us": f"{figures.reference(point.op, point.dist, p, point.bytes, wire):.3f}",
                "spans_us": " ".join(f"{r.middle_span:.3f}" for r in used if r.middle_span is not None),
            }


def say(text):
    print(f"{datetime.datetime.now():%H:%M:%S}  {text}", flush=True)


def due(figure):
    """The priority to run at. A process that polls at SCHED_RR keeps its core for 100 ms, which only networks give time to, and MPICH with
    several ranks on a node never ends."""
    return "rr" if figure.rate and figure.per_node == 1 else "nice"


def need(figure, programs):
    """Fails if a program is not there; compiles the benchmark with those that are."""
    missing = [p for p in programs if p not in rivals.OURS and not rivals.installed(p)]
    if missing or (figure.rate and not rivals.our_starter()):
        raise Trouble(f"not installed: {' '.join(missing) or 'mpich'}: ci/race install")
    for rival in programs:
        if rival not in rivals.OURS:
            rivals.compile_rival(rival)


def race(figure, programs, priority=None, knobs=None):
    """Runs a figure; gives the lines of its CSV file and what else is to be known. `knobs`: for our runs."""
    priority, knobs = priority or due(figure), knobs or {}
    need(figure, programs)
    tool, begun = rivals.our_tool(), time.monotonic()
    results, wires, loads = Results(), [], [os.getloadavg()[0]]
    with raised(figure) as place:
        track = Track(figure, place, tool, priority)
        wires.append(track.wire())
        number, interrupted = 0, False
        try:
            for number in range(figure.rounds + figure.more):
                turn = batches(figure, programs, knobs)
                loads += one_round(track, results, number, turn[number % len(turn):] + turn[: number % len(turn)])
                if number < figure.rounds:
                    wires.append(track.wire())
        except KeyboardInterrupt:
            if number < 1:
                raise
            interrupted = True
            say(f"interrupted in round {number + 1}: what was run is kept")
    wire = {k: min(w[k] for w in wires) for k in wires[0]}
    known = {
        "date": f"{datetime.date.today()}", "wire": wire, "rounds": figure.rounds, "reps": figure.reps, "warm": figure.warm,
        "warm_of_mpis": figure.warm_of_mpis, "calls": figure.calls, "rest": rest(figure), "one_clock": rest(figure) > 0,
        "interrupted": interrupted, "priority": priority, "load": round(max(loads), 1),
        "seconds": round(time.monotonic() - begun), "machine": machine(),
        "versions": {p: rivals.versions(p) for p in programs if p not in rivals.OURS} | {"circulant": our_version(tool)},
        "ours": {name: homeless(value) for name, value in knobs.items()},
        "wrong": {f"{p}, {s}": homeless(text) for (p, s), text in results.wrong.items()},
    }
    return list(results.lines(figure, wire)), known


def one_round(track, results, number, turn):
    """A batch of each program and setting, or, in the rounds that are added, of those whose rows were late; gives loads."""
    figure, loads = track.figure, []
    more = number >= figure.rounds
    for batch in turn:
        if more and not (batch := results.lacking(batch, figure.rounds)):
            continue
        if (batch.program, batch.setting.name) in results.broken and number > 0:
            continue
        rows, wrong = track.run(batch, figure.reps, check=number == 0)
        late = sum(r.late > LATE for r in rows)
        results.add(batch, rows, wrong)
        say(
            f"{figure.name} {'again, round' if more else 'round'} {number + 1}: {batch.program}, {batch.setting.name}, "
            f"{batch.title()}: {len(rows)} rows" + (f", {late} of them late" if late else "") + (f"; {wrong}" if wrong else "")
        )
        loads.append(os.getloadavg()[0])
    return loads


def homeless(text):
    """Without the paths of this machine."""
    return text.replace(str(lib.ROOT), ".").replace(str(Path.home()), "~")


def our_version(tool):
    told = rivals.said([tool, "--version"], "circulant --version").split()[-1]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=lib.ROOT, stdout=subprocess.PIPE, text=True)
    return [f"{told} ({commit.stdout.strip()})" if commit.returncode == 0 else told]


def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    return f"{os.cpu_count()} cores ({model[1].strip() if model else platform.machine()}), Linux {platform.release()}"


def write(figure, lines, known, folder=RESULTS):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{figure.name}.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(lines)
    (folder / f"{figure.name}.json").write_text(json.dumps(known, indent=1) + "\n")
    return folder / f"{figure.name}.csv"


# --- searching settings -------------------------------------------------------------------------------------------


def search(figure, programs, priority=None):
    """The best settings of each operation and program, at any of the figure's points, each with one short batch."""
    priority = priority or due(figure)
    found = {}
    tool = rivals.our_tool()
    with raised(figure) as place:
        track = Track(figure, place, tool, priority)
        for race_ in figure.races:
            for op in race_.ops:
                for program in (p for p in programs if p != "circulant"):
                    best = try_all(track, program, op, race_)
                    found.setdefault(op, {})[program] = best
                    say(f"{figure.name} {op} {program}: best are {', '.join(best) or 'the defaults'}")
    return found


def try_all(track, program, op, race_):
    """Names of the settings that are best at some point, and better than the default."""
    least = {}  # point -> (time, name)
    dists = tuple(d for d in race_.dists if d in ("irr3", "broadcast", "s1", "s4", "s6")) or race_.dists
    small = figures.Race((op,), tuple(s for s in race_.sizes if s >= 100_000) or race_.sizes, dists)
    for setting in [DEFAULT, *rivals.settings(program, op)]:
        rows, wrong = track.run(Batch(program, setting, small), 3, timeout_factor=0.5)
        for row in rows:
            # 3 %: the default, or what came first, unless it is clearly better
            if row.point not in least or row.least < 0.97 * least[row.point][0]:
                least[row.point] = (row.least, setting.name)
        times = ", ".join(f"{r.point.dist} {r.point.bytes}: {r.least / 1e3:.1f} ms" for r in rows)
        say(f"  {program} {op} {setting.name}: {times}" + (f"; {wrong}" if wrong else ""))
    return sorted({name for _, name in least.values()} - {"default"})
