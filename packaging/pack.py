#!/usr/bin/env python3
"""Packs what is published; `cargo xtask dist` calls it. The same commit gives the same bytes.

pack.py notices OTF2 STAGE               the licences of what is linked in, into an installation
pack.py binaries STAGE OUT              an installation as a tarball
pack.py source NAME OUT                 the commit with the crates that it needs as a tarball, tried without a network
pack.py components VERSION OUT          the list of components (SBOM): CycloneDX, in JSON
pack.py sums FOLDER                     SHA256SUMS of all files
"""

import argparse
import datetime
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("nccl-profiler-otf2", "nccl-otf2-tensorflow", "nccl-otf2")
OTF2 = {
    "name": "otf2",
    "version": (ROOT / "packaging/portable/OTF2_VERSION").read_text().strip(),
    "license": "BSD-3-Clause",
}
TIME = int(os.environ["SOURCE_DATE_EPOCH"])


def output(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, **more).stdout


def crates():
    """The packages of registries that are linked into what is published, with their metadata."""
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1"))
    known = {(package["name"], package["version"]): package for package in metadata["packages"]}
    words = ["cargo", "tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
    for name in SHIPPED:
        words += ["--package", name]
    listed = {tuple(line.split()[:2]) for line in output(*words).splitlines() if line}
    found = [known[name, version.removeprefix("v")] for name, version in sorted(listed)]
    return [package for package in found if package["source"]]


def notices(otf2, stage):
    """MIT, BSD and Apache demand that their texts go with the binaries."""
    same = {(otf2 / "share/doc/otf2/COPYING").read_text().strip(): [f"OTF2 {OTF2['version']}"]}
    for package in crates():
        folder = Path(package["manifest_path"]).parent
        title = f"{package['name']} {package['version']} ({package['license']})"
        texts = [file for file in folder.iterdir() if re.match(r"(?i)(licen[cs]e|copying|notice)", file.name)]
        texts = [file.read_text(errors="replace").strip() for file in sorted(texts) if file.is_file()]
        for text in texts or ["(The package has no text of its licence.)"]:
            same.setdefault(text, []).append(title)
    text = "".join(f"{'=' * 80}\n{chr(10).join(titles)}\n\n{notice}\n\n" for notice, titles in same.items())
    folder = stage / "share/doc/nccl-otf2"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "third-party-licenses.txt").write_text(text)


def components(version, out):
    locked = (ROOT / "Cargo.lock").read_text()
    pattern = r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"'
    checksums = {(name, version): checksum for name, version, checksum in re.findall(pattern, locked)}

    def component(name, version, license, purl, checksum=None):
        hashes = {"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum else {}
        # Old crates separate licences by slashes.
        licenses = {"licenses": [{"expression": license.replace("/", " OR ")}]} if license else {}
        it = {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required"}
        return it | hashes | licenses | {"purl": purl}

    own = f"pkg:generic/nccl-profiler-otf2@{version}"
    otf2 = component(*OTF2.values(), f"pkg:generic/otf2@{OTF2['version']}")
    listed = [otf2] + [
        component(name, version, package["license"], f"pkg:cargo/{name}@{version}", checksums.get((name, version)))
        for package in crates()
        for name, version in [(package["name"], package["version"])]
    ]
    text = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(TIME, datetime.timezone.utc).isoformat(),
            "component": {"type": "application", "bom-ref": own, "name": "nccl-profiler-otf2", "version": version},
        },
        "components": listed,
        "dependencies": [{"ref": own, "dependsOn": [it["bom-ref"] for it in listed]}],
    }
    out.write_text(json.dumps(text, indent=1) + "\n")


def tarball(folder, file):
    """Folders and files in the order of their names, with one time and no owner."""

    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = TIME
        entry.mode = 0o755 if entry.mode & 0o100 or entry.isdir() else 0o644
        return entry

    with subprocess.Popen(["xz", "-6", "-T2"], stdin=subprocess.PIPE, stdout=file.open("wb")) as xz:
        with tarfile.open(fileobj=xz.stdin, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            for path in [folder, *sorted(folder.rglob("*"))]:
                tar.add(path, arcname=str(path.relative_to(folder.parent)), recursive=False, filter=plain)
        xz.stdin.close()
    if xz.returncode:
        raise SystemExit(f"xz ended with {xz.returncode}")


TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
NOT_BUILT = ["benches", "examples/data", "testdata", "tests"]


def slim(vendor):
    """Removes what no build for TARGETS reads, and leaves empty crates: the list of packages names all."""
    filters = [word for target in TARGETS for word in ("--filter-platform", target)]
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version=1", *filters))
    needed = {node["id"] for node in metadata["resolve"]["nodes"]}
    needed = {f"{it['name']}-{it['version']}" for it in metadata["packages"] if it["id"] in needed}
    for crate in vendor.iterdir():
        for folder in [crate / name for name in (NOT_BUILT if crate.name in needed else [*NOT_BUILT, "src"])]:
            shutil.rmtree(folder, ignore_errors=True)
        if crate.name not in needed:
            (crate / "src").mkdir()
            (crate / "src/lib.rs").touch()
        # Cargo compares each file that is listed.
        sums = crate / ".cargo-checksum.json"
        known = json.loads(sums.read_text())
        known["files"] = {file: sum for file, sum in known["files"].items() if (crate / file).is_file()}
        if crate.name not in needed:
            known["files"].pop("src/lib.rs", None)
        sums.write_text(json.dumps(known))


def source(name, out):
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        folder = Path(scratch, name)
        words = ["git", "archive", f"--prefix={name}/", "HEAD"]
        archived = subprocess.run(words, check=True, capture_output=True, cwd=ROOT)
        with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as tar:
            tar.extractall(scratch)
        output("cargo", "vendor", "--locked", "--quiet", "--versioned-dirs", str(folder / "vendor"))
        slim(folder / "vendor")
        with (folder / ".cargo/config.toml").open("a") as config:
            config.write('\n[source.crates-io]\nreplace-with = "vendor"\n[source.vendor]\ndirectory = "vendor"\n')
        tarball(folder, out)

        # A machine without a network and without anything fetched before.
        alone = {name: value for name, value in os.environ.items() if not name.startswith("CARGO")}
        alone |= {"CARGO_HOME": f"{scratch}/home", "CARGO_TARGET_DIR": f"{scratch}/target"}
        check = ["cargo", "check", "--quiet", "--frozen", "--package", "nccl-otf2-journal"]
        subprocess.run(check, check=True, cwd=folder, env=alone)


def sums(folder):
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["notices", "binaries", "source", "components", "sums"])
    parser.add_argument("words", nargs="+")
    given = parser.parse_args()
    words = given.words
    if given.what == "notices":
        notices(Path(words[0]), Path(words[1]))
    elif given.what == "binaries":
        tarball(Path(words[0]), Path(words[1]))
    elif given.what == "source":
        source(words[0], Path(words[1]))
    elif given.what == "components":
        components(words[0], Path(words[1]))
    else:
        sums(Path(words[0]))


if __name__ == "__main__":
    main()
