"""How often a plugin was called, by kind of event: as counted in front of it, and as it recorded.

The counts in front of it are those of the relay (tests/doubles/fake-gpu/nccl-plugins/relay.c), the records those of the journal,
read by what docs/FORMATS.md says and by none of the recorder's code.
"""

import array
import glob
import os
import struct
import sys
from collections import Counter

KINDS = (
    "Group Coll P2p ProxyOp ProxyStep ProxyCtrl KernelCh NetPlugin GroupApi CollApi P2pApi KernelLaunch CeColl CeSync "
    "CeBatch KernelPhase"
).split()
# Of a start with a type that is no kind, and of stops and states with a handle that no start gave.
OTHERS = ["unknown type", "unknown handle"]

SEGMENT_MAGIC = b"NCCLOTF2"
FORMAT_VERSION = 2
HEADER_WORDS = 128
# Words of the header: losses (starts, stops and states by kind, then communicators), totals, losses of threads without
# a slot.
LOSSES = range(17, 69)
EMPTY_CONTROLS, REPEATED_WAITS = 69, 70
LOSSES_WITHOUT_SLOT = range(72, 124)
# Kinds of records.
COMMUNICATOR_BEGIN, COMMUNICATOR_END, START, STOP, STATE = 0x05, 0x06, 0x20, 0x40, 0x41


class Calls:
    """Calls by what they say: (kind, "start"), (kind, "stop") or (kind, number of the state)."""

    def __init__(self):
        self.by_kind = Counter()
        self.inits = self.finalizes = 0
        # Not recorded, as the recorder itself says: starts, stops and states of all numbers by kind.
        self.lost = Counter()
        self.lost_communicators = 0
        # States that have no record because they only repeat that something waits.
        self.repeated_waits = 0

    def total(self, what):
        return sum(number for (_, call), number in self.by_kind.items() if call == what)


class Relayed(Calls):
    """What the relays of all processes counted: RELAY_OUT.<process id>."""

    def __init__(self, prefix):
        super().__init__()
        self.version = 0
        self.errors = self.null_handles = self.null_stops = self.null_states = self.other_states = 0
        self.files = sorted(glob.glob(glob.escape(prefix) + ".*"))
        for path in self.files:
            with open(path, "rb") as file:
                words = array.array("Q", file.read())
            magic, rows, states = words[:3]
            if magic != int.from_bytes(b"YALER", "big") or rows != len(KINDS) + len(OTHERS):
                raise SystemExit(f"{path}: not the counts of a relay")
            self.version = max(self.version, words[3])
            self.inits += words[4]
            self.finalizes += words[5]
            self.errors += words[6]
            self.null_handles += words[7]
            self.null_stops += words[8]
            self.null_states += words[9]
            self.other_states += words[10]
            for number, kind in enumerate(KINDS + OTHERS):
                row = words[11 + number * (2 + states) :][: 2 + states]
                self.by_kind[kind, "start"] += row[0]
                self.by_kind[kind, "stop"] += row[1]
                for state, times in enumerate(row[2:]):
                    self.by_kind[kind, state] += times
        self.by_kind = +self.by_kind


class Recorded(Calls):
    """What is in the journals of all processes of an archive's directory."""

    def __init__(self, directory):
        super().__init__()
        self.bad = []
        self.parts = sorted(glob.glob(os.path.join(glob.escape(directory), "parts", "*")))
        for part in self.parts:
            self._process(part)
        self.by_kind = +self.by_kind
        self.lost = +self.lost

    def _process(self, part):
        kinds = {}
        later = []
        slots = {}
        without_slot = [0] * len(LOSSES_WITHOUT_SLOT)
        for path in glob.glob(os.path.join(glob.escape(part), "journal", "*.*")):
            with open(path, "rb") as file:
                data = file.read()
            at = 0
            while at + 8 * HEADER_WORDS <= len(data) and data[at : at + 8] == SEGMENT_MAGIC:
                words = struct.unpack_from(f"<{HEADER_WORDS}Q", data, at)
                version, header, slot = words[1] & 0xFFFFFFFF, words[1] >> 32 & 0xFFFF, words[1] >> 48
                if version != FORMAT_VERSION:
                    raise SystemExit(f"{path}: version {version} of the journal; this reads {FORMAT_VERSION}")
                order = words[2]
                # Running totals of the slot: those of its last segment count.
                if slots.get(slot, (-1,))[0] < order:
                    slots[slot] = (order, words)
                without_slot = [a + words[b] for a, b in zip(without_slot, LOSSES_WITHOUT_SLOT)]
                self._segment(path, data[at : at + words[8]], header * 8, order, kinds, later)
                at += words[5]
        for _, words in slots.values():
            self._losses([words[word] for word in LOSSES])
            # Started and stopped without a state: a number instead of records.
            for call in ("start", "stop"):
                self.by_kind["ProxyCtrl", call] += words[EMPTY_CONTROLS]
            self.repeated_waits += words[REPEATED_WAITS]
        self._losses(without_slot)
        # A handle may be stopped on another thread, whose journal was read before.
        for handle, call in later:
            self.by_kind[kinds.get(handle, OTHERS[1]), call] += 1

    def _losses(self, totals):
        kinds = KINDS + OTHERS[:1]
        for place, call in enumerate(("start", "stop", "state")):
            for number, kind in enumerate(kinds):
                self.lost[kind, call] += totals[place * len(kinds) + number]
        self.lost_communicators += totals[3 * len(kinds)]

    def _segment(self, path, data, at, order, kinds, later):
        while at < len(data):
            head, _, handle = struct.unpack_from("<3Q", data, at)
            kind, length, mark = head & 0xFF, head >> 16 & 0xFFFF, head >> 32
            if mark != (order * 0x9E3779B1 ^ at // 8 ^ 0x4F544632) & 0xFFFFFFFF or length < 3:
                self.bad.append(f"{path}: no record at word {at // 8}")
                return
            if START <= kind < STOP:
                name = (KINDS + OTHERS)[kind - START]
                kinds[handle] = name
                self.by_kind[name, "start"] += 1
            elif kind == STOP:
                later.append((handle, "stop"))
            elif kind == STATE:
                state = struct.unpack_from("<Q", data, at + 24)[0] & 0xFFFFFFFF
                later.append((handle, state))
            elif kind == COMMUNICATOR_BEGIN:
                self.inits += 1
            elif kind == COMMUNICATOR_END:
                self.finalizes += 1
            at += length * 8


def differences(relayed, recorded):
    """What was called and not recorded as often, or the other way round; calls that were counted as lost are known."""
    # SendPeerWait, and what was told instead up to v3.
    recorded.by_kind[("ProxyStep", 20) if relayed.version >= 4 else ("ProxyOp", 1)] += recorded.repeated_waits
    recorded.by_kind = +recorded.by_kind
    for key in sorted(set(relayed.by_kind) | set(recorded.by_kind), key=str):
        called, written = relayed.by_kind[key], recorded.by_kind[key]
        # Lost states are counted by kind, whatever their number: below.
        most = written + recorded.lost[key[0], key[1] if isinstance(key[1], str) else "state"]
        if called != most and (isinstance(key[1], str) or not written <= called <= most):
            yield f"{key[0]}, {key[1]}: {called} calls, {written} records, {most - written} lost"
    for kind in KINDS:
        called, written = states(relayed, kind), states(recorded, kind)
        lost = recorded.lost[kind, "state"]
        if called != written + lost:
            yield f"{kind}, states: {called} calls, {written} records, {lost} lost"
    lost = recorded.lost_communicators
    for what in ("inits", "finalizes"):
        called, written = getattr(relayed, what), getattr(recorded, what)
        if called != written and not lost:
            yield f"{what}: {called} calls, {written} records"
    called, written = (calls.inits + calls.finalizes for calls in (relayed, recorded))
    if called != written + lost:
        yield f"inits and finalizes: {called} calls, {written} records, {lost} lost"
    yield from recorded.bad


def states(calls, kind):
    return sum(times for (of, call), times in calls.by_kind.items() if of == kind and not isinstance(call, str))


def main(relay_out, directory):
    relayed, recorded = Relayed(relay_out), Recorded(directory)
    if not relayed.inits:
        raise SystemExit(f"callbacks: {relay_out}.*: NCCL called no plugin")
    wrong = list(differences(relayed, recorded))
    for line in wrong:
        print(f"   WRONG {line}")
    print(f"   interface v{relayed.version}: {sum(relayed.by_kind.values())} calls, {sum(recorded.by_kind.values())} records, {sum(recorded.lost.values())} lost")
    if wrong:
        raise SystemExit(f"callbacks: {len(wrong)} numbers differ between {relay_out}.* and {directory}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("callbacks.py RELAY_OUT DIRECTORY_OF_THE_ARCHIVE", file=sys.stderr)
        raise SystemExit(2)
    main(sys.argv[1], sys.argv[2])
