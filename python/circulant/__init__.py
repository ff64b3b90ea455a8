"""Round-optimal collectives over one-sided puts, without MPI: for numpy arrays, buffers and objects.

    import circulant, numpy

    with circulant.init() as world:
        comm = world.comm
        mine, total = numpy.full(1000, comm.rank, "f8"), numpy.empty(1000)
        comm.Allreduce(mine, total)

`circulant run -n 4 python3 PROGRAM` runs four ranks of it. Names and buffers are those of mpi4py.
"""

from ._buffers import IN_PLACE
from ._circulant import VERSION as __version__
from ._circulant import Error
from ._comm import UNDEFINED, Comm
from ._neighbors import Neighborhood
from ._ops import BAND, BOR, BXOR, LAND, LOR, LXOR, MAX, MAXLOC, MIN, MINLOC, PROD, SUM, Op
from ._request import Prequest, Request
from ._world import World, init, init_by

__all__ = [
    "BAND",
    "BOR",
    "BXOR",
    "IN_PLACE",
    "LAND",
    "LOR",
    "LXOR",
    "MAX",
    "MAXLOC",
    "MIN",
    "MINLOC",
    "PROD",
    "SUM",
    "UNDEFINED",
    "Comm",
    "Error",
    "Neighborhood",
    "Op",
    "Prequest",
    "Request",
    "World",
    "__version__",
    "init",
    "init_by",
]
