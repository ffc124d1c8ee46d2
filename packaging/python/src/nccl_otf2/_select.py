"""Options of the command that select a part of a recording."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from datetime import timedelta
from typing import Union

#: A time in ns that is after the end of any recording, and that the command takes.
_LATEST_NS = 2**62

#: Ranks of communicators: one, several, or a text such as ``"0,4-7"``.
Ranks = Union[int, str, Iterable[int]]
#: A time after the beginning of the recording: in seconds, or a text such as ``"20ms"``; ``"@N"`` is in ns since 1970.
Time = Union[float, str, timedelta]


def options(ranks: Ranks | None, since: Time | None, until: Time | None) -> list[str]:
    """The words that select these ranks and this time."""
    words = [f"--rank={_ranks(ranks)}"] if ranks is not None else []
    times = ("--from", since), ("--to", until)
    return words + [f"{option}={_time(time)}" for option, time in times if time is not None]


def _ranks(ranks: Ranks) -> str:
    if isinstance(ranks, str):
        return ranks
    numbers = ranks if isinstance(ranks, Iterable) else [ranks]
    words = [str(operator.index(rank)) for rank in numbers]
    if not words:
        raise ValueError("ranks is empty: leave it out for all ranks")
    return ",".join(words)


def _time(time: Time) -> str:
    if isinstance(time, str):
        return time
    seconds = time.total_seconds() if isinstance(time, timedelta) else float(time)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"a time is at least 0 s after the beginning, not {time!r}")
    return f"{round(min(seconds * 1e9, _LATEST_NS))}ns"
