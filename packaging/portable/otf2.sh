#!/usr/bin/env bash
# Builds a static libotf2 that runs with an old glibc, with zig's C compiler:
#   otf2.sh PREFIX [TARBALL]
# TARBALL is a release of OTF2 (otf2-VERSION.tar.gz). Without it, apt fetches Debian's source package.
# ZIG is the compiler (default: zig), GLIBC the oldest C library (default: 2.28).
set -euo pipefail

prefix=${1:?PREFIX is missing: otf2.sh PREFIX [TARBALL]}
tarball=${2:-}
zig=${ZIG:-zig}
target=$(uname -m)-linux-gnu.${GLIBC:-2.28}
version=$(cat "$(dirname "${BASH_SOURCE[0]}")/OTF2_VERSION")
sha256=f037aafd3f9d3b677aa8004663c527041dcaecbb04b5c804a2997d08efe0fe17

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Debian's mirror as apt has it, with sources, which most machines do not list.
mirrors() {
  apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' \
    >"$work/sources.list"
  [ -s "$work/sources.list" ]
}
fetch() {
  local apt=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o APT::Sandbox::User=root)
  mkdir -p "$work/lists/partial"
  # A machine that never ran apt-get update does not know whose mirror it has.
  if ! mirrors && ! { apt-get -q update && mirrors; }; then
    echo "otf2.sh: apt knows no mirror of Debian: give the release's tarball" >&2
    return 2
  fi
  apt-get "${apt[@]}" update
  (cd "$work" && apt-get "${apt[@]}" source --download-only otf2)
  tarball=$work/otf2_$version.orig.tar.xz
  if [ ! -f "$tarball" ]; then
    echo "otf2.sh: this Debian's otf2 is not $version: give the release's tarball" >&2
    return 2
  fi
  echo "$sha256  $tarball" | sha256sum --check
}

[ -n "$tarball" ] || fetch
mkdir "$work/source" "$work/build"
tar -xf "$tarball" -C "$work/source" --strip-components=1

# configure wants a compiler of one word. Zig checks for undefined behaviour unless it is told not to. OTF2's tools are
# in C++ and run here only: zig would first compile its own library of C++.
printf '#!/bin/sh\nexec "%s" cc -target %s -fno-sanitize=undefined "$@"\n' "$zig" "$target" >"$work/cc"
chmod +x "$work/cc"

cd "$work/build"
# The time and the folder of the build are in no object file. A function that nobody calls is left out of a library that
# links with this one: the plugin is 0.2 MB smaller.
flags="-O2 -g0 -ffile-prefix-map=$work=. -ffunction-sections -fdata-sections"
"$work/source/configure" --quiet --prefix="$prefix" --libdir="$prefix/lib" --disable-shared --enable-static --with-pic \
  CC="$work/cc" CXX=c++ CFLAGS="$flags" CXXFLAGS="$flags" PYTHON=: SPHINX=:
make --quiet -j "$(nproc)" install
install -D -m 644 "$work/source/COPYING" "${DESTDIR:-}$prefix/share/doc/otf2/COPYING"
"${DESTDIR:-}$prefix/bin/otf2-config" --version
