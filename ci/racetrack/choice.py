"""Our own algorithms at a figure's points: is the one that is chosen the best, by price and by trial?"""

import collections
import csv
import tempfile
from pathlib import Path

import lib
from racetrack import rivals, runs

NEAR = {"by price": 1.10, "by trial": 1.05}
TRIAL = 40  # repetitions in which every point's trial ends: core/src/select/trial.rs


def rows(figure, priority, reps):
    """(operation, distribution, bytes) to times in µs by algorithm, and by how it was chosen. Two batches, of which the least counts."""
    found = collections.defaultdict(dict)
    with runs.raised(figure) as place, tempfile.TemporaryDirectory() as folder:
        learned = Path(folder) / "learned"
        learned.touch()

        def batch(race, reps, words, env):
            words = [*runs.Batch("circulant", rivals.DEFAULT, race).words(figure, reps, False), *words]
            line, outside = rivals.command("circulant", place, rivals.Setting(knobs=env), words, rivals.our_tool())
            with lib.Case([*runs.PRIORITY[priority], *line], 1800, outside) as case:
                code, out, took = case.finish()
            if code != 0:
                raise rivals.Trouble(f"exit code {code} after {took:.0f} s: {lib.first_error(out)}")
            runs.say(f"{figure.name}: {', '.join(race.ops)}{''.join(f' {name}' for name in env)}: {took:.0f} s")
            return list(csv.DictReader(text for text in out.splitlines() if text.count(",") == 8))

        def take(lines, chosen):
            for row in lines:
                times, name = found[row["op"], row["dist"], int(row["bytes"])], row["label"].partition("/")[2] or chosen
                times[name] = min(float(row["min_us"]), times.get(name, float("inf")))

        for race in figure.races:
            batch(race, TRIAL, [], {"CIRCULANT_ADAPT": "on", "CIRCULANT_LEARN": str(learned)})
        for _ in range(2):
            for race in figure.races:
                take(batch(race, reps, ["--algorithm", "auto,all"], {"CIRCULANT_ADAPT": "off"}), "by price")
                take(batch(race, reps, [], {"CIRCULANT_SELECTION": str(learned), "CIRCULANT_ADAPT": "off"}), "by trial")
    return found


def show(figure, found):
    """Prints the points whose choice is not near the best, and how many are."""
    near, worst = collections.Counter(), dict.fromkeys(NEAR, 1.0)
    for (op, dist, size), times in sorted(found.items()):
        others = sorted(((name, time) for name, time in times.items() if name not in NEAR), key=lambda kv: kv[1])
        ratios = {how: times[how] / min(times.values()) for how in NEAR if how in times}
        for how, ratio in ratios.items():
            near[how], worst[how] = near[how] + (ratio <= NEAR[how]), max(worst[how], ratio)
        star = "*" if any(ratio > NEAR[how] for how, ratio in ratios.items()) else ""
        cells = "  ".join(f"{how} {times[how] / 1000:8.4g} ms {ratio:5.2f}" for how, ratio in ratios.items())
        best = "  ".join(f"{name} {time / 1000:.4g}" for name, time in others[:4])
        print(f"{star:1} {op:<22} {dist:<10} {size:>8} B  {cells}  {best}")
    for how, limit in NEAR.items():
        share = 100 * near[how] / max(1, len(found))
        print(f"{figure.name}, {how}: within {limit:.2f} of the best at {near[how]} of {len(found)} points ({share:.0f} %), worst {worst[how]:.2f}")
