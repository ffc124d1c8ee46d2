"""One rank of a job of two, with ranges of this package around NCCL's calls: ranges.py NCCL RANK FOLDER"""

import ctypes
import os
import sys
import time

import nccl_otf2

library, rank, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
nccl = ctypes.CDLL(library)
cuda = ctypes.CDLL(None)
FLOAT, SUM, COUNT = 7, 0, 1000


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def call(name, *arguments):
    result = getattr(nccl, name)(*arguments)
    assert result == 0, f"{name}: {result}"


def unique_id():
    path = os.path.join(folder, "id")
    own = UniqueId()
    if rank == 0:
        call("ncclGetUniqueId", ctypes.byref(own))
        with open(path + ".new", "wb") as file:
            file.write(bytes(own))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        ctypes.memmove(ctypes.byref(own), file.read(), 128)
    return own


comm, buffer = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cudaSetDevice(rank) == 0
assert cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(4 * COUNT)) == 0
call("ncclCommInitRank", ctypes.byref(comm), 2, unique_id(), rank)


@nccl_otf2.annotate("decorated", domain="wheel", payload=-7, color=0x00FF00)
def decorated():
    call("ncclAllReduce", buffer, buffer, ctypes.c_size_t(COUNT), FLOAT, SUM, comm, None)
    cuda.cudaStreamSynchronize(None)


with nccl_otf2.annotate("outer", domain="wheel", payload=0.5):
    decorated()
call("ncclCommDestroy", comm)
