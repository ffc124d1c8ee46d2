#!/usr/bin/env bash
# Makes the deb and rpm packages of binaries: system-packages.sh BINARIES OUT
#
# BINARIES is a folder as for CMake's NCCL_OTF2_PREBUILT_DIR. rpm needs rpmbuild, and is left out where it is missing.
set -euo pipefail
binaries=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../cmake")
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

# Packages of the same files are the same, whenever they are made.
if [ -z "${SOURCE_DATE_EPOCH:-}" ] && SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct 2>/dev/null); then
  export SOURCE_DATE_EPOCH
fi

make_packages() {
  local generator=$1 libdir=$2
  cmake -S "$source" -B "$build/$generator" -DNCCL_OTF2_PREBUILT_DIR="$binaries" -DBUILD_TESTING=OFF \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR="$libdir"
  cmake --build "$build/$generator"
  (umask 022 && cd "$build/$generator" && cpack -G "$generator" -B "$out")
  rm -rf "$out/_CPack_Packages"
}

triplet=$(uname -m)-linux-gnu
make_packages DEB "lib/$triplet"
if command -v rpmbuild >/dev/null; then
  make_packages RPM lib64
else
  echo "system-packages.sh: no rpm packages: rpmbuild is missing (Debian: apt-get install rpm)" >&2
fi
