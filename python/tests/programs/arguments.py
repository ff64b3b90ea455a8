"""Wrong arguments of each call, and what it raises: the table for Python in docs/errors.md, which is compared word for word.
`python3 arguments.py docs/errors.md`; with `--write` behind it the table is written there."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import circulant
import numpy as np

IN_PLACE, SUM, MAX, BAND = circulant.IN_PLACE, circulant.SUM, circulant.MAX, circulant.BAND
Comm, Neighborhood, Request, Prequest, Op, World = (
    circulant.Comm, circulant.Neighborhood, circulant.Request, circulant.Prequest, circulant.Op, circulant.World,
)  # fmt: skip
PAIR = np.dtype([("value", "f8"), ("index", "i4"), ("more", "u1")])

Row = tuple[str, str, tuple[Any, ...]]


def mine() -> np.ndarray:
    return np.ones(2)


def room() -> np.ndarray:
    return np.zeros(2)


def fixed() -> np.ndarray:
    array = np.zeros(2)
    array.setflags(write=False)
    return array


def apart() -> np.ndarray:
    return np.zeros(4)[::2]


def allgather_fails(_: bytes) -> list[bytes]:
    raise LookupError("as told")


def not_bytes(_: bytes) -> Any:
    return 7


# Calls in three forms, on communicators of one rank. What is wrong is seen before anything is sent, or ends the world: each has one of its own.
BUFFERS: list[Row] = [
    ("Bcast", "no buffer", (7,)),
    ("Bcast", "memory that is not contiguous", (apart(),)),
    ("Bcast", "a root that is no rank", (room(), 1)),
    ("Bcast", "a root below 0", (room(), -1)),
    ("Bcast", "a root that is no number", (room(), "0")),
    ("Bcast", "more elements than there are", ([room(), 3],)),
    ("Bcast", "a type that there is not", ([room(), "no"],)),
    ("Bcast", "counts of each rank", ([room(), [1]],)),
    ("Bcast", "more behind the memory than there can be", ([room(), 1, 1, 1],)),
    ("Allgather", "nothing to send", (None, room())),
    ("Allgather", "the result where it cannot be written", (mine(), fixed())),
    ("Allgather", "a result of another length", (mine(), np.zeros(3))),
    ("Allgatherv", "nothing to send", (None, [room(), [2]])),
    ("Allgatherv", "a count too many", (mine(), [room(), [1, 1]])),
    ("Allgatherv", "a count below 0", (mine(), [room(), [-1]])),
    ("Allgatherv", "a count of more than the buffer", (mine(), [room(), [3]])),
    ("Allgatherv", "displacements without counts", (mine(), [room(), None, [0]])),
    ("Allgatherv", "a count that is no number", (mine(), [room(), ["one"]])),
    ("Allgatherv", "another length sent than the count", (mine(), [room(), [1]])),
    ("Gather", "no result at the root", (mine(), None)),
    ("Gather", "a result of another length", (mine(), np.zeros(3))),
    ("Gather", "a root that is no rank", (mine(), room(), 1)),
    ("Gather", "a root below 0", (mine(), room(), -1)),
    ("Gatherv", "no result at the root", (mine(), None)),
    ("Gatherv", "another length sent than the count", (mine(), [room(), [1]])),
    ("Gatherv", "a root that is no rank", (mine(), [room(), [2]], 1)),
    ("Gatherv", "a root below 0", (mine(), [room(), [2]], -1)),
    ("Scatter", "nothing to send at the root", (None, room())),
    ("Scatter", "a result of another length", (mine(), np.zeros(3))),
    ("Scatter", "a root that is no rank", (mine(), room(), 1)),
    ("Scatter", "a root below 0", (mine(), room(), -1)),
    ("Scatterv", "nothing to send at the root", (None, room())),
    ("Scatterv", "another length received than the count", ([mine(), [1]], room())),
    ("Scatterv", "a root that is no rank", ([mine(), [2]], room(), 1)),
    ("Scatterv", "a root below 0", ([mine(), [2]], room(), -1)),
    ("Alltoall", "nothing to send", (None, room())),
    ("Alltoall", "a result of another length", (mine(), np.zeros(3))),
    ("Alltoallv", "in place", (IN_PLACE, [room(), [2]])),
    ("Alltoallv", "a count too many", ([mine(), [1, 1]], [room(), [2]])),
    ("Alltoallv", "a count of more than the buffer", ([mine(), [3]], [room(), [2]])),
    ("Alltoallw", "no layouts", (mine(), [room(), [None]])),
    ("Alltoallw", "a layout too many", ([mine(), [None, None]], [room(), [None]])),
    ("Alltoallw", "elements behind the end", ([mine(), [(1, 2)]], [room(), [None]])),
    ("Alltoallw", "a slice backwards", ([mine(), [slice(None, None, -1)]], [room(), [None]])),
    ("Reduce", "no result at the root", (mine(), None)),
    ("Reduce", "no operator", (mine(), room(), None)),
    ("Reduce", "a root that is no rank", (mine(), room(), SUM, 1)),
    ("Reduce", "a root below 0", (mine(), room(), SUM, -1)),
    ("Allreduce", "no result", (mine(), None)),
    ("Allreduce", "the result in place", (mine(), IN_PLACE)),
    ("Allreduce", "a function in place of an operator", (mine(), room(), max)),
    ("Allreduce", "an operator that the type has not", (mine(), room(), BAND)),
    ("Allreduce", "elements that have no operator", (np.zeros(1, PAIR), np.zeros(1, PAIR), SUM)),
    ("Allreduce", "sums of bool", (np.zeros(2, bool), np.zeros(2, bool), SUM)),
    ("Allreduce", "another type received than sent", (mine(), np.zeros(2, "f4"))),
    ("Allreduce", "a result of another length", (mine(), np.zeros(3))),
    ("Reduce_scatter_block", "no result", (mine(), None)),
    ("Reduce_scatter_block", "a result of another length", (mine(), np.zeros(3))),
    ("Reduce_scatter", "in place without counts", (IN_PLACE, room())),
    ("Reduce_scatter", "a count too many", (mine(), room(), [1, 1])),
    ("Scan", "no result", (mine(), None)),
    ("Scan", "a result of another length", (mine(), np.zeros(3))),
    ("Exscan", "no operator", (mine(), room(), None)),
    ("Exscan", "a result of another length", (mine(), np.zeros(3))),
]

NEIGHBORS: list[Row] = [
    ("Neighbor_allgather", "nothing to send", (None, room())),
    ("Neighbor_allgather", "a result of another length", (mine(), np.zeros(3))),
    ("Neighbor_allgatherv", "a count too few", (mine(), [room(), [1]])),
    ("Neighbor_allgatherv", "a count of more than the buffer", (mine(), [room(), [3, 1]])),
    ("Neighbor_alltoall", "a result of another length", (mine(), np.zeros(4))),
    ("Neighbor_alltoallv", "a count too few", ([mine(), [1]], [room(), [1, 1]])),
    ("Neighbor_alltoallv", "a count of more than the buffer", ([mine(), [3, 1]], [room(), [1, 1]])),
]

OTHERS: list[tuple[str, str, Callable[[World], object]]] = [
    ("init", "an unknown setting", lambda _: circulant.init(deadlin=20)),
    ("init", "a value that cannot be", lambda _: circulant.init(deadline="soon")),
    ("init_by", "a rank that is none", lambda _: circulant.init_by(1, 1, lambda mine: [mine])),
    ("init_by", "no ranks", lambda _: circulant.init_by(0, 0, lambda mine: [mine])),
    ("init_by", "a function that raises", lambda _: circulant.init_by(0, 2, allgather_fails)),
    ("init_by", "a function that gives something else", lambda _: circulant.init_by(0, 2, not_bytes)),
    ("while_waiting", "no function", lambda w: w.while_waiting(7)),
    ("Revoke", "a world that ends with a rank", lambda w: w.comm.Revoke()),
    ("Agree", "flags below 0", lambda w: w.comm.Agree(-1)),
    ("Split", "a colour that is no number", lambda w: w.comm.Split("red")),
    ("init_by", "a rank below 0", lambda _: circulant.init_by(-1, 1, lambda mine: [mine])),
    ("Create_group", "no ranks", lambda w: w.comm.Create_group([], lambda mine: [mine])),
    ("Create_group", "a rank that is none", lambda w: w.comm.Create_group([1], lambda mine: [mine])),
    ("Create_group", "a function that raises", lambda w: w.comm.Create_group([0], allgather_fails)),
    ("Create_group", "a function that gives something else", lambda w: w.comm.Create_group([0], not_bytes)),
    ("Create_dist_graph_adjacent", "a rank that is none", lambda w: w.comm.Create_dist_graph_adjacent([1], [0])),
    ("Create_cart", "another number of ranks", lambda w: w.comm.Create_cart([2])),
    ("Create_cart", "a ring too few", lambda w: w.comm.Create_cart([1, 1], [True])),
    ("options", "an algorithm that there is not", lambda w: w.comm.options(algorithm="none").Bcast(room())),
    ("options", "no blocks", lambda w: w.comm.options(blocks=0)),
    ("options", "blocks below 0", lambda w: w.comm.options(blocks=-1)),
    ("options", "a deadline below 0", lambda w: w.comm.options(deadline=-1.0)),
    ("alloc", "elements below 0", lambda w: w.comm.alloc(-1)),
    ("alloc", "a type that there is not", lambda w: w.comm.alloc(1, "Q2")),
    ("abort", "a code that is no number", lambda w: w.abort("7")),
    ("Split", "a key that is no number", lambda w: w.comm.Split(0, "first")),
    ("Waitany", "no requests", lambda _: Request.Waitany([])),
    ("Start", "an operation that is under way", lambda w: started_twice(w.comm)),
    ("Start", "an operation that was given back", lambda w: given_back(w.comm)),
    ("Op", "objects, of an operator for buffers", lambda _: Op.Create(raises)(1, 2)),
    ("bcast", "an object that cannot be pickled", lambda w: w.comm.bcast(lambda: 0)),
    ("bcast", "a root that is no rank", lambda w: w.comm.bcast(1, 1)),
    ("bcast", "a root below 0", lambda w: w.comm.bcast(1, -1)),
    ("gather", "a root that is no rank", lambda w: w.comm.gather(1, 1)),
    ("gather", "a root below 0", lambda w: w.comm.gather(1, -1)),
    ("allgather", "an object that cannot be pickled", lambda w: w.comm.allgather(lambda: 0)),
    ("scatter", "no list at the root", lambda w: w.comm.scatter(None)),
    ("scatter", "an object too many", lambda w: w.comm.scatter([1, 2])),
    ("alltoall", "an object too many", lambda w: w.comm.alltoall([1, 2])),
    ("scatter", "a root below 0", lambda w: w.comm.scatter([1], -1)),
    ("reduce", "a root that is no rank", lambda w: w.comm.reduce(1, SUM, 1)),
    ("reduce", "a root below 0", lambda w: w.comm.reduce(1, SUM, -1)),
]


def raises(left: memoryview, right: memoryview, kind: str) -> None:
    raise ZeroDivisionError("as told")


def started_twice(comm: Comm) -> None:
    operation = comm.Barrier_init()
    operation.Start()
    operation.Start()


def given_back(comm: Comm) -> None:
    operation = comm.Barrier_init()
    operation.Free()
    operation.Start()


def said(call: Callable[[World], object]) -> str:
    """What it raises, in a world of its own. Where objects are, addresses differ from run to run."""
    world = circulant.init(deadline=60)
    try:
        call(world)
    except (TypeError, ValueError, OverflowError, LookupError, AttributeError, MemoryError, circulant.Error) as e:
        text = re.sub(r" at 0x[0-9a-f]+", "", str(e))
        return f"{type(e).__name__}: {text}".replace("|", "\\|").replace("\n", " ")
    finally:
        world.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    return ""


def three(on: Callable[[World], Any], name: str, arguments: tuple[Any, ...]) -> str:
    """What its three forms raise: the same."""
    texts = {said(lambda w: getattr(on(w), form)(*arguments)) for form in (name, f"I{name.lower()}", f"{name}_init")}
    assert len(texts) == 1, (name, arguments, texts)
    return texts.pop()


def table() -> str:
    lines = ["| call | wrong | raises |", "|---|---|---|"]
    rows = [(name, what, three(lambda w: w.comm, name, arguments)) for name, what, arguments in BUFFERS]
    rows += [(name, what, three(lambda w: w.comm.Create_cart([1], [True]), name, args)) for name, what, args in NEIGHBORS]
    rows += [(name, what, said(call)) for name, what, call in OTHERS]
    for name, what, text in rows:
        assert text, f"{name}, {what}, raises nothing"
        lines.append(f"| `{name}` | {what} | {text} |")
    return "\n".join(lines) + "\n"


def left_out(section: str) -> list[str]:
    """Public calls of which the section says nothing."""
    known = set(re.findall(r"`(?:Op\.)?(\w+)`", section))
    names = {"init", "init_by"}
    for of in (World, Comm, Neighborhood, Request, Prequest, Op):
        names |= {name for name, what in vars(of).items() if not name.startswith("_") and callable(getattr(of, name)) and what}
    forms = {f"I{name.lower()}" for name in known} | {f"{name}_init" for name in known}
    return sorted(names - known - forms)


def main() -> None:
    path = Path(sys.argv[1])
    document = path.read_text()
    before, title, rest = document.partition("## In Python\n")
    section, end, after = rest.partition("\n## ")
    head, _, _ = section.partition("| call")
    made = head.rstrip() + "\n\n" + table()
    if sys.argv[2:] == ["--write"]:
        path.write_text(before + title + made + end + after)
        return
    differs = next(((a, b) for a, b in zip(section.splitlines(), made.splitlines()) if a != b), None)
    if section != made:
        sys.exit(f"docs/errors.md is not what calls raise (arguments.py docs/errors.md --write). First difference: {differs}")
    if missing := left_out(section):
        sys.exit(f"docs/errors.md has no word of {', '.join(missing)}")
    print(f"{len(BUFFERS) + len(NEIGHBORS) + len(OTHERS)} rows")


main()
