"""Runs the questions of docs/EXPORTS.md as they stand there, in the directory with the exported tables.

usage: questions.py EXPORTS.md duckdb|dask|spark sql|phases > ANSWERS.json
"""

import builtins
import json
import pathlib
import runpy
import sys


def block(page, name):
    text = page.split(f"<!-- questions {name} -->")[1].split("<!-- end questions -->")[0]
    return text.split("```")[1].split("\n", 1)[1]


# Processes that Dask starts import this file again.
if __name__ == "__main__":
    page, program, questions = pathlib.Path(sys.argv[1]).read_text(), *sys.argv[2:]
    pathlib.Path("questions.sql").write_text(block(page, questions))
    script = pathlib.Path(f"ask_{program}.py")
    script.write_text(block(page, program))
    answers = []
    show, builtins.print = builtins.print, answers.append
    runpy.run_path(str(script), run_name="__main__")
    show(json.dumps([json.loads(answer.to_json(orient="records")) for answer in answers]))
