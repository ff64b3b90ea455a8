"""Our own algorithms at a figure's points: is the one that is chosen the best, by price and by trial?

All algorithms run once in a row. Where the choice is not near the best of them there, it runs again beside the fastest two, some rounds
in turns, and only that counts: the least of many noisy times is always less than what any of them takes again.
"""

import collections
import csv
from dataclasses import replace

import lib
from racetrack import figures, rivals, runs

NEAR = {"by price": 1.10, "by trial": 1.05}
HOW = {"by price": {"CIRCULANT_ADAPT": "off"}, "by trial": {"CIRCULANT_ADAPT": "on"}}
TRIALS = 256  # calls in which every point's trials end: four of 64 calls (core/src/select/trial.rs)
AGAIN = 4  # rounds for points in doubt


class Runs:
    """Batches of our own bench on a figure's cluster."""

    def __init__(self, figure, place, priority, reps):
        self.figure, self.place, self.priority, self.reps, self.tool = figure, place, priority, reps, rivals.our_tool()

    def times(self, race, how, algorithms):
        """Point to least times in µs by algorithm; that of the choice stands under `how`."""
        figure = replace(self.figure, warm=-(-TRIALS // self.figure.calls) if how == "by trial" else self.figure.warm_of_mpis or self.figure.warm)
        words = [*runs.Batch("circulant", rivals.DEFAULT, race).words(figure, self.reps, False), "--algorithm", algorithms]
        line, outside = rivals.command("circulant", self.place, rivals.Setting(knobs=HOW[how]), words, self.tool)
        with lib.Case([*runs.PRIORITY[self.priority], *line], 3600, outside) as case:
            code, out, took = case.finish()
        if code != 0:
            raise rivals.Trouble(f"exit code {code} after {took:.0f} s: {lib.first_error(out)}")
        runs.say(f"{self.figure.name}, {how}: {', '.join(race.ops)}, {algorithms}: {took:.0f} s")
        found = collections.defaultdict(dict)
        for row in csv.DictReader(text for text in out.splitlines() if text.count(",") == 8):
            name = row["label"].partition("/")[2] or how
            found[row["op"], row["dist"], int(row["bytes"])][name] = float(row["min_us"])
        return found


def least(found, more):
    """Takes `more` into `found`."""
    for point, times in more.items():
        for name, time in times.items():
            found[point][name] = min(time, found[point].get(name, float("inf")))


def ratio(times, how):
    return times[how] / min(times.values())


def rows(figure, priority, reps):
    """Two passes: point to times, of which those of points in doubt are only of the second; and which these are, by how it was chosen."""
    first, second = ({how: collections.defaultdict(dict) for how in HOW} for _ in range(2))
    with runs.raised(figure) as place:
        bench = Runs(figure, place, priority, reps)
        for race in figure.races:
            found = bench.times(race, "by price", "auto,all")
            least(first["by price"], found)
            least(first["by trial"], {point: {n: t for n, t in times.items() if n != "by price"} for point, times in found.items()})
            least(first["by trial"], bench.times(race, "by trial", "auto"))
        doubts = {how: {point for point, times in first[how].items() if ratio(times, how) > NEAR[how]} for how in HOW}
        for _ in range(AGAIN):
            for how, points in doubts.items():
                for (op, dist), sizes in grouped(points).items():
                    of = {name for size in sizes for name in fastest(first[how][op, dist, size])}
                    race = figures.Race((op,), tuple(sizes), () if dist == "-" else (dist,))
                    least(second[how], bench.times(race, how, ",".join(["auto", *sorted(of)])))
    return {how: {**first[how], **second[how]} for how in HOW}, second


def grouped(points):
    """(operation, distribution) to the sizes in doubt."""
    groups = collections.defaultdict(list)
    for op, dist, size in sorted(points):
        groups[op, dist].append(size)
    return groups


def fastest(times):
    return sorted((name for name in times if name not in HOW), key=times.get)[:2]


def show(figure, found):
    """Prints all points, those whose choice is not near the best with a star, and how many are."""
    found, again = found
    for point in sorted(found["by price"]):
        op, dist, size = point
        ratios = {how: ratio(found[how][point], how) for how in HOW}
        cells = [f"{how} {found[how][point][how] / 1000:8.4g} ms {ratios[how]:5.2f}{'²' if point in again[how] else ' '}" for how in HOW]
        others = found["by price"][point]
        best = "  ".join(f"{name} {others[name] / 1000:.4g}" for name in sorted(set(others) - set(HOW), key=others.get)[:4])
        star = "*" if any(ratios[how] > NEAR[how] for how in HOW) else " "
        print(f"{star} {op:<20} {dist:<9} {size:>8} B  {'  '.join(cells)}  {best}")
    for how, limit in NEAR.items():
        ratios = [ratio(times, how) for times in found[how].values()]
        near = sum(r <= limit for r in ratios)
        share, worst = 100 * near / max(1, len(ratios)), max(ratios, default=1.0)
        print(f"{figure.name}, {how}: within {limit:.2f} of the best at {near} of {len(ratios)} points ({share:.0f} %), worst {worst:.2f}")
    print("²: looked at again")
