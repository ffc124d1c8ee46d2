"""What `nccl-otf2 export --format kineto` makes, read by HTA (HolisticTraceAnalysis) and held against the archive, which
the Python package otf2 reads.

usage: kineto.py alone ANCHOR REPORT.json FOLDER     a file for each rank: HTA's sums are those of `stats --json`
       kineto.py made ANCHOR FOLDER [CLOCKS]         makes traces as torch.profiler writes them of the same job
       kineto.py into ANCHOR MADE FOLDER [CLOCKS]    what was put into them
       kineto.py blurred FILE                        has a kernel run as long in one operation as in the next like it
       kineto.py steps FOLDER                        the steps in each rank's file, and those that HTA finds
       kineto.py stepped FOLDER                      has torch.profiler have named steps: one, 1000, around each trace

CLOCKS is for hosts that are played: by how many ns each one's wall clock is ahead of this machine's, and how many ppb
its clocks gain, as JSON by name.
"""

import collections
import gzip
import json
import os
import pathlib
import re
import sys
import time

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

import otf2
from instances import instances, properties


def add(sums, name, took, said):
    """How often something came, how long it took in ns, and its bytes."""
    count, ns, size = sums.get(name, (0, 0, 0))
    sums[name] = (count + 1, ns + took, size + said.get("nccl.bytes", 0))


# The classes of regions that are beside calls and operations.
OTHERS = ("transfer", "channel", "proxy")

# A communicator's name, the rank in it, and the ranks of the job that it has.
Member = collections.namedtuple("Member", "name rank ranks")


class Job:
    """The operations of each rank, and the first process that has it."""

    def __init__(self, anchor, clocks="{}"):
        self.clocks = json.loads(clocks)
        # CLOCK_REALTIME less CLOCK_MONOTONIC, which played hosts shift; read while nothing came between.
        reads = ((time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(1000))
        before, now, after = min(reads, key=lambda read: read[2] - read[0])
        self.machine = now - (before + after) // 2
        self.operations = collections.defaultdict(list)
        with otf2.reader.open(anchor) as trace:
            clock = trace.definitions.clock_properties
            self.begin, self.end = clock.global_offset, clock.global_offset + clock.trace_length
            comms = [it for it in trace.definitions.comms if it.group.members]
            largest = max(comms, key=lambda it: len(it.group.members))
            self.size = len(largest.group.members)
            # A GPU is the rank that it is in the largest communicator.
            gpus = {location.group: rank for rank, location in enumerate(largest.group.members)}
            members = {
                location: Member(comm.name, rank, [gpus[it.group] for it in comm.group.members])
                for comm in comms
                for rank, location in enumerate(comm.group.members)
            }
            locations = trace.definitions.locations
            owner = {it: members.get(it) for it in locations}
            creator = {rank: group.creating_location_group or group for group, rank in gpus.items()}
            self.pids = {rank: properties(process).get("NCCL::PROCESS_ID") for rank, process in creator.items()}
            self.hosts = {rank: process.system_tree_parent.name for rank, process in creator.items()}
            self.processes = {rank: properties(process) for rank, process in creator.items()}
            first = {}
            for rank, process in sorted(creator.items()):
                first.setdefault(process, rank)

            def whose(location, said):
                """The rank of a record, or of its location; unknown ranks' belong to the first one of the process."""
                if "nccl.comm" in said:
                    return gpus[said["nccl.comm"].group.members[said["nccl.rank"]].group]
                process = location.group.creating_location_group or location.group
                return gpus[location.group] if location.group in gpus else first[process]

            self.launches, self.ranges = collections.Counter(), collections.Counter()
            # Of each rank, what is beside calls and operations.
            self.others = collections.defaultdict(dict)
            for location, region, start, stop, said in instances(trace):
                words = region.canonical_name.split("::")
                if words[:2] == ["nccl", "operation"]:
                    member = owner[location]
                    self.operations[member.ranks[member.rank]].append((start, stop, words[-1], said, member))
                elif words[0] in ("nvtx", "nvtx-mark"):
                    self.ranges[region.name, stop - start, said.get("nvtx.domain"), said.get("nvtx.number")] += 1
                elif words[:2] == ["nccl", "launch"]:
                    self.launches[said["nccl.parent"]] += 1
                elif words[0] == "nccl" and words[1] in OTHERS:
                    add(self.others[whose(location, said)], (words[1], region.name), stop - start, said)
        for operations in self.operations.values():
            operations.sort(key=lambda it: it[:2])

    def host_ns(self, rank, ns):
        """What CLOCK_REALTIME of a rank's host showed at a time of the archive."""
        if not self.clocks:
            return ns
        ahead, gain = self.clocks[self.processes[rank]["NCCL::CLOCK::REFERENCE"]]
        monotonic = ns - self.machine
        for _ in range(5):
            monotonic = ns - self.machine - ahead - monotonic * gain // 10**9
        ahead, gain = self.clocks[self.hosts[rank]]
        return monotonic + self.machine + ahead + monotonic * gain // 10**9

    def error_ns(self, rank):
        """How far that may be off, with what reading clocks one after the other costs."""
        return self.processes[rank]["NCCL::CLOCK::UNCERTAINTY_NS"] + 20_000 if self.clocks else 0

    def kernels(self, rank):
        """Operations of a communicator that ran at the same time are one kernel."""
        found, last = [], {}
        for start, stop, name, said, member in self.operations[rank]:
            kernel = last.get(member.name)
            if kernel and start < kernel["stop"]:
                kernel["stop"] = max(stop, kernel["stop"])
                kernel["all"].append((name, said))
            else:
                last[member.name] = {"start": start, "stop": stop, "member": member, "all": [(name, said)]}
                found.append(last[member.name])
        return sorted(found, key=lambda it: (it["start"], it["stop"], it["member"].name))


def load(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as file:
        return json.load(file)


def nccl_kernels(trace):
    return [it for it in trace["traceEvents"] if it.get("cat") == "kernel" and it["name"].startswith("nccl")]


def communication(folder, has_launches=True):
    """HTA's time in communication, all ranks together and by rank, in ns."""
    from hta.trace_analysis import TraceAnalysis

    # HTA leaves out the last step, which torch.profiler often cuts.
    analysis = TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True)
    types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000, duration_ratio=1.0)
    found = types[types["kernel_type"] == "COMMUNICATION"]["sum"].sum()
    of_ranks = kernels[kernels["kernel_type"] == "COMMUNICATION"].groupby("rank")["sum (us)"].sum()
    launched = {}
    if has_launches:
        launches = analysis.get_cuda_kernel_launch_stats(ranks=list(of_ranks.index), visualize=False)
        launched = {rank: len(table[table["gpu_duration"] > 0]) for rank, table in launches.items()}
    return 1e3 * float(found), {int(rank): 1e3 * us for rank, us in of_ranks.items()}, launched


STEP = re.compile(r"ProfilerStep#(\d+)")
# The archive's name of a range that the program calls ProfilerStep#65.
STEPS_OF_TORCH = "ProfilerStep##"


def steps_in(trace):
    """The numbers of the steps in a file."""
    found = [STEP.fullmatch(it["name"]) for it in trace["traceEvents"] if "ProfilerStep" in it["name"]]
    return [int(it[1]) for it in found]


def steps_by_hta(folder):
    """The numbers of the steps that HTA finds on each rank."""
    from hta.trace_analysis import TraceAnalysis

    trace = TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True).t
    return {rank: [int(it) for it in trace.get_iterations(rank)] for rank in trace.get_ranks()}


def steps(folder):
    in_files = [steps_in(load(path)) for path in sorted(pathlib.Path(folder).iterdir())]
    print(json.dumps({"files": in_files, "HTA": steps_by_hta(folder)}))


def stepped(folder):
    for path in pathlib.Path(folder).iterdir():
        trace = load(path)
        timed = [it for it in trace["traceEvents"] if "dur" in it]
        begin = min(it["ts"] for it in timed)
        length = round(max(it["ts"] + it["dur"] for it in timed) - begin, 3)
        pid = next(it["pid"] for it in timed if it["cat"] == "cpu_op")
        step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1000", "pid": pid, "tid": pid}
        trace["traceEvents"].append({**step, "ts": begin, "dur": length, "args": {}})
        with gzip.open(path, "wt") if path.suffix == ".gz" else open(path, "w") as file:
            json.dump(trace, file)


def words_of(name, count, ranks, is_root=False):
    """What PyTorch calls a function, its elements in and out, and NCCL's kernels for it."""
    of_root = count * ranks if is_root else 0
    return {
        "ncclReduce": ("reduce", count, count, "Reduce"),
        "ncclGather": ("gather", count, of_root, "SendRecv"),
        "ncclScatter": ("scatter", of_root, count, "SendRecv"),
        "ncclAllReduce": ("allreduce", count, count, "AllReduce"),
        "ncclAllGather": ("_allgather_base", count, count * ranks, "AllGather"),
        "ncclReduceScatter": ("_reduce_scatter_base", count * ranks, count, "ReduceScatter"),
        "ncclAlltoAll": ("all_to_all", count * ranks, count * ranks, "SendRecv"),
        "ncclBroadcast": ("broadcast", count, count, "Broadcast"),
        "ncclSend": ("send", count, count, "SendRecv"),
        "ncclRecv": ("recv", count, count, "SendRecv"),
    }[name]


def alone(anchor, report, folder):
    job, report = Job(anchor), json.loads(pathlib.Path(report).read_text())
    paths = sorted(pathlib.Path(folder).iterdir())
    assert len(paths) == job.size, paths
    launched, ranges = {}, collections.Counter()
    steps = [it["number"] for it in report["steps"]["steps"]] if report["steps"] else []
    known = {(name, took, number) for name, took, _, number in job.ranges}
    for rank, path in enumerate(paths):
        trace = load(path)
        assert trace["distributedInfo"] == {"backend": "nccl", "rank": rank, "world_size": job.size}, path
        assert trace["baseTimeNanoseconds"] == job.begin
        others, busy = {}, collections.defaultdict(list)
        for it in trace["traceEvents"]:
            category = it.get("cat", "").removeprefix("nccl_")
            if category in OTHERS:
                add(others, (category, it["name"]), round(1e3 * it["dur"]), it["args"])
                busy[it["pid"], it["tid"]].append((round(1e3 * it["ts"]), round(1e3 * it["dur"])))
            elif STEP.fullmatch(it["name"]):
                step = it["args"]["nccl.region"], round(1e3 * it["dur"]), int(STEP.fullmatch(it["name"])[1])
                assert it["cat"] == "user_annotation" and step in known, it
            elif it.get("cat") == "user_annotation":
                said = it["args"]
                ranges[it["name"], round(1e3 * it["dur"]), said.get("nvtx.domain"), said.get("nvtx.number")] += 1
        assert steps_in(trace) == steps, (rank, steps_in(trace), steps)
        assert others == job.others[rank], (rank, others, job.others[rank])
        named = {(it["pid"], it["tid"]) for it in trace["traceEvents"] if it["name"] == "thread_name"}
        assert named >= set(busy), "every track has a name"
        for track in busy.values():
            track.sort()
            assert all(one + took <= two for (one, took), (two, _) in zip(track, track[1:])), "slices overlap"
        kernels, wanted = nccl_kernels(trace), job.kernels(rank)
        assert len(kernels) == len(wanted) > 0, (len(kernels), len(wanted))
        runtime = [it["args"] for it in trace["traceEvents"] if it.get("cat") == "cuda_runtime"]
        launches = {args["correlation"]: args["nccl.event"] for args in runtime}
        in_order = lambda it: (round(1e3 * it["ts"]), round(1e3 * it["dur"]), it["args"]["Process Group Name"])
        for kernel, want in zip(sorted(kernels, key=in_order), wanted):
            start, member = round(1e3 * kernel["ts"]) + job.begin, want["member"]
            assert (start, start + round(1e3 * kernel["dur"])) == (want["start"], want["stop"]), kernel
            args = kernel["args"]
            assert args["External id"] == args["correlation"], args
            # An operation that names no launch is launched by its enqueueing.
            own = [said.get("nccl.launch", said.get("nccl.event")) for _, said in want["all"]]
            assert not job.launches or launches[args["correlation"]] in own, (args, own)
            assert args["Group size"] == len(member.ranks) and args["Process Group Name"] == member.name
            shown = str(member.ranks[:29])[:-1] + f", ..., {member.ranks[-1]}]"
            assert args["Process Group Ranks"] == (shown if len(member.ranks) > 30 else str(member.ranks))
            # A collective made of messages has no event of its own, and is not counted beside them.
            reported = sum("nccl.event" in said for _, said in want["all"])
            assert args.get("nccl.operations_in_kernel", 1) == max(reported, 1), (args, want)
            if "nccl.waiting_ns" in args:
                assert args["nccl.waiting_ns"] + args["nccl.transfer_ns"] == want["stop"] - want["start"], args
            # A kernel of CUPTI's has no attributes of an operation: it is any of those in it.
            own = [it for it in want["all"] if args.get("nccl.event") == it[1].get("nccl.event")]
            assert own or (args["nccl.timing"] == "cupti" and "nccl.event" not in args), args
            assert "nccl.bytes" not in args or args["nccl.bytes"] in [said["nccl.bytes"] for _, said in own], args
            own = own or want["all"]
            assert args["nccl.timing"] in [said["nccl.timing"] for _, said in own]
            assert args["nccl.timing"] == "cupti" or args.get("nvtx.ranges") == own[0][1].get("nvtx.ranges"), args
            found = tuple(args[key] for key in ("Collective name", "In msg nelems", "Out msg nelems"))
            words = [
                words_of(name, said.get("nccl.count", 0), len(member.ranks), said.get("nccl.root") == member.rank)
                for name, said in own
            ]
            assert found in [it[:3] for it in words], (found, words)
            families = {words_of(name, 0, 0)[3] for name, _ in want["all"]}
            assert any(kernel["name"].startswith("ncclDevKernel_" + family) for family in families), kernel["name"]
        launched[rank] = len(kernels)
    wanted = {what: count for what, count in job.ranges.items() if what[0] != STEPS_OF_TORCH}
    assert ranges == wanted, (ranges, wanted)
    if steps:
        found = steps_by_hta(folder)
        assert found == {rank: steps for rank in range(job.size)}, (found, steps)
    of_all, of_ranks, of_launches = communication(folder, bool(job.launches))
    assert of_launches == (launched if job.launches else {}), (of_launches, launched)
    for rank in range(job.size):
        wanted = sum(it["stop"] - it["start"] for it in job.kernels(rank))
        assert abs(of_ranks[rank] - wanted) < 1e3, (rank, of_ranks[rank], wanted)
    # HTA cuts each stretch to whole µs.
    budget = report["budget"]["operations_ns"]
    stretches = sum(launched.values())
    has_messages = any(name in ("ncclSend", "ncclRecv") for all in job.operations.values() for _, _, name, *_ in all)
    if not has_messages:
        assert budget - 1e3 * stretches <= of_all <= budget, (of_all, budget)
    print(json.dumps({"steps": steps, "kernels": launched, "communication_ns": of_all, "budget_ns": budget}))


def made(anchor, folder, clocks="{}"):
    job, folder = Job(anchor, clocks), pathlib.Path(folder)
    folder.mkdir()
    template = json.loads((pathlib.Path(__file__).parent.parent / "data/torch-profiler.json").read_text())
    base = job.begin // 10**9 * 10**9 - 4458 * 10**9
    events = template["traceEvents"]
    of = lambda category: next(it for it in events if it.get("cat") == category)
    for rank in range(job.size):
        pid, kernels = job.pids[rank], job.kernels(rank)
        # The profiler was on for the middle of the job.
        kernels = kernels[len(kernels) // 4 : -len(kernels) // 4]
        text = []
        digits = lambda ns: f"{ns // 1000}.{ns % 1000:03}"
        us = lambda ns: digits(job.host_ns(rank, ns) - base)
        for number, kernel in enumerate(kernels, 100):
            name, said = next((it for it in kernel["all"] if it[0] == "ncclAlltoAll"), kernel["all"][0])
            word, given, gotten, family = words_of(name, said["nccl.count"], job.size)
            # The kernel runs within what was measured around it.
            start, stop = kernel["start"] + 700, kernel["stop"] - 900
            for category, begin, end in (
                ("cpu_op", kernel["start"] - 60_000, kernel["start"] - 1_000),
                ("cuda_runtime", kernel["start"] - 20_000, kernel["start"] - 5_000),
                ("kernel", start, max(start, stop)),
            ):
                event = json.loads(json.dumps(of(category)))
                args = event["args"]
                args["External id"] = number
                if "correlation" in args:
                    args["correlation"] = 7 * number
                if category == "kernel":
                    event["name"] = f"ncclDevKernel_{family}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                    event["pid"] = rank
                else:
                    event["pid"] = event["tid"] = pid
                if "Collective name" in args:
                    args.update({"Collective name": word, "In msg nelems": given, "Out msg nelems": gotten})
                    args.update({"Group size": job.size, "Process Group Ranks": str(list(range(job.size)))})
                event["ts"], event["dur"] = "@ts", "@dur"
                line = json.dumps(event).replace('"@ts"', us(begin))
                text.append(line.replace('"@dur"', digits(end - begin)))
        # A computation beside them, which is none of NCCL's.
        other = next(it for it in events if it.get("cat") == "kernel" and not it["name"].startswith("nccl"))
        other = json.dumps({**other, "pid": rank, "ts": "@ts"}).replace('"@ts"', us(kernels[0]["start"]))
        rest = [json.dumps(it) for it in events if it.get("cat") not in ("cpu_op", "cuda_runtime", "kernel")]
        head = {key: value for key, value in template.items() if key not in ("traceEvents", "about")}
        head["distributedInfo"] = {**head["distributedInfo"], "rank": rank, "world_size": job.size}
        head["baseTimeNanoseconds"] = base
        # torch.profiler has what belongs to the whole file before and behind the events.
        name = head.pop("traceName")
        lines = json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(text + [other] + rest) + "\n],\n"
        lines += f'"traceName": {json.dumps(name)}\n}}'
        path = folder / f"host_{pid}.pt.trace.json{'.gz' if rank == 0 else ''}"
        with gzip.open(path, "wt") if rank == 0 else open(path, "w") as file:
            file.write(lines)
        json.loads(lines)


def blurred(path):
    path = pathlib.Path(path)
    trace = load(path)
    alike = collections.defaultdict(list)
    for it in nccl_kernels(trace):
        alike[it["name"], it["args"]["Collective name"], it["args"]["In msg nelems"]].append(it)
    first, second = next(them for them in alike.values() if len(them) > 1)[:2]
    begin = first["ts"] + 0.3 * first["dur"]
    first["dur"] = round(second["ts"] + 0.7 * second["dur"] - begin, 3)
    first["ts"] = round(begin, 3)
    path.write_text(json.dumps(trace))
    print(json.dumps([first["args"]["External id"], second["args"]["External id"]]))


def into(anchor, before, after, clocks="{}"):
    job, counts = Job(anchor, clocks), collections.Counter()
    # A collective made of messages has no id: it is known by its rank and its call.
    key = lambda rank, said: said.get("nccl.event") or (rank, said["nccl.parent"])
    by_id = {key(rank, it[3]): (rank, it) for rank, all in job.operations.items() for it in all}
    for path in sorted(pathlib.Path(before).iterdir()):
        theirs, ours = load(path), load(pathlib.Path(after) / path.name)
        rank = theirs["distributedInfo"]["rank"]
        assert list(theirs) == list(ours), "members and their order"
        assert {k: v for k, v in theirs.items() if k != "traceEvents"} == {
            k: v for k, v in ours.items() if k != "traceEvents"
        }
        pids = {it.get("pid") for it in theirs["traceEvents"]}
        own = [it for it in ours["traceEvents"] if it.get("pid") not in pids]
        rest = [it for it in ours["traceEvents"] if it.get("pid") in pids]
        assert len(rest) == len(theirs["traceEvents"])
        base = theirs["baseTimeNanoseconds"]
        used = set()
        for was, event in zip(theirs["traceEvents"], rest):
            more = {k: v for k, v in event.get("args", {}).items() if k.startswith("nccl.")}
            if "args" in event:
                event["args"] = {k: v for k, v in event["args"].items() if not k.startswith("nccl.")}
            assert event == was and json.dumps(event) == json.dumps(was), (was, event)
            if not (was.get("cat") == "kernel" and was["name"].startswith("nccl")):
                assert not more, was
                continue
            counts["kernels"] += 1
            if more:
                counts["enriched"] += 1
                owner, (start, stop, _, said, member) = by_id[key(rank, more)]
                assert owner == rank and key(rank, more) not in used
                used.add(key(rank, more))
                # The truth: the kernel was made 700 ns after the begin of this operation's kernel.
                whole = round(1e3 * was["ts"])
                whole += base
                (kernel,) = [it for it in job.kernels(rank) if abs(job.host_ns(rank, it["start"] + 700) - whole) <= 1]
                assert key(rank, more) in [key(rank, said) for _, said in kernel["all"]], (was, more)
                assert more["nccl.communicator"] == member.name and more["nccl.communicator_rank"] == member.rank
                for name in ("nccl.algo", "nccl.proto", "nccl.channels", "nccl.busbw", "nccl.timing"):
                    assert more.get(name) == said.get(name), (name, more, said)
                counts["with waiting"] += "nccl.waiting_ns" in more
                counts["named LL, ran SIMPLE"] += "RING_LL" in was["name"] and more.get("nccl.proto") == "SIMPLE"
                counts["all-to-alls"] += was["args"]["Collective name"] == "all_to_all"
        slices = [it for it in own if it["ph"] == "X"]
        assert {it["cat"] for it in slices} >= {"nccl_operation"}, path
        first = min(it["ts"] for it in theirs["traceEvents"] if "dur" in it)
        last = max(it["ts"] + it["dur"] for it in theirs["traceEvents"] if "dur" in it)
        for slice in slices:
            assert slice["ts"] <= last and slice["ts"] + slice["dur"] >= first, "only what went on while it was taken"
            if slice["cat"] == "nccl_operation":
                _, (start, stop, name, *_) = by_id[key(rank, slice["args"])]
                off = round(1e3 * slice["ts"]) + base - job.host_ns(rank, start)
                assert abs(off) <= 1000 + job.error_ns(rank), (off, job.error_ns(rank))
                assert slice["name"] == "NCCL " + name.removeprefix("nccl"), slice
                counts["furthest off"] = max(counts["furthest off"], abs(off))
                counts["operations"] += 1
        counts["own tracks"] += len({it["tid"] for it in slices})
    assert communication(before)[:2] == communication(after)[:2], "HTA sees the same kernels"
    print(json.dumps(counts))


if __name__ == "__main__":
    verbs = {"alone": alone, "made": made, "into": into, "blurred": blurred, "steps": steps, "stepped": stepped}
    verbs[sys.argv[1]](*sys.argv[2:])
