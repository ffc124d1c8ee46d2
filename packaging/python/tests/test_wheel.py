"""What a user of the wheel sees: the wheel in a new environment, real NCCL on emulated GPUs.

    python packaging/python/tests/test_wheel.py WHEEL NCCL BUILT

WHEEL is the file, NCCL a libnccl.so.2, BUILT cargo's output folder with nccl-host and libfakegpu.so. The environment
is below BUILT.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import venv
from pathlib import Path

WHEEL, NCCL, BUILT = (Path(word).resolve() for word in sys.argv[1:4])
ROOT = Path(__file__).resolve().parents[3]
# A job's variables must not come from the environment of the tests.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL", "NVTX", "PYTHON"))}

# What NCCL needs on emulated devices: NCCL_ON_FAKE_GPU of tests/doubles/c-double.
ON_FAKE_GPU = {
    "LD_PRELOAD": str(BUILT / "libfakegpu.so"),
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_NET": "Socket",
    "NCCL_IB_DISABLE": "1",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_RAS_ENABLE": "0",
    "NCCL_PAT_ENABLE": "0",
    "NCCL_MAX_NCHANNELS": "2",
}


class Environment:
    """A virtual environment with the wheel and nothing of this repository on its paths."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True, clear=True)
        self.bin = folder / "bin"
        self.pip("install", f"{WHEEL}[tables]", "pandas", "polars")

    def pip(self, *words: str) -> None:
        line = [self.bin / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
        subprocess.run(line, check=True, env=CLEAN)

    def run(self, *words: object, **variables: str) -> str:
        line = [str(word) for word in words]
        line[0] = str(self.bin / line[0])
        done = subprocess.run(line, env={**CLEAN, **variables}, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise AssertionError(f"{line} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def python(self, program: str, **variables: str) -> str:
        return self.run("python", "-c", textwrap.dedent(program), **variables)


class Wheel(unittest.TestCase):
    environment: Environment
    scratch: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.environment = Environment(BUILT / "wheel-environment")
        folder = tempfile.TemporaryDirectory(prefix="wheel-")
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = Path(folder.name)
        cls.trace = cls.scratch / "trace"
        said = cls.environment.run("nccl-otf2", "run", "-o", cls.trace, "--", *cls.job())
        cls.calls = int(re.search(r"(\d+) calls, ", said.splitlines()[-1])[1])

    @staticmethod
    def job() -> list[object]:
        options = ["--procs", 2, "--threads", 1, "--ops", "allreduce", "--rounds", 3]
        return [BUILT / "nccl-host", f"--fake-gpu={BUILT / 'libfakegpu.so'}", "--lib", NCCL, *options]

    def test_the_command_records_with_the_wheels_own_plugin(self) -> None:
        self.environment.run("nccl-otf2", "check", self.trace)

    def test_doctor_finds_the_plugin_and_nccl(self) -> None:
        text = self.environment.run("nccl-otf2", "doctor", NCCL)
        self.assertIn(str(self.environment.bin.parent), text)

    def test_tables_have_every_operation(self) -> None:
        program = f"""
            import json, nccl_otf2, polars
            tables = nccl_otf2.read({str(self.trace)!r})
            operations = tables["operations"]
            one = nccl_otf2.read({str(self.trace)!r}, table="operations", ranks=1)
            found = nccl_otf2.stats({str(self.trace)!r})
            print(json.dumps({{
                "tables": sorted(tables),
                "arrow": operations.num_rows,
                "pandas": len(operations.to_pandas()),
                "polars": polars.from_arrow(operations).height,
                "processes": sorted(set(operations["process"].to_pylist())),
                "one": sorted(set(one["rank"].to_pylist())),
                "stats": found["run"]["operations"],
                "shown": found["verdict"]["line"] in repr(found) and "<table" in found._repr_html_(),
            }}))
        """
        told = json.loads(self.environment.python(program))
        # The job's own log says how many calls it made.
        self.assertEqual(told["arrow"], self.calls)
        self.assertEqual(told["arrow"], told["pandas"])
        self.assertEqual(told["arrow"], told["polars"])
        self.assertEqual(told["processes"], [0, 1])
        self.assertLessEqual({"calls", "instances", "operations", "ranks"}, set(told["tables"]))
        self.assertEqual(told["one"], [1])
        self.assertEqual(told["stats"], self.calls)
        self.assertTrue(told["shown"])

    def test_mistakes_end_in_the_reason(self) -> None:
        program = f"""
            import nccl_otf2
            for attempt in (
                lambda: nccl_otf2.read("/no/such/trace"),
                lambda: nccl_otf2.report("/no/such/trace"),
                lambda: nccl_otf2.read({str(self.trace)!r}, "operatoins"),
            ):
                try:
                    attempt()
                except nccl_otf2.Error as error:
                    print(str(error).splitlines()[0])
        """
        first, second, third = self.environment.python(program).splitlines()[-3:]
        self.assertIn("/no/such/trace", first)
        self.assertIn("/no/such/trace", second)
        self.assertIn("invalid value 'operatoins'", third)

    def test_wrong_arguments_are_refused_at_once(self) -> None:
        program = """
            import nccl_otf2
            from nccl_otf2 import annotate, env, read, report
            def call():
                pass
            for attempt in (
                lambda: annotate("a", color="00ff00"),
                lambda: annotate("a", color="#0f0"),
                lambda: annotate("a", color=0x1000000),
                lambda: annotate("a", color=-1),
                lambda: env(""),
                lambda: report("trace", diff="other", size_mb=4),
                lambda: report("trace", size_mb=0),
                lambda: annotate("a", payload="1"),
                lambda: annotate(1),
                lambda: annotate(call),
                lambda: annotate("a")(None),
                lambda: annotate("a")(int),
                lambda: annotate("a")(staticmethod(call)),
                lambda: annotate("a")(classmethod(call)),
                lambda: annotate("a")(property(call)),
                lambda: env("trace", dir="other"),
                lambda: env("trace", steps=0.5),
                lambda: env("trace", steps={}),
                lambda: env("trace", steps=[1]),
                lambda: read("trace", [5]),
                lambda: read("trace", 5),
            ):
                try:
                    attempt()
                except (TypeError, ValueError) as error:
                    print(type(error).__name__, error)
        """
        told = self.environment.python(program).splitlines()
        self.assertEqual([line.split()[0] for line in told], ["ValueError"] * 7 + ["TypeError"] * 14)
        self.assertIn("write @annotate(NAME)", told[9])
        self.assertIn("put it under @staticmethod", told[12])

    def test_settings_are_written_as_the_plugin_reads_them(self) -> None:
        program = """
            import json, nccl_otf2
            print(json.dumps(nccl_otf2.env(events=["standard", "ProxyStep"], level=2.0, keep_journal=True, steps=3)))
        """
        told = json.loads(self.environment.python(program))
        names = ("EVENTS", "LEVEL", "KEEP_JOURNAL", "STEPS")
        self.assertEqual([told[f"NCCL_OTF2_{name}"] for name in names], ["standard,ProxyStep", "2", "1", "3"])

    def test_another_copy_of_the_plugin_gets_no_ranges(self) -> None:
        program = "import json, nccl_otf2; print(json.dumps(nccl_otf2.env()))"
        copy, other = "/opt/lib/libnccl-profiler-otf2.so.0", "/opt/lib/libToolsInjection64.so"
        for taken, is_ours in ((copy, True), (other, False)):
            told = json.loads(self.environment.python(program, NVTX_INJECTION64_PATH=taken))
            self.assertEqual(told.get("NVTX_INJECTION64_PATH") == told["NCCL_PROFILER_PLUGIN"], is_ours, taken)

    def test_the_command_is_the_program(self) -> None:
        program = "import nccl_otf2; print(nccl_otf2.tool_path())"
        command = self.environment.bin / "nccl-otf2"
        self.assertEqual(self.environment.python(program).strip(), str(command))
        away = command.with_name("away")
        command.rename(away)
        self.addCleanup(away.rename, command)
        # The completion for bash has the command's name.
        program = """
            import nccl_otf2
            try:
                print(nccl_otf2.tool_path())
            except FileNotFoundError as error:
                print("missing:", error)
        """
        self.assertIn("missing: ", self.environment.python(program, PATH="/nowhere"))

    def test_a_report_is_a_page_and_a_frame(self) -> None:
        program = f"""
            import base64, nccl_otf2, re, zlib
            report = nccl_otf2.report({str(self.trace)!r}, title="--später")
            model = re.search('id="data-model">([^<]+)', report.html)[1]
            assert "--später" in zlib.decompress(base64.b64decode(model)).decode()
            shown = re.search('<iframe src="data:text/html;base64,([^"]+)"', report._repr_html_())
            assert base64.b64decode(shown[1]).decode() == report.html
            print(report.save({str(self.scratch / "page.html")!r}))
        """
        (self.scratch / "other").write_text("other")
        (self.scratch / "page.html").symlink_to("other")
        page = Path(self.environment.python(program).strip())
        self.assertTrue(page.read_text().startswith("<!doctype html>"))
        self.assertEqual(page.lstat().st_mode & 0o177777, 0o100600)
        self.assertEqual((self.scratch / "other").read_text(), "other")
        self.assertEqual(list(self.scratch.glob(".nccl-otf2-*")), [])

    def test_ranges_of_a_program_are_recorded_by_env(self) -> None:
        """A job in Python, as a launcher with a dictionary of variables starts it."""
        folder = self.scratch / "ranges"
        folder.mkdir()
        program = f"""
            import json, nccl_otf2
            print(json.dumps(nccl_otf2.env({str(folder / "trace")!r}, events="standard", steps=None)))
        """
        variables = json.loads(self.environment.python(program))
        self.assertEqual(variables["NCCL_OTF2_EVENTS"], "standard")
        script = Path(__file__).with_name("ranges.py")
        python = self.environment.bin / "python"
        job = {**CLEAN, **ON_FAKE_GPU, **variables, "WORLD_SIZE": "2"}
        ranks = [
            subprocess.Popen([python, script, NCCL, str(rank), folder], env={**job, "RANK": str(rank)})
            for rank in range(2)
        ]
        self.assertEqual([rank.wait(300) for rank in ranks], [0, 0])
        self.environment.run("nccl-otf2", "finalize", folder / "trace")
        program = f"""
            import json, nccl_otf2
            ranges = nccl_otf2.read({str(folder / "trace")!r}, "ranges")
            print(json.dumps(ranges.to_pylist(), default=str))
        """
        told = json.loads(self.environment.python(program).splitlines()[-1])
        own = sorted(
            (row["path"], row["payload"], row["payload_float"], row["process"])
            for row in told
            if row["domain"] == "wheel" and not row["unfinished"]
        )
        inner = "outer > decorated"
        expected = [("outer", None, 0.5, 0), ("outer", None, 0.5, 1), (inner, -7, None, 0), (inner, -7, None, 1)]
        self.assertEqual(own, expected)

    def test_ranges_do_nothing_elsewhere(self) -> None:
        program = """
            import nccl_otf2
            with nccl_otf2.annotate("outer", domain="d", payload=1.5, color=0x00FF00) as it:
                pass
            @nccl_otf2.annotate("inner")
            def twice(number):
                return 2 * number
            print(twice(21))
        """
        self.assertEqual(self.environment.python(program).split(), ["42"])

    def test_what_cannot_be_recorded_is_an_error(self) -> None:
        program = """
            import nccl_otf2
            async def numbers():
                yield 1
            class Caller:
                async def __call__(self):
                    pass
            for wrong in (numbers, Caller()):
                try:
                    nccl_otf2.annotate("range")(wrong)
                except TypeError:
                    print("refused")
            try:
                nccl_otf2.annotate("range", payload=2**63)
            except OverflowError:
                print("refused")
        """
        self.assertEqual(self.environment.python(program).split(), ["refused"] * 3)

    def test_a_folder_of_packages_has_all(self) -> None:
        with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
            self.environment.pip("install", "--no-deps", "--target", folder, str(WHEEL))
            # `pip install --target`, as containers and shared folders have it.
            text = self.environment.run(f"{folder}/bin/nccl-otf2", "doctor", NCCL)
            self.assertIn(f"{folder}/nccl_otf2/lib", text)

    def test_a_copy_without_an_installers_notes_works(self) -> None:
        site = self.environment.python("import nccl_otf2; print(nccl_otf2.__path__[0])").strip()
        program = """
            import nccl_otf2
            print(nccl_otf2.plugin_path())
            print(hasattr(nccl_otf2, "__version__"))
            try:
                nccl_otf2.tool_path()
            except FileNotFoundError as error:
                print(error)
        """
        with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
            shutil.copytree(site, f"{folder}/nccl_otf2")
            words = ["python", "-S", "-c", textwrap.dedent(program)]
            told = self.environment.run(*words, PYTHONPATH=folder, PATH="/nowhere").splitlines()
        self.assertTrue(told[0].startswith(f"{folder}/nccl_otf2/lib/"))
        self.assertEqual(told[1], "False")
        self.assertIn("the package's files are not all here", told[2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
