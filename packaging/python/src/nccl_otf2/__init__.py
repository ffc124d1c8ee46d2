"""Record what NVIDIA NCCL does in a job, and read the recording.

The package has a command, ``nccl-otf2``, which does everything; this module is for programs and notebooks:

* :func:`env`: variables that make a launcher record the processes that it starts
* :func:`annotate`: name a part of the program, to see it beside NCCL's events
* :func:`stats`, :func:`diff`, :func:`hang`, :func:`info`: what the command answers, as dictionaries shown by Jupyter
* :func:`read`: a table of a recording for Arrow, pandas or Polars
* :func:`report`: a recording as a page, shown by Jupyter
* :func:`plugin_path`, :func:`tensorflow_plugin_path`, :func:`tool_path`: where the package's files are

What the command cannot do is an :class:`Error`.
"""

from ._answers import Answer, Diff, Hang, Info, Stats, diff, hang, info, stats
from ._env import env
from ._files import Error, plugin_path, tensorflow_plugin_path, tool_path
from ._files import version as _version
from ._nvtx import annotate
from ._read import read
from ._report import Report, report

__all__ = [
    "Answer",
    "Diff",
    "Error",
    "Hang",
    "Info",
    "Report",
    "Stats",
    "annotate",
    "diff",
    "env",
    "hang",
    "info",
    "plugin_path",
    "read",
    "report",
    "stats",
    "tensorflow_plugin_path",
    "tool_path",
]
__version__: str


def __getattr__(name: str) -> str:
    """``__version__`` when it is asked for: copies of the package without an installer's notes work without it."""
    if name == "__version__":
        try:
            return _version()
        except ModuleNotFoundError as error:
            raise AttributeError(f"the version is not known: {error}") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
