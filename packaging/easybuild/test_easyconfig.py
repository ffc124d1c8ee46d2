"""Has EasyBuild's own framework parse the easyconfig: run it with a Python that has EasyBuild, where Lmod is
installed. Nothing is built."""

import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from easybuild.framework.easyconfig.easyconfig import EasyConfig, get_easyblock_class, robot_find_easyconfig
from easybuild.tools.options import set_up_configuration

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Parsed(unittest.TestCase):
    def test_states_what_the_sources_state(self):
        (file,) = HERE.glob("*.eb")
        with tempfile.TemporaryDirectory() as scratch:
            # Debian's place. Root may do it: nothing is installed.
            os.environ.setdefault("LMOD_CMD", "/usr/share/lmod/lmod/libexec/lmod")
            arguments = [f"--prefix={scratch}", "--allow-modules-tool-mismatch"]
            arguments.append("--allow-use-as-root-and-accept-consequences")
            arguments.append(f"--robot-paths={sys.prefix}/easybuild/easyconfigs")
            set_up_configuration(args=arguments, silent=True)
            config = EasyConfig(str(file))
            # EasyBuild's collection has what is needed for this toolchain; of Rust it may have an older one.
            for dependency in config.builddependencies():
                if dependency["name"] != "Rust":
                    full = dependency["full_mod_name"].split("/")[-1]
                    self.assertTrue(robot_find_easyconfig(dependency["name"], full), dependency)
        cargo = (ROOT / "Cargo.toml").read_text()
        self.assertEqual(config["version"], re.search(r'^version = "(.*)"', cargo, re.M)[1])
        self.assertEqual(file.name, f"{config['name']}-{config['version']}-GCCcore-{config.toolchain.version}.eb")
        versions = {dependency["name"]: dependency["version"] for dependency in config.builddependencies()}
        rust = re.search(r'^rust-version = "(.*)"', cargo, re.M)[1]
        self.assertTrue(versions["Rust"].startswith(rust), versions)
        self.assertEqual(get_easyblock_class(config["easyblock"]).__name__, "CMakeMake")
        self.assertEqual(config["sources"][0], f"nccl-otf2-{config['version']}-source.tar.xz")


if __name__ == "__main__":
    sys.exit(unittest.main())
