#!/usr/bin/env bash
# Looks into deb and rpm packages: packages.sh DIR, the folder that system-packages.sh filled.
set -euo pipefail
packages=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "packages.sh: $*" >&2
  exit 1
}

large=$(find "$packages" -maxdepth 1 -type f -size +12000000c)
[ -z "$large" ] || fail "over 12 MB: $large"

lintian --allow-root --fail-on error "$packages"/*.deb

for package in libnccl-profiler-otf2 nccl-otf2; do
  mkdir -p "$work/deb" "$work/rpm"
  dpkg-deb -x "$packages/$package"_*.deb "$work/deb"
  rpm2cpio "$packages/$package"-[0-9]*.rpm | (cd "$work/rpm" && cpio --extract --make-directories --quiet)
  # What dnf would refuse or fetch: only the C library, the loader, libgcc, and the other package.
  foreign=$(rpm -qp --requires "$packages/$package"-[0-9]*.rpm | grep -v -e '^lib[cm]\.so' -e '^libgcc_s\.so' -e '^ld-linux' \
    -e '^rpmlib(' -e '^rtld(' -e '^libnccl-profiler-otf2 = ' -e '^libdl\.so' -e '^libpthread\.so' -e '^librt\.so' || true)
  [ -z "$foreign" ] || fail "$package.rpm needs $foreign"
done

# The same files under each distribution's names.
deb_lib=$(echo "$work"/deb/usr/lib/*-linux-gnu)
cmp "$work/deb/usr/bin/nccl-otf2" "$work/rpm/usr/bin/nccl-otf2"
for library in libnccl-profiler-otf2.so libnccl-otf2-tensorflow.so librccl-profiler-otf2.so; do
  cmp "$deb_lib/$library" "$work/rpm/usr/lib64/$library"
done
for licences in deb/usr/share/doc/{nccl-otf2,libnccl-profiler-otf2}/third-party-licenses.txt.gz \
    rpm/usr/share/doc/{nccl-otf2,libnccl-profiler-otf2}/third-party-licenses.txt; do
  zgrep -q '^libc 0' "$work/$licences" || fail "$licences does not have the licence of the crate libc"
done
for licence in APACHE MIT; do
  [ -e "$work/rpm/usr/share/doc/libnccl-profiler-otf2/LICENSE-$licence" ] || fail "the rpm lacks LICENSE-$licence"
done
for root in deb rpm; do
  "$work/$root/usr/bin/nccl-otf2" run -o "$work/$root-trace" -- true 2>"$work/said" || true
  grep -q 'nothing was recorded' "$work/said" || fail "the tool of the $root does not find its plugin: $(cat "$work/said")"
  man -l "$(echo "$work/$root"/usr/share/man/man1/nccl-otf2.1*)" | grep -q 'nccl-otf2-run'
done
echo "packages.sh: all is well"
