"""Compares what a program asked NCCL to do with what an archive says NCCL did.

    compare_counts.py [--any-proxy] ANCHOR LOG_PREFIX

ANCHOR is the anchor file of an OTF2 archive, LOG_PREFIX the --log of nccl-host. Both are read without any code of
the recorder: the archive by the Python package otf2, the log as JSON. Exit status 0 when every number that NCCL
reports in full is the same, 1 when one is not.

With --any-proxy the number of proxy operations is not compared: it is known only with nccl-host --exact.
"""

import glob
import json
import sys
from collections import Counter

# The collectives whose events every supported release reports below the API, and OTF2's operation for each.
COLLECTIVES = {
    "ncclAllReduce": "ALLREDUCE",
    "ncclAllGather": "ALLGATHER",
    "ncclReduceScatter": "REDUCE_SCATTER_BLOCK",
    "ncclReduce": "REDUCE",
    "ncclBroadcast": "BCAST",
}
# NCCL makes these of sends and receives. Outside a user's group the archive tells the first from its calls on every
# rank, the others on the root (docs/MAPPING.md, section 5).
ALL_TO_ALL = "ncclAlltoAll"
ROOTED = ("ncclGather", "ncclScatter")
# (sent, received) of one rank in OTF2's records, by what the log says (docs/MAPPING.md, section 5): n ranks.
ALL_RANKS = ("ncclAllReduce", "ncclAllGather", "ncclReduceScatter", ALL_TO_ALL)


def record_bytes(op, size, n, is_root):
    if op in ALL_RANKS:
        return size * n, size * n
    if op == "ncclBroadcast":
        return (size * n if is_root else 0), size
    return size, (size * n if is_root else 0)


# API calls are events of their own from NCCL 2.28 on.
API_EVENTS_FROM = 22800
# From NCCL 2.29 on broadcasts have no events below the API, unless the program ran with NCCL_ALLGATHERV_ENABLE=0.
BROADCASTS_HIDDEN_FROM = 22900
# In NCCL 2.27 the messages of a rank that go in one direction in one group are one proxy operation.
MESSAGES_MERGED = range(22700, 22800)
# Before NCCL 2.26 launches of a graph show only in the proxy: kernels have no events.
KERNELS_FROM = 22600
# Before NCCL 2.27 a plugin is not told how many ranks a communicator has.
RANKS_FROM = 22700
BROADCASTS = "reports broadcasts as calls only (README, Limits)"


class Asked:
    """The host program's log: every call it made, and what each must cause."""

    def __init__(self, prefix, any_proxy=False):
        self.any_proxy = any_proxy
        self.version_code = 0
        self.broadcasts_hidden = False
        self.version = "?"
        self.calls = Counter()
        # Calls of functions that make no operation, and the program's own ranges, by name.
        self.others = Counter()
        self.operations = Counter()
        # Those of them that are launches of a graph.
        self.launched = Counter()
        # What every record of an operation must say: (sent, received); where the size of a communicator is unknown.
        self.bytes = {}
        self.bytes_of_one = {}
        # Captured calls, by how often their graph was launched.
        self.captured = Counter()
        self.proxy_ops = Counter()
        # Calls that are recognised by the sends and receives they are made of, and their executions.
        self.composed = Counter()
        self.compositions = Counter()
        # Proxy operations of messages that are not the first in their group and direction.
        self.merged = 0
        self._first = set()
        self.checked = 0
        files = sorted(glob.glob(glob.escape(prefix) + ".*.jsonl"))
        if not files:
            raise SystemExit(f"compare_counts: there is no log {prefix}.*.jsonl")
        for file in files:
            self._read(file)

    def _read(self, file):
        ended = False
        with open(file, encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                if line["kind"] == "start":
                    self.version, self.version_code = line["nccl_version"], line["nccl_version_code"]
                    is_new = self.version_code >= BROADCASTS_HIDDEN_FROM
                    self.broadcasts_hidden = is_new and line.get("allgatherv") != "0"
                elif line["kind"] == "call":
                    self._call(file, line)
                elif line["kind"] == "end":
                    ended = True
                    self.checked += line["results_checked"]
                    self.others.update(line.get("others", {}))
                    if not line["ok"] or line["results_wrong"]:
                        raise SystemExit(f"compare_counts: {file}: the program found wrong results")
        if not ended:
            raise SystemExit(f"compare_counts: {file}: the program did not come to its end")

    def _call(self, file, line):
        op = line["op"]
        if line["proxy_ops"] is None and not self.any_proxy:
            raise SystemExit(f"compare_counts: {file}: proxy operations are not known; run nccl-host with --exact")
        self.calls[op] += 1
        # On a communicator of one rank NCCL copies, and reports nothing.
        if line["comm_ranks"] > 1:
            self.operations[op] += line["launches"]
            if line.get("group") is None and line.get("root") in (None, line.get("comm_rank")):
                self.composed[op] += 1
                self.compositions[op] += line["launches"]
            if line.get("captured"):
                self.launched[op] += line["launches"]
                self.captured[line["launches"]] += 1
            self._record_bytes(op, line)
        if self.any_proxy:
            return
        self.proxy_ops[op] += line["proxy_ops"]
        if op in ("ncclSend", "ncclRecv") and line["proxy_ops"]:
            key = (line["rank"], line["group"], op)
            if key in self._first:
                self.merged += line["proxy_ops"]
            self._first.add(key)


    def _record_bytes(self, op, line):
        is_root = line.get("root") is not None and line["root"] == line.get("comm_rank")
        for counter, n in [(self.bytes, line["comm_ranks"]), (self.bytes_of_one, 1)]:
            said = record_bytes(op, line.get("bytes", 0), n, is_root)
            counter.setdefault(op, Counter())[said] += line["launches"]


def is_of_nccl(name, around):
    """Whether NCCL itself called a function inside a region: the sends of an ncclAlltoAll."""
    # Functions that make and end communicators call no other one.
    return around.region.name.startswith("nccl") and around.region.name != name and not name.startswith("ncclComm")


class Found:
    """The archive's side of the same numbers."""

    def __init__(self, anchor):
        import _otf2
        import otf2

        self.calls = Counter()
        self.records = Counter()
        self.bytes = {}
        self.proxy_ops = 0
        self.events = 0
        # Operations by which replay of a captured call they are; calls by how many replays they say they had.
        self.replay = Counter()
        self.replays = Counter()
        with otf2.reader.open(anchor) as trace:
            self.locations = len(trace.definitions.locations)
            properties = _otf2.Reader_GetPropertyNames(trace.handle)
            self.sizes_unknown = "NCCL::COUNT::SIZES_UNKNOWN" in properties
            # NCCL's calls were recorded through NVTX: all of them, on all releases.
            self.has_all_calls = "NCCL::COUNT::RANGES_NCCL" in properties
            open_regions = {}
            for location, event in trace.events:
                self.events += 1
                if isinstance(event, otf2.events.Leave):
                    open_regions[location].pop()
                for attribute, value in (event.attributes or {}).items():
                    if attribute.name == "nccl.replays":
                        self.replays[value] += 1
                    # The operation itself, not the enqueueing that is shown inside it. It is a record if its kernel has
                    # several.
                    elif attribute.name == "nccl.replay":
                        is_record = isinstance(event, otf2.events.ParameterUnsignedInt)
                        is_entered = isinstance(event, otf2.events.Enter)
                        is_operation = is_entered and not event.region.name.endswith(" enqueue")
                        self.replay[value] += is_record or is_operation
                if isinstance(event, otf2.events.Enter):
                    around, name = open_regions.setdefault(location, []), event.region.name
                    if location.type == otf2.LocationType.CPU_THREAD:
                        self.calls[name] += not any(is_of_nccl(name, one) for one in around)
                    around.append(event)
                elif isinstance(event, otf2.events.ParameterUnsignedInt):
                    self.proxy_ops += event.parameter.name in ("netSend", "netRecv")
                elif isinstance(event, otf2.events.MpiCollectiveEnd):
                    record = str(event.collective_op).rpartition(".")[2]
                    self.records[record] += 1
                    said = event.size_sent, event.size_received
                    self.bytes.setdefault(record, Counter())[said] += 1


def bytes_row(asked, found, op, record, reported):
    """Records that say the bytes sent and received that they must. Some may be missing, no other may be there."""
    unknown = asked.version_code < RANKS_FROM and found.sizes_unknown
    wanted = (asked.bytes_of_one if unknown else asked.bytes).get(op, Counter())
    have = wanted & found.bytes.get(record, Counter())
    return f"{record} with the bytes", asked.operations[op], have.total(), reported


def replay_rows(asked, found):
    """A captured call and its replays are known by the event of the call."""
    if not asked.captured or asked.version_code < API_EVENTS_FROM:
        return
    for launches, calls in sorted(asked.captured.items()):
        yield f"captured calls with {launches} replays", calls, found.replays[launches], calls
    for number in range(1, max(asked.captured) + 2):
        calls = sum(calls for launches, calls in asked.captured.items() if launches >= number)
        yield f"replay {number} of a captured call", calls, found.replay[number], calls


def rows(asked, found):
    """(what, number asked for, number found, the number without what this release does not report)"""
    hidden = asked.broadcasts_hidden
    for op, record in COLLECTIVES.items():
        if op not in asked.calls:
            continue
        if asked.version_code >= API_EVENTS_FROM or found.has_all_calls:
            yield f"{op} calls", asked.calls[op], found.calls[op], asked.calls[op]
        reported = 0 if hidden and op == "ncclBroadcast" else asked.operations[op]
        if asked.version_code < KERNELS_FROM and not found.proxy_ops:
            reported -= asked.launched[op]
        yield f"{record} records", asked.operations[op], found.records[record], reported
        yield bytes_row(asked, found, op, record, reported)
    for op in (ALL_TO_ALL, *ROOTED):
        if op in asked.calls:
            calls = asked.calls[op] if found.has_all_calls else asked.composed[op]
            of_roots = " of roots" if op in ROOTED and not found.has_all_calls else ""
            yield f"{op} calls{of_roots}", calls, found.calls[op], calls
            if op == ALL_TO_ALL:
                records = asked.compositions[op]
                yield "ALLTOALL records", records, found.records["ALLTOALL"], records
                yield bytes_row(asked, found, op, "ALLTOALL", records)
    if found.has_all_calls:
        calls = asked.calls + asked.others
        for name in sorted(calls.keys() - {*COLLECTIVES, ALL_TO_ALL, *ROOTED}):
            is_call = name.startswith("nccl")
            yield f"{name} {'calls' if is_call else 'ranges'}", calls[name], found.calls[name], calls[name]
    yield from replay_rows(asked, found)
    if asked.any_proxy:
        return
    total = sum(asked.proxy_ops.values())
    reported = total - asked.proxy_ops["ncclBroadcast"] if hidden else total
    if asked.version_code in MESSAGES_MERGED:
        reported -= asked.merged
    yield "proxy operations", total, found.proxy_ops, reported


def main(anchor, prefix, any_proxy=False):
    asked = Asked(prefix, any_proxy)
    found = Found(anchor)
    print(f"   NCCL {asked.version}: {sum(asked.calls.values())} calls, {asked.checked} results checked, all right")
    print(f"   archive: {found.events} events on {found.locations} locations, read by the Python package otf2")
    print(f"   {'':36}{'asked':>8}{'archive':>9}")
    wrong = 0
    for what, want, have, reported in rows(asked, found):
        if have == want:
            verdict = "ok"
        elif have == reported:
            if asked.version_code < KERNELS_FROM:
                why = "shows the launches of a graph only in the network"
            else:
                why = "merges the messages of a group" if asked.version_code in MESSAGES_MERGED else BROADCASTS
            verdict = f"ok: this release {why}"
        else:
            verdict = "WRONG"
            wrong += 1
        print(f"   {what:36}{want:>8}{have:>9}  {verdict}")
    if wrong:
        raise SystemExit(f"compare_counts: {wrong} numbers differ between {prefix}.*.jsonl and {anchor}")


if __name__ == "__main__":
    ANY_PROXY = "--any-proxy"
    words = [word for word in sys.argv[1:] if word != ANY_PROXY]
    if len(words) != 2:
        print(__doc__, file=sys.stderr)
        raise SystemExit(2)
    main(*words, ANY_PROXY in sys.argv)
