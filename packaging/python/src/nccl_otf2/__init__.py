"""Record what NVIDIA NCCL does in a job, and read the recording.

The package has a command, ``nccl-otf2``, which does everything; this module is for programs and notebooks:

* :func:`env`: variables that make a launcher record the processes that it starts
* :func:`annotate`: name a part of the program, to see it beside NCCL's events
* :func:`read`: a recording as Arrow tables
* :func:`report`: a recording as a page, shown by Jupyter
* :func:`plugin_path`, :func:`tensorflow_plugin_path`, :func:`tool_path`: where the package's files are
"""

from ._env import env
from ._files import ToolError, plugin_path, tensorflow_plugin_path, tool_path
from ._files import version as _version
from ._nvtx import annotate
from ._read import read
from ._report import Report, report

__all__ = [
    "Report",
    "ToolError",
    "annotate",
    "env",
    "plugin_path",
    "read",
    "report",
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
