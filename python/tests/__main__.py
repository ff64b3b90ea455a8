"""Runs the tests at each rank of a job: `circulant run -n 4 python3 python/tests [NAME…]`. Rank 0 says what they counted."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

import job


def main() -> int:
    # Every rank runs the same tests in the same order: they are collective.
    loader = unittest.defaultTestLoader
    if len(sys.argv) > 1:
        suite = loader.loadTestsFromNames(sys.argv[1:])
    else:
        suite = loader.discover(str(Path(__file__).parent), top_level_dir=str(Path(__file__).parent))
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0, failfast=True).run(suite)
    failed = len(result.failures) + len(result.errors)
    if failed:
        return 1
    job.WORLD.finalize()
    if job.RANK == 0:
        for _, why in result.skipped:
            print(f"skip: {why}")
        skipped = len(result.skipped)
        print(f"{result.testsRun - skipped} passed, {failed} failed, {skipped} skipped")
    return 0 if result.testsRun else 1


sys.exit(main())
