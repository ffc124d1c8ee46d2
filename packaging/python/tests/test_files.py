"""What the module makes of the ends of its command. Needs no wheel: a script stands for the command."""

import json
import os
import pickle
import sys
import tempfile
import types
import unittest
from datetime import timedelta
from pathlib import Path
from unittest import mock

import nccl_otf2
from nccl_otf2 import _files


ANSWERS = nccl_otf2.stats, nccl_otf2.hang, nccl_otf2.info, lambda archive: nccl_otf2.diff(archive, archive)
FUNCTIONS = nccl_otf2.read, nccl_otf2.report, *ANSWERS


class CommandEnds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.command = Path(folder.name, "nccl-otf2")
        path = mock.patch.dict(os.environ, {"PATH": f"{folder.name}{os.pathsep}{os.environ['PATH']}"})
        path.start()
        self.addCleanup(path.stop)

    def says(self, script):
        self.command.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        self.command.chmod(0o755)

    def fails(self, script, end, *words):
        """Every function that runs the command raises, with these words."""
        self.says(script)
        arrow = types.ModuleType("pyarrow")
        arrow.dataset = types.ModuleType("pyarrow.dataset")
        with mock.patch.dict(sys.modules, {"pyarrow": arrow, "pyarrow.dataset": arrow.dataset}):
            for function in FUNCTIONS:
                with self.assertRaises(nccl_otf2.Error, msg=function.__name__) as raised:
                    function("trace")
                for word in words:
                    self.assertIn(word, str(raised.exception))
                error = pickle.loads(pickle.dumps(raised.exception))
                self.assertEqual((error.exit_code, error.signal), end, function.__name__)

    def test_killed(self):
        self.fails("echo 'reads 7 locations' >&2; kill -KILL $$", (None, 9), "SIGKILL", "reads 7 locations")
        self.fails("kill -TERM $$", (None, 15), "SIGTERM", "says nothing")
        self.fails("echo '{}'; kill -KILL $$", (None, 9), "SIGKILL")

    def test_exit_codes(self):
        self.fails("echo 'error: no archive' >&2; exit 2", (2, None), "error: no archive")
        self.fails("exit 2", (2, None), "exit code 2", "says nothing")
        self.fails("echo left out >&2; exit 1", (1, None), "exit code 1", "left out")
        self.fails("echo '{}'; echo panicked >&2; exit 101", (101, None), "exit code 101", "panicked")
        self.fails("echo '{\"verdict\": '; echo 'error: no space' >&2; exit 2", (2, None), "error: no space")

    def test_no_answer(self):
        for said in ("", "no JSON", "[]"):
            self.says(f"echo '{said}'")
            for function in ANSWERS:
                with self.assertRaises(nccl_otf2.Error, msg=function.__name__) as raised:
                    function("trace")
                self.assertIn("exit code 0", str(raised.exception))

    def test_last_lines(self):
        self.fails("seq 1000 >&2; kill -ABRT $$", (None, 6), "SIGABRT", "\n1000")
        with self.assertRaises(nccl_otf2.Error) as raised:
            nccl_otf2.info("trace")
        self.assertNotIn("\n900\n", str(raised.exception))

    def test_what_cannot_be_started(self):
        for script, mode in (("nothing", 0o755), ("", 0o644)):
            self.command.write_bytes(script.encode())
            self.command.chmod(mode)
            with mock.patch.dict(os.environ, {"PATH": str(self.command.parent)}):
                for function in ANSWERS:
                    with self.assertRaises(nccl_otf2.Error) as raised:
                        function("trace")
                    self.assertIn("cannot be started", str(raised.exception))
        self.says("echo nothing to show")
        with self.assertRaises(nccl_otf2.Error) as raised:
            nccl_otf2.report("trace")
        self.assertIn("nothing to show", str(raised.exception))

    def test_names_do_not_reach_the_terminal_as_they_are(self):
        line = {"line": "late in `\x1b[31m\n\u202e`", "basis": [], "rest": None}
        self.says(f"cat <<'END'\n{json.dumps({'verdict': line})}\nEND")
        answer = nccl_otf2.stats("trace")
        self.assertEqual(str(answer), r"late in `\u{1b}[31m\n\u{202e}`")
        self.assertIn(r"\u{1b}", answer._repr_html_())

    def test_well(self):
        self.says("echo done")
        self.assertEqual(_files.run_tool("info"), "done\n")

    def test_a_verdict_is_an_answer_whatever_the_exit_code(self):
        verdict = {"found": True, "kind": "hang", "line": "HANG: <rank> & 3", "evidence": ["<b>"]}
        verdict |= {"confidence": "likely", "next": "look"}
        answer = {"verdict": verdict, "unknown": [], "suspects": [{"text": "<script>", "job_rank": 3}]}
        for code in (0, 1, 2):
            self.says(f"cat <<'END'\n{json.dumps(answer)}\nEND\nexit {code}")
            found = nccl_otf2.hang("trace", after=0.5)
            self.assertEqual(found, answer)
            self.assertEqual(repr(found), "HANG: <rank> & 3\n  <b>\n  confidence: likely\n  next: look")
            page = found._repr_html_()
            for text in ("HANG: &lt;rank&gt; &amp; 3", "&lt;b&gt;", "&lt;script&gt;", ">3</td>"):
                self.assertIn(text, page)
            self.assertNotIn("<script", page)

    def test_options_are_those_of_the_command(self):
        self.says("""printf '{"words": "%s"}' "$*" """)
        words = {
            "stats -x/t --json": nccl_otf2.stats("-x/t"),
            "stats t --rank=0,4-7 --from=1500000000ns --to=20ms --step=step # --baseline=b --json": nccl_otf2.stats(
                "t", ranks="0,4-7", since=1.5, until="20ms", step="step #", baseline="b"
            ),
            "diff a b --rank=0,1,2 --to=250000ns --json": nccl_otf2.diff(
                "a", "b", ranks=range(3), until=timedelta(microseconds=250)
            ),
            f"stats t --from={2**62}ns --json": nccl_otf2.stats("t", since=1e300),
            "hang t --after=30 --json": nccl_otf2.hang("t", after=30),
            "info t --json": nccl_otf2.info("t"),
        }
        for expected, found in words.items():
            self.assertEqual(found["words"].replace("./-x", "-x"), expected)
        for wrong in ({"ranks": []}, {"since": -1}, {"until": float("nan")}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                nccl_otf2.stats("t", **wrong)
        for wrong in ({"ranks": 1.5}, {"ranks": ["0"]}, {"since": [1]}):
            with self.assertRaises(TypeError, msg=str(wrong)):
                nccl_otf2.stats("t", **wrong)

    def test_no_index_is_named_before_a_release(self):
        """A name that nobody has claimed must not be what users install."""
        package = Path(__file__).resolve().parent.parent
        for file in [package / "README.md", *(package / "src").rglob("*.py")]:
            text = file.read_text(encoding="utf-8")
            self.assertNotRegex(text, r"(?i)pip3? install [^\n]*\bnccl[-_]otf2(?!-\*\.whl)", str(file))
            self.assertNotRegex(text, r"(?i)\bpypi\b|--(extra-)?index-url", str(file))


if __name__ == "__main__":
    unittest.main()
