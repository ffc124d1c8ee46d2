"""Compares the Parquet tables of an archive with its events, row by row: the Python package otf2 reads the archive,
pyarrow the tables.

usage: tables.py ANCHOR TABLES
"""

import collections
import json
import pathlib
import sys

import otf2
import pyarrow.dataset
from instances import instances, properties

KINDS = {
    "calls": ("api-thread", "callback-thread"),
    "ranges": ("api-thread", "callback-thread", "ranges"),
    "operations": ("communicator",),
    "transfers": ("connection",),
    "kernels": ("stream",),
}
PHASES = {
    "SendGPUWait": "send_gpu_wait_ns", "SendPeerWait": "send_peer_wait_ns", "SendWait": "send_wait_ns",
    "RecvWait": "recv_wait_ns", "RecvFlushWait": "recv_flush_wait_ns", "RecvGPUWait": "recv_gpu_wait_ns",
}
FUNCTIONS = {"send": "netSend", "receive": "netRecv"}
COLUMNS = {
    "bytes": "nccl.bytes", "count": "nccl.count", "sequence": "nccl.seq", "algorithm": "nccl.algo",
    "protocol": "nccl.proto", "channels": "nccl.channels", "datatype": "nccl.datatype", "timing": "nccl.timing",
    "algbw": "nccl.algbw", "busbw": "nccl.busbw", "event": "nccl.event", "parent": "nccl.parent",
    "channel": "nccl.channel", "stream": "nccl.stream", "correlation": "cuda.correlation", "path": "nvtx.ranges",
    "domain": "nvtx.domain", "number": "nvtx.number", "category": "nvtx.category", "color": "nvtx.color",
    "payload": "nvtx.payload_signed", "payload_float": "nvtx.payload_float",
}
# What a table has under a column's name that no attribute says: a kernel's stream is a name.
OTHERS = (("kernels", "stream"), ("ranges", "path"))


def signed(value):
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value


def host(location):
    node = location.group.system_tree_parent
    while node.class_name == "GPU":
        node = node.parent
    return node.name


def read(anchor):
    """All region instances, by the kind of their location."""
    found = collections.defaultdict(list)
    with otf2.reader.open(anchor) as trace:
        definitions = trace.definitions
        begin = definitions.clock_properties.global_offset
        kinds = {it: properties(it)["NCCL::LOCATION_KIND"] for it in definitions.locations}
        for location, region, start, stop, said in instances(trace):
            found[kinds[location]].append((region, start - begin, stop - begin, said, host(location)))
    return found


def rows(folder, table):
    path = folder / f"table={table}"
    if not path.exists():
        return []
    return pyarrow.dataset.dataset(path, partitioning="hive").to_table().to_pylist()


def main(anchor, folder):
    truth, compared = read(anchor), {}
    for table, kinds in KINDS.items():
        found = rows(folder, table)
        columns = COLUMNS | ({"bytes": "nccl.wire_bytes"} if table == "transfers" else {})
        names = [name for name in columns if found and name in found[0] and (table, name) not in OTHERS]

        def of_row(row):
            name = row.get("function") or row.get("name") or FUNCTIONS[row["direction"]]
            return (row["start_ns"], row["stop_ns"], name, row["host"], *(row[it] for it in names))

        def of_truth(row):
            region, start, stop, said, host = row
            words = region.canonical_name.split("::")
            name = words[-1] if words[0] == "nccl" else region.name
            return (start, stop, name, host, *(signed(said.get(columns[it])) for it in names))

        is_wanted = lambda row: row[0].canonical_name.startswith("nvtx") == (table == "ranges")
        expected = [of_truth(row) for kind in kinds for row in truth[kind] if is_wanted(row)]
        if table == "transfers":
            expected = [row for row in expected if row[2] in FUNCTIONS.values()]
        differ = collections.Counter(map(of_row, found))
        differ.subtract(expected)
        assert not any(differ.values()), (table, [it for it in differ.items() if it[1]][:4])
        compared[table] = len(expected)
    steps = collections.defaultdict(dict)
    for region, start, stop, said, _ in truth["slot"]:
        phase = PHASES.get(region.canonical_name.split("::")[-1])
        if phase:
            step = steps[(signed(said["nccl.event"]), signed(said["nccl.parent"]))]
            step[phase] = step.get(phase, 0) + stop - start
    found = rows(folder, "steps")
    transfers = {row["event"]: row for row in rows(folder, "transfers")}
    for row in found:
        phases = {name: row[name] for name in PHASES.values() if row[name] is not None}
        assert phases == steps.pop((row["event"], row["transfer"])), row
        transfer = transfers[row["transfer"]]
        assert all(row[it] == transfer[it] for it in ("rank", "peer", "channel", "direction")), (row, transfer)
        assert row["operation"] == transfer["parent"], (row, transfer)
    assert not steps, steps
    print(json.dumps(compared | {"steps": len(found)}))


main(sys.argv[1], pathlib.Path(sys.argv[2]))
