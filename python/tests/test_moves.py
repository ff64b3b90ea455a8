"""Each operation that moves data, in each form, beside what numpy says."""

from __future__ import annotations

import unittest
from array import array

import numpy as np
from circulant import IN_PLACE
from job import COMM, COUNTS, RANK, SIZE, data, forms


def ragged(count: int) -> tuple[list[int], list[int]]:
    """Counts that differ, with gaps, in the opposite order of ranks; and the end."""
    counts = [count + (3 * r) % 4 if count else 0 for r in range(SIZE)]
    displs, end = [0] * SIZE, 1
    for r in reversed(range(SIZE)):
        displs[r] = end
        end += counts[r] + 2
    return counts, [*displs, end]


class Moves(unittest.TestCase):
    def test_barrier(self) -> None:
        for form in forms(self):
            form("Barrier")

    def test_bcast(self) -> None:
        for form in forms(self):
            for root in range(SIZE):
                for count in COUNTS:
                    buf = data(RANK, count)
                    form("Bcast", buf, root)
                    np.testing.assert_array_equal(buf, data(root, count))

    def test_bcast_of_bytes_from_the_root(self) -> None:
        buf = b"seven b" if RANK == 0 else bytearray(7)
        COMM.Bcast(buf)
        self.assertEqual(bytes(buf), b"seven b")

    def test_allgather(self) -> None:
        for form in forms(self):
            for count in COUNTS:
                expected = np.concatenate([data(r, count) for r in range(SIZE)])
                all_ = np.full(SIZE * count, -1.0)
                form("Allgather", data(RANK, count), all_)
                np.testing.assert_array_equal(all_, expected)
                all_ = np.full((SIZE, count), -1.0)
                all_[RANK] = data(RANK, count)
                form("Allgather", IN_PLACE, all_)
                np.testing.assert_array_equal(all_.ravel(), expected)

    def test_allgatherv(self) -> None:
        for form in forms(self):
            for count in COUNTS:
                counts, (*displs, end) = ragged(count)
                expected = np.full(end, -1.0)
                for r in range(SIZE):
                    expected[displs[r] : displs[r] + counts[r]] = data(r, counts[r])
                all_ = np.full(end, -1.0)
                form("Allgatherv", data(RANK, counts[RANK]), [all_, (counts, displs)])
                np.testing.assert_array_equal(all_, expected)
                dense = np.full(sum(counts), -1.0)
                form("Allgatherv", data(RANK, counts[RANK]), [dense, np.array(counts)])
                np.testing.assert_array_equal(dense, np.concatenate([data(r, counts[r]) for r in range(SIZE)]))

    def test_gather(self) -> None:
        for form in forms(self):
            for root in range(SIZE):
                for count in COUNTS:
                    all_ = np.full(SIZE * count, -1.0) if RANK == root else None
                    form("Gather", data(RANK, count), all_, root)
                    if all_ is not None:
                        np.testing.assert_array_equal(all_, np.concatenate([data(r, count) for r in range(SIZE)]))

    def test_gather_in_place(self) -> None:
        for form in forms(self):
            if RANK == 0:
                all_ = np.full((SIZE, 5), -1.0)
                all_[0] = data(0, 5)
                form("Gather", IN_PLACE, all_)
                np.testing.assert_array_equal(all_.ravel(), np.concatenate([data(r, 5) for r in range(SIZE)]))
            else:
                form("Gather", data(RANK, 5), None)

    def test_gatherv(self) -> None:
        for form in forms(self):
            for root in range(SIZE):
                for count in COUNTS:
                    counts, (*displs, end) = ragged(count)
                    # Only the root passes counts, as in MPI.
                    all_ = np.full(end, -1.0) if RANK == root else None
                    recvbuf = [all_, (counts, displs)] if RANK == root else None
                    form("Gatherv", data(RANK, counts[RANK]), recvbuf, root)
                    if all_ is not None:
                        for r in range(SIZE):
                            part = all_[displs[r] : displs[r] + counts[r]]
                            np.testing.assert_array_equal(part, data(r, counts[r]))

    def test_scatter(self) -> None:
        for form in forms(self):
            for root in range(SIZE):
                for count in COUNTS:
                    all_ = data(root, SIZE * count) if RANK == root else None
                    mine = np.full(count, -1.0)
                    form("Scatter", all_, mine, root)
                    np.testing.assert_array_equal(mine, data(root, SIZE * count)[RANK * count : (RANK + 1) * count])

    def test_scatter_in_place(self) -> None:
        for form in forms(self):
            all_ = data(0, SIZE * 4)
            mine = np.full(4, -1.0)
            form("Scatter", all_ if RANK == 0 else None, IN_PLACE if RANK == 0 else mine)
            if RANK > 0:
                np.testing.assert_array_equal(mine, all_[RANK * 4 : RANK * 4 + 4])
            np.testing.assert_array_equal(all_, data(0, SIZE * 4))

    def test_scatterv(self) -> None:
        for form in forms(self):
            for root in range(SIZE):
                for count in COUNTS:
                    counts, (*displs, end) = ragged(count)
                    whole = data(root, end)
                    mine = np.full(counts[RANK], -1.0)
                    form("Scatterv", [whole, counts, displs] if RANK == root else None, mine, root)
                    np.testing.assert_array_equal(mine, whole[displs[RANK] : displs[RANK] + counts[RANK]])

    def test_alltoall(self) -> None:
        for form in forms(self):
            for count in COUNTS:
                expected = np.concatenate([data(r, SIZE * count).reshape(SIZE, count)[RANK] for r in range(SIZE)])
                received = np.full(SIZE * count, -1.0)
                form("Alltoall", data(RANK, SIZE * count), received)
                np.testing.assert_array_equal(received, expected)
                both = data(RANK, SIZE * count)
                form("Alltoall", IN_PLACE, both)
                np.testing.assert_array_equal(both, expected)

    def test_alltoallv(self) -> None:
        for form in forms(self):
            for count in COUNTS:
                # Rank r sends count + (r + 2 s) % 3 elements to s, the last rank's first.
                def between(r: int, s: int) -> int:
                    return count + (r + 2 * s) % 3 if count else 0

                def sent(r: int) -> tuple[list[int], list[int]]:
                    counts = [between(r, s) for s in range(SIZE)]
                    return counts, [sum(counts[s + 1 :]) for s in range(SIZE)]

                counts, displs = sent(RANK)
                received = [between(r, RANK) for r in range(SIZE)]
                out = np.full(sum(received), -1.0)
                form("Alltoallv", [data(RANK, sum(counts)), (counts, displs)], [out, received])
                parts = []
                for r in range(SIZE):
                    theirs, at = sent(r)
                    parts.append(data(r, sum(theirs))[at[RANK] : at[RANK] + theirs[RANK]])
                np.testing.assert_array_equal(out, np.concatenate(parts))

    def test_of_all_kinds_of_memory(self) -> None:
        kinds = {
            "bytes": (bytes([RANK] * 8), bytearray(8 * SIZE)),
            "array": (array("i", [RANK] * 2), array("i", [-1] * 2 * SIZE)),
            "memoryview": (memoryview(bytearray([RANK] * 8)), memoryview(bytearray(8 * SIZE))),
            "fortran": (np.full((2, 2), RANK, "u2", order="F"), np.zeros((2, 2, SIZE), "u2", order="F")),
            "scalar": (np.array(float(RANK)), np.zeros(SIZE)),
            "zero-d to zero-d": (np.array(float(RANK)), np.zeros((SIZE, 1))),
            "misaligned": (np.frombuffer(b"x" + bytes([RANK] * 8), "u1")[1:], np.zeros(8 * SIZE, "u1")),
            "counted": ([np.full(9, RANK, "f4"), 2], [np.zeros(2 * SIZE + 5, "f4"), 2 * SIZE]),
            "struct": (np.full(2, RANK, [("a", "f8"), ("b", "u1")]), np.zeros(2 * SIZE, [("a", "f8"), ("b", "u1")])),
            "registered": (COMM.alloc(3, "d"), COMM.alloc(3 * SIZE, "d")),
        }
        for name, (sent, received) in kinds.items():
            with self.subTest(name):
                COMM.Allgather(sent, received)
                memory = received[0] if isinstance(received, list) else received
                first = sent[0] if isinstance(sent, list) else sent
                n = memoryview(memory).nbytes // SIZE if name != "counted" else 8
                mine = memoryview(memory).tobytes("A")[RANK * n : (RANK + 1) * n]
                self.assertEqual(mine, memoryview(first).tobytes("A")[:n])

    def test_dlpack(self) -> None:
        class Tensor:
            """What has DLPack and no buffer protocol, as a torch tensor."""

            def __init__(self, array: np.ndarray) -> None:
                self.array = array

            def __dlpack__(self, **options: object) -> object:
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self) -> object:
                return self.array.__dlpack_device__()

        for dtype in ["f8", "i4", "c16", "f2", "u1"]:
            mine, total = np.full((2, 3), RANK + 1, dtype), np.zeros((2, 3), dtype)
            COMM.Allreduce(Tensor(mine), Tensor(total))
            np.testing.assert_array_equal(total, np.full((2, 3), sum(range(1, SIZE + 1)), dtype))
        with self.assertRaisesRegex(ValueError, "not contiguous"):
            COMM.Allreduce(Tensor(np.zeros((4, 4))[:, 1]), np.zeros(4))

    def test_registered_memory_is_not_copied(self) -> None:
        buf = np.asarray(COMM.alloc(100_000, "d"))
        self.assertTrue(np.all(buf == 0))
        before = COMM_STATS()
        buf[:] = RANK
        COMM.Bcast(buf, SIZE - 1)
        self.assertTrue(np.all(buf == SIZE - 1))
        self.assertEqual(COMM_STATS()["buffers"], before["buffers"])
        kept = COMM.alloc(4, np.complex128)
        self.assertEqual((kept.dtype, kept.size), (np.dtype("c16"), 4))


def COMM_STATS() -> dict[str, int]:
    from job import WORLD

    return WORLD.stats()
