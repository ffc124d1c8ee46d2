"""Prints what the Python package otf2 reads in an archive, as JSON: contents.py ANCHOR"""

import json
import sys
from collections import Counter, defaultdict

import otf2

contents = {"comms": [], "calls": Counter(), "operations": Counter(), "unfinished": Counter()}
collectives = defaultdict(Counter)
with otf2.reader.open(sys.argv[1]) as trace:
    definitions = trace.definitions
    contents["locations"] = Counter(str(location.type).rpartition(".")[2] for location in definitions.locations)
    for comm in definitions.comms:
        members = [getattr(member, "name", str(member)) for member in comm.group.members]
        contents["comms"].append([comm.name, members])
    for location, event in trace.events:
        if isinstance(event, otf2.events.Enter):
            on_host = location.type == otf2.LocationType.CPU_THREAD
            contents["calls" if on_host else "operations"][event.region.name] += 1
        elif isinstance(event, otf2.events.ParameterUnsignedInt):
            on_host = location.type == otf2.LocationType.CPU_THREAD
            contents["calls" if on_host else "operations"][event.parameter.name] += 1
        elif isinstance(event, otf2.events.MpiCollectiveEnd):
            operation = str(event.collective_op).rpartition(".")[2]
            collectives[f"{operation} {event.communicator.name}"][location.name] += 1
        for attribute, value in (event.attributes or {}).items():
            if attribute.name == "nccl.unfinished" and value == 1:
                shown = event.region if hasattr(event, "region") else event.parameter
                contents["unfinished"][shown.name] += 1
contents["collectives"] = collectives
json.dump(contents, sys.stdout)
