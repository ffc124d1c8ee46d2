"""What the command answers about recordings, as dictionaries that notebooks show."""

from __future__ import annotations

import os
from typing import Any

from . import _tables as tables
from ._files import ask_tool, file_word
from ._select import Ranks, Time, options
from ._tables import Column, Table


class Answer(dict[str, Any]):
    """What the command prints with ``--json``: section "JSON reports" of docs/REFERENCE.md has the fields.

    Times are in ns where the name of a field ends in ``_ns``, sizes in bytes, bandwidths in bytes per second, shares
    of 1. ``None`` is what is not known. ``print`` shows the finding, and Jupyter its tables, too, with units.
    """

    _tables: tuple[Table, ...] = ()

    @property
    def line(self) -> str:
        """What was found, in one line."""
        return str(tables.field(self, "verdict.line"))

    @property
    def evidence(self) -> list[str]:
        """What the line rests on, and what is not known."""
        return list(tables.field(self, "verdict.basis") or [])

    def __repr__(self) -> str:
        return "\n  ".join(map(tables.visible, [self.line, *self.evidence]))

    def _repr_html_(self) -> str:
        return tables.page(self.line, self.evidence, [table.html(self) for table in self._tables])


class Stats(Answer):
    """Fields of ``nccl-otf2 stats --json``: ``verdict``, ``causes``, ``ranks``, ``operations``, ``pairs`` and more."""

    _tables = (
        Table(
            "causes of lost time, which overlap and do not add up",
            "causes",
            Column("lost", "lost_ns", tables.time),
            Column("share", "share", tables.percent),
            Column("cause", "sentence"),
        ),
        Table(
            "operations, counted on every rank",
            "operations",
            Column("function", "function"),
            Column("size", "bytes_max", tables.size),
            Column("count", "count", tables.count),
            Column("median", "duration_ns.median", tables.time),
            Column("p99", "duration_ns.p99", tables.time),
            Column("busbw", "busbw.median", tables.bandwidth),
            Column("waiting", "budget", tables.waiting),
            Column("communicator", "communicator", tables.communicator),
            order=("budget.operations_ns",),
        ),
        Table(
            "ranks: their time in operations, and how late they come",
            "ranks",
            Column("rank", "name"),
            Column("operations", "budget.operations_ns", tables.time),
            Column("waiting", "budget", tables.waiting),
            Column("awaited", "awaited_ns", tables.time),
            Column("longer", "longer_ns", tables.time),
            Column("lost", "lost_ns", tables.time),
            Column("host", "host"),
            order=("lost_ns",),
        ),
        Table(
            "network, by sender and receiver",
            "pairs",
            Column("from", "from", tables.rank),
            Column("to", "to", tables.rank),
            Column("size", "bytes", tables.size),
            Column("rate", "rate", tables.bandwidth),
            Column("slowdown", "slowdown", tables.ratio),
            Column("lost", "lost_ns", tables.time),
            order=("lost_ns", "slowdown"),
        ),
        Table(
            "phases: operations, by the program range that they were called in",
            "phases",
            Column("phase", "path", tables.path),
            Column("longest on", "longest.rank", tables.rank),
            Column("longest", "longest.ns", tables.time),
            Column("others", "longest.others_ns", tables.time),
            Column("operations", "operations", tables.count),
            Column("in operations", "budget.operations_ns", tables.time),
            Column("waiting", "budget", tables.waiting),
            order=("budget.operations_ns",),
        ),
        Table(
            "slowest steps of the program: time on the slowest rank",
            "steps.steps",
            Column("step", "number", tables.count),
            Column("time", "duration_ns", tables.time),
            Column("fastest", "shortest_ns", tables.time),
            Column("slowest rank", "slowest", tables.rank),
            Column("waiting", "budget", tables.waiting),
            order=("duration_ns",),
        ),
    )

    @property
    def evidence(self) -> list[str]:
        rest = tables.field(self, "verdict.rest")
        return [*super().evidence, *([rest] if rest else [])]


class Diff(Answer):
    """Fields of ``nccl-otf2 diff --json``: ``outcome``, ``sentence``, ``groups``, ``ranges``, ``runs`` and more."""

    _tables = (
        Table(
            "operations of both runs",
            "groups",
            Column("function", "a.function"),
            Column("ranks", "a.ranks", tables.count),
            Column("size", "a.bytes_max", tables.size),
            Column("outcome", "outcome"),
            Column("median of A", "median.a_ns", tables.time),
            Column("of B", "median.b_ns", tables.time),
            Column("change", "median.share", tables.change),
            Column("reason", "reason"),
        ),
        Table(
            "ranges of the program",
            "ranges",
            Column("range", "path", tables.path),
            Column("outcome", "median.outcome"),
            Column("median of A", "median.a_ns", tables.time),
            Column("of B", "median.b_ns", tables.time),
            Column("change", "median.share", tables.change),
        ),
        *(
            Table(
                f"operations that only {run.upper()} has",
                f"only_{run}",
                Column("function", "function"),
                Column("ranks", "ranks", tables.count),
                Column("size", "bytes_max", tables.size),
                Column("operations", "operations", tables.count),
            )
            for run in "ab"
        ),
    )

    @property
    def line(self) -> str:
        return str(self["sentence"])

    @property
    def evidence(self) -> list[str]:
        return list(self["basis"])


class Hang(Answer):
    """Fields of ``nccl-otf2 hang --json``: ``verdict``, ``suspects``, ``ranks``, ``communicators`` and more."""

    _tables = (
        Table(
            "suspects",
            "suspects",
            Column("rank of the job", "job_rank", tables.count),
            Column("process", "process"),
            Column("communicator", "communicator"),
            Column("what it does", "text"),
            Column("blocks ranks", "ranks_blocked", tables.count),
            Column("advice", "advice"),
        ),
        Table(
            "communicators: the first collective that is not complete",
            "communicators[].sequences",
            Column("communicator", "^name"),
            Column("last complete", "last_complete.position", tables.count),
            Column("first incomplete", "first_incomplete.position", tables.count),
            Column("function", "first_incomplete.function"),
            Column("entered", "entered", tables.numbers),
            Column("not entered", "not_entered", tables.numbers),
            Column("waited", "waited_ns", tables.time),
        ),
        Table(
            "ranks: the call of NCCL and the ranges of the program that they are in",
            "ranks",
            Column("rank of the job", "job_rank", tables.count),
            Column("process", "process"),
            Column("state", "process_state"),
            Column("call", "", tables.call),
            Column("for", "call.for_ns", tables.time),
            Column("ranges", "ranges", tables.ranges),
            order=("call.for_ns",),
        ),
    )

    @property
    def evidence(self) -> list[str]:
        confidence, following = tables.field(self, "verdict.confidence"), tables.field(self, "verdict.next")
        return [
            *self["verdict"]["evidence"],
            *([f"confidence: {confidence}"] if confidence else []),
            *self["unknown"],
            *([f"next: {following}"] if following else []),
        ]


class Info(Answer):
    """Fields of ``nccl-otf2 info --json``: ``communicators``, ``operations``, ``completeness`` and more."""

    _tables = (
        Table(
            "communicators",
            "communicators",
            Column("communicator", "name"),
            Column("ranks", "ranks", tables.count),
            Column("recorded", "ranks_recorded", tables.count),
            Column("sends", "sends", tables.count),
            Column("sent", "bytes_sent", tables.size),
            Column("received", "bytes_received", tables.size),
        ),
        Table(
            "operations, counted on every rank",
            "operations",
            Column("function", "function"),
            Column("size", "bytes_max", tables.size),
            Column("count", "count", tables.count),
            Column("unfinished", "unfinished", tables.count),
            Column("median", "duration_ns.median", tables.time),
            Column("busbw", "busbw.median", tables.bandwidth),
            order=("duration_ns.total",),
        ),
        Table(
            "processes",
            "processes",
            Column("process", "name"),
            Column("host", "host"),
            Column("GPUs", "gpus", tables.listed),
            Column("events", "events", tables.count),
        ),
    )

    @property
    def line(self) -> str:
        versions = ", ".join(self["nccl_versions"]) or "of an unknown version"
        processes = tables.plural(len(self["processes"]), "process")
        hosts = tables.plural(len(self["hosts"]), "host")
        length = tables.time(self["duration_ns"], self)
        return f"{processes} on {hosts}, NCCL {versions}: {tables.plural(self['events'], 'event')} in {length}"

    @property
    def evidence(self) -> list[str]:
        completeness = self["completeness"]
        lost, missing = completeness["callbacks_lost"], completeness["ranks_missing"]
        return [
            *([f"{tables.plural(lost, 'callback')} lost"] if lost else []),
            *([f"{tables.plural(missing, 'rank')} of communicators not recorded"] if missing else []),
            *completeness["problems"],
            *completeness["parts_left_out"],
            *(f"not reported by NCCL: {what}" for what in self["unreported"]),
        ]


def stats(
    archive: str | os.PathLike[str],
    *,
    ranks: Ranks | None = None,
    since: Time | None = None,
    until: Time | None = None,
    step: str | None = None,
    baseline: str | os.PathLike[str] | None = None,
) -> Stats:
    """What is slow, who is late, and whether that is waiting or moving bytes::

        answer = nccl_otf2.stats("trace")
        answer["verdict"]["line"], answer["causes"]
        pandas.json_normalize(answer["ranks"])

    ``archive`` is a job's directory or its ``traces.otf2``; ``ranks``, ``since`` and ``until`` are those of
    :func:`nccl_otf2.read`. ``step`` names the range that is a step of the program, and ``baseline`` is an archive, or
    what nccl-tests printed, to compare bandwidths with. Raises :class:`nccl_otf2.Error` where it cannot be read.
    """
    words = options(ranks, since, until)
    words += [f"--step={step}"] if step is not None else []
    words += [f"--baseline={os.fsdecode(baseline)}"] if baseline is not None else []
    return Stats(ask_tool("stats", file_word(archive), *words))


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    ranks: Ranks | None = None,
    since: Time | None = None,
    until: Time | None = None,
) -> Diff:
    """What is slower in run ``b`` than in run ``a`` of a program, and whether that is more than chance.

    ``answer["outcome"]`` is the result, ``answer["groups"]`` has the operations. Arguments and errors are those of
    :func:`nccl_otf2.stats`.
    """
    return Diff(ask_tool("diff", file_word(a), file_word(b), *options(ranks, since, until)))


def hang(directory: str | os.PathLike[str], *, after: float | None = None) -> Hang:
    """Who holds up a job that hangs or was killed.

    ``directory`` is the job's directory, also while the job runs: on a host of the job it is known which processes
    live. ``after`` is for how many seconds a rank must have waited to count as hanging; 10 without it.
    ``answer["verdict"]["found"]`` says whether the job hangs, and the kind ``unknown`` that the records cannot tell.
    Raises :class:`nccl_otf2.Error` where nothing can be read.
    """
    return Hang(ask_tool("hang", file_word(directory), *([f"--after={after}"] if after is not None else [])))


def info(archive: str | os.PathLike[str]) -> Info:
    """What is in an archive, and what could not be recorded. Arguments and errors are those of :func:`stats`."""
    return Info(ask_tool("info", file_word(archive)))
