"""Neighbourhoods, layouts, displacements of one's own, groups, in each form."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from typing import Any

import circulant
import numpy as np
from circulant import IN_PLACE, Neighborhood
from job import COMM, RANK, SIZE, data, forms


def of(rank: int, count: int) -> np.ndarray:
    """Numbers that no other rank has."""
    return np.arange(1000.0 * rank, 1000.0 * rank + count)


def three(test: Any, on: Neighborhood) -> Iterator[Callable[..., None]]:
    """The three forms of a call on neighbours."""

    def blocking(name: str, *arguments: Any) -> None:
        getattr(on, name)(*arguments)

    def non_blocking(name: str, *arguments: Any) -> None:
        getattr(on, "I" + name.lower())(*arguments).wait()

    def persistent(name: str, *arguments: Any) -> None:
        operation = getattr(on, name + "_init")(*arguments)
        operation.Start()
        operation.Wait()
        operation.Free()

    for form in (blocking, non_blocking, persistent):
        with test.subTest(form=form.__name__):
            yield form


class Neighbors(unittest.TestCase):
    def test_a_grid(self) -> None:
        for ring in (True, False):
            on = COMM.Create_cart([SIZE], [ring])
            left, right = (RANK - 1) % SIZE if ring or RANK else None, (RANK + 1) % SIZE if ring or RANK < SIZE - 1 else None
            self.assertEqual((on.sources, on.destinations), ([left, right], [left, right]))
            for form in three(self, on):
                all_ = np.full(4, -1.0)
                form("Neighbor_alltoall", of(RANK, 4), all_)
                self.check(all_, [(left, of, 2, 4), (right, of, 0, 2)])
                all_ = np.full(6, -1.0)
                form("Neighbor_allgather", of(RANK, 3), all_)
                self.check(all_, [(left, of, 0, 3), (right, of, 0, 3)])
                all_ = np.full(7, -1.0)
                form("Neighbor_allgatherv", of(RANK, 3), [all_, ([3, 3], [4, 0])])
                self.check(all_, [(right, of, 0, 3), (None, of, 0, 1), (left, of, 0, 3)])
                # What we send to the left has one element, which our left gets from its right.
                all_ = np.full(3, -1.0)
                form("Neighbor_alltoallv", [of(RANK, 3), [1, 2]], [all_, [2, 1]])
                self.check(all_, [(left, of, 1, 3), (right, of, 0, 1)])

    def check(self, found: np.ndarray, parts: list[tuple[int | None, Any, int, int]]) -> None:
        """`found` has elements begin to end of each rank, or is untouched."""
        wanted = [np.full(e - b, -1.0) if r is None else by(r, e)[b:] for r, by, b, e in parts]
        np.testing.assert_array_equal(found, np.concatenate(wanted))

    def test_a_graph(self) -> None:
        others = list(range(1, SIZE))
        star = COMM.Create_dist_graph_adjacent(others if RANK == 0 else [], [] if RANK == 0 else [0])
        for form in three(self, star):
            all_ = np.zeros(len(star.sources))
            form("Neighbor_allgather", np.array([float(RANK)]), all_)
            self.assertEqual(all_.tolist(), [float(r) for r in star.sources])


class Layouts(unittest.TestCase):
    def test_a_matrix_is_transposed(self) -> None:
        """Each rank has two rows, and gets two columns, as rows of its own."""
        n = 2 * SIZE
        matrix = np.arange(float(n * n)).reshape(n, n)
        for form in forms(self):
            mine, got = matrix[2 * RANK : 2 * RANK + 2].copy(), np.full((2, n + 1), -1.0)
            # The columns of rank r, one after the other; they come to elements 2 s and 2 s + 1 of the rows.
            sent = [[slice(2 * r, None, n), slice(2 * r + 1, None, n)] for r in range(SIZE)]
            received = [[(2 * s, 2), (n + 1 + 2 * s, 2)] for s in range(SIZE)]
            form("Alltoallw", [mine, sent], [got, received])
            np.testing.assert_array_equal(got[:, :n], matrix[:, 2 * RANK : 2 * RANK + 2].T)
            np.testing.assert_array_equal(got[:, n], -1.0)

    def test_in_place_and_of_nothing(self) -> None:
        for form in forms(self):
            buf = of(RANK, 3 * SIZE)
            form("Alltoallw", IN_PLACE, [buf, [None if r == RANK else slice(3 * r, 3 * r + 3) for r in range(SIZE)]])
            wanted = [of(r, 3 * SIZE)[3 * (r if r == RANK else RANK) :][:3] for r in range(SIZE)]
            np.testing.assert_array_equal(buf, np.concatenate(wanted))

    def test_what_is_refused(self) -> None:
        buf, other = np.zeros(4), np.zeros(4)
        for words, layouts in (("layouts for", [None] * (SIZE + 1)), ("5 elements", [(0, 5)] * SIZE), ("forwards", [slice(3, 0, -1)] * SIZE)):
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, words):
                COMM.Alltoallw([buf, layouts], [other, [None] * SIZE])
        with self.assertRaisesRegex(TypeError, "layouts"):
            COMM.Alltoallw(buf, [other, [None] * SIZE])
        COMM.Barrier()

    def test_displacements_of_ones_own(self) -> None:
        counts = [r + 1 for r in range(SIZE)]
        for form in forms(self):
            # From our own part on.
            displs, end = [0] * SIZE, 0
            for r in [*range(RANK, SIZE), *range(RANK)]:
                displs[r] = end
                end += counts[r] + 1
            all_ = np.full(end, -1.0)
            form("Allgatherv", data(RANK, RANK + 1), [all_, (counts, displs)])
            for r in range(SIZE):
                np.testing.assert_array_equal(all_[displs[r] :][: r + 1], data(r, r + 1))
                self.assertEqual(all_[displs[r] + r + 1], -1.0)


class Groups(unittest.TestCase):
    def test_a_group_is_made_by_its_members(self) -> None:
        ranks = [r for r in reversed(range(SIZE)) if r % 2 == 0]
        if RANK not in ranks:
            return
        # What they tell each other by: a communicator of the same ranks.
        side = HALVES
        assert side is not None
        group = COMM.Create_group(ranks, lambda mine: [side.allgather(mine)[r // 2] for r in ranks])
        self.assertEqual((group.rank, group.size), (ranks.index(RANK), len(ranks)))
        self.assertEqual(group.allgather(RANK), ranks)

    def test_requests_one_after_the_other(self) -> None:
        words = [of(RANK, 2) for _ in range(3)]
        requests = [COMM.Ibcast(word, SIZE - 1) for word in words]
        left = dict(enumerate(requests))
        while left:
            keys = list(left)
            del left[keys[circulant.Request.Waitany(list(left.values()))]]
        for word in words:
            np.testing.assert_array_equal(word, of(SIZE - 1, 2))
        self.assertEqual(circulant.Request.Testany(requests), 0)
        with self.assertRaises(ValueError):
            circulant.Request.Waitany([])
        operations = [COMM.Bcast_init(word, 0) for word in words]
        circulant.Prequest.Startall(operations)
        circulant.Request.Waitall(operations)
        np.testing.assert_array_equal(words[2], of(SIZE - 1, 2) if RANK else words[0])


HALVES = COMM.Split(RANK % 2)
