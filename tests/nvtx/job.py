"""One rank of a job of two, with ranges of NVTX around NCCL's calls: job.py NCCL RANK FOLDER [PART …].

Prints nothing but errors; what each part does is what the test expects to find.
"""

import _ctypes
import ctypes
import os
import sys
import threading
import time

import nvtx

library, rank, folder, *parts = sys.argv[1:]
rank = int(rank)
nccl = ctypes.CDLL(library)
cuda = ctypes.CDLL(None)
FLOAT, SUM = 7, 0


def call(name, *arguments):
    result = getattr(nccl, name)(*arguments)
    assert result == 0, f"{name}: {result}"


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


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


@nvtx.annotate("before everything", domain="app")
def before():
    return unique_id()


def all_reduce(comm, buffer, count=1000):
    call("ncclAllReduce", buffer, buffer, ctypes.c_size_t(count), FLOAT, SUM, comm, None)


def steps(comm, buffer, name="step "):
    for step in range(3):
        with nvtx.annotate(f"{name}{step}", domain="app", color="blue", category="train", payload=step * 10):
            with nvtx.annotate("forward", domain="app"):
                time.sleep(0.001)
            with nvtx.annotate("backward"):
                all_reduce(comm, buffer)
                cuda.cudaStreamSynchronize(None)


def evaluated_steps(comm, buffer):
    """In a step two threads call, as PyTorch's do; between steps come calls of the program's evaluation."""
    for step in range(6):
        with nvtx.annotate(f"step {step}", domain="app"):
            all_reduce(comm, buffer)
            backward = threading.Thread(target=all_reduce, args=(comm, buffer, 2000))
            backward.start()
            backward.join()
        cuda.cudaStreamSynchronize(None)
        all_reduce(comm, buffer, 7)
        cuda.cudaStreamSynchronize(None)


def launches(comm, buffer):
    """The ranges end before what is launched in them does, and the numbers in their names are ids, as XLA's are."""
    ranks = ctypes.c_int()
    for module in [70, 30, 90, 50]:
        time.sleep(0.02 * rank)
        with nvtx.annotate(f"module {module}", domain="app"):
            call("ncclCommCount", comm, ctypes.byref(ranks))
            all_reduce(comm, buffer)
        cuda.cudaStreamSynchronize(None)


def load():
    loaded = ctypes.CDLL(os.path.join(folder, "library.so"))
    assert loaded.begin() == 1
    return loaded


def unload(loaded):
    _ctypes.dlclose(loaded._handle)
    with open("/proc/self/maps") as maps:
        assert "library.so" not in maps.read(), "it is still loaded"


def unloaded(comm, buffer):
    first = load()
    first.push(b"of the library")
    unload(first)
    with nvtx.annotate("without it", domain="app"):
        all_reduce(comm, buffer)
        cuda.cudaStreamSynchronize(None)
    second = load()
    second.push(b"of the library, again")
    second.pop()
    # Begun by the instance that is gone.
    second.pop()
    unload(second)


def names(count):
    for name in range(count):
        nvtx.push_range(f"tensor {name}", domain="many")
        nvtx.pop_range(domain="many")
    loaded = load()
    loaded.names(0, count)


def nested(levels):
    for _ in range(levels):
        nvtx.push_range("deep")
    for _ in range(levels):
        nvtx.pop_range()


def unbalanced():
    for _ in range(5):
        nvtx.pop_range(domain="unbalanced")
    # Ranges of two domains that overlap.
    nvtx.push_range("outer", domain="left")
    nvtx.push_range("crossing", domain="right")
    nvtx.pop_range(domain="left")
    nvtx.pop_range(domain="right")


def threads():
    def work(number):
        with nvtx.annotate("worker", domain="app"):
            time.sleep(0.01)

    def leave_open():
        nvtx.push_range("left open", domain="app")

    ranges = [nvtx.start_range("handed over", domain="app")]
    all_threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    all_threads.append(threading.Thread(target=leave_open))
    all_threads.append(threading.Thread(target=lambda: nvtx.end_range(ranges.pop())))
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    nvtx.mark("all are back", domain="app")


def fork():
    child = os.fork()
    if child == 0:
        # The parent's "whole job".
        nvtx.pop_range(domain="app")
        nvtx.start_range("in the child", domain="app")
        with nvtx.annotate("in the child", domain="app"):
            os._exit(0)
    os.waitpid(child, 0)


def main():
    identity = before()
    assert cuda.cudaSetDevice(rank) == 0
    nvtx.push_range("whole job", domain="app")
    comm = ctypes.c_void_p()
    nvtx.push_range("setup", domain="app")
    call("ncclCommInitRank", ctypes.byref(comm), 2, identity, rank)
    nvtx.pop_range(domain="app")
    buffer = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(8000)) == 0
    for part in parts:
        name, _, number = part.partition("=")
        if name == "steps":
            steps(comm, buffer, *([number] if number else []))
        elif name == "evaluated_steps":
            evaluated_steps(comm, buffer)
        elif name == "launches":
            launches(comm, buffer)
        elif name == "names":
            names(int(number))
        elif name == "nested":
            nested(int(number))
        elif name == "unbalanced":
            unbalanced()
        elif name == "unloaded":
            unloaded(comm, buffer)
        elif name == "threads":
            threads()
        elif name == "fork":
            fork()
        elif name == "empty":
            all_reduce(comm, buffer, 0)
        elif name == "split":
            other = ctypes.c_void_p()
            with nvtx.annotate("build groups", domain="app"):
                call("ncclCommSplit", comm, 0, rank, ctypes.byref(other), None)
            all_reduce(other, buffer)
            cuda.cudaStreamSynchronize(None)
            call("ncclCommDestroy", other)
        elif name == "kill":
            nvtx.push_range("to the end", domain="app")
            nvtx.start_range("for any thread", domain="app")
            all_reduce(comm, buffer)
            cuda.cudaStreamSynchronize(None)
            # The other rank still needs this one for its part of the all-reduce.
            with open(os.path.join(folder, f"done{rank}"), "w"):
                pass
            while not os.path.exists(os.path.join(folder, f"done{1 - rank}")):
                time.sleep(0.01)
            os.kill(os.getpid(), 9)
        else:
            raise ValueError(part)
    cuda.cudaStreamSynchronize(None)
    call("ncclCommDestroy", comm)
    nvtx.pop_range(domain="app")


main()
