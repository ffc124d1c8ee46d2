"""What the Trace Viewer of xprof shows of an XSpace file, by device and line, as JSON: events, their whole time in ns,
and the sum of their argument nccl.bytes.

The viewer of today streams (`trace_viewer@`) and asks for the arguments of an event when it is clicked; the one before
has all of them at once. Both must show the same events.
"""

import collections
import json
import sys

from xprof.convert import raw_to_tool_data


def shown(tool):
    # All events, not only those that are wide enough to be seen.
    options = {"trace_viewer_options": {"resolution": "0"}, "use_saved_result": False}
    data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], tool, options)
    events = json.loads(data)["traceEvents"]
    names = {}
    for event in events:
        if event.get("ph") == "M" and event["name"] == "process_name":
            # The file's name stands before the device's where the viewer can show several.
            names[event["pid"]] = "/" + event["args"]["name"].split("/", 1)[1]
        elif event.get("ph") == "M" and event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    lines = collections.defaultdict(list)
    for event in events:
        # Without a duration, as a mark is, the viewer before has an instant.
        if event.get("ph") in ("X", "i"):
            lines[names[event["pid"]], names[event["pid"], event["tid"]]].append(event)
    return lines


streamed, whole = shown("trace_viewer@"), shown("trace_viewer")
found = collections.defaultdict(dict)
for (device, line), events in streamed.items():

    def times(events):
        return sorted((event["name"], round(event["ts"] * 1000), round(event.get("dur", 0) * 1000)) for event in events)

    assert times(events) == times(whole[device, line]), (device, line)
    found[device][line] = {
        "events": len(events),
        "time_ns": sum(duration for _, _, duration in times(events)),
        "bytes": sum(int(event.get("args", {}).get("nccl.bytes", 0)) for event in whole[device, line]),
    }
assert streamed.keys() == whole.keys()
print(json.dumps(found))
