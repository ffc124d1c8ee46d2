"""Variables for launchers."""

from __future__ import annotations

import os

from ._files import plugin_path

_PLUGIN = "NCCL_PROFILER_PLUGIN"
_INJECTION = "NVTX_INJECTION64_PATH"


def env(directory: str | os.PathLike[str] | None = None, **settings: object) -> dict[str, str]:
    """Variables that make the processes of a job record, for a launcher that takes a dictionary of them.

    ``directory`` is where the job's recording goes: the same for all its processes, on a file system that they share.
    ``%j`` in it is the job's id. Without it, ``NCCL_OTF2_DIR`` or the plugin's default holds. ``settings`` are the
    plugin's other variables, without ``NCCL_OTF2_`` and in small letters; ``None`` leaves one as it is::

        subprocess.run(command, env={**os.environ, **nccl_otf2.env("trace", events="full")})
        ray.init(runtime_env={"env_vars": nccl_otf2.env("/shared/trace-%j")})

    The processes must see the package at the same path. NVTX hands ranges to one library: if another tool has
    ``NVTX_INJECTION64_PATH``, it keeps it. ``nccl-otf2 run`` also keeps another profiler plugin behind this one, and
    completes the archive of a job that was killed.
    """
    plugin = str(plugin_path())
    variables = {_PLUGIN: plugin}
    if not os.environ.get(_INJECTION):
        variables[_INJECTION] = plugin
    if directory is not None:
        variables["NCCL_OTF2_DIR"] = os.path.abspath(os.fsdecode(directory))
    given = {name: value for name, value in settings.items() if value is not None}
    variables.update((f"NCCL_OTF2_{name.upper()}", _text(value)) for name, value in given.items())
    return variables


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
