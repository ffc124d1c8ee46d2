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
    "transfers": ("proxy-thread",),
    "kernels": ("stream",),
}
WAITS = {
    "send step": {
        "send_gpu_wait_ns": "nccl.wait_gpu_ns", "send_peer_wait_ns": "nccl.wait_peer_ns",
        "send_wait_ns": "nccl.wait_net_ns",
    },
    "receive step": {
        "recv_wait_ns": "nccl.wait_net_ns", "recv_flush_wait_ns": "nccl.flush_ns",
        "recv_gpu_wait_ns": "nccl.wait_gpu_ns",
    },
}
FUNCTIONS = {"send": "netSend", "receive": "netRecv"}
STEPS = {"send": "send step", "receive": "receive step"}
# What names the connection of a transfer or a step.
CONNECTION = ("rank", "peer", "channel")
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


def is_in(table, region):
    """Whether a region instance on a location of the table's kinds is a row of it."""
    words = region.canonical_name.split("::")
    return {
        "calls": words[0] == "nccl" and words[1] in ("call", "enqueue", "launch"),
        "ranges": words[0] in ("nvtx", "nvtx-mark"),
        "operations": words[:2] == ["nccl", "operation"],
        "transfers": words[-1] in FUNCTIONS.values(),
        "kernels": True,
    }[table]


def signed(value):
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value


def host(location):
    node = location.group.system_tree_parent
    while node.class_name == "GPU":
        node = node.parent
    return node.name


def read(anchor):
    """All region instances, by the kind of their location, each communicator by its place."""
    found = collections.defaultdict(list)
    with otf2.reader.open(anchor) as trace:
        definitions = trace.definitions
        begin = definitions.clock_properties.global_offset
        kinds = {it: properties(it)["NCCL::LOCATION_KIND"] for it in definitions.locations}
        places = {comm: place for place, comm in enumerate(definitions.comms)}
        for location, region, start, stop, said in instances(trace):
            if "nccl.comm" in said:
                said["nccl.comm"] = places[said["nccl.comm"]]
            if "nccl.group" in said:
                # NCCL's group around a call, which has no region of its own.
                said["nccl.parent"] = said["nccl.group"]
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
        columns = COLUMNS
        if table == "transfers":
            ends = {"communicator": "nccl.comm", "rank": "nccl.rank", "peer": "nccl.peer"}
            columns = columns | ends | {"bytes": "nccl.wire_bytes", "queued_ns": "nccl.queued_ns"}
        names = [name for name in columns if found and name in found[0] and (table, name) not in OTHERS]

        def of_row(row):
            name = row.get("function") or row.get("name") or FUNCTIONS[row["direction"]]
            return (row["start_ns"], row["stop_ns"], name, row["host"], *(row[it] for it in names))

        def of_truth(row):
            region, start, stop, said, host = row
            words = region.canonical_name.split("::")
            name = words[-1] if words[0] == "nccl" else region.name
            return (start, stop, name, host, *(signed(said.get(columns[it])) for it in names))

        expected = [of_truth(row) for kind in kinds for row in truth[kind] if is_in(table, row[0])]
        differ = collections.Counter(map(of_row, found))
        differ.subtract(expected)
        assert not any(differ.values()), (table, [it for it in differ.items() if it[1]][:4])
        compared[table] = len(expected)
    steps = {}
    for region, start, stop, said, _ in truth["proxy-thread"]:
        waits = WAITS.get(region.canonical_name.split("::")[-1])
        if waits:
            told = {column: said[attribute] for column, attribute in waits.items() if attribute in said}
            key = (signed(said["nccl.event"]), signed(said["nccl.parent"]))
            connection = tuple(said.get("nccl." + name) for name in CONNECTION)
            steps[key] = (region.name, start, stop, said.get("nccl.bytes"), said.get("nccl.comm"), connection, told)
    found = rows(folder, "steps")
    transfers = {row["event"]: row for row in rows(folder, "transfers")}
    columns = [column for waits in WAITS.values() for column in waits]
    for row in found:
        told = {name: row[name] for name in columns if row[name] is not None}
        connection = tuple(row[name] for name in CONNECTION)
        name = STEPS[row["direction"]]
        step = (name, row["start_ns"], row["stop_ns"], row["bytes"], row["communicator"], connection, told)
        assert step == steps.pop((row["event"], row["transfer"])), row
        transfer = transfers[row["transfer"]]
        assert all(row[it] == transfer[it] for it in (*CONNECTION, "direction")), (row, transfer)
        assert row["operation"] == transfer["parent"], (row, transfer)
    assert not steps, steps
    print(json.dumps(compared | {"steps": len(found)}))


main(sys.argv[1], pathlib.Path(sys.argv[2]))
