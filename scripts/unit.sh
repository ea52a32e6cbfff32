#!/usr/bin/env bash
# Runs all C test programs of a folder, one on each processor, and adds up their totals: unit.sh FOLDER [REGEX]
# REGEX selects programs to leave out. Tests wait for events, however long a busy machine takes; a program that runs for
# more than two hours (UNIT_TIMEOUT, in seconds) hangs and counts as failed (status 124).
set -uo pipefail
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export LOCPATH=$PWD/$1/locale # a locale with a decimal comma, for the tests of numbers
[ -d "$LOCPATH/de_DE.UTF-8" ] || { mkdir -p "$LOCPATH"; localedef -i de_DE -f UTF-8 "$LOCPATH/de_DE.UTF-8" >/dev/null 2>&1; }
# Each program has its own cache of compiled kernels. PoCL 3.1 ends a process by an assertion (pocl_binary.c:
# `len > 0') when the process reads a cache entry that another process is still writing.
find "$1" -maxdepth 1 -name 'test_*' ! -regex ".*/${2:-none}" -type f -executable -print0 | sort -z |
  xargs -0 -P "$(nproc)" -I{} sh -c '
    name=$(basename "$1")
    export POCL_CACHE_DIR=$PWD/$3/pocl/$name
    mkdir -p "$POCL_CACHE_DIR"
    timeout --foreground -k 60 "${UNIT_TIMEOUT:-7200}" "$1" >"$2/$name" 2>&1
    echo "status $?" >>"$2/$name"' - {} "$logs" "$1"
passed=0 failed=0 skipped=0
for log in "$logs"/*; do
  status=$(tail -1 "$log" | cut -d' ' -f2)
  line=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$log" | tail -1)
  p=$(grep -oE '[0-9]+ passed' <<<"$line" | cut -d' ' -f1) f=$(grep -oE '[0-9]+ failed' <<<"$line" | cut -d' ' -f1)
  s=$(grep -oE '[0-9]+ skipped' <<<"$line" | cut -d' ' -f1)
  p=${p:-0} f=${f:-0} s=${s:-0}
  [ "$status" != 0 ] && [ "$f" -eq 0 ] && f=1
  if [ "$f" -ne 0 ]; then echo "FAIL $(basename "$log") (status $status)"; tail -40 "$log"; fi
  grep -iE '^ *skip' "$log"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
