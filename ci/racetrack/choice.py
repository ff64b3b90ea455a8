"""Our own algorithms at a figure's points: is the one that is chosen the best?"""

import collections
import csv

import lib
from racetrack import rivals, runs

NEAR = 1.10


def rows(figure, priority, reps):
    """(operation, distribution, bytes) to times in µs by algorithm; "" is the chosen one. Two batches, of which the least counts."""
    found = collections.defaultdict(dict)
    with runs.raised(figure) as place:
        for _ in range(2):
            for race in figure.races:
                words = runs.Batch("circulant", rivals.DEFAULT, race).words(figure, reps, False)
                line, env = rivals.command("circulant", place, rivals.DEFAULT, [*words, "--algorithm", "auto,all"], rivals.our_tool())
                with lib.Case([*runs.PRIORITY[priority], *line], 1800, env) as case:
                    code, out, took = case.finish()
                if code != 0:
                    raise rivals.Trouble(f"exit code {code} after {took:.0f} s: {lib.first_error(out)}")
                lines = [text for text in out.splitlines() if text.count(",") == 8]
                for row in csv.DictReader(lines):
                    times, name = found[row["op"], row["dist"], int(row["bytes"])], row["label"].partition("/")[2]
                    times[name] = min(float(row["min_us"]), times.get(name, float("inf")))
                runs.say(f"{figure.name}: {', '.join(race.ops)}: {took:.0f} s")
    return found


def show(figure, found):
    """Prints the points whose choice is not near the best, and how many are."""
    near, worst = 0, 1.0
    for (op, dist, size), times in sorted(found.items()):
        chosen, others = times.pop(""), sorted(times.items(), key=lambda kv: kv[1])
        ratio = chosen / min([chosen, *(t for _, t in others)])
        near, worst = near + (ratio <= NEAR), max(worst, ratio)
        best = "  ".join(f"{name} {time / 1000:.4g}" for name, time in others[:4])
        print(f"{'' if ratio <= NEAR else '*':1} {op:<22} {dist:<10} {size:>8} B  {chosen / 1000:8.4g} ms  {ratio:5.2f}  {best}")
    print(f"{figure.name}: within {NEAR:.2f} of the best at {near} of {len(found)} points ({100 * near / max(1, len(found)):.0f} %), worst {worst:.2f}")
