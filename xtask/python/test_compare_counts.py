"""The comparison must notice what it is there to notice."""

import io
import json
import os
import tempfile
import unittest
from contextlib import redirect_stdout

import _otf2
import otf2
from otf2.enums import CollectiveOp, LocationGroupType, LocationType

import compare_counts

CALL = {"kind": "call", "op": "ncclAllReduce", "comm_ranks": 4, "launches": 1, "proxy_ops": 2, "bytes": 10}
# Sent and received in a record of it.
ALL_REDUCE = 40, 40


def write_log(folder, calls, version=(2, 32, 3), wrong=0, ended=True, others=(), **start):
    code = version[0] * 10000 + version[1] * 100 + version[2]
    lines = [{"kind": "start", "nccl_version": ".".join(map(str, version)), "nccl_version_code": code, **start}]
    lines += calls
    if ended:
        results = {"ok": not wrong, "results_checked": len(calls), "results_wrong": wrong}
        lines.append({"kind": "end", **results, "others": dict(others)})
    prefix = os.path.join(folder, "log")
    with open(prefix + ".0.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return prefix


def write_archive(folder, calls, records, proxy_ops, operation=CollectiveOp.ALLREDUCE, region="ncclAllReduce", said=ALL_REDUCE,
                  replays=(None, []), sizes_unknown=False, nvtx=False):
    path = os.path.join(folder, "archive")
    with otf2.writer.open(path, timer_resolution=10**9) as trace:
        counted = {"SIZES_UNKNOWN": sizes_unknown, "RANGES_NCCL": nvtx}
        for name in (name for name, is_counted in counted.items() if is_counted):
            _otf2.Archive_SetProperty(trace.handle, "NCCL::COUNT::" + name, "1", False)
        root = trace.definitions.system_tree_node("machine")
        process = trace.definitions.location_group("rank 0", system_tree_parent=root)
        gpu = trace.definitions.location_group(
            "GPU 0",
            location_group_type=LocationGroupType.ACCELERATOR,
            system_tree_parent=root,
            creating_location_group=process,
        )
        thread = trace.event_writer("thread", group=process)
        net = trace.event_writer("net", group=process)
        stream = trace.definitions.location("channel", type=LocationType.ACCELERATOR_STREAM, group=gpu)
        channel = trace.event_writer_from_location(stream)
        call = trace.definitions.region(region)
        send = trace.definitions.parameter("netSend", parameter_type=otf2.ParameterType.UINT64)
        mpi = {"paradigm": otf2.Paradigm.MPI, "members": [stream]}
        trace.definitions.group("locations", group_type=otf2.GroupType.COMM_LOCATIONS, **mpi)
        ranks = trace.definitions.group("ranks", group_type=otf2.GroupType.COMM_GROUP, **mpi)
        comm = trace.definitions.comm("comm", ranks)
        replay = trace.definitions.attribute("nccl.replay", type=otf2.Type.UINT64)
        replays_of = trace.definitions.attribute("nccl.replays", type=otf2.Type.UINT64)
        number_of_replays, of_replays = replays[0], list(replays[1])
        time = 0
        for writer, name, number in [(thread, call, calls), (net, send, proxy_ops), (channel, call, records)]:
            for _ in range(number):
                time += 1
                attributes = {}
                if writer is channel and of_replays:
                    attributes[replay] = of_replays.pop(0)
                if writer is net:
                    writer.parameter_unsigned_int(time, name, 1)
                    continue
                writer.enter(time, name, attributes)
                if writer is channel:
                    writer.mpi_collective_begin(time)
                    writer.mpi_collective_end(time, operation, comm, 4294967295, *said)
                writer.leave(time, name, {replays_of: number_of_replays} if writer is thread and number_of_replays else {})
    return os.path.join(path, "traces.otf2")


class Compare(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def compare(self, anchor, prefix, any_proxy=False):
        out = io.StringIO()
        with redirect_stdout(out):
            compare_counts.main(anchor, prefix, any_proxy)
        return out.getvalue()

    def test_equal_numbers_pass(self):
        said = self.compare(write_archive(self.folder, 3, 3, 6), write_log(self.folder, [CALL] * 3))
        self.assertIn("3 calls, 3 results checked", said)
        self.assertEqual(said.count("  ok"), 4, said)

    def test_each_number_that_differs_is_wrong(self):
        prefix = write_log(self.folder, [CALL] * 3)
        # A record that is missing is missing among those with the right bytes, too.
        cases = [(2, 3, 6), (4, 3, 6), (3, 4, 6), (3, 3, 5), (3, 3, 7), (3, 2, 6)]
        for case, (numbers, wrong) in enumerate(zip(cases, [1, 1, 1, 1, 1, 2])):
            folder = os.path.join(self.folder, str(case))
            with self.subTest(numbers=numbers), self.assertRaisesRegex(SystemExit, f"{wrong} numbers differ"):
                self.compare(write_archive(folder, *numbers), prefix)

    def test_a_record_says_the_bytes_that_follow_from_the_call(self):
        prefix = write_log(self.folder, [CALL])
        for case, said in enumerate([(10, 40), (40, 10), (0, 0)]):
            folder = os.path.join(self.folder, str(case))
            with self.subTest(said=said), self.assertRaisesRegex(SystemExit, "1 numbers differ"):
                self.compare(write_archive(folder, 1, 1, 2, said=said), prefix)
        root = [dict(CALL, op="ncclReduce", root=1, comm_rank=1)]
        others = [dict(CALL, op="ncclReduce", root=1, comm_rank=0)]
        for case, (calls, said) in enumerate([(root, (10, 40)), (others, (10, 0))]):
            folder = os.path.join(self.folder, "reduce", str(case))
            os.makedirs(folder)
            anchor = write_archive(folder, 1, 1, 2, CollectiveOp.REDUCE, "ncclReduce", said)
            self.compare(anchor, write_log(folder, calls))
            for other in [root, others]:
                if other is not calls:
                    with self.assertRaisesRegex(SystemExit, "1 numbers differ"):
                        self.compare(anchor, write_log(folder, other))

    def test_sizes_are_unknown_only_where_a_release_does_not_tell_them(self):
        of_one = write_archive(self.folder, 1, 1, 2, said=(10, 10))
        unknown = write_archive(os.path.join(self.folder, "unknown"), 0, 1, 2, said=(10, 10), sizes_unknown=True)
        self.compare(unknown, write_log(self.folder, [CALL], version=(2, 26, 5)))
        for anchor, version in [(of_one, (2, 26, 5)), (unknown, (2, 27, 7))]:
            with self.subTest(version=version), self.assertRaises(SystemExit):
                self.compare(anchor, write_log(self.folder, [CALL], version=version))

    def test_each_replay_of_a_captured_call_is_told_apart(self):
        prefix = write_log(self.folder, [dict(CALL, launches=3, proxy_ops=6, captured=True)])
        self.compare(write_archive(self.folder, 1, 3, 6, replays=(3, [1, 2, 3])), prefix)
        for case, replays in enumerate([(2, [1, 2, 3]), (3, [1, 1, 2]), (3, [1, 2, 4]), (3, [1, 2])]):
            folder = os.path.join(self.folder, str(case))
            with self.subTest(replays=replays), self.assertRaisesRegex(SystemExit, "numbers differ"):
                self.compare(write_archive(folder, 1, 3, 6, replays=replays), prefix)

    def test_replayed_operations_count_once_per_launch(self):
        captured = dict(CALL, launches=3, proxy_ops=6)
        self.compare(write_archive(self.folder, 1, 3, 6), write_log(self.folder, [captured]))

    def test_before_2_28_calls_are_no_events(self):
        self.compare(write_archive(self.folder, 0, 1, 2), write_log(self.folder, [CALL], version=(2, 27, 7)))

    def test_through_nvtx_each_call_of_any_function_is_there_once(self):
        prefix = write_log(self.folder, [], others={"ncclCommSplit": 2})
        for calls, nvtx, is_right in [(2, True, True), (1, True, False), (4, True, False), (0, False, True)]:
            folder = os.path.join(self.folder, f"{calls} {nvtx}")
            anchor = write_archive(folder, calls, 0, 0, region="ncclCommSplit", nvtx=nvtx)
            with self.subTest(calls=calls, nvtx=nvtx):
                if is_right:
                    self.compare(anchor, prefix)
                    continue
                with self.assertRaisesRegex(SystemExit, "1 numbers differ"):
                    self.compare(anchor, prefix)

    def test_some_broadcasts_missing_is_not_the_same_as_none_reported(self):
        calls = [dict(CALL, op="ncclBroadcast")] * 2
        anchor = write_archive(self.folder, 2, 1, 2, CollectiveOp.BCAST, "ncclBroadcast")
        with self.assertRaisesRegex(SystemExit, "2 numbers differ"):
            self.compare(anchor, write_log(self.folder, calls))

    def test_broadcasts_may_be_missing_below_the_api_from_2_29_only(self):
        calls = [dict(CALL, op="ncclBroadcast")]
        anchor = write_archive(self.folder, 1, 0, 0, CollectiveOp.BCAST, "ncclBroadcast")
        self.assertIn("broadcasts as calls only", self.compare(anchor, write_log(self.folder, calls)))
        with self.assertRaisesRegex(SystemExit, "3 numbers differ"):
            self.compare(anchor, write_log(self.folder, calls, version=(2, 28, 9)))
        with self.assertRaisesRegex(SystemExit, "3 numbers differ"):
            self.compare(anchor, write_log(self.folder, calls, allgatherv="0"))

    def test_2_27_merges_the_messages_of_a_group(self):
        sends = [dict(CALL, op="ncclSend", rank=0, group=7, proxy_ops=1)] * 3
        anchor = write_archive(self.folder, 0, 0, 1)
        self.assertIn("merges the messages", self.compare(anchor, write_log(self.folder, sends, version=(2, 27, 7))))
        with self.assertRaisesRegex(SystemExit, "1 numbers differ"):
            self.compare(anchor, write_log(self.folder, sends, version=(2, 28, 9)))
        others = [dict(send, group=number) for number, send in enumerate(sends)]
        with self.assertRaisesRegex(SystemExit, "1 numbers differ"):
            self.compare(anchor, write_log(self.folder, others, version=(2, 27, 7)))

    def test_unknown_proxy_operations_are_left_out_only_when_asked_to(self):
        prefix = write_log(self.folder, [dict(CALL, proxy_ops=None)])
        said = self.compare(write_archive(self.folder, 1, 1, 9), prefix, any_proxy=True)
        self.assertNotIn("proxy operations", said)
        other = os.path.join(self.folder, "other")
        with self.assertRaisesRegex(SystemExit, "1 numbers differ"):
            self.compare(write_archive(other, 1, 2, 9), prefix, any_proxy=True)

    def test_launches_may_be_missing_without_a_network_before_2_26_only(self):
        prefix = write_log(self.folder, [dict(CALL, launches=3, proxy_ops=0, captured=True)], version=(2, 25, 1))
        said = self.compare(write_archive(self.folder, 0, 0, 0), prefix)
        self.assertIn("only in the network", said)
        other = os.path.join(self.folder, "other")
        with self.assertRaisesRegex(SystemExit, "3 numbers differ"):
            self.compare(write_archive(other, 0, 0, 1), prefix)
        prefix = write_log(self.folder, [dict(CALL, launches=3, proxy_ops=0, captured=True)], version=(2, 26, 5))
        with self.assertRaisesRegex(SystemExit, "2 numbers differ"):
            self.compare(os.path.join(self.folder, "archive", "traces.otf2"), prefix)

    def test_a_log_that_is_no_evidence_is_refused(self):
        anchor = write_archive(self.folder, 1, 1, 2)
        for message, prefix in [
            ("wrong results", lambda: write_log(self.folder, [CALL], wrong=1)),
            ("did not come to its end", lambda: write_log(self.folder, [CALL], ended=False)),
            ("not known", lambda: write_log(self.folder, [dict(CALL, proxy_ops=None)])),
            ("no log", lambda: os.path.join(self.folder, "elsewhere")),
        ]:
            with self.subTest(message=message), self.assertRaisesRegex(SystemExit, message):
                self.compare(anchor, prefix())


if __name__ == "__main__":
    unittest.main()
