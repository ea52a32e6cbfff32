#!/usr/bin/env bash
# Damages programs of StableHLO under the address and undefined-behaviour sanitizers: mutations.sh COUNT
# The reader gets COUNT damaged texts and COUNT damaged files of bytecode, made of tests/fuzz/corpus/stablehlo. FUZZ_SEED=N
# chooses others; the same seed makes the same files. With FUZZ_KEEP=FILE the one that breaks the reader stays in FILE.
set -uo pipefail
count=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p build-asan
if ! { flock build-asan cmake --preset asan &&
  flock build-asan cmake --build build-asan --target test_fuzz_stablehlo --parallel "$(nproc)"; } >"$log" 2>&1; then
  tail -20 "$log"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=2048 UBSAN_OPTIONS=print_stacktrace=1
: >"$log"
for kind in mlir mlirbc; do
  FUZZ_MUTATIONS=$count timeout 600 build-asan/tests/test_fuzz_stablehlo tests/fuzz/corpus/stablehlo/*.$kind 2>&1 | tee -a "$log"
done
awk '/^[0-9]+ passed/ {p += $1; f += $3; n++} END {print p + 0 " passed, " f + 2 - n " failed, 0 skipped"; exit f > 0 || n < 2}' "$log"
