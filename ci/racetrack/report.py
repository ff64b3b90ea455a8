"""Tables and drawings of what was measured."""

import csv
import json
import statistics

import lib

from . import figures, rivals, runs
from .rivals import TITLES, title

PAGE = lib.ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- ci/race report -->\n", "<!-- end -->\n"


def time(us):
    for limit, factor, unit in ((1000, 1, "µs"), (1e6, 1e3, "ms"), (1e12, 1e6, "s")):
        if us < limit:
            value = us / factor
            return f"{value:.3g} {unit}" if value < 1 else f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"
    return "?"


def size(n):
    for factor, unit in ((1_000_000, "MB"), (1000, "KB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= factor and n % factor == 0:
            return f"{n // factor} {unit}"
    return f"{n} B"


def points(lines):
    """(op, dist, bytes) -> lines, in the order of the file."""
    found = {}
    for line in lines:
        found.setdefault((line["op"], line["dist"], int(line["bytes"])), []).append(line)
    return found


def least(line):
    return float(line["min_us"])


def middle(line):
    return float(line["median_us"])


def whole(line):
    """From the first rank's start to the last one's end."""
    return float(line["span_us"])


def best(lines):
    return min(lines, key=least) if lines else None


def worst_batch(line):
    """The largest of the batches' minima."""
    return least(line) * (1 + float(line["spread"]))


def ratio(line, other):
    """`other`'s time by `line`'s, and between what it can be by the batches' minima."""
    low, high = least(other) / worst_batch(line), worst_batch(other) / least(line)
    return f"{least(other) / least(line):.2f} ({low:.2f}–{high:.2f})"


def spans(lines):
    """The least span of all rivals by our least: what is short is not seen so well by each rank's own time."""
    # Files of before have none.
    found = [(x["program"] == "circulant", float(x["span_us"])) for x in lines if x.get("span_us")]
    ours, theirs = [s for own, s in found if own], [s for own, s in found if not own]
    return f"{min(theirs) / min(ours):.2f}" if ours and theirs else "–"


def cell(line):
    if line is None:
        return "–"
    name = "" if line["setting"] == "default" else f", {line['setting']}"
    return f"{time(least(line))}{name}{' *' if line['limited'] else ''}"


def programs(lines):
    """Those that were run, rivals by path last."""
    there = {line["program"] for line in lines}
    return [p for p in TITLES if p in there] + sorted(there - set(TITLES))


def table(lines):
    """One row for each point: the reference, ours, each rival's default, the best of all rivals, ratios."""
    present = [p for p in programs(lines) if p != "circulant"]
    head = ["", "size", "C", "circulant", "by C", *(f"{title(r)}, default" for r in present), "best of all rivals", "best rival by circulant", "by spans"]
    rows = [head, ["---"] * len(head)]
    for (op, dist, bytes_), here in points(lines).items():
        ours = best([x for x in here if x["program"] == "circulant"])
        defaults = [best([x for x in here if x["program"] == r and x["setting"] == "default"]) for r in present]
        rival = best([x for x in here if x["program"] != "circulant"])
        name = f"{title(rival['program'])} {cell(rival)}" if rival else "–"
        c = float(here[0]["reference_us"])
        rows.append([
            op if dist == "-" else f"{op} {dist}", size(bytes_) if bytes_ else "", time(c), cell(ours),
            f"{least(ours) / c:.2f}" if ours else "–", *map(cell, defaults), name,
            ratio(ours, rival) if ours and rival else "–", spans(here),
        ])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def preloaded(lines):
    """One row for each point: of each MPI the time alone, with the library preloaded, and the ratio of the two, also of medians."""
    present = programs(lines)
    head = ["", "size"]
    for name in present:
        head += [title(name), "with circulant", "alone by with", "by medians"]
    rows = [head, ["---"] * len(head)]
    for (op, dist, bytes_), here in points(lines).items():
        row = [op if dist == "-" else f"{op} {dist}", size(bytes_) if bytes_ else ""]
        for name in present:
            alone, ours = pair(here, name)
            row += [time(least(x)) + (" *" if x["limited"] else "") if x else "–" for x in (alone, ours)]
            row += [ratio(ours, alone), f"{middle(alone) / middle(ours):.2f}"] if ours and alone else ["–", "–"]
        rows.append(row)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def settings(lines, program):
    """The lines of one point and program, by setting."""
    return {x["setting"]: x for x in lines if x["program"] == program}


def pair(lines, program):
    """Of one point: (line of the MPI alone, line with the library preloaded); None for what was not run."""
    of = settings(lines, program)
    return of.get("default"), of.get(figures.LAYER)


def each_point(lines):
    """(what, its lines by setting) of each point and MPI."""
    for (op, dist, bytes_), here in points(lines).items():
        for name in programs(lines):
            what = f"{op}{'' if dist == '-' else ' ' + dist}{' ' + size(bytes_) if bytes_ else ''} of {title(name)}"
            yield what, settings(here, name)


def batch_spans(of, *names):
    """The median spans of the batches with these settings."""
    return [float(s) for name in names if name in of for s in (of[name].get("spans_us") or "").split()]


def batch_ratios(spans, others):
    """Each of the first by each of the others, in order."""
    return sorted(a / b for a in spans for b in others)


def longer(ratios):
    """Three of four pairs of batches say so, by over 5 %."""
    return ratios[len(ratios) // 4] > 1.05


def by_batches(lines):
    """With the library beside all runs without, and the MPI alone a second time beside its first."""
    kinds = (
        ("With the library", (figures.LAYER,), ("default", figures.AGAIN)),
        ("Alone a second time, which tells what chance makes of it,", (figures.AGAIN,), ("default",)),
    )
    text = ""
    for which, ours, others in kinds:
        both = [(what, batch_ratios(batch_spans(of, *ours), batch_spans(of, *others))) for what, of in each_point(lines)]
        if both := [(what, ratios) for what, ratios in both if ratios]:
            found = [f"{what} ({statistics.median(ratios):.2f} ×)" for what, ratios in both if longer(ratios)]
            middle_ = statistics.median(1 / statistics.median(ratios) for _, ratios in both)
            text += (
                f"\n{which} the batches' median spans are over 5 % longer, in three of four pairs of batches, at {len(found)} of {len(both)} "
                f"points{': ' if found else ''}{', '.join(found)}. Without by with, or first by second, median of all points: {middle_:.2f}.\n"
            )
    return text


def compared(lines):
    """The runs of each MPI, in words: by measures of all batches together, then batch by batch."""
    text = ""
    both = [(what, of["default"], of[figures.LAYER]) for what, of in each_point(lines) if {"default", figures.LAYER} <= of.keys()]
    for name, by in (("least times", least), ("medians", middle), ("shortest spans", whole)):
        found = [f"{what} ({by(ours) / by(alone):.2f} ×)" for what, alone, ours in both if by(alone) < 0.95 * by(ours)]
        text += f"\nBy {name} it is slower with the library by over 5 % at: {', '.join(found) if found else 'no point'}."
        ratios = [by(alone) / by(ours) for _, alone, ours in both]
        text += f" Alone by with, median of {len(ratios)} points: {statistics.median(ratios):.2f}.\n" if ratios else "\n"
    return text + by_batches(lines)


def behind(lines):
    """Points at which the best rival is ahead of us by more than 5 %."""
    found = []
    for (op, dist, bytes_), here in points(lines).items():
        ours, rival = best([x for x in here if x["program"] == "circulant"]), best([x for x in here if x["program"] != "circulant"])
        if ours and rival and least(rival) < 0.95 * least(ours):
            found.append(f"{op}{'' if dist == '-' else ' ' + dist}{' ' + size(bytes_) if bytes_ else ''} ({least(ours) / least(rival):.2f} ×)")
    return found


def summary(lines):
    """For the terminal."""
    out = []
    for (op, dist, bytes_), here in points(lines).items():
        out.append(f"{op} {dist} {size(bytes_)}, C = {time(float(here[0]['reference_us']))}")
        for x in sorted(here, key=least):
            late = " LIMITED BY THE PROCESSORS" if x["limited"] else ""
            out.append(
                f"    {time(least(x)):>9}  {least(x) / float(x['reference_us']):6.2f} C  median {time(float(x['median_us'])):>9}  "
                f"± {100 * float(x['spread']):.0f} %  {x['program']}, {x['setting']}{late}"
            )
    return "\n".join(out)


# --- drawings -----------------------------------------------------------------------------------------------------


def drawings(figure, lines):
    """(file name, title, lines) of each operation and distribution with more than one size."""
    if figure.preload:
        return  # the table shows it better
    groups = {}
    for line in lines:
        if int(line["bytes"]) > 0:
            groups.setdefault((line["op"], line["dist"]), []).append(line)
    for (op, dist), here in groups.items():
        if len({line["bytes"] for line in here}) > 1:
            what = op if dist == "-" else f"{op} {dist}"
            yield f"{figure.name}-{what.replace(' ', '-')}.svg", f"{what}, {figure.where()}", here


def shown(lines):
    """What a drawing shows of each program: its default, and the least over its other settings at each size."""
    for program in programs(lines):
        mine = [x for x in lines if x["program"] == program]
        for name, kept in (("", lambda x: x["setting"] == "default"), (" tuned", lambda x: x["setting"] != "default")):
            sizes = {}
            for x in filter(kept, mine):
                sizes.setdefault(int(x["bytes"]), []).append(x)
            for bytes_, here in sorted(sizes.items()):
                yield title(program) + name, bytes_, best(here)


def draw(figure, lines, known, folder=runs.RESULTS):
    """Writes the SVG files by `circulant plot`; gives their names."""
    made = []
    wire = known["wire"]
    under = f"{known['date']}; L = {time(wire['latency_ns'] / 1e3)}, β = {wire['byte_ns']:.3g} ns/B; least of {known['rounds']} × {known['reps']}"
    for name, title, here in drawings(figure, lines):
        rows = [["line", "bytes", "us", "reference_us"]]
        rows += [[label, bytes_, line["min_us"], line["reference_us"]] for label, bytes_, line in shown(here)]
        source = folder / f".{name}.csv"
        with source.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        try:
            rivals.said(
                [rivals.our_tool(), "plot", source, "-o", folder / name, "--title", title, "--under", under], "circulant plot"
            )
        finally:
            source.unlink()
        made.append(name)
    return made


# --- the page -----------------------------------------------------------------------------------------------------


def load(figure):
    path = runs.RESULTS / f"{figure.name}.csv"
    if not path.exists():
        return None
    with path.open(newline="") as file:
        return list(csv.DictReader(file)), json.loads(path.with_suffix(".json").read_text())


def facts(known, lines):
    wire, dropped = known["wire"], sum(int(line["dropped"]) for line in lines)
    versions = "; ".join(f"{title(p)} {' '.join(v).replace('==', ' ')}" for p, v in known["versions"].items())
    mpis = known.get("warm_of_mpis")
    after = f" after {known['warm']} untimed ones" if known.get("warm") else ""
    after += f" (the MPIs after {mpis})" if mpis is not None else ""
    after = (f" of {known['calls']} calls" if known.get("calls", 1) > 1 else "") + after
    after += ", begun at one time of the clock" if known.get("one_clock") else ""
    text = (
        f"{known['date']}, {known['machine']}; load of the machine up to {known['load']}. L = {time(wire['latency_ns'] / 1e3)}, "
        f"o = {time(wire['overhead_ns'] / 1e3)}, β = {wire['byte_ns']:.4g} ns/B by `circulant bench put`. "
        f"{known['rounds']} rounds of {known['reps']} repetitions{after}, priority {known['priority']}; {dropped} rows dropped as late. {versions}.\n"
    )
    if known.get("ours"):
        text += f"\nOur runs had {', '.join(f'{k}={v}' for k, v in known['ours'].items())}.\n"
    for program, what in known["wrong"].items():
        text += f"\nNot whole: {program}: {what}\n"
    return text


def section(figure, lines, known):
    text = f"### {figure.name}: {figure.title}\n\n{figure.where()}. {facts(known, lines)}\n{preloaded(lines) if figure.preload else table(lines)}"
    if any(line["limited"] for line in lines):
        text += "\n\\* The processors were the limit in every batch: an upper bound, nothing more.\n"
    lost = behind(lines)
    text += compared(lines) if figure.preload else f"\nWhere the best rival is ahead by over 5 %: {', '.join(lost) if lost else 'nowhere here'}.\n"
    for name, title, _ in drawings(figure, lines):
        if (runs.RESULTS / name).exists():
            text += f"\n![{title}](performance/{name})\n"
    return text


OVERVIEW = """### At a glance

The best rival's default by ours, by the shortest spans: above 1 we are ahead. A point counts as behind below 0.95. The aim is all points; bold numbers miss it.

"""
# Points of the overview's last column, at most: the worst of them.
WORST = 5


def by_defaults(lines, setting):
    """(what, ratio) of each point: the least span of all rivals at their defaults by that of our runs with this setting."""
    for (op, dist, bytes_), here in points(lines).items():
        timed = [x for x in here if x.get("span_us")]
        ours = [whole(x) for x in timed if (x["program"], x["setting"]) == ("circulant", setting)]
        theirs = [whole(x) for x in timed if x["program"] != "circulant" and x["setting"] == "default"]
        if ours and theirs:
            yield f"{op}{'' if dist == '-' else ' ' + dist}{' ' + size(bytes_) if bytes_ else ''}", min(theirs) / min(ours)


def overview(found):
    """One row for each figure and setting of ours: at how many points we are not behind the best rival's default, and where we are most."""
    rows = [["figure", "measured", "points", "not behind", "median", "least and greatest", "behind by over 5 %"]]
    rows.append(["---"] * len(rows[0]))
    for figure, lines, known in found:
        if "bare" in figure.programs:
            continue  # no library
        for setting in dict.fromkeys(x["setting"] for x in lines if x["program"] == "circulant" and not figure.preload):
            both = sorted(by_defaults(lines, setting), key=lambda point: point[1])
            if not both:
                continue
            ratios, lost = [r for _, r in both], [f"{what} {r:.2f}" if r < 0.945 else f"{what} {r:.3f}" for what, r in both if r < 0.95]
            more = f", and {len(lost) - WORST} more" if len(lost) > WORST else ""
            # As in headings: letters, digits and hyphens of it.
            link = "".join(c for c in f"{figure.name}: {figure.title}".lower().replace(" ", "-") if c.isalnum() or c == "-")
            rows.append([
                f"[{figure.name}](#{link})" + ("" if setting == "default" else f", {setting}"), known["date"], str(len(both)),
                f"**{len(both) - len(lost)}**" if lost else "all", f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f}–{ratios[-1]:.2f}",
                ", ".join(lost[:WORST]) + more if lost else "–",
            ])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def write():
    """The part of the page between the marks."""
    known = [f for warm in figures.figures() for f in (warm, figures.fresher(warm), figures.colder(warm))]
    found = [(figure, *there) for figure in known if (there := load(figure))]
    parts = [OVERVIEW + overview(found)]
    for each in found:
        draw(*each)
        parts.append(section(*each))
    page = PAGE.read_text()
    head, rest = page.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    PAGE.write_text(head + BEGIN + "\n".join(parts) + END + tail)
    print(f"{PAGE}: {len(found)} figures")
