"""What `nccl-otf2 export --format chakra` makes, held against the log of the program that ran.

usage: chakra.py FOLDER LOG...      prints how many nodes of each kind there are
       chakra.py FILE               prints the nodes: kind, duration, what they waited for

The messages are typed from Chakra's published schema (mlcommons/chakra, schema/protobuf/et_def.proto): a second reading
of it. The log is nccl-host's, which knows nothing of a profiler.
"""

import collections
import json
import pathlib
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

Field = descriptor_pb2.FieldDescriptorProto
TYPES = {
    "double": Field.TYPE_DOUBLE, "float": Field.TYPE_FLOAT, "int32": Field.TYPE_INT32, "int64": Field.TYPE_INT64,
    "uint32": Field.TYPE_UINT32, "uint64": Field.TYPE_UINT64, "bool": Field.TYPE_BOOL, "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES, "NodeType": Field.TYPE_ENUM,
}
NODES = "INVALID METADATA MEM_LOAD MEM_STORE COMP COMM_SEND COMM_RECV COMM_COLL STORAGE BATCH CHECKPOINT".split()
COLLECTIVES = (
    "ALL_REDUCE REDUCE ALL_GATHER GATHER SCATTER BROADCAST ALL_TO_ALL REDUCE_SCATTER REDUCE_SCATTER_BLOCK BARRIER".split()
)
MESSAGES = {
    "AttributeProto": "1 name string, 2 doc_string string, 3 double_val double, 5 float_val float, 7 int32_val int32, "
    "9 int64_val int64, 11 uint32_val uint32, 13 uint64_val uint64, 27 bool_val bool, 29 string_val string, "
    "31 bytes_val bytes",
    "GlobalMetadata": "1 version string, 2 attr* AttributeProto",
    "IOInfo": "1 values string, 2 shapes string, 3 types string",
    "Node": "1 id uint64, 2 name string, 3 type NodeType, 4 ctrl_deps* uint64, 5 data_deps* uint64, "
    "6 start_time_micros uint64, 7 duration_micros uint64, 8 inputs IOInfo, 9 outputs IOInfo, 10 attr* AttributeProto",
}


def schema():
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    enum = file.enum_type.add(name="NodeType")
    for number, name in enumerate(NODES):
        enum.value.add(name=f"{name}_NODE", number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for field in fields.split(", "):
            number, key, kind = field.split()
            label = Field.LABEL_REPEATED if key.endswith("*") else Field.LABEL_OPTIONAL
            made = message.field.add(name=key.rstrip("*"), number=int(number), label=label)
            made.type = TYPES.get(kind, Field.TYPE_MESSAGE)
            if made.type in (Field.TYPE_MESSAGE, Field.TYPE_ENUM):
                made.type_name = f".ChakraProtoMsg.{kind}"
            if name == "AttributeProto" and int(number) > 2:
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in ("GlobalMetadata", "Node")
    ]


METADATA, NODE = schema()


def read(path):
    """The metadata and the nodes, each with its attributes as `node.said`."""
    rest, messages = path.read_bytes(), []
    while rest:
        length = shift = at = 0
        while True:
            length |= (rest[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if rest[at - 1] < 128:
                break
        messages.append(rest[at : at + length])
        assert len(messages[-1]) == length, path
        rest = rest[at + length :]
    head = METADATA.FromString(messages[0])
    nodes = [NODE.FromString(message) for message in messages[1:]]
    for message in [head, *nodes]:
        assert len(unknown_fields.UnknownFieldSet(message)) == 0, message
    return values(head), [(node, values(node)) for node in nodes]


def values(message):
    return {it.name: getattr(it, it.WhichOneof("value")) for it in message.attr}


def sent(op, count, ranks):
    """Bytes in the send buffer of a rank."""
    return count * ranks if op in ("ncclReduceScatter", "ncclAlltoAll") else count


TYPE_OF = {
    "ncclAllReduce": "ALL_REDUCE", "ncclReduce": "REDUCE", "ncclAllGather": "ALL_GATHER", "ncclBroadcast": "BROADCAST",
    "ncclReduceScatter": "REDUCE_SCATTER", "ncclAlltoAll": "ALL_TO_ALL",
}


def called(logs):
    """What each rank called, in order: (communicator, group, what)."""
    lines = [json.loads(line) for log in logs for line in pathlib.Path(log).read_text().splitlines()]
    world = {(it["comm"], it["comm_rank"]): it["rank"] for it in lines if it["kind"] in ("communicator", "call")}
    calls = collections.defaultdict(list)
    for number, it in enumerate(line for line in lines if line["kind"] == "call"):
        rank, own, ranks, op = it["rank"], it["comm_rank"], it["comm_ranks"], it["op"]
        of = lambda peer: world[it["comm"], peer]
        others = [peer for peer in range(ranks) if peer != own]
        group = ("group", it["group"]) if it["group"] is not None else ("call", number)
        if op in TYPE_OF:
            what = [(TYPE_OF[op], sent(op, it["bytes"], ranks))]
        elif op in ("ncclSend", "ncclRecv"):
            what = [(op[4:].upper(), of(it["peer"]), it["bytes"])] if it["peer"] != own else []
        else:
            to_root, root = op == "ncclGather", it["root"]
            is_send = to_root == (own != root)
            peers = others if own == root else [root]
            what = [("SEND" if is_send else "RECV", of(peer), it["bytes"]) for peer in peers]
        calls[rank] += [(it["comm"], group, one) for one in what]
    return calls


def main(folder, logs):
    folder = pathlib.Path(folder)
    groups = json.loads((folder / "comm_group.json").read_text())
    calls = called(logs)
    files = {rank: read(folder / f"trace.{rank}.et") for rank in calls}
    assert len(list(folder.iterdir())) == len(files) + 1
    counts, ends = collections.Counter(), collections.defaultdict(lambda: ([], []))
    for rank, (head, nodes) in files.items():
        assert head["rank"] == rank and head["world_size"] == len(files), head
        before, computed, found = {}, 0, collections.defaultdict(list)
        for number, (node, said) in enumerate(nodes, 1):
            assert node.id == number and not node.ctrl_deps and said["is_cpu_op"] is False
            assert all(dependency < number for dependency in node.data_deps), node
            # All that must have ended before.
            before[number] = set(node.data_deps).union(*(before[it] for it in node.data_deps))
            kind = NODES[node.type]
            counts[kind] += 1
            if kind == "COMP":
                assert node.duration_micros > 0 and node.start_time_micros >= computed, node
                computed = node.start_time_micros + node.duration_micros
                continue
            assert rank in groups[said["pg_name"]] and node.duration_micros > 0, (node, groups)
            if kind == "COMM_COLL":
                counts[COLLECTIVES[said["comm_type"]]] += 1
                what = (COLLECTIVES[said["comm_type"]], said["comm_size"])
            else:
                pair, is_send = (said["comm_src"], said["comm_dst"]), kind == "COMM_SEND"
                assert pair[0 if is_send else 1] == rank and pair[0] != pair[1], said
                ends[pair][0 if is_send else 1].append((said["comm_tag"], said["comm_size"]))
                what = (kind[5:], pair[1 if is_send else 0], said["comm_size"])
            found[said["nccl.communicator"]].append((number, what))
        check_order(rank, calls[rank], found, before)
    for pair, (sends, receives) in ends.items():
        assert sorted(sends) == sorted(receives) and len(set(sends)) == len(sends), (pair, sends, receives)
    play(files, groups)
    print(json.dumps(counts))


def check_order(rank, calls, found, before):
    """Each communicator has what was called, in that order; what was not in one group waited for what came before."""
    wanted = collections.defaultdict(list)
    for comm, group, what in calls:
        wanted[comm].append((group, what))
    of = {comm: sorted(what for _, what in all) for comm, all in wanted.items()}
    for name, nodes in found.items():
        comms = [comm for comm, all in of.items() if all == sorted(what for _, what in nodes)]
        assert comms, (rank, name, nodes, wanted)
        in_groups = [[]]
        last = None
        for group, what in wanted[comms[0]]:
            if group != last:
                in_groups.append([])
            in_groups[-1].append(what)
            last = group
        at, earlier = 0, []
        for group in filter(None, in_groups):
            of_group = nodes[at : at + len(group)]
            assert sorted(what for _, what in of_group) == sorted(group), (rank, name, of_group, group)
            ids = {number for number, _ in of_group}
            for number in ids:
                assert not ids & before[number] and set(earlier) <= before[number], (rank, name, number, before[number])
            earlier, at = ids, at + len(group)
        assert at == len(nodes)
        del of[comms[0]]
    assert not of, (rank, of)


def play(files, groups):
    """A simulator without time: everything ends."""
    done = {rank: set() for rank in files}
    issued, sends = collections.defaultdict(set), set()
    numbers = {}
    for rank, (_, nodes) in files.items():
        count = collections.Counter()
        for node, said in nodes:
            if NODES[node.type] == "COMM_COLL":
                numbers[rank, node.id] = (said["pg_name"], count[said["pg_name"]])
                count[said["pg_name"]] += 1
    left = sum(len(nodes) for _, nodes in files.values())
    while left:
        was = left
        for rank, (_, nodes) in files.items():
            for node, said in nodes:
                if node.id in done[rank] or not done[rank] >= set(node.data_deps):
                    continue
                kind = NODES[node.type]
                if kind == "COMM_COLL":
                    number = numbers[rank, node.id]
                    issued[number].add(rank)
                    is_over = issued[number] == set(groups[said["pg_name"]])
                else:
                    message = (said.get("comm_src"), said.get("comm_dst"), said.get("comm_tag"))
                    is_over = kind != "COMM_RECV" or message in sends
                    if kind == "COMM_SEND":
                        sends.add(message)
                if is_over:
                    done[rank].add(node.id)
                    left -= 1
        assert left < was, "the ranks wait for each other"


if __name__ == "__main__" and len(sys.argv) == 2:
    _, all_nodes = read(pathlib.Path(sys.argv[1]))
    print(json.dumps([[NODES[it.type], it.duration_micros, sorted(it.data_deps)] for it, _ in all_nodes]))
elif __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
