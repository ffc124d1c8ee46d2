"""What `nccl-otf2 stats` derives, computed anew: the Python package otf2 reads the events; fractions are exact.

usage: derived.py ANCHOR REPORT.json
"""

import collections
import json
import statistics
import sys
from fractions import Fraction

import otf2
from instances import instances, properties

SHAPES = {  # bytes of the buffer and bus bandwidth, as nccl-tests define them
    "AllReduce": (lambda b, n: b, lambda n: 2 * (n - 1) / n),
    "AllGather": (lambda b, n: b * n, lambda n: (n - 1) / n),
    "ReduceScatter": (lambda b, n: b * n, lambda n: (n - 1) / n),
    "AlltoAll": (lambda b, n: b * n, lambda n: (n - 1) / n),
}
UNMEASURED = ("enqueue", "shared-kernel")


class Job:
    def __init__(self, anchor):
        self.operations, self.transfers, self.steps = [], {}, []
        with otf2.reader.open(anchor) as trace:
            definitions = trace.definitions
            begin = definitions.clock_properties.global_offset
            self.member = {}
            for number, communicator in enumerate(definitions.comms):
                for rank, location in enumerate(communicator.group.members):
                    self.member.setdefault(location, (number, rank, len(communicator.group.members)))
            self.own = {}
            for location in definitions.locations:
                if location in self.member:
                    self.own[location] = self.member[location]
            self.kinds = {it: properties(it).get("NCCL::LOCATION_KIND") for it in definitions.locations}
            for location, region, start, stop, said in instances(trace):
                self.instance(location, region, start - begin, stop - begin, said)

    def instance(self, location, region, start, stop, said):
        words = region.canonical_name.split("::")
        if words[:2] == ["nccl", "operation"] and self.kinds[location] == "communicator":
            self.operations.append((self.own[location], words[-1], start, stop, said))
        elif words[-1] == "netSend" and "nccl.comm" in said:
            member = self.own[said["nccl.comm"].group.members[said["nccl.rank"]]]
            self.transfers[said["nccl.event"]] = (member, said["nccl.peer"], said["nccl.channel"])
        elif words[-1] == "send step" and said.get("nccl.wait_net_ns"):
            self.steps.append((said["nccl.parent"], stop - said["nccl.wait_net_ns"], stop, said.get("nccl.bytes", 0)))


def close(path, found, truth):
    if truth is None or found is None:
        assert found is None and truth is None, (path, found, truth)
    else:
        assert abs(found - truth) <= 1e-9 * max(abs(truth), 1), (path, found, truth)


def quantiles(path, found, values):
    if not values:
        return close(path, found, None)
    close(f"{path}.count", found["count"], len(values))
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    truth = {"min": min(values), "median": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(values)}
    for name, value in truth.items():
        close(f"{path}.{name}", found[name], value)
    close(f"{path}.total", found["total"], float(sum(values)))


def classes(job, report):
    groups = collections.defaultdict(list)
    for (communicator, _, ranks), function, start, stop, said in job.operations:
        size = said.get("nccl.bytes", 0)
        groups[communicator, function, size.bit_length()].append((size, stop - start, ranks, said))
    assert len(groups) == len(report["operations"]), (len(groups), len(report["operations"]))
    for (communicator, function, _), rows in groups.items():
        sizes = [size for size, *_ in rows]
        key = (communicator, function, min(sizes), max(sizes))
        names = ("communicator", "function", "bytes_min", "bytes_max")
        (found,) = [it for it in report["operations"] if tuple(it[name] for name in names) == key]
        assert found["count"] == len(rows), key
        ended = [row for row in rows if not row[3].get("nccl.unfinished")]
        assert found["unfinished"] == len(rows) - len(ended), key
        assert found["timing"] == collections.Counter(said["nccl.timing"] for *_, said in rows), key
        quantiles(key, found["duration_ns"], [ns for _, ns, _, _ in ended])
        for name in ("algbw", "busbw"):
            quantiles((*key, name), found[name], [said["nccl." + name] for *_, said in ended if "nccl." + name in said])


def waiting(job, report):
    """Skew of the collectives that everybody takes part in, and what the waiting of each rank is."""
    places = collections.Counter()
    collectives = collections.defaultdict(dict)
    for member, function, start, stop, said in sorted(job.operations, key=lambda it: it[2]):
        shape = function.removeprefix("nccl")
        if shape in SHAPES:
            place = said.get("nccl.seq")
            key = (member, function, place)
            collectives[member[0], function, place, places[key]][member[1]] = (start, stop, said, member)
            places[key] += 1
    skews = collections.defaultdict(list)
    transfers = collections.defaultdict(list)
    for (communicator, function, *_), of_rank in collectives.items():
        rows = list(of_rank.values())
        ranks = rows[0][3][2]
        measured = all(row[2]["nccl.timing"] not in UNMEASURED and not row[2].get("nccl.unfinished") for row in rows)
        last = max(row[0] for row in rows)
        if len(rows) < max(ranks, 2) or not measured or min(row[1] for row in rows) < last:
            continue
        size = rows[0][2]["nccl.bytes"]
        key = (communicator, function, size.bit_length())
        skews[key].append(last - min(row[0] for row in rows))
        buffer, factor = SHAPES[function.removeprefix("nccl")]
        for _, stop, said, _ in rows:
            if "nccl.algbw" in said and stop > last:
                transfers[key].append(buffer(said["nccl.bytes"], ranks) * 1e9 / (stop - last) * factor(ranks))
    compared = 0
    for found in report["operations"]:
        key = (found["communicator"], found["function"], found["bytes_max"].bit_length())
        if found["function"].removeprefix("nccl") in SHAPES and found["comparable"] == len(skews[key]):
            quantiles((*key, "skew"), found["skew_ns"], skews[key])
            quantiles((*key, "transfer"), found["transfer_busbw"], transfers[key])
            compared += len(skews[key])
    return compared


def regression(points):
    """Latency, slope and R² with weights 1/t²."""
    if len({x for x, _ in points}) == 1:
        return None
    rows = [(Fraction(1, t * t), x, t) for x, t in points]
    total = sum(w for w, _, _ in rows)
    mean_x, mean_t = sum(w * x for w, x, _ in rows) / total, sum(w * t for w, _, t in rows) / total
    slope = sum(w * (x - mean_x) * (t - mean_t) for w, x, t in rows) / sum(w * (x - mean_x) ** 2 for w, x, _ in rows)
    latency = mean_t - slope * mean_x
    rest = sum(w * (t - latency - slope * x) ** 2 for w, x, t in rows)
    spread = sum(w * (t - mean_t) ** 2 for w, _, t in rows)
    return float(latency), float(slope), float(1 - rest / spread)


def links(job, report):
    pairs = collections.defaultdict(list)
    for parent, start, stop, size in job.steps:
        if parent in job.transfers and size and stop > start:
            (communicator, rank, _), peer, _ = job.transfers[parent]
            pairs[communicator, rank, peer].append((start, stop, size))
    assert len(pairs) == len(report["pairs"]), (len(pairs), len(report["pairs"]))
    for found in report["pairs"]:
        members = report["ranks"][found["from"]]["members"]
        (rank,) = [it["rank"] for it in members if it["communicator"] == found["communicator"]]
        key = (found["communicator"], rank, found["peer"])
        steps = sorted(pairs[key])
        busy, covered = 0, 0
        for start, stop, _ in steps:
            busy += max(0, stop - max(start, covered))
            covered = max(covered, stop)
        assert (found["steps"], found["bytes"], found["busy_ns"]) == (len(steps), sum(it[2] for it in steps), busy), key
        close((*key, "rate"), found["rate"], sum(it[2] for it in steps) / busy * 1e9)
        least = {}
        for start, stop, size in steps:
            least[size] = min(least.get(size, stop - start), stop - start)
        for name, points in (("all", [(size, stop - start) for start, stop, size in steps]), ("least", least.items())):
            fit, truth = found[name], regression(list(points))
            if truth is None or truth[2] < 0.5:
                assert fit["rate"] is None and fit["latency_ns"] is None, key
                continue
            latency, slope, r_squared = truth
            # Differences of large numbers: relative to the time of a step, not to the latency alone.
            scale = statistics.fmean(stop - start for start, stop, _ in steps)
            assert abs(fit["latency_ns"] - latency) <= 1e-9 * scale, (key, fit, truth)
            if slope > 0:
                close((*key, name, "rate"), fit["rate"] / 1e9 * slope, 1.0)
            if name == "all":
                assert abs(fit["r_squared"] - r_squared) <= 1e-9, (key, fit, truth)


def messages(job, report):
    sums = collections.defaultdict(lambda: [0, 0])
    for (communicator, rank, _), function, _, _, said in job.operations:
        if function == "ncclSend":
            sums[communicator, rank, said["nccl.peer"]][0] += 1
            sums[communicator, rank, said["nccl.peer"]][1] += said["nccl.bytes"]
    members = [communicator["members"] for communicator in report["communicators"]]
    truth = {(c, members[c][rank], members[c][peer], *sum) for (c, rank, peer), sum in sums.items()}
    names = ("communicator", "from", "to", "count", "bytes")
    assert truth == {tuple(it[name] for name in names) for it in report["messages"]}, truth


def main(anchor, path):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    job = Job(anchor)
    classes(job, report)
    compared = waiting(job, report)
    links(job, report)
    messages(job, report)
    print(json.dumps({"operations": len(job.operations), "steps": len(job.steps), "compared": compared}))


main(*sys.argv[1:])
