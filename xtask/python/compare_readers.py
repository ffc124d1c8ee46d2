"""Reads archives with three readers and compares what they say, event by event:
compare_readers.py [--json] [--otf2-print PROGRAM] --nccl-otf2 PROGRAM ANCHOR…

The readers are otf2-print, the Python package otf2 (with a libotf2 of its own), and `nccl-otf2 print --json`. Of every
event of every location are compared: the kind, the time, what it refers to by name and number, its other values,
and its attributes in their order with their values. otf2-print rounds numbers with a fraction to six digits.
Exit status: 0 they agree, 1 they do not, 2 an archive could not be read.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
from collections import Counter, deque

import otf2_print

PRINT, PYTHON, OURS = "otf2-print", "Python otf2", "nccl-otf2"


class Unread(Exception):
    """A reader could not read the archive."""


def of_program(command, parse, may_end_with=(0,)):
    """What `parse` makes of the lines that a program writes; it must end well and, if it complains, with a reason."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        try:
            program = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=complaints, stdin=subprocess.DEVNULL
            )
        except OSError as error:
            raise Unread(f"{command[0]}: {error.strerror}") from error
        with program:
            # Only a line feed ends a line: strings of an archive may have other characters that count as one.
            lines = (line.decode("utf-8", "replace") for line in program.stdout)
            yield from parse(lines)
        complaints.seek(0)
        said = complaints.read().strip()
        if program.returncode not in may_end_with or (said and may_end_with == (0,)):
            raise Unread(f"{command[0]} ended with {program.returncode}: {said.splitlines()[-1:]}")


def printed(program, anchor):
    def parse(lines):
        try:
            yield from otf2_print.events(lines)
        except otf2_print.Unreadable as error:
            raise Unread(f"{program}: cannot understand: {error}") from error

    return of_program([program, anchor], parse)


def ours(program, anchor):
    """What `nccl-otf2 print --json` says (docs/REFERENCE.md). It ends with 1 when the archive owns up to losses."""

    def parse(lines):
        for line in lines:
            record = dict(json.loads(line, object_pairs_hook=lambda pairs: pairs))
            kind, time, location = (record.pop(name) for name in ("event", "time", "locationRef"))
            attributes = record.pop("attributes", [])
            del record["location"]
            if "operation" in record:
                record["operation"] = record["operation"].upper()
            yield location, (kind, time, record, attributes)

    return of_program([program, "print", "--json", anchor], parse, (0, 1))


def number(value):
    """As JSON has it: numbers that it cannot have are their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value)
    return value


class Python:
    """What the package otf2 reads."""

    def __init__(self, anchor):
        import _otf2
        import otf2

        self.anchor = anchor
        self.errors = (_otf2.Error, otf2.error.TraceReaderError, KeyError, AssertionError)
        self.otf2 = otf2
        self.locations = {}
        # OTF2_COLLECTIVE_ROOT_NONE
        self.no_root = 0xFFFFFFFF

    def events(self):
        try:
            with self.otf2.reader.open(self.anchor, batch_events=1000) as trace:
                for location in trace.definitions.locations:
                    self.locations[location._ref] = (location.name, location.number_of_events)
                for location, event in trace.events:
                    kind = type(event).__name__
                    attributes = (event.attributes or {}).items()
                    attributes = [(attribute.name, number(plain(value))) for attribute, value in attributes]
                    yield location._ref, (kind, event.time, self.fields(kind, event), attributes)
        except self.errors as error:
            raise Unread(f"the package otf2: {type(error).__name__}: {error}") from error

    def fields(self, kind, event):
        if kind in ("Enter", "Leave"):
            return {"region": event.region.name, "regionRef": event.region._ref}
        if kind == "Metric":
            members = event.metric.members
            return {
                "metricRef": event.metric._ref,
                "metrics": [member.name for member in members],
                "values": [number(value) for value in event.values],
            }
        if kind not in otf2_print.PATTERNS:
            return None
        fields = {}
        for name, value in vars(event).items():
            if name in ("time", "attributes"):
                continue
            if name in ("communicator", "win"):
                name = "comm" if name == "communicator" else "window"
                fields[name], fields[name + "Ref"] = value.name, value._ref
            elif name == "parameter":
                fields[name], fields[name + "Ref"] = value.name, value._ref
            elif name == "collective_op":
                fields["operation"] = str(value).rpartition(".")[2].replace("_", "")
            elif name == "root" and value == self.no_root:
                continue
            else:
                fields[RENAMED.get(name, name)] = value
        return fields


RENAMED = {
    "receiver": "peer",
    "sender": "peer",
    "msg_tag": "tag",
    "msg_length": "bytes",
    "request_id": "request",
    "size_sent": "bytesSent",
    "size_received": "bytesReceived",
    "matching_id": "matching",
}


def plain(value):
    """The value of an attribute: definitions are their names."""
    return value if isinstance(value, (int, float, str)) else getattr(value, "name", value)


def rounded(value):
    if isinstance(value, float):
        return f"{value:g}"
    # C and Rust write it differently.
    return "nan" if value == "NaN" else value


def as_printed(event):
    """As otf2-print shows it: six digits of numbers with a fraction."""
    kind, time, fields, attributes = event
    if fields and "values" in fields:
        fields = {**fields, "values": [rounded(value) for value in fields["values"]]}
    return kind, time, fields, [(name, rounded(value)) for name, value in attributes]


def normal(event):
    """otf2-print's operations have words, those of the others none; kinds without a pattern have no fields."""
    kind, time, fields, attributes = event
    if fields and "operation" in fields:
        fields = {**fields, "operation": fields["operation"].replace("_", "")}
    if kind != "Metric" and kind not in otf2_print.PATTERNS:
        fields = None
    return kind, time, fields, attributes


class Difference(Exception):
    """The first event that the readers do not agree on."""

    def __init__(self, location, name, index, saw):
        super().__init__(location)
        self.report = {"location": location, "name": name, "index": index, "saw": saw}


def show(event):
    if event is None:
        return "no such event"
    kind, time, fields, attributes = event
    words = [f"{name}={value}" for name, value in (fields or {}).items()]
    words += [f"{name}={value}" for name, value in attributes]
    return " ".join([kind, f"time={time}", *words])


def compare(readers, locations=None):
    """Reads all readers at once. `readers` maps their names to their events; the second is compared with the others.

    They go through an archive in the order of time, but events of one time come in any order of their locations: so
    each location has queues. These are as long as there are events of one time.
    """
    names = list(readers)
    streams = {name: iter(events) for name, events in readers.items()}
    queues = {}
    counted, kinds, attributes = Counter(), Counter(), 0
    while streams:
        for name in list(streams):
            found = next(streams[name], None)
            if found is None:
                del streams[name]
                continue
            location, event = found
            waiting = queues.setdefault(location, {name: deque() for name in names})
            waiting[name].append(normal(event))
            if not all(waiting.values()):
                continue
            saw = {name: waiting[name].popleft() for name in names}
            judge(location, locations, counted[location], saw)
            counted[location] += 1
            kinds[event[0]] += 1
            attributes += len(event[3])
    for location in sorted(queues):
        waiting = queues[location]
        if any(waiting.values()):
            saw = {name: waiting[name][0] if waiting[name] else None for name in names}
            raise Difference(location, named(locations, location), counted[location], saw)
    return counted, kinds, attributes


def judge(location, locations, index, saw):
    exact = saw[PYTHON]
    if OURS in saw and saw[OURS] != exact or PRINT in saw and saw[PRINT] != as_printed(exact):
        raise Difference(location, named(locations, location), index, saw)


def named(locations, location):
    return (locations or {}).get(location, ("not defined", 0))[0]


def agree(anchor, otf2_print_program, nccl_otf2):
    """What the three agree on; raises Difference or Unread."""
    python = Python(anchor)
    readers = {
        PRINT: printed(otf2_print_program, anchor),
        PYTHON: python.events(),
        OURS: ours(nccl_otf2, anchor),
    }
    counted, kinds, attributes = compare(readers, python.locations)
    for location, (name, promised) in python.locations.items():
        if counted[location] != promised:
            raise Unread(f"{name}: the definitions promise {promised} events, all readers saw {counted[location]}")
    return {
        "locations": len(python.locations),
        "events": sum(counted.values()),
        "attributes": attributes,
        "kinds": dict(sorted(kinds.items())),
        "by_name_only": sorted(kind for kind in kinds if kind != "Metric" and kind not in otf2_print.PATTERNS),
    }


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--otf2-print", default="otf2-print", metavar="PROGRAM")
    parser.add_argument("--nccl-otf2", required=True, metavar="PROGRAM")
    parser.add_argument("anchors", nargs="+", metavar="ANCHOR")
    asked = parser.parse_args(words)
    # Every reader has a file open for every location, which are more than the usual 1024; programs inherit it.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    status, reports = 0, []
    for anchor in asked.anchors:
        report = {"anchor": anchor, "agree": True}
        try:
            report.update(agree(anchor, asked.otf2_print, asked.nccl_otf2))
            say = (
                f"{anchor}: three readers agree on {report['events']} events with {report['attributes']} attributes"
                f" on {report['locations']} locations"
            )
        except Difference as found:
            difference = found.report
            saw = {name: show(event) for name, event in difference["saw"].items()}
            report.update(agree=False, difference={**difference, "saw": saw})
            say = (
                f"{anchor}: the readers differ on event {difference['index']} (from 0) of location"
                f" {difference['location']}, {difference['name']}\n"
                + "\n".join(f"  {name:<12} {text}" for name, text in saw.items())
            )
            status = max(status, 1)
        except Unread as why:
            report.update(agree=False, error=str(why))
            say = f"{anchor}: {why}"
            status = 2
        if asked.json:
            reports.append(report)
        else:
            print(say, flush=True)
    if asked.json:
        json.dump(reports, sys.stdout, indent=1)
        print()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
