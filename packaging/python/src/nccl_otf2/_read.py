"""Recordings as tables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ._files import file_word, run_tool

if TYPE_CHECKING:
    import pyarrow


def read(archive: str | os.PathLike[str], tables: Iterable[str] | str | None = None) -> dict[str, pyarrow.Table]:
    """Tables of a recording, by name.

    ``archive`` is a job's directory or its ``traces.otf2``. ``tables`` names those that are wanted; without it, all are
    read::

        operations = nccl_otf2.read("trace", "operations")["operations"]
        operations.to_pandas()
        polars.from_arrow(operations)

    ``nccl-otf2 export --format parquet`` writes the same tables into files, for what does not fit into memory.
    """
    try:
        import pyarrow.dataset
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pyarrow"):
            raise
        raise ImportError("nccl_otf2.read needs pyarrow: pip install pyarrow") from error

    names = _names(tables)
    with tempfile.TemporaryDirectory(prefix="nccl-otf2-") as scratch:
        folder = Path(scratch, "tables")
        run_tool("export", "--format", "parquet", file_word(archive), "--out", folder)
        found = {entry.name.removeprefix("table="): entry for entry in sorted(folder.glob("table=*"))}
        wanted = list(found) if names is None else names
        if missing := [name for name in wanted if name not in found]:
            has = ", ".join(found) or "none"
            raise KeyError(f"the recording has no rows for {', '.join(missing)}, or no such table: its tables: {has}")
        # Hosts and processes are columns by the names of folders.
        return {name: pyarrow.dataset.dataset(found[name], partitioning="hive").to_table() for name in wanted}


def _names(tables: Iterable[str] | str | None) -> list[str] | None:
    """The names that are wanted, checked before the recording is read, which can take long."""
    if tables is None or isinstance(tables, str):
        return None if tables is None else [tables]
    names = list(tables) if isinstance(tables, Iterable) else [tables]
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"tables are names, such as 'operations', not {wrong[0]!r}")
    return names
