"""A TensorFlow program whose process also drives NCCL: profiles with and without collectives in them.

Arguments: TensorFlow's profiler, the plugin, libnccl.so.2, a folder for the profiles, and who loads a library first
("tensorflow", "nccl"), or that TensorFlow loads none ("apart").
Prints what was called while each profile was taken, as JSON.
"""

import ctypes
import json
import os
import sys
import time

profiler, plugin, nccl_library, folder, first = sys.argv[1:]
RANKS = 2
FLOAT32, SUM = 7, 0
ELEMENTS = 1024


class Nccl:
    """Two ranks in this process, on two devices of the stand-in."""

    def __init__(self):
        self.nccl = ctypes.CDLL(nccl_library)
        self.cuda = ctypes.CDLL(None)
        self.comms = (ctypes.c_void_p * RANKS)()
        must(self.nccl.ncclCommInitAll(self.comms, RANKS, (ctypes.c_int * RANKS)(0, 1)))
        self.streams, self.buffers = [], []
        for device in range(RANKS):
            must(self.cuda.cudaSetDevice(device))
            stream, buffer = ctypes.c_void_p(), ctypes.c_void_p()
            must(self.cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1))
            must(self.cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(4 * ELEMENTS)))
            self.streams.append(stream)
            self.buffers.append(buffer)

    def all_reduce(self, times):
        for _ in range(times):
            must(self.nccl.ncclGroupStart())
            for comm, stream, buffer in zip(self.comms, self.streams, self.buffers):
                count, comm = ctypes.c_size_t(ELEMENTS), ctypes.c_void_p(comm)
                must(self.nccl.ncclAllReduce(buffer, buffer, count, FLOAT32, SUM, comm, stream))
            must(self.nccl.ncclGroupEnd())
        for stream in self.streams:
            must(self.cuda.cudaStreamSynchronize(stream))
        # The proxy threads report their last steps after the kernels.
        time.sleep(0.2)

    def destroy(self):
        for comm in self.comms:
            must(self.nccl.ncclCommDestroy(ctypes.c_void_p(comm)))


def must(result):
    assert result == 0, result


def instances(library):
    """A library as the loader sees it: device and inode of each mapping of a file of its name."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        lines = [line.split() for line in maps if os.path.basename(library) in line]
    return sorted({(line[3], line[4]) for line in lines if line[1].startswith("r-x")})


def bases(library):
    """Where it is mapped from its beginning: one address for each instance."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        lines = [line.split() for line in maps if os.path.basename(library) in line]
    return sorted({line[0] for line in lines if line[2] == "00000000"})


def main():
    nccl = None
    if first == "nccl":
        nccl = Nccl()
        nccl.all_reduce(1)
    if first != "apart":
        # TensorFlow loads what this names when it is imported.
        os.environ["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"] = profiler
    import tensorflow as tf

    profiles = []

    def profile(name, work):
        path = os.path.join(folder, name)
        begin = time.time_ns()
        tf.profiler.experimental.start(path)
        # TensorFlow's own events are in the same profile.
        tf.reduce_sum(tf.ones([64, 64])).numpy()
        called = time.time_ns()
        calls = work()
        done = time.time_ns()
        tf.profiler.experimental.stop()
        times = {"begin": begin, "called": called, "done": done, "end": time.time_ns()}
        profiles.append({"folder": path, "calls": calls, **times})

    def all_reduce(times):
        nccl.all_reduce(times)
        return times

    def destroy(times):
        nccl.all_reduce(times)
        nccl.destroy()
        return times

    def whole(times):
        """The plugin is loaded, records and ends while a profile is taken."""
        job = Nccl()
        job.all_reduce(times)
        job.destroy()
        return times

    if nccl is None:
        profile("before", lambda: 0)
        if first == "tensorflow":
            profile("whole", lambda: whole(7))
        nccl = Nccl()
    profile("three", lambda: all_reduce(3))
    nccl.all_reduce(2)
    profile("none", lambda: 0)
    profile("five", lambda: all_reduce(5))
    profile("destroyed", lambda: destroy(4))
    profile("after", lambda: 0)
    nccl = Nccl()
    profile("again", lambda: all_reduce(6))
    nccl.destroy()
    libraries = [{"instances": instances(one), "bases": bases(one)} for one in (profiler, plugin)]
    print(json.dumps({"profiles": profiles, "libraries": libraries}))


main()
