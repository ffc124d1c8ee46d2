"""The events that otf2-print prints, one by one."""

import re

NUMBER = r"\d+"
# A rank is followed by the name of its location where otf2-print knows it.
RANK = NUMBER + r"|NONE"


def _named(label, field):
    return rf'{label}: "(?P<{field}>.*)" <(?P<{field}Ref>\d+)>'


def _number(label, field, number=NUMBER):
    return rf"{label}: (?P<{field}>{number})"


def _rank(label, field):
    return rf"{label}: (?P<{field}>{RANK})(?: \(.*\))?"


REGION = [_named("Region", "region")]
COMM = _named("Communicator", "comm")
REQUEST = _number("Request", "request")
COLLECTIVE = [
    r"Operation: (?P<operation>\w+)",
    COMM,
    _rank("Root", "root"),
    _number("Sent", "bytesSent"),
    _number("Received", "bytesReceived"),
]
MESSAGE = [COMM, _number("Tag", "tag"), _number("Length", "bytes")]
SEND = [_rank("Receiver", "peer"), *MESSAGE]
RECEIVE = [_rank("Sender", "peer"), *MESSAGE]
WINDOW = _named("Window", "window")
MATCHING = _number("Matching", "matching")
ACCESS = [WINDOW, _rank("Remote", "remote"), _number("Bytes", "bytes"), MATCHING]
FIELDS = {
    "Enter": REGION,
    "Leave": REGION,
    "MpiCollectiveBegin": [],
    "MpiCollectiveEnd": COLLECTIVE,
    "NonBlockingCollectiveRequest": [REQUEST],
    "NonBlockingCollectiveComplete": [*COLLECTIVE, REQUEST],
    "MpiSend": SEND,
    "MpiRecv": RECEIVE,
    "MpiIsend": [*SEND, REQUEST],
    "MpiIrecv": [*RECEIVE, REQUEST],
    "MpiIsendComplete": [REQUEST],
    "MpiIrecvRequest": [REQUEST],
    "RmaPut": ACCESS,
    "RmaGet": ACCESS,
    "RmaOpCompleteBlocking": [WINDOW, MATCHING],
    "RmaOpCompleteNonBlocking": [WINDOW, MATCHING],
    "ParameterUnsignedInt": [_named("Parameter", "parameter"), _number("Value", "value")],
}
PATTERNS = {kind: re.compile(", ".join(fields), re.DOTALL) for kind, fields in FIELDS.items()}
TEXTS = {"region", "comm", "window", "operation", "parameter"}
# otf2-print's words for kinds that OTF2 names otherwise.
NAMES = {"ParameterUint64": "ParameterUnsignedInt", "ParameterInt64": "ParameterInt"}
LINE = re.compile(r"([A-Z][A-Z0-9_]+) +(\d+) +(\d+)  (.*)", re.DOTALL)
METRIC = re.compile(r"Metric: (\d+), (\d+) Values?: (.*)", re.DOTALL)
ATTRIBUTES = re.compile(r" {20,}ADDITIONAL ATTRIBUTES: (.*)", re.DOTALL)
# ("nccl.algo" <3>; STRING; "RING" <7>), ("nccl.algbw" <0>; DOUBLE; 1.5e+06)
VALUE = re.compile(r'\("(.*?)" <(\d+)>; ([A-Z0-9_]+); (?:"(.*?)" <\d+>|([^"() ]*))\)(?:, |$)', re.DOTALL)


class Unreadable(Exception):
    """A line that is not understood."""


def values(text):
    """(name, type, value) of each element of a list; numbers with a fraction stay text, as they are rounded."""
    found, place = [], 0
    while place < len(text):
        match = VALUE.match(text, place)
        if not match:
            raise Unreadable(text[place:])
        name, _, kind, string, number = match.groups()
        if string is not None:
            value = string
        elif kind in ("DOUBLE", "FLOAT"):
            value = number
        else:
            value = int(number)
        found.append((name, kind, value))
        place = match.end()
    return found


def _fields(kind, text):
    if kind == "Metric":
        match = METRIC.fullmatch(text)
        if not match:
            raise Unreadable(text)
        members = values(match.group(3))
        return {
            "metricRef": int(match.group(1)),
            "metrics": [name for name, _, _ in members],
            "values": [value for _, _, value in members],
        }
    if kind not in PATTERNS:
        return None
    match = PATTERNS[kind].fullmatch(text)
    if not match:
        raise Unreadable(text)
    fields = match.groupdict()
    if fields.get("root") == "NONE":
        del fields["root"]
    return {name: value if name in TEXTS else int(value) for name, value in fields.items()}


def events(lines):
    """(location, (kind, time, fields, attributes)) of every event; fields is None for kinds that are not known."""
    begun = False
    # The event that is read, and what it has in text: strings of an archive may have line breaks.
    head, parts = None, []

    def end():
        kind = "".join(word.title() for word in head[0].split("_"))
        kind = NAMES.get(kind, kind)
        text, *listed = (part.rstrip("\n") for part in parts)
        attributes = [(name, value) for listed in listed for name, _, value in values(listed)]
        return head[1], (kind, head[2], _fields(kind, text), attributes)

    for line in lines:
        line = line.rstrip("\n")
        if not begun:
            begun = line.startswith("-----")
            continue
        match = LINE.fullmatch(line)
        if match:
            if head:
                yield end()
            head, parts = (match.group(1), int(match.group(2)), int(match.group(3))), [match.group(4)]
            continue
        match = ATTRIBUTES.fullmatch(line)
        if match and len(parts) == 1:
            parts.append(match.group(1))
        elif head:
            parts[-1] += "\n" + line
    if head:
        yield end()
