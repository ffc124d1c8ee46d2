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
    except ImportError as error:
        raise ImportError("nccl_otf2.read needs pyarrow: pip install 'nccl-otf2[tables]'") from error

    with tempfile.TemporaryDirectory(prefix="nccl-otf2-") as scratch:
        folder = Path(scratch, "tables")
        run_tool("export", "--format", "parquet", file_word(archive), "--out", folder)
        found = {entry.name.removeprefix("table="): entry for entry in sorted(folder.glob("table=*"))}
        wanted = found.keys() if tables is None else [tables] if isinstance(tables, str) else list(tables)
        if missing := [name for name in wanted if name not in found]:
            raise KeyError(f"the recording has no rows for {', '.join(missing)}: it has {', '.join(found)}")
        # Hosts and processes are columns by the names of folders.
        return {name: pyarrow.dataset.dataset(found[name], partitioning="hive").to_table() for name in wanted}
