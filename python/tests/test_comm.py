"""Communicators, requests, persistent operations, threads and the collector."""

from __future__ import annotations

import gc
import threading
import unittest
import weakref

import circulant
import numpy as np
from job import COMM, RANK, SIZE, WORLD


class Communicators(unittest.TestCase):
    def test_names(self) -> None:
        self.assertEqual((COMM.Get_rank(), COMM.Get_size()), (WORLD.rank, WORLD.size))
        self.assertEqual(len(WORLD.nodes), SIZE)
        self.assertTrue(WORLD.provider and WORLD.launcher)
        self.assertIn("circulant", repr(COMM).lower())

    def test_dup_and_split(self) -> None:
        copy = COMM.Dup()
        self.assertEqual((copy.rank, copy.size), (RANK, SIZE))
        # Calls on the two never mix, whatever their order.
        a, b = np.array([RANK]), np.array([10 * RANK])
        first, second = COMM.Iallreduce(circulant.IN_PLACE, a), copy.Iallreduce(circulant.IN_PLACE, b)
        second.wait(), first.wait()
        self.assertEqual((a[0], b[0]), (sum(range(SIZE)), 10 * sum(range(SIZE))))
        odd = COMM.Split(RANK % 2, key=-RANK)
        assert odd is not None
        members = [r for r in reversed(range(SIZE)) if r % 2 == RANK % 2]
        self.assertEqual(odd.allgather(RANK), members)
        none = COMM.Split(circulant.UNDEFINED if RANK == 0 else 1)
        self.assertEqual(none is None, RANK == 0)
        self.assertEqual(COMM.Split_by_node().size, SIZE)

    def test_options(self) -> None:
        linear = COMM.options(algorithm="circulant", blocks=3, reproducible=True, deadline=60)
        buf = np.full(1000, RANK)
        linear.Bcast(buf, SIZE - 1)
        np.testing.assert_array_equal(buf, SIZE - 1)


class Requests(unittest.TestCase):
    def test_many_at_once(self) -> None:
        inputs = [np.full(100, RANK + k) for k in range(20)]
        outputs = [np.zeros(100, int) for _ in inputs]
        requests = [COMM.Iallreduce(a, b) for a, b in zip(inputs, outputs)]
        circulant.Request.Waitall(requests)
        self.assertTrue(circulant.Request.Testall(requests))
        for k, out in enumerate(outputs):
            np.testing.assert_array_equal(out, sum(r + k for r in range(SIZE)))

    def test_a_request_keeps_its_memory_and_gives_it_back(self) -> None:
        class Kept(np.ndarray):
            pass

        send, recv = np.full(5000, 1.0).view(Kept), np.zeros(5000).view(Kept)
        dead = [weakref.ref(send), weakref.ref(recv)]
        request = COMM.Iallreduce(send, recv)
        view = recv.view(np.ndarray)
        del send, recv
        gc.collect()
        self.assertIsNotNone(dead[0]())
        request.wait()
        np.testing.assert_array_equal(view, SIZE)
        del view
        gc.collect()
        self.assertEqual([ref() for ref in dead], [None, None])

    def test_memory_of_a_request_cannot_be_resized(self) -> None:
        buf = bytearray(100)
        request = COMM.Ibcast(buf)
        with self.assertRaises(BufferError):
            buf.extend(b"more")
        request.wait()
        buf.extend(b"more")

    def test_a_request_that_is_given_up_is_waited_for(self) -> None:
        for _ in range(20):
            buf = np.full(1000, RANK)
            COMM.Ibcast(buf, 0)
        COMM.Barrier()
        np.testing.assert_array_equal(buf, 0)

    def test_persistent(self) -> None:
        send, recv = np.zeros(300), np.zeros(300)
        step = COMM.Allreduce_init(send, recv)
        for turn in range(5):
            send[:] = turn + RANK
            step.Start()
            self.assertTrue(step.Wait())
            np.testing.assert_array_equal(recv, sum(turn + r for r in range(SIZE)))
        step.Free()
        with self.assertRaisesRegex(circulant.Error, "freed") as caught:
            step.Start()
        self.assertEqual((caught.exception.kind, caught.exception.peer), ("argument", None))
        with self.assertRaisesRegex(ValueError, "read-only"):
            COMM.Bcast_init(b"bytes")


class Threads(unittest.TestCase):
    def test_others_run_while_a_call_waits(self) -> None:
        if SIZE == 1:
            self.skipTest("a job of one rank waits for none")
        own = COMM.Dup()
        if RANK == 0:
            # Not before the main threads of all others have run while their second threads wait for this rank.
            COMM.Barrier()
            own.Barrier()
            return
        waiting = threading.Thread(target=own.Barrier)
        waiting.start()
        COMM.Barrier()
        waiting.join()

    def test_two_threads_in_calls_of_two_communicators(self) -> None:
        comms, results = [COMM.Dup(), COMM.Dup()], [0, 0]

        def work(i: int) -> None:
            for _ in range(200):
                out = np.zeros(10, int)
                comms[i].Allreduce(np.full(10, i + 1), out)
                results[i] += int(out[0])

        threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [200 * SIZE, 400 * SIZE])

    def test_an_operator_in_python_beside_a_thread(self) -> None:
        # One thread is in an operator that wants the interpreter, the other in short calls on the same world.
        def add(a: memoryview, b: memoryview, kind: str) -> None:
            right = np.frombuffer(b, "i8")
            right += np.frombuffer(a, "i8")

        op, comms, out = circulant.Op.Create(add, commute=True), [COMM.Dup(), COMM.Dup()], np.zeros(50, "i8")

        def reduce() -> None:
            for _ in range(50):
                comms[0].Allreduce(np.ones(50, "i8"), out, op)

        thread = threading.Thread(target=reduce)
        thread.start()
        for _ in range(50):
            comms[1].Barrier()
        thread.join()
        np.testing.assert_array_equal(out, SIZE)
