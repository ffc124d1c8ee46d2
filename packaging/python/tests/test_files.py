"""What the module does where its command fails. Needs no wheel: a script stands for the command."""

import os
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import nccl_otf2
from nccl_otf2 import _files


class CommandFails(unittest.TestCase):
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

    def fails(self, script, *words):
        """Every function that runs the command raises, with these words."""
        self.says(script)
        arrow = types.ModuleType("pyarrow")
        arrow.dataset = types.ModuleType("pyarrow.dataset")
        with mock.patch.dict(sys.modules, {"pyarrow": arrow, "pyarrow.dataset": arrow.dataset}):
            for function in (nccl_otf2.read, nccl_otf2.report, _files.run_tool):
                with self.assertRaises(nccl_otf2.ToolError, msg=function.__name__) as raised:
                    function("trace")
                for word in words:
                    self.assertIn(word, str(raised.exception))

    def test_killed(self):
        self.fails("echo 'reads 7 locations' >&2; kill -KILL $$", "SIGKILL", "reads 7 locations")
        self.fails("kill -TERM $$", "SIGTERM", "says nothing")

    def test_exit_codes(self):
        self.fails("echo 'error: no archive' >&2; exit 2", "error: no archive")
        self.fails("exit 2", "exit code 2", "says nothing")
        self.fails("echo left out >&2; exit 1", "exit code 1", "left out")
        self.fails("echo panicked >&2; exit 101", "exit code 101", "panicked")

    def test_last_lines(self):
        self.fails("seq 1000 >&2; kill -ABRT $$", "SIGABRT", "\n1000")
        self.assertNotIn("\n900\n", _files._reason(-6, "\n".join(map(str, range(1000)))))

    def test_well(self):
        self.says("echo done")
        self.assertEqual(_files.run_tool("info"), "done\n")


if __name__ == "__main__":
    unittest.main()
