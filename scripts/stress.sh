#!/usr/bin/env bash
# Registers and unloads kernels and libraries while other threads call them: stress.sh BUILD
#   1. 10 s with one calling thread on each processor; the memory of unloaded libraries is poisoned.
#   2. 60 s under the thread sanitizer, with six calling threads and two that change the registry.
#   3. The same with a planted defect, at most 60 s each: without the memory barrier, and without the second read of the
#      table entry. Whether a defect shows depends on the processor and the scheduler, so the result is printed but does
#      not count. test_dispatch_interleaving shows both defects on every machine.
set -euo pipefail
build=$1
cmake --build "$build" --target test_registry_stress mutant_no_barrier mutant_no_reload --parallel "$(nproc)" >"$build/stress.log" 2>&1 || { tail -20 "$build/stress.log"; exit 1; }
STRESS_SECONDS=10 "$build/tests/test_registry_stress"
cmake --preset tsan >/dev/null
cmake --build build-tsan --target test_registry_stress --parallel "$(nproc)" >build-tsan/stress.log 2>&1 || { tail -20 build-tsan/stress.log; exit 1; }
STRESS_SECONDS=60 STRESS_CALLERS=6 build-tsan/tests/test_registry_stress
for mutant in no_barrier no_reload; do
  start=$(date +%s) status=0
  STRESS_SECONDS=60 "$build/tests/mutants/$mutant" >"$build/stress.log" 2>&1 || status=$?
  case $status in
    0) echo "$mutant: did not show within 60 s" ;;
    9) echo "$mutant: showed after $(($(date +%s) - start)) s" ;;
    *) tail -20 "$build/stress.log"; exit 1 ;;
  esac
done
