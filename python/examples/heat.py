"""Heat in a rod, its cells divided among the ranks: each step sends the ends of a rank's part to all by one Allgather, and the time
course is drawn at the end.

    circulant run -n 4 python3 heat.py heat.svg

With matplotlib installed and another ending (heat.png) it draws by that.
"""

from __future__ import annotations

import sys

import circulant
import numpy as np

CELLS, STEPS, SHOWN = 256, 20_000, 6


def course(comm: circulant.Comm) -> list[np.ndarray] | None:
    """The temperatures at the times that are shown, at rank 0."""
    counts = [CELLS // comm.size + (r < CELLS % comm.size) for r in range(comm.size)]
    first = sum(counts[: comm.rank])
    x = (np.arange(first, first + counts[comm.rank]) + 0.5) / CELLS
    rod = np.zeros(len(x) + 2)
    rod[1:-1] = np.where((x > 0.2) & (x < 0.45), 1.0, 0.0) + np.where((x > 0.7) & (x < 0.8), 0.6, 0.0)
    # Registered once: calls move it without a copy.
    mine, ends = np.asarray(comm.alloc(2, "d")), np.asarray(comm.alloc(2 * comm.size, "d"))
    exchange = comm.Allgather_init(mine, ends)
    shown: list[np.ndarray] = []
    for step in range(STEPS):
        if step % (STEPS // SHOWN) == 0:
            all_ = np.empty(CELLS) if comm.rank == 0 else None
            comm.Gatherv(rod[1:-1], [all_, counts], 0)
            shown += [] if all_ is None else [all_]
        mine[:] = rod[1], rod[-2]
        exchange.Start()
        exchange.Wait()
        # Insulated ends: the neighbour beyond is the cell itself.
        rod[0] = ends[2 * comm.rank - 1] if comm.rank > 0 else rod[1]
        rod[-1] = ends[2 * comm.rank + 2] if comm.rank + 1 < comm.size else rod[-2]
        rod[1:-1] += 0.4 * (rod[:-2] - 2 * rod[1:-1] + rod[2:])
    exchange.Free()
    heat = np.empty(1)
    comm.Allreduce(np.array([rod[1:-1].sum()]), heat)
    if comm.rank == 0:
        print(f"heat in the rod, of {comm.size} ranks: {heat[0] / CELLS:.6f}")
    return shown if comm.rank == 0 else None


def svg(lines: list[np.ndarray]) -> str:
    """A drawing without any library."""
    width, height, edge = 640, 320, 40
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">']
    text.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    text.append(f'<path d="M{edge} 20V{height - edge}H{width - 20}" fill="none" stroke="black"/>')
    text.append(f'<text x="{width // 2}" y="{height - 10}">place in the rod</text><text x="5" y="15">temperature</text>')
    for i, line in enumerate(lines):
        x = edge + (np.arange(len(line)) + 0.5) / len(line) * (width - 20 - edge)
        y = height - edge - line * (height - edge - 30)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
        colour = f"hsl({240 * i // max(len(lines) - 1, 1)} 70% 45%)"
        text.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        text.append(f'<text x="{width - 110}" y="{30 + 15 * i}" fill="{colour}">step {i * (STEPS // SHOWN)}</text>')
    return "\n".join([*text, "</svg>"]) + "\n"


def draw(lines: list[np.ndarray], file: str) -> None:
    if file.endswith(".svg"):
        with open(file, "w") as out:
            out.write(svg(lines))
        return
    from matplotlib import pyplot

    for i, line in enumerate(lines):
        pyplot.plot((np.arange(len(line)) + 0.5) / len(line), line, label=f"step {i * (STEPS // SHOWN)}")
    pyplot.xlabel("place in the rod")
    pyplot.ylabel("temperature")
    pyplot.legend()
    pyplot.savefig(file)


with circulant.init() as world:
    lines = course(world.comm)
    if lines is not None and len(sys.argv) > 1:
        draw(lines, sys.argv[1])
        print(f"drawn: {sys.argv[1]}")
