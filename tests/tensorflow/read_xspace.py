"""Prints the NCCL planes of XSpace files (or of the one below each folder) as JSON, read by TensorFlow's own messages.

Times are in ns since 1970: with the begin of the profile, where the file says it.
"""

import json
import pathlib
import sys

from tensorflow.tsl.profiler.protobuf import xplane_pb2


def value(plane, stat):
    kind = stat.WhichOneof("value")
    return plane.stat_metadata[stat.ref_value].name if kind == "ref_value" else getattr(stat, kind)


def stats(plane, of):
    return {plane.stat_metadata[stat.metadata_id].name: value(plane, stat) for stat in of.stats}


def read(path):
    path = pathlib.Path(path)
    if path.is_dir():
        (path,) = path.glob("**/*.xplane.pb")
    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    environment = {}
    for plane in space.planes:
        if plane.name == "Task Environment":
            environment = {name: it for name, it in stats(plane, plane).items() if isinstance(it, int)}
    origin = environment.get("profile_start_time", 0)
    found = {"planes": {}, "others": [], "environment": environment}
    for plane in space.planes:
        if "NCCL" not in plane.name:
            found["others"].append([plane.name, sum(len(line.events) for line in plane.lines)])
            continue
        assert plane.name not in found["planes"], plane.name
        found["planes"][plane.name] = {
            line.name: [
                {
                    "name": plane.event_metadata[event.metadata_id].name,
                    "start_ns": origin + line.timestamp_ns + event.offset_ps // 1000,
                    "duration_ns": event.duration_ps // 1000,
                    "stats": stats(plane, event),
                }
                for event in line.events
            ]
            for line in plane.lines
        }
    return found


print(json.dumps([read(path) for path in sys.argv[1:]]))
