"""Recordings as tables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, overload

from ._files import Error, file_word, run_tool
from ._select import Ranks, Time, options

if TYPE_CHECKING:
    import pyarrow


@overload
def read(
    archive: str | os.PathLike[str],
    table: str,
    *,
    ranks: Ranks | None = None,
    since: Time | None = None,
    until: Time | None = None,
) -> pyarrow.Table: ...


@overload
def read(
    archive: str | os.PathLike[str],
    table: list[str] | tuple[str, ...] | None = None,
    *,
    ranks: Ranks | None = None,
    since: Time | None = None,
    until: Time | None = None,
) -> dict[str, pyarrow.Table]: ...


def read(
    archive: str | os.PathLike[str],
    table: str | list[str] | tuple[str, ...] | None = None,
    *,
    ranks: Ranks | None = None,
    since: Time | None = None,
    until: Time | None = None,
) -> pyarrow.Table | dict[str, pyarrow.Table]:
    """A table of a recording, or several by name, as Arrow tables.

    ``archive`` is a job's directory or its ``traces.otf2``. ``table`` is the name of one table, which is returned:
    ``instances``, ``ranks``, ``operations``, ``calls``, ``ranges``, ``transfers``, ``steps`` or ``kernels``. For a list
    of names, and without it for all tables that have rows, a dictionary is returned. Only these tables are made::

        nccl_otf2.read("trace", table="operations").to_pandas()
        polars.from_arrow(nccl_otf2.read("trace", table="operations", ranks=[0, 3], since=1.5, until="2.5s"))
        nccl_otf2.read("trace")["instances"]

    ``ranks`` are ranks of communicators: a number, several, or a text such as ``"0,4-7"``. ``since`` and ``until`` keep
    what runs in this time, whole: seconds after the beginning of the recording, a ``datetime.timedelta``, or a text as
    the command takes it (``"20ms"``; ``"@N"`` in ns since 1970). The tables ``instances`` and ``ranks`` have all ranks.
    ``instance`` counts the collectives of the selected part: it joins tables that were read with one selection.

    A row is an operation, a call and so on. Columns that end in ``_ns`` are in ns, ``bytes`` in bytes, ``algbw`` and
    ``busbw`` in bytes per second; a null is not known. Section "Parquet tables" of docs/REFERENCE.md says what each
    one means. ``nccl-otf2 export --format parquet`` writes the same tables into files, for what does not fit into
    memory.

    Raises :class:`nccl_otf2.Error` where the recording cannot be read, a table is not known or has no rows, or nothing
    is in the selected part; ``ImportError`` without pyarrow.
    """
    try:
        import pyarrow.dataset
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pyarrow"):
            raise
        raise ImportError("nccl_otf2.read needs pyarrow: pip install pyarrow") from error

    names = _names(table)
    chosen = [f"--table={','.join(names)}"] if names is not None else []
    chosen += options(ranks, since, until)
    with tempfile.TemporaryDirectory(prefix="nccl-otf2-") as scratch:
        folder = Path(scratch, "tables")
        run_tool("export", "--format", "parquet", file_word(archive), "--out", folder, *chosen)
        found = {entry.name.removeprefix("table="): entry for entry in sorted(folder.glob("table=*"))}
        wanted = list(found) if names is None else names
        if missing := [name for name in wanted if name not in found]:
            has = ", ".join(found) or "none"
            raise Error(f"no row of {', '.join(missing)} in what was asked for; tables with rows: {has}")
        tables = {name: _table(found[name]) for name in wanted}
    return tables[table] if isinstance(table, str) else tables


def _table(folder: Path) -> pyarrow.Table:
    """The rows of all processes. Hosts and processes are columns by the names of folders."""
    import pyarrow
    import pyarrow.dataset

    partitioning = None
    if any(folder.glob("host=*")):
        # Names of hosts stay text where they look like numbers.
        columns = pyarrow.schema([("host", pyarrow.string()), ("process", pyarrow.int32())])
        partitioning = pyarrow.dataset.partitioning(columns, flavor="hive")
    return pyarrow.dataset.dataset(folder, partitioning=partitioning).to_table()


def _names(table: str | Iterable[str] | None) -> list[str] | None:
    """The names that are wanted, checked before the recording is read, which can take long."""
    if table is None or isinstance(table, str):
        return None if table is None else [table]
    names = list(table) if isinstance(table, Iterable) else [table]
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"tables are names, such as 'operations', not {wrong[0]!r}")
    if not names:
        raise ValueError("no table is named: leave table out for all")
    return names
