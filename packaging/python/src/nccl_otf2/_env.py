"""Variables for launchers."""

from __future__ import annotations

import operator
import os
from typing import Any

from ._files import PLUGIN, plugin_path

_PLUGIN = "NCCL_PROFILER_PLUGIN"
_INJECTION = "NVTX_INJECTION64_PATH"


def env(directory: str | os.PathLike[str] | None = None, **settings: object) -> dict[str, str]:
    """Variables that make the processes of a job record, for a launcher that takes a dictionary of them.

    ``directory`` is where the job's recording goes: the same for all its processes, on a file system that they share.
    ``%j`` in it is the job's id. Without it, ``NCCL_OTF2_DIR`` or the plugin's default holds. ``settings`` are the
    plugin's other variables, without ``NCCL_OTF2_`` and in small letters; ``None`` leaves one as it is, and a list is
    joined by commas::

        subprocess.run(command, env={**os.environ, **nccl_otf2.env("trace", events=["standard", "ProxyStep"])})
        ray.init(runtime_env={"env_vars": nccl_otf2.env("/shared/trace-%j")})

    The processes must see the package at the same path. NVTX hands ranges to one library: if another tool has
    ``NVTX_INJECTION64_PATH``, it keeps it. ``nccl-otf2 run`` also keeps another profiler plugin behind this one, and
    completes the archive of a job that was killed.
    """
    given = {name.upper(): value for name, value in settings.items() if value is not None}
    if "DIR" in given:
        raise TypeError("the directory is the first argument: env(DIRECTORY), without dir=")
    values = {f"NCCL_OTF2_{name}": _text(name, value) for name, value in given.items()}
    plugin = str(plugin_path())
    variables = {_PLUGIN: plugin}
    taken = os.environ.get(_INJECTION, "")
    # Another copy of the plugin would not see NCCL, and its ranges would be lost.
    if not taken or os.path.basename(taken).startswith(PLUGIN):
        variables[_INJECTION] = plugin
    if directory is not None:
        if not (folder := os.fsdecode(directory)):
            raise ValueError("the directory is empty: give it a name, or None")
        variables["NCCL_OTF2_DIR"] = os.path.abspath(folder)
    return {**variables, **values}


def _text(name: str, value: Any) -> str:
    """What the plugin reads: Python's spelling of other values would only be refused in the job."""
    if isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value):
        return ",".join(value)
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    try:
        whole = isinstance(value, float) and value.is_integer()
        return str(int(value if whole else operator.index(value)))
    except TypeError:
        raise TypeError(f"NCCL_OTF2_{name} takes a text, a whole number or a list of texts, not {value!r}") from None
