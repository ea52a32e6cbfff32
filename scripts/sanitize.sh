#!/usr/bin/env bash
# Runs C tests and ONNX cases under sanitizers, and one program under valgrind.
#   sanitize.sh quick [asan] [tsan]   the C tests and every fourth ONNX case under the address and undefined-behaviour
#                                     sanitizers; under the thread sanitizer the C tests that may start threads
#   sanitize.sh all [asan] [tsan]     all C tests and ONNX cases under each
# OMP_NUM_THREADS=1 is for libraries that use OpenMP, as oneDNN does. intercept_tls_get_addr=0: of a block of thread-local
# variables that begins 16 bytes behind a page, GCC 12's sanitizer takes the size from what lies before it, and crashes.
set -uo pipefail
share=$1 passed=0 failed=0 skipped=0
shift
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:intercept_tls_get_addr=0 TSAN_OPTIONS=allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=1
number_of() { grep -oE "[0-9]+ $1" <<<"$2" | cut -d' ' -f1 | grep . || echo 0; } # WORD LINE
add() { # LOG STATUS: adds up the total line of a log; shows what failed
  local log=$1 status=$2 line f
  line=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$log" | tail -1)
  f=$(number_of failed "$line")
  [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
  [ "$f" -eq 0 ] || grep -viE '^ *(skip|ok|pass)' "$log" | head -80
  passed=$((passed + $(number_of passed "$line"))) failed=$((failed + f)) skipped=$((skipped + $(number_of skipped "$line")))
}
give_up() {
  [ $# -eq 0 ] || tail -20 "$1"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}

# The C tests. Under the thread sanitizer the quick share leaves out those that use one thread.
run_c_tests() { # PRESET
  local log=build-$1/tests.log left_out=
  [ "$share-$1" = quick-tsan ] &&
    left_out='test_\(\(ops\|core\|import\|fuzz\|fault\)_[a-z_]*\|dispatch_\(failure\|match\)\|operator_table\|autograd_\(backward\|failure\|view\)\)'
  scripts/unit.sh "build-$1/tests" "$left_out" >"$log" 2>&1
  add "$log" $?
  echo "$1: C tests: $(tail -1 "$log")"
}

# A library with MXNet's interface: called, called back, loaded 1,000 times, and used by several threads.
run_mxnet_library() { # PRESET
  local log=build-$1/mxnet.log sanitizer=address,undefined status
  [ "$1" = asan ] || sanitizer=thread
  local flags=(-std=gnu11 -g -O1 -w -fPIC -fno-omit-frame-pointer "-fsanitize=$sanitizer")
  cc "${flags[@]}" -shared tests/adapters/mxnet/plain.c -o "build-$1/libplain_11.so" -lm &&
    cc "${flags[@]}" tests/adapters/mxnet/host.c -Iinclude -L"build-$1" -ltenon -Wl,-rpath,"$PWD/build-$1" -lpthread -o "build-$1/mxnet_host" &&
    TENON_TEST_SANITIZED=1 "build-$1/mxnet_host" "$PWD/build-$1/libplain_11.so" >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] && echo "1 passed, 0 failed, 0 skipped" >>"$log"
  add "$log" $status
  echo "$1: an MXNet library: $(tail -1 "$log")"
}

# Libraries for ONNX Runtime and tvm-ffi: called by several threads, and loaded again and again.
run_foreign_libraries() { # PRESET
  local log=build-$1/foreign.log sanitizer=address,undefined status folder=tests/adapters out=$PWD/build-$1
  [ "$1" = asan ] || sanitizer=thread
  local flags=(-std=gnu11 -g -O1 -w -fPIC -fno-omit-frame-pointer "-fsanitize=$sanitizer")
  {
    cc "${flags[@]}" -shared -DAPI=18 $folder/onnxruntime_libraries/ops.c -o "$out/libapi18.so" -lm &&
      cc "${flags[@]}" -shared $folder/tvm_ffi_libraries/faulty.c -o "$out/libtwice.so" &&
      cc "${flags[@]}" $folder/foreign_host.c -Iinclude -L"$out" -L"$out/bridges" -ltenon_tvm_ffi -ltenon "-Wl,-rpath,$out:$out/bridges" -lpthread -o "$out/foreign_host" &&
      "$out/foreign_host" "$out/libapi18.so" test_api18::Twice && "$out/foreign_host" "$out/libtwice.so" foreign::twice twice
  } >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] && echo "2 passed, 0 failed, 0 skipped" >>"$log"
  add "$log" $status
  echo "$1: libraries for ONNX Runtime and tvm-ffi: $(tail -1 "$log")"
}

# ONNX Runtime with Tenon's operators in an exported library, and with Tenon as its execution provider, on the processor and on the simulated device.
run_onnxruntime() { # PRESET: not tsan, which would see ONNX Runtime without its synchronisation
  local log=build-$1/onnxruntime.log status folder=tests/adapters out=$PWD/build-$1 real
  real=$(compgen -G "$PWD/.venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*")
  if [ "$1" = tsan ] || [ ! -e "$real" ]; then
    skipped=$((skipped + 1))
    echo "skip: $1: ONNX Runtime with Tenon inside: the thread sanitizer does not know its synchronisation, or .venv has no onnxruntime"
    return
  fi
  local flags=(-std=gnu11 -g -O1 -w -fno-omit-frame-pointer -fsanitize=address,undefined -Ibridges)
  {
    .venv/bin/python $folder/onnxruntime_host_models.py "$out" &&
      cc "${flags[@]}" $folder/onnxruntime_provider_host.c -o "$out/onnxruntime_provider_host" -ldl -lpthread -lm &&
      cc "${flags[@]}" $folder/onnxruntime_deploy.c -o "$out/onnxruntime_deploy" -ldl -lpthread &&
      "$out/tenon" build examples/01_gelu/gelu.c -o "$out/gelu.so" && "$out/tenon" export --to onnxruntime "$out/gelu.so" -o "$out/gelu_onnxruntime.so" &&
      "$out/onnxruntime_deploy" "$real" "$out/gelu_onnxruntime.so" "$out/operators.onnx" &&
      "$out/onnxruntime_provider_host" "$real" "$out/libtenon_onnxruntime_provider.so" tenon "$out/provider.onnx" &&
      TENON_SIM=delay=100,seed=3 "$out/onnxruntime_provider_host" "$real" "$out/libtenon_onnxruntime_provider.so" tenon:sim:0 "$out/provider.onnx"
  } >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] && echo "3 passed, 0 failed, 0 skipped" >>"$log"
  add "$log" $status
  echo "$1: ONNX Runtime with Tenon inside: $(tail -1 "$log")"
}

run_onnx_cases() { # PRESET
  local log=build-$1/onnx.log step=1 data cases
  if [ "$share-$1" = quick-tsan ]; then
    skipped=$((skipped + 1))
    echo "skip: tests that use one thread under the thread sanitizer (operators, core, import, tables, gradients, failures, fuzz corpora, ONNX cases): make sanitize runs them"
    return
  fi
  [ "$share" = quick ] && step=4
  data=$(.venv/bin/python -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data"))')
  mapfile -t cases < <(ls -d "$data"/{node,simple,pytorch-converted,pytorch-operator}/*/ | awk -v n=$step 'NR % n == 0')
  "build-$1/tenon" verify --isolate "${cases[@]}" >"$log" 2>&1
  add "$log" $?
  echo "$1: ONNX cases (1 in $step): $(tail -1 "$log")"
}

run_valgrind() { # valgrind does not know AVX-512, so the AVX2 kernels run
  local work
  if ! command -v valgrind >/dev/null || [ ! -x build/tenon ]; then
    skipped=$((skipped + 1))
    echo "skip: valgrind is not installed, or build/tenon is missing (make build)"
    return
  fi
  work=$(mktemp -d)
  .venv/bin/python examples/01_gelu/make_model.py "$work/gelu.onnx" >/dev/null && build/tenon build examples/01_gelu/gelu.c -o "$work/gelu.so" >/dev/null
  if valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect,possible build/tenon run "$work/gelu.onnx" \
    --ops "$work/gelu.so" -i x=random:0 --dim rows=40 --threads 1 >"$work/log" 2>&1; then
    passed=$((passed + 1))
    echo "valgrind: load, run and unload leave nothing behind"
  else
    failed=$((failed + 1))
    echo "FAIL valgrind"
    tail -30 "$work/log"
  fi
  rm -rf "$work"
}

[ $# -eq 0 ] || scripts/zoo.sh "${TENON_BUILD:-build}" minilm_twin || give_up # test_fault_verbs runs this model
for preset; do
  mkdir -p "build-$preset"
  {
    flock "build-$preset" cmake --preset "$preset" >"build-$preset/build.log" 2>&1 &&
      flock "build-$preset" cmake --build "build-$preset" --target unit_tests tenon_command tenon_mxnet tenon_onnxruntime tenon_tvm_ffi tenon_onnxruntime_provider onnxruntime_exported --parallel "$(nproc)" >>"build-$preset/build.log" 2>&1
  } || give_up "build-$preset/build.log"
  run_c_tests "$preset"
  run_mxnet_library "$preset"
  run_foreign_libraries "$preset"
  run_onnxruntime "$preset"
  run_onnx_cases "$preset"
done
run_valgrind
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
