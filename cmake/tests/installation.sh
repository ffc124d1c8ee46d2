#!/usr/bin/env bash
# Uses an installed prefix as people do: installation.sh CASE, with PREFIX, LIBDIR (relative), BUILD (the build tree),
# HOST (the compiled host.c), VERSION and WORK (a folder for this case). Ends with 77 where a program is missing.
set -euo pipefail

fail() {
  echo "installation.sh: $*" >&2
  exit 1
}

# Where CI is set, nothing may be missing.
need() {
  if ! command -v "$1" >/dev/null; then
    [ -z "${CI:-}" ] || fail "$1 is missing"
    echo "not tested: $1 is missing" >&2
    exit 77
  fi
}

is_file_of() {
  [ -f "$2" ] || fail "$2 is no file"
  case $(realpath "$2") in
    "$(realpath "$1")"/*) ;;
    *) fail "$2 is not in $1" ;;
  esac
}

# The prefix in another place, and only there.
moved() {
  rm -rf "$WORK"
  mkdir -p "$WORK"
  cp -a "$PREFIX" "$WORK/moved"
  if grep -rIl -e "$PREFIX" -e "$BUILD" "$WORK/moved"; then
    fail "the files above name the prefix or the build tree"
  fi
  moved=$WORK/moved
  tool=$moved/bin/nccl-otf2
}

case_destdir() {
  rm -rf "$WORK"
  DESTDIR=$WORK cmake --install "$BUILD" --prefix /opt/nccl-otf2 >/dev/null
  diff <(cd "$PREFIX" && find . | sort) <(cd "$WORK/opt/nccl-otf2" && find . | sort)
  [ "$(cd "$WORK" && echo *)" = opt ] || fail "DESTDIR has more than /opt"
}

case_relocation() {
  moved
  # The exit code depends on this machine.
  "$tool" doctor >"$WORK/doctor" || true
  grep -F "nccl-otf2 run loads $moved/$LIBDIR/libnccl-profiler-otf2.so" "$WORK/doctor"
  # shellcheck disable=SC2016
  "$tool" run -o "$WORK/trace" -- sh -c '"$0" "$NCCL_PROFILER_PLUGIN"' "$HOST"
  "$tool" check "$WORK/trace"
}

# A process that has loaded the plugin keeps its file, and whoever looks finds a whole one.
case_replacement() {
  local library=$PREFIX/$LIBDIR/libnccl-profiler-otf2.so whole sleeper inode watcher
  whole=$(sha256sum <"$library")
  LD_PRELOAD=$library sleep 600 &
  sleeper=$!
  # shellcheck disable=SC2064
  trap "kill $sleeper" EXIT
  inode=$(stat -L -c %i "$library")
  until grep -q " $inode .*libnccl-profiler-otf2" "/proc/$sleeper/maps"; do
    kill -0 $sleeper
  done
  mkdir -p "$WORK"
  rm -f "$WORK/replaced"
  while [ ! -e "$WORK/replaced" ]; do
    [ "$(sha256sum <"$library")" = "$whole" ] || exit 1
  done &
  watcher=$!
  cmake --install "$BUILD" --prefix "$PREFIX" >/dev/null
  touch "$WORK/replaced"
  wait $watcher || fail "the library was missing or half there while it was installed"
  [ "$(stat -L -c %i "$library")" != "$inode" ] || fail "the library was written in place"
  grep -q " $inode .*libnccl-profiler-otf2" "/proc/$sleeper/maps" || fail "the process lost its library"
  [ -z "$(find "$PREFIX" -name '.*.new')" ] || fail "a temporary file was left"
}

case_links() {
  local link
  for link in "libnccl-profiler-otf2.so.${VERSION%%.*}" libnccl-profiler-otf2.so; do
    [ "$(readlink "$PREFIX/$LIBDIR/$link")" = "libnccl-profiler-otf2.so.$VERSION" ] || fail "$link"
  done
  # What the dynamic linker's cache makes of the folder must be these links, and not one of a file's old version.
  rm -rf "$WORK"
  mkdir -p "$WORK"
  cp -a "$PREFIX/$LIBDIR/." "$WORK"
  PATH=$PATH:/sbin:/usr/sbin
  need ldconfig
  ldconfig -n -N "$WORK" || ldconfig -n "$WORK"
  diff <(cd "$PREFIX/$LIBDIR" && find . -type l -printf '%p %l\n' | sort) \
    <(cd "$WORK" && find . -type l -printf '%p %l\n' | sort)
}

case_man() {
  need man
  local page verbs pages
  for page in "$PREFIX"/share/man/man1/*.1; do
    MANWIDTH=80 man --warnings -l "$page" >"$WORK.page" 2>"$WORK.warnings"
    [ ! -s "$WORK.warnings" ] || fail "$page: $(cat "$WORK.warnings")"
    grep -q 'SEE ALSO' "$WORK.page"
  done
  verbs=$("$PREFIX/bin/nccl-otf2" --help | sed -n 's/^  \([a-z]\+\)  .*/\1/p' | grep -v -x help | sort)
  pages=$(cd "$PREFIX/share/man/man1" && printf '%s\n' nccl-otf2-*.1 | sed 's/nccl-otf2-\(.*\)\.1/\1/' | sort)
  diff <(echo "$verbs") <(echo "$pages")
  MANPATH=$PREFIX/share/man man nccl-otf2-run | grep -q -- '--no-chain'
}

# Links between the pages lead to files that are installed.
case_pages() {
  local page link
  [ -f "$PREFIX/share/doc/nccl-otf2/docs/GUIDE.md" ] || fail "there are no pages"
  while read -r page; do
    while read -r link; do
      [ -e "$(dirname "$page")/$link" ] || fail "$page has a link to $link"
    done < <(grep -o ']([^)#]\+' "$page" | sed 's/^](//' | grep -v '^[a-z]\+:')
  done < <(find "$PREFIX/share/doc/nccl-otf2" -name '*.md' ! -name SUMMARY.md)
}

# Each shell offers `stats` and `--by`, and no hidden verb.
completes() {
  grep -q -x -e "stats.*" <<<"$1" || fail "no stats among: $1"
  ! grep -q -x -e "pages.*" <<<"$1" || fail "the hidden verb is offered: $1"
  grep -q -e '--by' <<<"$2" || fail "no --by among: $2"
}

case_bash() {
  need bash
  offered() {
    # shellcheck disable=SC2016
    bash --norc -c 'source "$0"
      COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
      function=$(complete -p nccl-otf2 | sed "s/.*-F \([^ ]*\).*/\1/")
      "$function" nccl-otf2 "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
      printf "%s\n" "${COMPREPLY[@]}"' "$PREFIX/share/bash-completion/completions/nccl-otf2" "$@"
  }
  completes "$(offered nccl-otf2 '')" "$(offered nccl-otf2 stats --)"
}

case_fish() {
  need fish
  offered() {
    HOME=$WORK fish --no-config -c 'source $argv[1]; complete --do-complete $argv[2]' \
      "$PREFIX/share/fish/vendor_completions.d/nccl-otf2.fish" "$1"
  }
  mkdir -p "$WORK"
  completes "$(offered 'nccl-otf2 ')" "$(offered 'nccl-otf2 stats --')"
  [ -z "$(offered 'nccl-otf2 run --level ')" ] || fail "files are offered for a level"
}

# zsh completes in its line editor only: here it must find and load the function.
case_zsh() {
  need zsh
  # shellcheck disable=SC2016
  zsh -f -c 'fpath=($1 $fpath); autoload -Uz compinit; compinit -D -u
    [ "$_comps[nccl-otf2]" = _nccl-otf2 ] && autoload +X _nccl-otf2' zsh "$PREFIX/share/zsh/site-functions"
}

case_modulefile() {
  local lmod=/usr/share/lmod/lmod/libexec/lmod error
  need "$lmod"
  moved
  unset NCCL_PROFILER_PLUGIN MANPATH LD_LIBRARY_PATH
  export MODULEPATH=$moved/share/modulefiles
  eval "$("$lmod" bash load nccl-otf2)"
  [ "$(command -v nccl-otf2)" -ef "$tool" ] || fail "nccl-otf2 is $(command -v nccl-otf2)"
  NCCL_OTF2_DIR=$WORK/archive "$HOST" otf2
  [ -z "${NCCL_PROFILER_PLUGIN+set}" ] || fail "the module sets NCCL_PROFILER_PLUGIN"
  man -w nccl-otf2-run | grep -F "$moved/share/man"
  # A copy elsewhere says where it belongs.
  mkdir -p "$WORK/site/nccl-otf2"
  cp "$moved/share/modulefiles/nccl-otf2/$VERSION.lua" "$WORK/site/nccl-otf2"
  error=$(MODULEPATH=$WORK/site "$lmod" bash load nccl-otf2 2>&1 >/dev/null || true)
  # Lmod fills its lines.
  tr -s '\n ' ' ' <<<"$error" | grep -q 'module use PREFIX/share/modulefiles' || fail "a misplaced modulefile says: $error"
}

case_pkg_config() {
  need pkg-config
  moved
  export PKG_CONFIG_PATH=$moved/$LIBDIR/pkgconfig
  is_file_of "$moved" "$(pkg-config --variable=plugin nccl-profiler-otf2)"
  is_file_of "$moved" "$(pkg-config --variable=plugindir nccl-profiler-otf2)/libnccl-otf2-tensorflow.so"
  [ "$(pkg-config --modversion nccl-profiler-otf2)" = "$VERSION" ]
}

# What beginners do wrong ends in a message that says what to do.
case_mistakes() {
  moved
  local wrong=0 plugin=$moved/$LIBDIR/libnccl-profiler-otf2.so
  # mistake WHAT SAYS WAY_OUT COMMAND...: the output of the command has both texts.
  mistake() {
    local what=$1 says=$2 way_out=$3 said
    shift 3
    said=$("$@" 2>&1 </dev/null | tr -s '\n ' ' ' || true)
    if [[ $said != *"$says"* || $said != *"$way_out"* ]]; then
      printf '%s: must say "%s" and "%s", but says:\n%s\n' "$what" "$says" "$way_out" "$said" >&2
      wrong=1
    fi
  }
  mkdir -p "$WORK/bin" "$WORK/empty"
  cp "$tool" "$WORK/bin"
  head -c 100000 "$plugin" >"$WORK/half.so"
  cd "$WORK"

  mistake "only the tool was installed" "cannot find the plugin" "--plugin PATH" \
    bin/nccl-otf2 run -- true
  mistake "the tool alone: what doctor says" "cannot find the plugin" "--plugin PATH" \
    bin/nccl-otf2 doctor
  mistake "the plugin is not where --plugin says" "--plugin /nowhere/plugin.so: no such file" "/nowhere/plugin.so" \
    "$tool" run --plugin /nowhere/plugin.so -- true
  mistake "TensorFlow's library as the plugin" "the plugin cannot be used" "--plugin names another one" \
    "$tool" run --plugin "$moved/$LIBDIR/libnccl-otf2-tensorflow.so" -- true
  mistake "a copy that was interrupted" "the plugin cannot be used" "--plugin names another one" \
    "$tool" run --plugin half.so -- true
  mistake "a program without NCCL" "nothing was recorded" "nccl-otf2 doctor" \
    "$tool" run -o nothing -- true
  mistake "the wrong directory" "no archive here" "nccl-otf2-COMMAND-JOB" \
    "$tool" stats empty
  mistake "a directory that is not there" "trace: no such file or directory" "trace" \
    "$tool" report trace
  # The container has not the host's prefix: NCCL's dlopen fails, and NCCL goes on without a profiler.
  if [ "$(id -u)" = 0 ]; then
    # shellcheck disable=SC2016
    mistake "a container without the mount" "starts a container that lacks $plugin" "mount both in it" \
      "$tool" run -o unmounted -- unshare --mount sh -c 'mount -t tmpfs none "$1" && ! "$0" "$NCCL_PROFILER_PLUGIN"' \
      "$HOST" "$moved/$LIBDIR"
  fi
  [ $wrong = 0 ]
}

"case_$1"
