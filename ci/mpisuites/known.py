"""Differences from a run without the library that are known, each with its reason. One that is gone is to be taken out."""

import fnmatch
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    suite: str
    mpi: str  # patterns with * for the MPI's name and for the title of the check
    title: str
    reason: str


KNOWN = (
    Known("scalapack", "*", "xdsyevr residual 0", "of a matrix of 0 rows it judges values that it has not set (valgrind, without the library)"),
)


def why(suite, mpi, title):
    """The reason of a known difference, or None."""
    for known in KNOWN:
        if known.suite == suite and fnmatch.fnmatch(mpi, known.mpi) and fnmatch.fnmatch(title, known.title):
            return known.reason
    return None
