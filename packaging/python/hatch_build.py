"""Puts an installation into the wheel: `NCCL_OTF2_PREFIX` names it, `NCCL_OTF2_PLATFORM` is the tag of the wheel."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = ("libnccl-profiler-otf2.so", "libnccl-otf2-tensorflow.so")
SHARED = ("share/man", "share/bash-completion", "share/zsh", "share/fish")


class Binaries(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if "NCCL_OTF2_PREFIX" not in os.environ:
            raise SystemExit("NCCL_OTF2_PREFIX names no installation: `cargo xtask dist` makes the wheel")
        prefix = Path(os.environ["NCCL_OTF2_PREFIX"])
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['NCCL_OTF2_PLATFORM']}"
        for name in LIBRARIES:
            # A wheel has no links: the file itself gets the name that NCCL looks for.
            (library,) = prefix.glob(f"lib*/{name}")
            build_data["force_include"][str(library.resolve())] = f"nccl_otf2/lib/{name}"
        build_data["shared_scripts"][str(prefix / "bin/nccl-otf2")] = "nccl-otf2"
        (notices,) = prefix.glob("share/doc/*/third-party-licenses.txt")
        build_data["force_include"][str(notices)] = "nccl_otf2/third-party-licenses.txt"
        for folder in SHARED:
            if (prefix / folder).is_dir():
                build_data["shared_data"][str(prefix / folder)] = folder
