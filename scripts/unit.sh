#!/usr/bin/env bash
# Runs every C test program of a folder and adds their totals up: unit.sh FOLDER
set -uo pipefail
passed=0 failed=0 skipped=0
for test in "$1"/test_*; do
  [ -x "$test" ] && [ -f "$test" ] || continue
  output=$("$test" 2>&1)
  status=$?
  line=$(grep -E '[0-9]+ passed, [0-9]+ failed' <<<"$output" | tail -1)
  p=$(grep -oE '[0-9]+ passed' <<<"$line" | cut -d' ' -f1) f=$(grep -oE '[0-9]+ failed' <<<"$line" | cut -d' ' -f1)
  s=$(grep -oE '[0-9]+ skipped' <<<"$line" | cut -d' ' -f1)
  p=${p:-0} f=${f:-0} s=${s:-0}
  [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
  if [ "$f" -ne 0 ]; then echo "FAIL $(basename "$test") (status $status)"; tail -40 <<<"$output"; fi
  grep -iE '^ *skip' <<<"$output"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
