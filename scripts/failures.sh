#!/usr/bin/env bash
# Requests to the system fail in turn, over what a host does with Tenon: failures.sh EVERY.  Each EVERY-th request of libraries,
# models and the runtime, under address sanitizer; then third-party allocations at random, in a plain build.  From which request on
# follows from the date, and is said: FAULT_FROM=N repeats it.
set -uo pipefail
every=$1
export TENON_BUILD=$PWD/build FAULT_EVERY=$every FAULT_FROM=${FAULT_FROM:-$(($(date +%s) / 86400))}
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
[ ! -x .venv-zoo/bin/python ] || [ -e build/zoo/minilm_twin.onnx ] || .venv-zoo/bin/python bench/models/make_zoo.py build/zoo minilm_twin >/dev/null ||
  { echo "failures: the model was not made"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p build-asan
flock build-asan cmake --preset asan >"$log" 2>&1 && flock build-asan cmake --build build-asan --target test_fault_verbs --parallel "$(nproc)" >>"$log" 2>&1 &&
  cmake --build build --target test_fault_verbs --parallel "$(nproc)" >>"$log" 2>&1 || { tail -20 "$log"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
build-asan/tests/test_fault_verbs 2>&1 | tee "$log"
FAULT_EVERY=1000000 FAULT_RANDOM=0 FAULT_OTHERS=$((every == 1 ? 1000 : 100)) build/tests/test_fault_verbs 2>&1 | tee -a "$log"
grep -E '^[0-9]+ passed' "$log" | awk '{p += $1; f += $3; s += $5} END {print p " passed, " f + (NR < 2 ? 2 - NR : 0) " failed, " s " skipped"; exit f || NR < 2}'
