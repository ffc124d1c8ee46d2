"""What notebooks see of a recording, beside what the command says. Needs no wheel:

    PATH=…:$PATH PYTHONPATH=packaging/python/src python packaging/python/tests/test_answers.py ARCHIVE

PATH has the folder of the built command first. ARCHIVE is a job's directory, of two ranks with ranges.
"""

import html
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import pyarrow.parquet

import nccl_otf2

ARCHIVE = sys.argv[1]
FOLDER = tempfile.TemporaryDirectory()
# `diff` refuses an archive and itself.
SAME = shutil.copytree(ARCHIVE, f"{FOLDER.name}/same")


def said(*words):
    """What the command itself prints."""
    line = [nccl_otf2.tool_path(), *words]
    return json.loads(subprocess.run(line, check=True, capture_output=True, encoding="utf-8").stdout)


class Schema:
    """A JSON Schema, to look up paths of fields."""

    def __init__(self, verb):
        self.whole = said(verb, "--json-schema")

    def members(self, node):
        """The schemas that a value may have."""
        if "$ref" in node:
            node = {**self.whole["$defs"][node["$ref"].split("/")[-1]]}
        found = [node]
        for one in node.get("anyOf", []) + node.get("allOf", []):
            found += self.members(one)
        return found

    def at(self, nodes, path):
        for name in path.split(".") if path else []:
            nodes = [
                member
                for node in nodes
                for found in self.members(node)
                if name in found.get("properties", {})
                for member in self.members(found["properties"][name])
            ]
        return nodes

    def items(self, nodes):
        return [one for node in nodes for found in self.members(node) if "items" in found for one in [found["items"]]]


class Answers(unittest.TestCase):
    def test_they_are_the_json_of_the_command(self):
        for verb, answer in (
            ("stats", nccl_otf2.stats(ARCHIVE)),
            ("hang", nccl_otf2.hang(ARCHIVE)),
            ("info", nccl_otf2.info(ARCHIVE)),
        ):
            self.assertEqual(answer, said(verb, ARCHIVE, "--json"), verb)
            self.assertEqual(answer["format"], {"hang": 2}.get(verb, 1))
        self.assertEqual(nccl_otf2.diff(ARCHIVE, SAME), said("diff", ARCHIVE, SAME, "--json"))
        part = nccl_otf2.stats(ARCHIVE, ranks=1, step="forward")
        self.assertEqual(part, said("stats", ARCHIVE, "--rank", "1", "--step", "forward", "--json"))
        self.assertEqual(part["steps"]["name"], "forward")

    def test_jupyter_shows_the_verdict_and_the_tables(self):
        answer = nccl_otf2.stats(ARCHIVE)
        page = answer._repr_html_()
        self.assertTrue(repr(answer).startswith(answer["verdict"]["line"]))
        self.assertNotIn("{", repr(answer), "no JSON of megabytes")
        for text in (answer["verdict"]["line"], *answer["verdict"]["basis"]):
            self.assertIn(html.escape(text), page)
        for row in answer["ranks"] + answer["communicators"]:
            self.assertIn(f">{html.escape(row['name'])}</td>", page)
        for row in answer["operations"]:
            self.assertIn(f">{row['function']}</td>", page)
        for row in answer["steps"]["steps"]:
            self.assertIn(f">{row['number']}</td>", page)
        self.assertIn("whole job &gt; step #", page)
        for answer in (nccl_otf2.hang(ARCHIVE), nccl_otf2.info(ARCHIVE), nccl_otf2.diff(ARCHIVE, SAME)):
            self.assertIn(html.escape(answer.line), answer._repr_html_())
            self.assertIn("<table", answer._repr_html_())

    def test_tables_show_fields_that_there_are(self):
        for kind in (nccl_otf2.Stats, nccl_otf2.Diff, nccl_otf2.Hang, nccl_otf2.Info):
            schema = Schema(kind.__name__.lower())
            for table in kind._tables:
                around, rows = [], [schema.whole]
                for path in table.path.split("[]."):
                    around, rows = rows, schema.items(schema.at(rows, path))
                for path in [column.path for column in table.columns] + list(table.order):
                    found = schema.at(around, path[1:]) if path.startswith("^") else schema.at(rows, path)
                    self.assertTrue(found, f"{kind.__name__}: {table.path}: {path}")


class Tables(unittest.TestCase):
    def test_one_table_is_that_of_all(self):
        all_tables = nccl_otf2.read(ARCHIVE)
        for name in ("operations", "calls", "ranges", "instances", "ranks"):
            self.assertTrue(nccl_otf2.read(ARCHIVE, table=name).equals(all_tables[name]), name)
        self.assertEqual(sorted(nccl_otf2.read(ARCHIVE, ["calls", "ranks"])), ["calls", "ranks"])

    def test_hosts_of_digits_are_text(self):
        folder = Path(FOLDER.name, "table")
        for process, host in enumerate(("001", "1e3")):
            rows = folder / f"host={host}" / f"process={process}"
            rows.mkdir(parents=True)
            pyarrow.parquet.write_table(pyarrow.table({"rank": [process]}), rows / "rows.parquet")
        found = sorted(nccl_otf2._read._table(folder).to_pylist(), key=lambda row: row["rank"])
        self.assertEqual([(row["host"], row["process"]) for row in found], [("001", 0), ("1e3", 1)])

    def test_ranks_and_times_select_rows(self):
        rows = nccl_otf2.read(ARCHIVE, "operations").to_pylist()
        middle = sorted(row["start_ns"] for row in rows)[len(rows) // 2]
        for selection, is_wanted in (
            ({"ranks": 1}, lambda row: row["rank"] == 1),
            ({"since": f"{middle}ns"}, lambda row: row["stop_ns"] >= middle),
            ({"until": middle / 1e9}, lambda row: row["start_ns"] <= middle),
        ):
            found = nccl_otf2.read(ARCHIVE, "operations", **selection)["event"].to_pylist()
            self.assertEqual(found, [row["event"] for row in rows if is_wanted(row)])
            self.assertTrue(0 < len(found) < len(rows), selection)

    def test_what_is_not_there_is_an_error(self):
        for words, reason in (
            ({"table": "operatoins"}, "possible values: instances, ranks, operations"),
            ({"table": "kernels"}, "no row"),
            ({"table": ["operations", "kernels"]}, "no row of kernels"),
            ({"table": "operations", "ranks": 7}, "no rank 7"),
            ({"table": "operations", "since": 1e6}, "after the end"),
        ):
            with self.assertRaises(nccl_otf2.Error, msg=str(words)) as raised:
                nccl_otf2.read(ARCHIVE, **words)
            self.assertIn(reason, str(raised.exception))
        for function in (nccl_otf2.read, nccl_otf2.stats, nccl_otf2.hang, nccl_otf2.info, nccl_otf2.report):
            with self.assertRaises(nccl_otf2.Error) as raised:
                function("/no/such/trace")
            self.assertIn("/no/such/trace", str(raised.exception))
            self.assertEqual((raised.exception.exit_code, raised.exception.signal), (2, None))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
