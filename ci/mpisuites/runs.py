"""One run with the library preloaded and one without it, what each showed, and the line that a suite ends with."""

import json
import re
from dataclasses import dataclass, field

import lib

from . import known

# The report that the library prints at rank 0 in MPI_Finalize.
TOTAL = re.compile(r"circulant: rank 0: taken (\d+), passed on (\d+)")


@dataclass(frozen=True)
class Seen:
    """What a run showed: how many checks it made, and those that failed, with what was wrong."""

    checks: int
    wrong: dict = field(default_factory=dict)

    @property
    def passed(self):
        return max(0, self.checks - len(self.wrong))


@dataclass(frozen=True)
class Unit:
    """One start of one program."""

    title: str
    ranks: int
    words: tuple
    limit: float  # seconds; stops what hangs
    judge: object  # (exit code, output) -> Seen; not asked after a time-out
    before: object = None  # called ahead of each run
    options: tuple = ()  # of the launcher
    alone: bool = False  # no run without the library, ever: any failure counts


def no_errors(code, output):
    """As MPICH's tests say that they passed."""
    if code == 0 and "No Errors" in output:
        return Seen(1)
    return Seen(1, {"": f"exit code {code}: {lib.first_error(output)}"})


@dataclass
class Tally:
    """A suite on an MPI: sums, and what differs from the run without the library."""

    suite: str
    mpi: str
    place: str = ""
    ranks: set = field(default_factory=set)
    checks: int = 0
    passed: int = 0
    compared: int = 0  # checks with a run without the library beside them
    baseline: int = 0
    taken: int = 0
    passed_on: int = 0
    seconds: float = 0.0
    worse: list = field(default_factory=list)
    known: list = field(default_factory=list)
    both: list = field(default_factory=list)

    def line(self, title):
        few, many = min(self.ranks), max(self.ranks)
        ranks = f"{few} ranks" if few == many else f"{few} to {many} ranks"
        baseline = f"baseline {self.baseline} of {self.compared}" if self.compared else "no baseline"
        return (f"{self.suite}, {title}{self.place}, {ranks}: passed {self.passed} of {self.checks}, "
                f"{baseline}, taken {self.taken}, passed on {self.passed_on}")

    def record(self):
        names = "suite mpi place checks passed compared baseline taken passed_on worse known both".split()
        return {**{name: getattr(self, name) for name in names}, "ranks": sorted(self.ranks), "seconds": round(self.seconds)}


class Baselines:
    """What runs without the library showed, kept for those who ask for it; a first run is always made."""

    def __init__(self, path, keep):
        self.path, self.keep = path, keep
        self.known = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key):
        found = self.known.get(key) if self.keep else None
        return Seen(found[0], found[1]) if found else None

    def put(self, key, seen):
        self.known[key] = [seen.checks, seen.wrong]
        self.path.write_text(json.dumps(self.known, indent=0))


class Runner:
    def __init__(self, report, library, baselines, cluster=None):
        self.report, self.library, self.baselines, self.cluster = report, library, baselines, cluster

    def once(self, mpi, unit, preload):
        """(what it showed, taken, passed on, seconds)"""
        if unit.before:
            unit.before()
        variables = {"LD_PRELOAD": self.library, "CIRCULANT_MPI_REPORT": "1"} if preload else {}
        words = ["env", *(f"{name}={value}" for name, value in variables.items()), *unit.words]
        command, outside = mpi.start(unit.ranks, words, self.cluster, unit.options)
        with lib.Case(command, unit.limit, outside) as running:
            code, output, seconds = running.finish()
        over = Seen(1, {"": f"over the time limit of {unit.limit:.0f} s"})
        seen = over if code is None else unit.judge(code, output)
        totals = [tuple(map(int, found)) for found in TOTAL.findall(output)]
        taken, passed_on = map(sum, zip(*totals)) if totals else (0, 0)
        mode = "with" if preload else "without"
        print(f"=== {mpi.name} {unit.title} {mode}, {seconds:.1f} s: {seen}\n{output}", file=self.report.log, flush=True)
        return seen, taken, passed_on, seconds

    def suite(self, suite, mpi, tier, part="", beside=None):
        """All units of a suite on an MPI whose title has `part` in it, and the line; the record, or None if nothing ran. `beside`: which of
        them run without the library, too, all or what fails with it; else the tier says so."""
        report, tally = self.report, Tally(suite.NAME, mpi.name, " on two nodes" if self.cluster else "")
        for unit in suite.units(mpi, tier):
            if part in unit.title:
                self.unit(mpi, unit, tally, beside=(beside == "all") if beside else tier == "full")
        if not tally.ranks:
            return None
        for kind, lines in (("WORSE", tally.worse), ("known", tally.known), ("without it, too", tally.both)):
            for line in lines:
                report.say(f"  {kind}: {line}")
        report.say(tally.line(mpi.title))
        report.passed += tally.passed
        report.failed += len(tally.worse)
        if tally.taken == 0:
            report.failed += 1
            report.say(f"FAILED {suite.NAME}, {mpi.title}: the library took no call")
        for what, lines in (("known differences", tally.known), ("checks fail without the library, too", tally.both)):
            if lines:
                report.skip(f"{suite.NAME}, {mpi.title}: {len(lines)} {what}", len(lines))
        return tally.record()

    def unit(self, mpi, unit, tally, beside):
        """Both runs; what differs goes to the tally. Not `beside`: one without the library only where one with it fails."""
        seen, taken, passed_on, seconds = self.once(mpi, unit, True)
        compared = not unit.alone and (beside or bool(seen.wrong))
        base = self.base(mpi, unit) if compared else Seen(seen.checks)
        if set(seen.wrong) - set(base.wrong):
            self.report.say(f"once more, alone: {unit.title}: {self.words(seen)}")
            again = self.once(mpi, unit, True)
            if not set(again[0].wrong) - set(base.wrong):
                self.report.say(f"passed alone: {unit.title}")
            seen, taken, passed_on, seconds = again
        tally.ranks.add(unit.ranks)
        tally.checks += max(seen.checks, base.checks)
        tally.passed += seen.passed
        if compared:
            tally.compared += max(seen.checks, base.checks)
            tally.baseline += base.passed
        tally.taken += taken
        tally.passed_on += passed_on
        tally.seconds += seconds
        for name, wrong in seen.wrong.items():
            title = f"{unit.title} {name}".strip()
            if name in base.wrong:
                tally.both.append(f"{title}: {wrong}")
            elif reason := known.why(tally.suite, mpi.name, title):
                tally.known.append(f"{title}: {reason}")
            else:
                tally.worse.append(f"{title}: {wrong}")

    def base(self, mpi, unit):
        key = f"{mpi.name}{'-nodes' if self.cluster else ''} {unit.title}"
        if (known := self.baselines.get(key)) is not None:
            return known
        seen, *_ = self.once(mpi, unit, False)
        self.baselines.put(key, seen)
        return seen

    @staticmethod
    def words(seen):
        return "; ".join(f"{name} {wrong}".strip() for name, wrong in list(seen.wrong.items())[:3])


def write(path, records):
    """The records of this run; what earlier ones say of other suites and MPIs stays."""
    def key(record):
        return record["suite"], record["mpi"], record["place"]
    now = {key(record) for record in records}
    old = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*(r for r in old if key(r) not in now), *records], indent=1) + "\n")
