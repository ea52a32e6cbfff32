#!/usr/bin/env bash
# Lets an isolated library forge replies: isolation_fuzz.sh BUILD REPLIES. REPLIES of each kind in the
# build, and as many in one with the address and undefined-behaviour sanitizers (build-asan).
set -euo pipefail
build=${1:?usage: isolation_fuzz.sh BUILD REPLIES} replies=${2:-1000000}
export TENON_REPLIES=$replies
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
[ -e build-asan/CMakeCache.txt ] || cmake -S . -B build-asan --preset asan >/dev/null
for folder in "$build" build-asan; do
  cmake --build "$folder" --target isolation_forgeries isolation_rounds --parallel "$(nproc)" >"$folder/isolation-fuzz.log" ||
    { tail -20 "$folder/isolation-fuzz.log"; exit 1; }
  echo "$folder: $replies replies of each kind"
  TENON_BUILD=$folder .venv/bin/python tests/acceptance/isolation_test.py Forgeries
done
