"""The calls on objects."""

from __future__ import annotations

import operator
import unittest

import circulant
from job import COMM, RANK, SIZE


def thing(rank: int) -> dict[str, object]:
    """Its pickle is longer at a higher rank, and empty things are among it."""
    return {"rank": rank, "text": "x" * (1000 * rank), "none": None, "list": list(range(rank))}


class Objects(unittest.TestCase):
    def test_moves(self) -> None:
        for root in range(SIZE):
            self.assertEqual(COMM.bcast(thing(RANK) if RANK == root else None, root), thing(root))
            gathered = COMM.gather(thing(RANK), root)
            self.assertEqual(gathered, [thing(r) for r in range(SIZE)] if RANK == root else None)
            parts = [thing(root + r) for r in range(SIZE)] if RANK == root else None
            self.assertEqual(COMM.scatter(parts, root), thing(root + RANK))
        self.assertEqual(COMM.allgather(thing(RANK)), [thing(r) for r in range(SIZE)])
        sent = [(RANK, to, "y" * (7 * to + RANK)) for to in range(SIZE)]
        self.assertEqual(COMM.alltoall(sent), [(r, RANK, "y" * (7 * RANK + r)) for r in range(SIZE)])
        COMM.barrier()

    def test_reductions_keep_the_order_of_ranks(self) -> None:
        words = [f"<{r}>" for r in range(SIZE)]
        for root in range(SIZE):
            found = COMM.reduce(words[RANK], circulant.SUM, root)
            self.assertEqual(found, "".join(words) if RANK == root else None)
        self.assertEqual(COMM.allreduce(words[RANK]), "".join(words))
        self.assertEqual(COMM.allreduce({RANK}, op=operator.or_), set(range(SIZE)))
        self.assertEqual(COMM.scan(words[RANK]), "".join(words[: RANK + 1]))
        self.assertEqual(COMM.exscan(words[RANK]), "".join(words[:RANK]) if RANK else None)

    def test_operators(self) -> None:
        pairs = {circulant.MINLOC: (1, 0), circulant.MAXLOC: (1, 0)}
        for op, found in pairs.items():
            self.assertEqual(COMM.allreduce((1, RANK), op), found)
        self.assertEqual(COMM.allreduce((RANK, RANK), circulant.MAXLOC), (SIZE - 1, SIZE - 1))
        found = {
            circulant.MIN: 2, circulant.MAX: 2 + SIZE - 1, circulant.LAND: True, circulant.LOR: True,
            circulant.LXOR: SIZE % 2 == 1,
        }  # fmt: skip
        for op, expected in found.items():
            # Of one rank it is its own object.
            result = COMM.allreduce(2 + RANK, op)
            self.assertEqual(result if SIZE > 1 else type(expected)(result), expected, op)
        for op, by in ((circulant.BAND, operator.and_), (circulant.BOR, operator.or_), (circulant.BXOR, operator.xor)):
            expected = 12
            for r in range(1, SIZE):
                expected = by(expected, 12 + r)
            self.assertEqual(COMM.allreduce(12 + RANK, op), expected)
        self.assertEqual(COMM.allreduce(2, circulant.PROD), 2**SIZE)
        user = circulant.Op.Create(lambda a, b, kind: None)
        with self.assertRaisesRegex(TypeError, "for buffers"):
            user(1, 2)

    def test_a_sequence_of_another_length_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "one object for each"):
            COMM.alltoall([1] * (SIZE + 1))
        if SIZE == 1:
            with self.assertRaises(ValueError):
                COMM.scatter(None)
