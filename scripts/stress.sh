#!/usr/bin/env bash
# Kernels and libraries come and go while others call: 10 s with one caller on each processor, where libraries that went are
# poisoned, and 60 s under the thread sanitizer with eight threads: stress.sh BUILD
set -euo pipefail
build=$1
cmake --build "$build" --target test_registry_stress --parallel "$(nproc)" >"$build/stress.log" 2>&1 || { tail -20 "$build/stress.log"; exit 1; }
STRESS_SECONDS=10 "$build/tests/test_registry_stress"
cmake --preset tsan >/dev/null
cmake --build build-tsan --target test_registry_stress --parallel "$(nproc)" >build-tsan/stress.log 2>&1 || { tail -20 build-tsan/stress.log; exit 1; }
STRESS_SECONDS=60 STRESS_CALLERS=6 build-tsan/tests/test_registry_stress # and two that change
