"""Recordings as pages."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

from ._files import Error, file_word, run_tool


class Report:
    """A page about a recording: what is slow, who is late, and a timeline. Jupyter shows it."""

    def __init__(self, page: str) -> None:
        #: The page, which needs no other file.
        self.html = page

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Writes the page, which only its user may read, as a whole: in place of a file or link that is there."""
        path = Path(file)
        if path.exists() and not path.is_file():
            # A device or a pipe is written to, and a directory is an error.
            path.write_text(self.html, encoding="utf-8")
            return path
        handle, scratch = tempfile.mkstemp(prefix=".nccl-otf2-", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as page:
                page.write(self.html)
            os.replace(scratch, path)
        except BaseException:
            os.unlink(scratch)
            raise
        return path

    def __repr__(self) -> str:
        return f"<page of nccl-otf2 report, {len(self.html)} characters: save(file) writes it, notebooks show it>"

    def _repr_html_(self) -> str:
        # A document of its own: the page's styles and scripts must not meet the notebook's, and links within the page
        # work only where it has an address, which `srcdoc` does not give it.
        page = base64.b64encode(self.html.encode()).decode()
        return (
            f'<iframe src="data:text/html;base64,{page}" sandbox="allow-scripts allow-popups allow-downloads" '
            'style="width: 100%; height: 48rem; border: 0" title="NCCL report"></iframe>'
        )


def report(
    archive: str | os.PathLike[str],
    *,
    diff: str | os.PathLike[str] | None = None,
    title: str | None = None,
    size_mb: int | None = None,
) -> Report:
    """The page of ``nccl-otf2 report`` about a job's directory or its ``traces.otf2``.

    ``diff`` is another recording to compare with. ``size_mb`` is the size of the page at most, 4 without it: a
    notebook keeps the page in its file. A comparison has no such limit.
    """
    if size_mb is not None and diff is not None:
        raise ValueError("size_mb does not go with diff: the page of a comparison has no limit")
    if size_mb is not None and size_mb < 1:
        raise ValueError(f"size_mb is at least 1, not {size_mb}")
    with tempfile.TemporaryDirectory(prefix="nccl-otf2-") as scratch:
        page = Path(scratch, "report.html")
        words = ["report", file_word(archive), f"--output={page}"]
        most = 4 if size_mb is None else size_mb
        words += [f"--diff={os.fsdecode(diff)}"] if diff is not None else [f"--size={most}"]
        words += [f"--title={title}"] if title is not None else []
        said = run_tool(*words)
        if not page.is_file():
            raise Error(f"nccl-otf2 ended well and wrote no page, but says: {said.strip() or 'nothing'}", exit_code=0)
        return Report(page.read_text(encoding="utf-8"))
