"""Writes the C headers of a wheel into one folder: unpack_headers.py WHEEL FOLDER

The folders inside the wheel up to `include` are left out.
"""

import pathlib
import sys
import zipfile

wheel, target = sys.argv[1], pathlib.Path(sys.argv[2])
found = 0
with zipfile.ZipFile(wheel) as archive:
    for member in archive.namelist():
        _, include, inside = member.partition("/include/")
        inside = pathlib.PurePosixPath(inside)
        if not include or inside.suffix != ".h" or ".." in inside.parts:
            continue
        path = target / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive.read(member))
        found += 1
if not found:
    sys.exit(f"{wheel} has no headers")
