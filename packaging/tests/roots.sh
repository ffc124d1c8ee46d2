#!/usr/bin/env bash
# Installs packages in bare Debian 12 roots, records real NCCL on emulated devices with them, and removes them again:
#
#   roots.sh --nccl FILE --host nccl-host --gpu libfakegpu.so KIND=PATH...
#
#   deb=FILE,FILE   with apt, to /usr; used by the plugin's name, too
#   wheel=FILE      with pip, into a new virtual environment
#   tarball=FILE    unpacked in /opt
#   prefix=DIR      a prefix of CMake, moved to another place
#   destdir=DIR     what `DESTDIR=DIR cmake --install` has written, at its own place
#
# Needs root, debootstrap and overlay mounts. The root is made once, in the user's cache.
set -euo pipefail

if [ "${IN_OWN_MOUNTS:-}" != 1 ]; then
  # All mounts are gone when this ends, however it ends.
  IN_OWN_MOUNTS=1 exec unshare --mount --propagation private bash "$0" "$@"
fi

kinds=()
while [ $# -gt 0 ]; do
  case $1 in
    --nccl) nccl=$2; shift 2 ;;
    --host) host=$2; shift 2 ;;
    --gpu) gpu=$2; shift 2 ;;
    deb=* | wheel=* | tarball=* | prefix=* | destdir=*) kinds+=("$1"); shift ;;
    *) echo "roots.sh: $1: not an argument (see the head of $0)" >&2; exit 2 ;;
  esac
done
: "${nccl:?--nccl FILE}" "${host:?--host FILE}" "${gpu:?--gpu FILE}" "${kinds[0]:?KIND=PATH}"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/nccl-profiler-otf2
base=$cache/debian-12
if [ ! -e "$base/etc/debian_version" ]; then
  mkdir -p "$cache"
  rm -rf "$base.new"
  debootstrap --variant=minbase --include=python3-venv bookworm "$base.new" >&2
  rm -rf "$base.new"/var/cache/apt/archives/*.deb "$base.new"/var/lib/apt/lists/*
  mv "$base.new" "$base"
fi

work=$(mktemp -d)
trap 'umount --recursive --lazy "$work"; rmdir "$work"' EXIT
mount -t tmpfs -o mode=0755 tmpfs "$work"

# A new root at $root, with the test's files in /opt/test.
new_root() {
  mkdir -p "$work/$1/"{upper,work,root}
  root=$work/$1/root
  mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/$1/upper,workdir=$work/$1/work" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mkdir -p "$root/opt/test"
  cp "$host" "$root/opt/test/nccl-host"
  cp "$gpu" "$root/opt/test/libfakegpu.so"
  touch "$root/opt/test/libnccl.so.2"
  mount --bind "$nccl" "$root/opt/test/libnccl.so.2"
}

in_root() {
  chroot "$root" /usr/bin/env -i HOME=/root DEBIAN_FRONTEND=noninteractive \
    PATH="${path:-}/usr/sbin:/usr/bin:/sbin:/bin" "$@"
}

# As somebody who may write nowhere but at home: what root installed must be readable.
as_user() {
  install -d -o 1000 -g 1000 "$root/home/somebody"
  chroot --userspec=1000:1000 "$root" /usr/bin/env -i PATH="${path:-}/usr/bin:/bin" HOME=/home/somebody "$@"
}

files() {
  find "$root" -xdev \( -path "$root/var/lib/dpkg" -o -path "$root/var/log" -o -path "$root/var/cache" \
    -o -path "$root/tmp" -o -path "$root/home" -o -path "$root/opt/test" -o -path "$root/var/lib/apt" \) -prune \
    -o -print | sort
}

job="/opt/test/nccl-host --fake-gpu=/opt/test/libfakegpu.so --lib /opt/test/libnccl.so.2 --procs 2 --threads 1"
job+=" --ops allreduce --rounds 3"

use() {
  as_user sh -ec "
    cd
    nccl-otf2 --version
    nccl-otf2 doctor /opt/test/libnccl.so.2 || true
    nccl-otf2 run -o trace -- $job
    nccl-otf2 check trace
    nccl-otf2 stats trace --json | grep -q ncclAllReduce
    nccl-otf2 report trace -o report.html
    grep -q '</html>' report.html"
}

# NCCL finds the plugin on the loader's path by its name, without the tool.
use_by_name() {
  as_user sh -ec "
    cd
    export NCCL_PROFILER_PLUGIN=otf2 NCCL_OTF2_DIR=by-name LD_LIBRARY_PATH=${1:-}
    $job
    nccl-otf2 check by-name"
}

nothing_left() {
  files >"$work/after"
  if ! diff "$work/before" "$work/after"; then
    echo "roots.sh: the files above were left, or are missing, after removal" >&2
    return 1
  fi
}

try() {
  local kind=${1%%=*} what=${1#*=}
  path=
  new_root "$number"
  files >"$work/before"
  case $kind in
    deb)
      mkdir "$root/tmp/debs"
      cp ${what//,/ } "$root/tmp/debs"
      in_root sh -ec 'apt-get install -yq --no-install-recommends /tmp/debs/*.deb'
      use
      use_by_name
      in_root apt-get purge -yq libnccl-profiler-otf2 nccl-otf2
      nothing_left
      ;;
    wheel)
      cp "$what" "$root/tmp"
      in_root python3 -m venv /opt/venv
      files >"$work/before"
      in_root /opt/venv/bin/pip install --no-index --no-compile "/tmp/${what##*/}"
      path=/opt/venv/bin:
      use
      as_user python3 -B -c 'import nccl_otf2, os; assert os.path.isfile(nccl_otf2.plugin_path()); print(nccl_otf2.env())'
      in_root pip uninstall -yq nccl-otf2
      # pip leaves the folders of data.
      find "$root/opt/venv/share" -depth -type d -empty -delete
      nothing_left
      ;;
    tarball)
      tar -xf "$what" -C "$root/opt" --no-same-owner
      path=$(cd "$root" && echo opt/*/bin/nccl-otf2)
      path=/${path%/nccl-otf2}:
      use
      ;;
    prefix)
      cp -a "$what" "$root/opt/moved"
      path=/opt/moved/bin:
      use
      # A moved prefix has its libraries beside the folder of the tool.
      use_by_name "$(cd "$root" && find opt/moved -name libnccl-profiler-otf2.so -printf '/%h')"
      ;;
    destdir)
      cp -a "$what/." "$root/"
      path=$(cd "$what" && find . -path '*/bin/nccl-otf2' -printf '%h')
      path=${path#.}:
      use
      ;;
  esac
}

passed=0
failed=0
for kind in "${kinds[@]}"; do
  echo "== $kind in a bare Debian 12"
  number=$((passed + failed))
  # In a shell of its own, so that the first failing command ends it: `if try` would switch that off.
  set +e
  (set -e; try "$kind")
  status=$?
  set -e
  if [ $status = 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "roots.sh: $kind FAILED" >&2
  fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
