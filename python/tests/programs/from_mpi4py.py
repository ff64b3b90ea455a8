"""A job that mpi4py's MPI has started: `mpiexec -n 3 python3 from_mpi4py.py`."""

from __future__ import annotations

import circulant
import numpy as np
from mpi4py import MPI

# In the opposite order, so that ranks are those of the communicator that is passed.
theirs = MPI.COMM_WORLD.Split(0, -MPI.COMM_WORLD.rank)
with circulant.init(comm=theirs, deadline=60) as world:
    comm = world.comm
    assert (comm.rank, comm.size, world.launcher) == (theirs.rank, theirs.size, "python")
    mine = np.arange(1000.0) * (comm.rank + 1)
    ours, expected = np.zeros(1000), np.zeros(1000)
    comm.Allreduce(mine, ours, circulant.SUM)
    theirs.Allreduce(mine, expected, MPI.SUM)
    np.testing.assert_array_equal(ours, expected)
    assert comm.allgather(comm.rank) == theirs.allgather(comm.rank)
# And another one after it.
with circulant.init_by(theirs.rank, theirs.size, theirs.allgather) as world:
    assert world.comm.allreduce(1) == theirs.size
if theirs.rank == 0:
    print(f"a world of {theirs.size} ranks of {MPI.Get_library_version().split()[0]}")
