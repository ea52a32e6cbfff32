#!/usr/bin/env bash
# Kernels and libraries come and go while others call: 10 s with one caller on each processor, where libraries that went are
# poisoned, and 60 s under the thread sanitizer with eight threads: stress.sh BUILD
# Then the same without the barrier, and without the second look at a slot, for at most 60 s each: whether that is noticed
# depends on the processor and the scheduler, and is said, not judged (test_dispatch_interleaving notices it on every machine).
set -euo pipefail
build=$1
cmake --build "$build" --target test_registry_stress mutant_no_barrier mutant_no_reload --parallel "$(nproc)" >"$build/stress.log" 2>&1 || { tail -20 "$build/stress.log"; exit 1; }
STRESS_SECONDS=10 "$build/tests/test_registry_stress"
cmake --preset tsan >/dev/null
cmake --build build-tsan --target test_registry_stress --parallel "$(nproc)" >build-tsan/stress.log 2>&1 || { tail -20 build-tsan/stress.log; exit 1; }
STRESS_SECONDS=60 STRESS_CALLERS=6 build-tsan/tests/test_registry_stress # and two that change
for mutant in no_barrier no_reload; do
  start=$(date +%s) status=0
  STRESS_SECONDS=60 "$build/tests/mutants/$mutant" >"$build/stress.log" 2>&1 || status=$?
  case $status in
    0) echo "$mutant: not noticed within 60 s" ;;
    9) echo "$mutant: noticed after $(($(date +%s) - start)) s" ;;
    *) tail -20 "$build/stress.log"; exit 1 ;;
  esac
done
