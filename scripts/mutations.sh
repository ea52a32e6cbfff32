#!/usr/bin/env bash
# Damages programs of StableHLO and models of ONNX under the address and undefined-behaviour sanitizers: mutations.sh COUNT
# The reader gets COUNT damaged texts and COUNT damaged files of bytecode, made of tests/fuzz/corpus/stablehlo. The writers get
# what the readers accept of COUNT/5 damaged texts and COUNT/5 damaged models, and what they write must load again. FUZZ_SEED=N
# chooses others; the same seed makes the same files. With FUZZ_KEEP=FILE the one that breaks a reader or writer stays in FILE.
set -uo pipefail
count=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p build-asan
if ! { flock build-asan cmake --preset asan &&
  flock build-asan cmake --build build-asan --target test_fuzz_stablehlo test_fuzz_convert --parallel "$(nproc)"; } >"$log" 2>&1; then
  tail -20 "$log"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=2048 UBSAN_OPTIONS=print_stacktrace=1
: >"$log"
for kind in mlir mlirbc; do
  FUZZ_MUTATIONS=$count timeout 600 build-asan/tests/test_fuzz_stablehlo tests/fuzz/corpus/stablehlo/*.$kind 2>&1 | tee -a "$log"
done
programs=(tests/fuzz/corpus/convert/*.mlir tests/fuzz/corpus/stablehlo/*.mlir)
models=(tests/fuzz/corpus/model/* tests/data/models/*.onnx)
# ONNX's own node models, if the package is installed: one in eight.
data=$(.venv/bin/python -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/node"))' 2>/dev/null || true)
[ -z "$data" ] || mapfile -t -O ${#models[@]} models < <(find "$data" -name model.onnx -size -40k | sort | awk 'NR % 8 == 0')
# Nodes of ONNX Runtime's own operators: one in four.
nodes=$(mktemp -d)
trap 'rm -rf "$log" "$nodes"' EXIT
.venv/bin/python tests/acceptance/contrib/nodes.py "$nodes" 2>>"$log" || true
mapfile -t -O ${#models[@]} models < <(find "$nodes" -name '*.onnx' | sort | awk 'NR % 4 == 0')
for kind in programs models; do
  declare -n files=$kind
  FUZZ_MUTATIONS=$((count / 5)) timeout 900 build-asan/tests/test_fuzz_convert "${files[@]}" 2>&1 | grep -v 'tenon: warning' | tee -a "$log"
done
awk '/^[0-9]+ passed/ {p += $1; f += $3; n++} END {print p + 0 " passed, " f + 4 - n " failed, 0 skipped"; exit f > 0 || n < 4}' "$log"
