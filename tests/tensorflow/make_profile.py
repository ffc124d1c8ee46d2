"""Writes a profile as TensorFlow does: FILE BEGIN_NS END_NS [HOSTNAME]."""

import pathlib
import sys

from tensorflow.tsl.profiler.protobuf import xplane_pb2

path, begin_ns, end_ns, *hostnames = sys.argv[1:]
space = xplane_pb2.XSpace(hostnames=hostnames)
environment = space.planes.add(name="Task Environment")
for number, (name, value) in enumerate((("profile_start_time", begin_ns), ("profile_stop_time", end_ns)), 1):
    environment.stat_metadata[number].id = number
    environment.stat_metadata[number].name = name
    environment.stats.add(metadata_id=number, uint64_value=int(value))
host = space.planes.add(name="/host:CPU")
host.event_metadata[1].id = 1
host.event_metadata[1].name = "step"
host.lines.add(name="python").events.add(metadata_id=1, offset_ps=1000, duration_ps=1000)
pathlib.Path(path).write_bytes(space.SerializeToString())
print("null")
