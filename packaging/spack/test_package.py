"""Checks package.py without Spack, whose names are stubbed: `python3 test_package.py`.

Spack is in no package registry. What it does with the recipe is not tested: only that the recipe is Python, names
options that CMake has, and states what Cargo.toml and CMakeLists.txt state.
"""

import re
import sys
import types
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Package:
    run_tests = True

    @staticmethod
    def define(name, value):
        return f"-D{name}={value}"

    define_from_variant = define


def load():
    """The recipe's class, with what it declares: {directive: [(arguments, keywords)]}."""
    declared = {}
    spack = types.ModuleType("spack.package")
    for directive in ("license", "version", "variant", "depends_on"):
        declared[directive] = []
        setattr(spack, directive, lambda *words, of=directive, **more: declared[of].append((words, more)))
    spack.join_path = lambda *parts: "/".join(parts)
    cmake = types.ModuleType("spack_repo.builtin.build_systems.cmake")
    cmake.CMakePackage = Package
    for module in (spack, cmake):
        parts = module.__name__.split(".")
        for end in range(1, len(parts)):
            sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        sys.modules[module.__name__] = module
    names = {}
    exec(compile((HERE / "package.py").read_text(), "package.py", "exec"), names)
    return names["NcclProfilerOtf2"], declared


class Environment(dict):
    def set(self, name, value):
        self[name] = value

    prepend_path = set


class Recipe(unittest.TestCase):
    def setUp(self):
        self.package, self.declared = load()
        self.cargo = (ROOT / "Cargo.toml").read_text()

    def depends_on(self, name):
        (wanted,) = [words[0] for words, _ in self.declared["depends_on"] if words[0].split("@")[0] == name]
        return wanted

    def test_versions_are_those_of_the_sources(self):
        version = re.search(r'^version = "(.*)"', self.cargo, re.M)[1]
        self.assertEqual([words for words, _ in self.declared["version"]], [(version,)])
        rust = re.search(r'^rust-version = "(.*)"', self.cargo, re.M)[1]
        self.assertEqual(self.depends_on("rust"), f"rust@{rust}:")
        lists = (ROOT / self.package.root_cmakelists_dir / "CMakeLists.txt").read_text()
        cmake = re.search(r"cmake_minimum_required\(VERSION (.*)\)", lists)[1]
        self.assertEqual(self.depends_on("cmake"), f"cmake@{cmake}:")
        otf2 = re.search(r"find_package\(OTF2 (\S+) REQUIRED", lists)[1]
        self.assertEqual(self.depends_on("otf2"), f"otf2@{otf2}:")

    def test_options_are_cmakes(self):
        package = self.package()
        package.spec = {"otf2": types.SimpleNamespace(prefix="/otf2")}
        options = [re.match(r"-D(\w+)=", argument)[1] for argument in package.cmake_args()]
        files = [path.read_text() for path in (ROOT / "cmake").rglob("*") if path.suffix in (".txt", ".cmake")]
        for option in options:
            self.assertTrue(any(option in text for text in files), option)
        self.assertEqual({words[0] for words, _ in self.declared["variant"]}, {"plain_link"})

    def test_environments(self):
        package = self.package()
        package.stage = types.SimpleNamespace(path="/stage")
        package.prefix = types.SimpleNamespace(lib="/prefix/lib")
        building, running = Environment(), Environment()
        package.setup_build_environment(building)
        package.setup_run_environment(running)
        self.assertEqual(building, {"CARGO_HOME": "/stage/cargo"})
        self.assertEqual(running, {"LD_LIBRARY_PATH": "/prefix/lib"})


if __name__ == "__main__":
    unittest.main()
