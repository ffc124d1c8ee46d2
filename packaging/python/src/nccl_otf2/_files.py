"""The package's files, and the command."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_DISTRIBUTION = "nccl-otf2"
_LAST_LINES = 20
#: Exit codes of verbs that answer: well, something was found, and (with an answer) it cannot tell.
_ANSWERED = 0, 1, 2
PLUGIN = "libnccl-profiler-otf2.so"


class Error(RuntimeError):
    """The command ``nccl-otf2`` did not do what it was asked to do; the message is its reason, or what ended it."""

    def __init__(self, message: str, *, exit_code: int | None = None, signal: int | None = None) -> None:
        super().__init__(message)
        #: The exit code of the command: 2 for wrong usage and for files that cannot be read. ``None`` after a signal.
        self.exit_code = exit_code
        #: The number of the signal that ended the command, such as ``signal.SIGKILL``. ``None`` after an exit.
        self.signal = signal


def version() -> str:
    return importlib.metadata.version(_DISTRIBUTION)


def plugin_path() -> Path:
    """The plugin that NCCL loads: a value for ``NCCL_PROFILER_PLUGIN`` and ``NVTX_INJECTION64_PATH``."""
    return _library(PLUGIN)


def tensorflow_plugin_path() -> Path:
    """TensorFlow's profiler: a value for ``TF_PLUGGABLE_DEVICE_LIBRARY_PATH``.

    A link to it in ``site-packages/tensorflow-plugins/`` has every TensorFlow process of the environment load it.
    """
    return _library("libnccl-otf2-tensorflow.so")


def tool_path() -> Path:
    """The command ``nccl-otf2`` of this package, which may not be on ``PATH``."""
    # `pip install --target` puts it here, and lists the place from which it moved the file.
    beside = Path(__file__).resolve().parent.parent / "bin" / "nccl-otf2"
    if _is_program(beside):
        return beside
    # Installers choose its folder, and keep a list of what they installed: of completions for shells, too.
    try:
        files = importlib.metadata.files(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nccl-otf2" and _is_program(path := Path(str(file.locate()))):
            return path.resolve()
    return _existing(Path(shutil.which("nccl-otf2") or "nccl-otf2"))


def run_tool(*words: str | os.PathLike[str]) -> str:
    """Runs the command and returns what it printed. The verbs that are used here end with 0 where they did all."""
    done = _run(words)
    if done.returncode != 0:
        raise _error(done)
    return done.stdout


def ask_tool(*words: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON object that a verb prints. What it found, or that it cannot tell, is an answer for each exit code that
    verbs document; without an answer it failed."""
    done = _run([*words, "--json"])
    if done.returncode in _ANSWERED:
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = None
        if isinstance(answer, dict):
            return answer
    raise _error(done)


def _run(words: Iterable[str | os.PathLike[str]]) -> subprocess.CompletedProcess[str]:
    try:
        line = [tool_path(), *words]
        return subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError as error:
        raise Error(f"nccl-otf2 cannot be started: {error}") from error


def _error(done: subprocess.CompletedProcess[str]) -> Error:
    """Why the command did not do what it was asked to do: by its own words, or by what ended it."""
    code = done.returncode
    said = "\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
    ends = {"exit_code": code} if code >= 0 else {"signal": -code}
    if code == 2 and said:
        return Error(said.removeprefix("nccl-otf2: error: "), **ends)
    ended = f"by the exit code {code}" if code >= 0 else f"by {_signal(-code)}"
    return Error(f"nccl-otf2 was ended {ended}" + (f": {said}" if said else " and says nothing"), **ends)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"the signal {number}"


def file_word(path: str | os.PathLike[str]) -> str:
    """A path as a word of the command, which could take one that begins with a hyphen for an option."""
    word = os.fsdecode(path)
    return os.path.join(os.curdir, word) if word.startswith("-") else word


def _library(name: str) -> Path:
    return _existing(Path(__file__).resolve().parent / "lib" / name)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: the package's files are not all here. "
            "If pip installed the package, install the file of its wheel again: pip install --force-reinstall FILE.whl"
        )
    return path
