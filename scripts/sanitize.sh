#!/usr/bin/env bash
# C tests and ONNX cases under sanitizers: sanitize.sh quick|all.  quick: the C tests and every fourth ONNX case under address
# and undefined, and under the thread sanitizer those that may have threads (operators run on one here, see OMP_NUM_THREADS).
set -uo pipefail
share=$1 passed=0 failed=0 skipped=0
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 TSAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=1
add() { # adds a total line up; shows what failed
  local log=$1 status=$2 line p f s
  line=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$log" | tail -1)
  p=$(grep -oE '[0-9]+ passed' <<<"$line" | cut -d' ' -f1) f=$(grep -oE '[0-9]+ failed' <<<"$line" | cut -d' ' -f1)
  s=$(grep -oE '[0-9]+ skipped' <<<"$line" | cut -d' ' -f1)
  p=${p:-0} f=${f:-0} s=${s:-0}
  [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
  [ "$f" -eq 0 ] || grep -viE '^ *(skip|ok|pass)' "$log" | head -80
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
scripts/zoo.sh "${TENON_BUILD:-build}" minilm_twin || { echo "0 passed, 1 failed, 0 skipped"; exit 1; } # test_fault_verbs runs it
for preset in asan tsan; do
  mkdir -p "build-$preset"
  flock "build-$preset" cmake --preset "$preset" >/dev/null &&
    flock "build-$preset" cmake --build "build-$preset" --target unit_tests tenon_command tenon_mxnet --parallel "$(nproc)" >"build-$preset/build.log" 2>&1 ||
    { tail -20 "build-$preset/build.log"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
  log=build-$preset/tests.log
  left_out=
  [ "$share-$preset" = quick-tsan ] && left_out='test_\(\(ops\|core\|import\|fuzz\|fault\)_[a-z_]*\|dispatch_\(failure\|match\)\|operator_table\|autograd_\(backward\|failure\|view\)\)'
  scripts/unit.sh "build-$preset/tests" "$left_out" >"$log" 2>&1
  add "$log" $?
  echo "$preset: C tests: $(tail -1 "$log")"
  flags=(-std=gnu11 -g -O1 -w -fPIC -fno-omit-frame-pointer "-fsanitize=$([ "$preset" = asan ] && echo address,undefined || echo thread)")
  log=build-$preset/mxnet.log # a library of MXNet's interface, called, gone back through, loaded 1,000 times, by threads
  cc "${flags[@]}" -shared tests/adapters/mxnet/plain.c -o "build-$preset/libplain_11.so" -lm &&
    cc "${flags[@]}" tests/adapters/mxnet/host.c -Iinclude -L"build-$preset" -ltenon -Wl,-rpath,"$PWD/build-$preset" -lpthread -o "build-$preset/mxnet_host" &&
    TENON_TEST_SANITIZED=1 "build-$preset/mxnet_host" "$PWD/build-$preset/libplain_11.so" >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] && echo "1 passed, 0 failed, 0 skipped" >>"$log"
  add "$log" $status
  echo "$preset: an MXNet library: $(tail -1 "$log")"
  [ -z "$left_out" ] || { skipped=$((skipped + 1)); echo "skip: tests of one thread under the thread sanitizer (operators, core, import, tables, gradients, failures, fuzz corpora, ONNX cases): make sanitize runs them"; continue; }
  data=$(.venv/bin/python -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data"))')
  step=1
  [ "$share" = quick ] && step=4
  mapfile -t cases < <(ls -d "$data"/{node,simple,pytorch-converted,pytorch-operator}/*/ | grep -v dft_inverse | awk -v n=$step 'NR % n == 0')
  log=build-$preset/onnx.log
  "build-$preset/tenon" verify --isolate --shape-only '*bernoulli*' --shape-only test_training_dropout --shape-only 'test_training_dropout_default*' --shape-only test_training_dropout_mask "${cases[@]}" >"$log" 2>&1
  add "$log" $?
  echo "$preset: ONNX cases (1 in $step): $(tail -1 "$log")"
done
# Valgrind has no AVX-512, so the AVX2 kernels run.
if command -v valgrind >/dev/null && [ -x build/tenon ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  .venv/bin/python examples/01_gelu/make_model.py "$work/gelu.onnx" >/dev/null && build/tenon build examples/01_gelu/gelu.c -o "$work/gelu.so" >/dev/null
  if valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect,possible build/tenon run "$work/gelu.onnx" \
      --ops "$work/gelu.so" -i x=random:0 --dim rows=40 --threads 1 >"$work/log" 2>&1; then
    passed=$((passed + 1)); echo "valgrind: load, run and unload leave nothing behind"
  else
    failed=$((failed + 1)); echo "FAIL valgrind"; tail -30 "$work/log"
  fi
else
  skipped=$((skipped + 1)); echo "skip: valgrind is not installed, or build/tenon is missing (make build)"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
