"""Parts of a JSON answer as HTML tables, without other packages."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

#: Rows of a table that are shown: the dictionary has all.
_ROWS = 12
_UNKNOWN = "–"

#: What a terminal acts on instead of showing it: control characters, line separators and directional marks.
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_Format = Callable[[Any, Mapping[str, Any]], str]


def field(row: Any, path: str) -> Any:
    """The field of a path such as ``budget.waiting_ns``; ``None`` where there is none. Without a path, the row."""
    for name in path.split(".") if path else []:
        row = row.get(name) if isinstance(row, Mapping) else None
    return row


def _text(value: Any, _answer: Mapping[str, Any]) -> str:
    return str(value)


def visible(text: str) -> str:
    """Control characters as the command shows them, such as ``\\n`` and ``\\u{1b}``: names are those of programs."""
    short = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
    return _CONTROL.sub(lambda found: short.get(found[0], f"\\u{{{ord(found[0]):x}}}"), text)


class Column(NamedTuple):
    """``path`` is that of the field; ``^`` is in front of fields of the enclosing row."""

    title: str
    path: str
    format: _Format = _text

    def cell(self, row: Any, around: Any, answer: Mapping[str, Any]) -> str:
        value = field(around, self.path[1:]) if self.path.startswith("^") else field(row, self.path)
        shown = _UNKNOWN if value is None else self.format(value, answer)
        return self._cell("td", shown)

    def head(self) -> str:
        return self._cell("th", self.title)

    def _cell(self, tag: str, text: str) -> str:
        side = "left" if self.format in _TEXTS else "right"
        return f'<{tag} style="text-align: {side}; padding: 0 0.5em">{html.escape(visible(text))}</{tag}>'


class Table:
    """Rows of a list in the answer, or with ``[].`` in its path of the lists in a list."""

    def __init__(self, title: str, path: str, *columns: Column, order: tuple[str, ...] = ()) -> None:
        self.title, self.path, self.columns, self.order = title, path, columns, order

    def rows(self, answer: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        """Rows, each with the one around it; the largest come first by the fields of ``order``, if there are any."""
        outer, _, inner = self.path.partition("[].")
        found = field(answer, outer) or []
        rows = [(row, around) for around in found for row in field(around, inner) or []] if inner else [
            (row, answer) for row in found
        ]
        return sorted(rows, key=lambda row: [-(field(row[0], path) or 0) for path in self.order])

    def html(self, answer: Mapping[str, Any]) -> str:
        rows = self.rows(answer)
        if not rows:
            return ""
        head = "".join(column.head() for column in self.columns)
        body = "".join(
            "<tr>" + "".join(column.cell(row, around, answer) for column in self.columns) + "</tr>"
            for row, around in rows[:_ROWS]
        )
        caption = html.escape(self.title)
        if (more := len(rows) - _ROWS) > 0:
            caption += f" ({more} more rows in <code>{html.escape(self.path)}</code>)"
        return (
            '<table style="margin: 0.5em 0"><caption style="text-align: left; white-space: nowrap">'
            f"{caption}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def page(line: str, evidence: list[str], parts: list[str]) -> str:
    items = "".join(f"<li>{html.escape(visible(text))}</li>" for text in evidence)
    return f"<div><p><strong>{html.escape(visible(line))}</strong></p><ul>{items}</ul>{''.join(parts)}</div>"


# Numbers as the command prints them.


def time(ns: float, _answer: Mapping[str, Any]) -> str:
    size = abs(ns)
    if size < 1e3:
        return f"{ns:.0f} ns"
    if size < 1e6:
        return f"{ns / 1e3:.1f} µs"
    return f"{ns / 1e6:.2f} ms" if size < 1e9 else f"{ns / 1e9:.3f} s"


def size(number: int, _answer: Mapping[str, Any]) -> str:
    value, units = number, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and value % 1024 == 0 and len(units) > 1:
        value, units = value // 1024, units[1:]
    if value < 10_000:
        return f"{value} {units[0]}"
    rest = float(value)
    while rest >= 1024 and len(units) > 1:
        rest, units = rest / 1024, units[1:]
    return f"{rest:.2f} {units[0]}"


def bandwidth(bytes_per_second: float, _answer: Mapping[str, Any]) -> str:
    if bytes_per_second < 1e3:
        return f"{bytes_per_second:.0f} B/s"
    if bytes_per_second < 1e6:
        return f"{bytes_per_second / 1e3:.1f} kB/s"
    return f"{bytes_per_second / 1e6:.1f} MB/s" if bytes_per_second < 1e9 else f"{bytes_per_second / 1e9:.2f} GB/s"


def count(number: int, _answer: Mapping[str, Any]) -> str:
    return f"{number:,}".replace(",", " ")


def plural(number: int, noun: str) -> str:
    return f"{count(number, {})} {noun if number == 1 else {'process': 'processes'}.get(noun, noun + 's')}"


def ratio(number: float, _answer: Mapping[str, Any]) -> str:
    return f"{number:.2f}"


def percent(share: float, _answer: Mapping[str, Any]) -> str:
    return f"{100 * share:.1f} %"


def change(share: float, _answer: Mapping[str, Any]) -> str:
    return f"{100 * share:+.1f} %"


def waiting(budget: Mapping[str, int], answer: Mapping[str, Any]) -> str:
    """The share of the time in operations that was waiting."""
    operations_ns = budget["operations_ns"]
    return percent(budget["waiting_ns"] / operations_ns, answer) if operations_ns else _UNKNOWN


# Names and lists.


def rank(index: int, answer: Mapping[str, Any]) -> str:
    return str(answer["ranks"][index]["name"])


def communicator(index: int, answer: Mapping[str, Any]) -> str:
    return str(answer["communicators"][index]["name"])


def path(names: list[str], _answer: Mapping[str, Any]) -> str:
    return " > ".join(names)


def ranges(rows: list[Mapping[str, Any]], _answer: Mapping[str, Any]) -> str:
    return " > ".join(row["name"] for row in rows)


def call(row: Mapping[str, Any], _answer: Mapping[str, Any]) -> str:
    """The call of NCCL that a rank is in, as far as its process reports calls."""
    if row["call"] is None:
        return "none" if row["reports_calls"] else "not known"
    return str(row["call"]["name"])


def listed(names: list[str], _answer: Mapping[str, Any]) -> str:
    return ", ".join(names)


def numbers(all_numbers: list[int], _answer: Mapping[str, Any]) -> str:
    """Numbers in order, such as ``0-2, 5``."""
    spans: list[list[int]] = []
    for number in sorted(all_numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans) or _UNKNOWN


_TEXTS = _text, rank, communicator, path, ranges, call, listed, numbers
