"""Writes one file of a wheel to a new file: unpack_member.py WHEEL MEMBER FILE"""

import shutil
import sys
import zipfile

wheel, member, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(target, "xb") as out:
    shutil.copyfileobj(source, out, 1 << 20)
