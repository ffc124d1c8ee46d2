"""Golden archives: what one version of nccl-otf2 makes of recorded jobs, for another version to be held against.

golden.py record --bin DIR --source DIR --out DIR --streams DIR --scorep DIR --scale PROGRAM
    records jobs with the programs in `--bin`, built from the sources in `--source`, and keeps what its nccl-otf2
    makes of their journals.
golden.py compare --bin DIR --golden DIR [--allow FILE]
    has nccl-otf2 in `--bin` do the same with the same journals and compares all of it. A line for each job,
    `equal` or `DIFFERS`; exit status 0 when all are equal.

Compared are archives (definitions, properties, the events of each location in order with their attributes) and what
the commands say: finalize, info, check, hang, print, export, merge. Files that are equal byte for byte are not read
further; what differs is compared as otf2-print shows it, without the numbers of definitions.

A line of the allowed differences is `PATTERN => REPLACEMENT`: a regular expression that is replaced in each printed
line of both sides (\\1 is its first group); lines that become empty do not count. `#` begins a comment.

A golden set is a folder for each job: `pristine.tar.gz` (the job's directory before it was finalized), `job.json`,
and for each set of options of finalize a folder with archives and texts.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import golden_jobs

# A printed archive is compared to so many lines of differences.
SHOWN = 3
# The number of what is referred to by its name.
REFERENCE = re.compile(r'(?<=") <\d+>')
# Numbers of definitions; those of locations are part of their identity.
NUMBER = re.compile(r"^(?!LOCATION)([A-Z_]+) +\d+  ")
HANG_TIME = re.compile(r'( *"(?:last_record|last_event|for|waited|behind)_ns": )(-?\d+),?')
EVENT = re.compile(r"([A-Z][A-Z_]+) +(\d+) +(\d+)  ")

def printed(anchor, *options):
    done = subprocess.run(["otf2-print", *options, anchor], capture_output=True, text=True, errors="replace")
    return done.stdout.splitlines() + ([f"otf2-print: {done.stderr}"] if done.returncode else [])


class Comparison:
    """Differences of two folders, in lines."""

    def __init__(self, allowed):
        self.allowed, self.found = allowed, []

    def line(self, text):
        for pattern, replacement in self.allowed:
            text = pattern.sub(replacement, text)
        return text

    def lines(self, lines):
        return [line for line in map(self.line, lines) if line.strip()]

    def texts(self, what, old, new):
        old, new = self.lines(old), self.lines(new)
        if len(old) == len(new) and any(map(is_near, old, new)):
            old = [now if is_near(was, now) else was for was, now in zip(old, new)]
        if old != new:
            pairs = zip(old + [""] * len(new), new + [""] * len(old))
            number, (was, now) = next((number, pair) for number, pair in enumerate(pairs, 1) if pair[0] != pair[1])
            self.found.append(f"{what}, line {number}:\n      - {was[:400]}\n      + {now[:400]}")

    def bags(self, what, old, new):
        gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
        if gone or come:
            listed = [f"- {line}" for line in list(gone)[:SHOWN]] + [f"+ {line}" for line in list(come)[:SHOWN]]
            kinds = Counter(line.split()[0] for line in (gone + come).elements())
            head = f"{what}: {gone.total()} gone, {come.total()} new, {dict(kinds)}"
            self.found.append("\n      ".join([head, *(line[:400] for line in listed)]))

    def archives(self, what, old, new):
        """Two archives by their anchors."""
        self.bags(f"{what} anchor", *(self.lines(anchor_lines(anchor)) for anchor in (old, new)))
        files = [{path.name: path for path in anchor.parent.glob(f"{anchor.stem}/*")} for anchor in (old, new)]
        same = files[0].keys() == files[1].keys()
        same = same and all(path.read_bytes() == files[1][name].read_bytes() for name, path in files[0].items())
        if not same or old.with_suffix(".def").read_bytes() != new.with_suffix(".def").read_bytes():
            texts = [self.lines(printed(anchor, "-G")) for anchor in (old, new)]
            # What has kept its number means the same in the same events.
            if not same or texts[0] != texts[1]:
                self.bags(f"{what} definitions", *(self.lines(map(plain, lines)) for lines in texts))
                self.events(what, *(self.rows(anchor) for anchor in (old, new)))

    def rows(self, anchor):
        """The printed events of each location."""
        rows, current = {}, None
        for line in printed(anchor):
            line = REFERENCE.sub("", line)
            head = EVENT.match(line)
            if head:
                current = rows.setdefault(head.group(2), [])
                current.append(line)
            elif current:
                current[-1] += " " + line.strip()
        return {location: self.lines(lines) for location, lines in rows.items()}

    def events(self, what, old, new):
        differing = sorted((old.keys() | new.keys()), key=int)
        differing = [location for location in differing if old.get(location) != new.get(location)]
        for location in differing[:SHOWN]:
            self.texts(f"{what} events of location {location}", old.get(location, []), new.get(location, []))
        if differing:
            rows = [Counter(line for name in differing for line in rows.get(name, [])) for rows in (old, new)]
            bags = rows[0] - rows[1], rows[1] - rows[0]
            kinds = [Counter(line.split()[0] for line in bag.elements()) for bag in bags]
            self.found.append(f"{what}: {len(differing)} locations differ, gone {dict(kinds[0])}, new {dict(kinds[1])}")

    def folders(self, old, new):
        anchors = [{str(path.relative_to(side)) for path in side.rglob("*.otf2")} for side in (old, new)]
        if anchors[0] != anchors[1]:
            self.found.append(f"archives {sorted(anchors[0])}, now {sorted(anchors[1])}")
        for name in sorted(anchors[0] & anchors[1]):
            self.archives(name, old / name, new / name)
        for text in sorted(old.glob("*.txt")):
            self.texts(text.stem, *((side / text.name).read_text().splitlines() for side in (old, new)))


def is_near(old, new):
    """Whether two lines of `hang` say the same time: it reads the clock each time, which moves others by some ns."""
    old, new = HANG_TIME.fullmatch(old), HANG_TIME.fullmatch(new)
    return bool(old and new) and old[1] == new[1] and abs(int(old[2]) - int(new[2])) < 100_000


def plain(line):
    return NUMBER.sub(r"\1  ", REFERENCE.sub("", line))


def anchor_lines(anchor):
    """A property a line; each line of a value has the name in front. Without OTF2's random number of the archive."""
    lines, name = [], ""
    for line in printed(anchor, "-I"):
        # The definitions and properties themselves are compared.
        if line.startswith(("Trace identifier", "Number of properties", "Number of global definitions")):
            continue
        if line.startswith("Property name"):
            name = line.split(None, 2)[2]
        elif name:
            lines.append(f"{name} = {line.removeprefix('Property value').strip()}")
        else:
            lines.append(line)
    return lines


def allowed(file):
    lines = [line for line in Path(file).read_text().splitlines() if line and line[0] != "#"]
    pairs = [(line.removesuffix(" =>") + " => ").split(" => ")[:2] for line in lines]
    return [(re.compile(pattern), replacement) for pattern, replacement in pairs]


def record(options, job):
    places = {"bin": options.bin, "plugin": options.bin / "libnccl_profiler_otf2.so", "streams": options.streams}
    places |= {"source": options.source, "scale": options.scale, "nccl": Path.home() / ".cache/nccl-profiler-otf2/nccl"}
    places["probes"] = options.out / ".probes"
    target = options.out / job.name
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        scratch = Path(scratch)
        failure = golden_jobs.record(job, places, scratch)
        if failure:
            return f"NOT RECORDED: {failure}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        about = {"sets": job.sets, "merge": job.merge, "programs": job.programs, "variables": job.variables}
        (target / "job.json").write_text(json.dumps(about, indent=2))
        with tarfile.open(target / "pristine.tar.gz", "w:gz", compresslevel=1) as archive:
            archive.add(scratch / "out", "out")
    return "recorded"


def write(options, job):
    """Once everything has been recorded for a while, so that `hang` finds no process that may still run."""
    golden, scorep = options.out / job.name, options.out / ".scorep"
    about = json.loads((golden / "job.json").read_text())
    for name in job.sets:
        shutil.rmtree(golden / name, ignore_errors=True)
        golden_jobs.produce(options.bin / "nccl-otf2", about, name, golden, golden / name, scorep)
    return "written"


def compare(options, golden):
    job, scorep = json.loads((golden / "job.json").read_text()), options.golden / ".scorep"
    comparison = Comparison(options.allow)
    for name in job["sets"]:
        with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
            new = Path(scratch) / name
            golden_jobs.produce(options.bin / "nccl-otf2", job, name, golden, new, scorep)
            before = len(comparison.found)
            comparison.folders(golden / name, new)
            comparison.found[before:] = [f"[{name}] {line}" for line in comparison.found[before:]]
    return "equal" if not comparison.found else "\n    ".join(["DIFFERS:", *comparison.found])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["record", "compare"])
    for name in ("bin", "source", "out", "streams", "scorep", "scale", "golden"):
        parser.add_argument(f"--{name}", type=lambda text: Path(text).absolute())
    parser.add_argument("--allow", type=allowed, default=[])
    parser.add_argument("--only", action="append", help="jobs whose names contain this")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.verb == "record":
        make = ["make", "-s", "-C", options.source / "crates/fake-gpu/probe-plugin", f"OUT={options.out / '.probes'}"]
        subprocess.run(make, check=True)
        shutil.copytree(options.scorep, options.out / ".scorep", dirs_exist_ok=True)
        (options.out / ".probes/libcupti.so.12").unlink(missing_ok=True)
        (options.out / ".probes/libcupti.so.12").symlink_to(options.bin / "libfake_cupti.so")
        jobs = [(job.name, job) for job in golden_jobs.JOBS]
    else:
        jobs = [(path.parent.name, path.parent) for path in sorted(options.golden.glob("*/job.json"))]
    jobs = [(name, job) for name, job in jobs if not options.only or any(word in name for word in options.only)]

    def one(pair, work):
        begin = time.monotonic()
        try:
            said = work(options, pair[1])
        except Exception as failure:
            said = f"FAILED: {failure!r}"
        print(f"{pair[0]:26}{time.monotonic() - begin:6.1f} s  {said}", flush=True)
        return said in ("equal", "recorded", "written")

    def all_of(work):
        with ThreadPoolExecutor(options.jobs) as pool:
            good = list(pool.map(one, jobs, [work] * len(jobs)))
        print(f"{work.__name__}: {sum(good)} of {len(good)} jobs are well")
        return bool(good) and all(good)

    if options.verb == "compare":
        sys.exit(0 if all_of(compare) else 1)
    recorded = all_of(record)
    time.sleep(20)
    sys.exit(0 if all_of(write) and recorded else 1)


if __name__ == "__main__":
    main()
