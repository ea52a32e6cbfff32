#!/usr/bin/env bash
# Runs the tests.
#   test.sh BUILD          all suites, with the totals at the end
#   test.sh BUILD SUITE    one suite, whole
#   test.sh --list         the names of the suites
# Each suite ends with a line "N passed, M failed, K skipped". This script adds these lines up and
# prints the reason of each skipped test.
#
# Three parts need a build of their own and take long: asan, tsan and fuzz. A run of all suites takes
# one of them, chosen by the number of commits, so that three commits in a row cover all three.
# TEST_SHARE=asan, tsan or fuzz chooses another part; TEST_SHARE=all runs all three. Single tests of the suites
# that take long (tests/adapters/totals.py) take turns in the same way; one suite alone runs whole.
set -uo pipefail
: "${1:?usage: test.sh BUILD [SUITE], or test.sh --list}"
build=$(realpath -m --relative-to=. -- "$1") only=${2:-}
logs=$build/logs
python=$PWD/.venv/bin/python
zoo_python=.venv-zoo/bin/python
[ "$1" = --list ] || mkdir -p "$logs"
export TENON_BUILD=$PWD/$build
export TENON_CACHE=${TENON_CACHE:-$PWD/$build/cache} # not the cache in the home folder
# The suites in the order in which they start: the longest first.
suites=(
  sanitize fuzz wheel torch torch-compile compile-models torch-device tensorflow-device mxnet onnxruntime tvm-ffi jax tensorflow stablehlo contrib unit devices models onnx guides python layers format style docs header dispatch
  autograd artifacts trust install command regions errors examples search offload cuda abi new isolation debug failures mutations check
)
declare -A about=(
  [sanitize]="a share of the tests under sanitizers"
  [fuzz]="20 s of each fuzz target"
  [wheel]="the wheel in clean environments"
  [torch]="operators as PyTorch's own"
  [torch-compile]="graphs of PyTorch as graphs of Tenon (torch.compile), exported programs and TorchScript, beside eager PyTorch"
  [compile-models]="models under torch.compile with the backend tenon"
  [torch-device]="a device as PyTorch's own"
  [tensorflow-device]="a device as TensorFlow's own"
  [jax]="operators as functions of JAX"
  [tensorflow]="operators as operators of TensorFlow, and converted models"
  [stablehlo]="programs of JAX as graphs, and conversions, against JAX and ONNX Runtime"
  [contrib]="nodes and models that ONNX Runtime's optimizer and quantisers write, against ONNX Runtime"
  [mxnet]="MXNet's libraries and models in Tenon, and Tenon's in MXNet, beside real MXNet"
  [tvm-ffi]="libraries of tvm-ffi's functions in Tenon, and Tenon's operators in tvm-ffi, with its oldest and newest release"
  [onnxruntime]="ONNX Runtime's libraries of custom operators in Tenon, and Tenon's operators and Tenon as execution provider in ONNX Runtime"
  [unit]="C tests"
  [devices]="the device suite on the example device and on faulty ones"
  [models]="light models and the zoo against ONNX Runtime; errors of compiled models and ONNX cases against double precision"
  [onnx]="ONNX's backend cases, and all of their graphs as text"
  [guides]="the guides, as a reader follows them"
  [python]="the Python package, on NumPy arrays and PyTorch tensors"
  [artifacts]="artifacts of ONNX's cases and of the zoo beside the models, damage, and shared pages"
  [layers]="includes and calls never climb"
  [format]="clang-format changes nothing"
  [style]="statements, columns, lengths and names of the C sources"
  [docs]="links and retired words of the documentation; its table of supported combinations"
  [header]="every public header by itself: standards, compilers; the number of declarations in op.h"
  [dispatch]="tables against PyTorch's"
  [autograd]="gradients and training against PyTorch's"
  [trust]="hostile libraries, files, dumps and models; memory that arguments share; long graphs; hardening of built files"
  [install]="make install, CMake package, pkg-config"
  [command]="the tenon command"
  [regions]="loops and kernels of rows of a library in one region with built-in nodes"
  [errors]="messages for broken models"
  [examples]="the examples"
  [search]="MiniLM against stored vectors"
  [offload]="models on devices against the CPU"
  [cuda]="source kernels to PTX by nvcc and NVRTC; the device on a machine with a GPU"
  [abi]="layouts, symbols, and libraries of each header in hosts of each version"
  [new]="tenon new, as a new user: every command of each kind's README; tenon bench and tenon watch"
  [isolation]="libraries that misbehave, in processes of their own"
  [debug]="failure dumps, crash reports, gdb, compare, doctor"
  [failures]="every 50th request to the system fails, under the address sanitizer"
  [mutations]="damaged programs of StableHLO for its readers, and of StableHLO and ONNX for the writers, under the address sanitizer"
  [check]="tenon check on built-in operators, examples, an MXNet library, planted defects and their correct twins"
)

if [ "$1" = --list ]; then
  printf '%s\n' "${suites[@]}" | sort
  exit 0
fi

shares=(asan tsan fuzz)
share=${TEST_SHARE:-${shares[$(git rev-list --count HEAD 2>/dev/null || echo 0) % 3]}}
case " ${shares[*]} all " in
*" $share "*) ;;
*)
  echo "test: TEST_SHARE is '$share'; expected one of: ${shares[*]} all" >&2
  exit 2
  ;;
esac
case "$only-$share" in
-asan) export TEST_THIRD=0 ;;
-tsan) export TEST_THIRD=1 ;;
-fuzz) export TEST_THIRD=2 ;;
esac
runs() { [ -n "$only" ] || [ "$share" = all ] || [ "$share" = "$1" ]; } # PART: does this run take it?
skip_suite() { printf 'skip: %s\n0 passed, 0 failed, 1 skipped\n' "$1"; }
fail_suite() { # LOG: shows the end of a log of what the suite needs
  tail -30 "$1"
  echo "0 passed, 1 failed, 0 skipped"
  return 1
}
build_targets() { # LOG TARGET...
  local log=$logs/$1
  shift
  cmake --build "$build" --target "$@" --parallel "$(nproc)" >"$log" 2>&1 || fail_suite "$log"
}
total_of_parts() { # LOG COUNT: adds up the totals of COUNT programs; a program without a total has failed
  grep -E '^[0-9]+ passed' "$1" | awk -v parts="$2" '
    {p += $1; f += $3; s += $5}
    END {print p + 0 " passed, " f + (NR < parts ? parts - NR : 0) " failed, " s + 0 " skipped"}'
}
run_parts() { # SUITE PYTHON FILE...: several Python files as one suite
  local log=$logs/$1-parts.log program=$2 file
  shift 2
  for file; do "$program" "$file" || true; done 2>&1 | tee "$log"
  total_of_parts "$log" $#
}
make_zoo() { # [NAME...]: the models that a suite reads
  scripts/zoo.sh "$build" "$@" && return
  echo "0 passed, 1 failed, 0 skipped"
  return 1
}
lacks_zoo_python() {
  [ -x "$zoo_python" ] && return 1
  skip_suite ".venv-zoo is missing (make test makes it)"
}
lacks_python_package() {
  compgen -G "$build/python/tenon/_core.*.so" >/dev/null && return 1
  skip_suite "the headers of Python are not installed (python3-dev)"
}

run_layers() { "$python" tests/layers.py; }
run_format() { # clang-format 14 is that of Debian 12; other versions lay code out differently
  local bad=() files=()
  if ! clang-format --version | grep -q 'version 14'; then
    skip_suite "clang-format 14 is not installed"
    return
  fi
  mapfile -t files < <(scripts/sources.sh)
  mapfile -t bad < <(clang-format --style=file -n "${files[@]}" 2>&1 | sed -nE 's/^([^:]+):[0-9]+:.*warning: .*/\1/p' | sort -u)
  [ ${#bad[@]} -eq 0 ] || printf 'laid out differently: %s (make format)\n' "${bad[@]}"
  echo "$((${#files[@]} - ${#bad[@]})) passed, ${#bad[@]} failed, 0 skipped"
}
run_style() { "$python" scripts/style.py; }
run_docs() { "$python" tests/docs.py; }
run_abi() { "$python" tests/abi/abi_test.py; }
run_header() { "$python" tests/header.py; }
run_unit() {
  build_targets unit-build.log unit_tests || return 1
  make_zoo minilm_twin || return 1
  scripts/unit.sh "$build/tests"
}
run_devices() { "$python" tests/acceptance/devices_test.py; }
run_check() { run_parts check "$python" tests/acceptance/check_test.py tests/acceptance/check_defects_test.py; }
run_dispatch() { lacks_zoo_python || $zoo_python tests/acceptance/dispatch_test.py; }
run_autograd() { lacks_zoo_python || run_parts autograd $zoo_python tests/acceptance/{autograd,training}_test.py; }
run_python() { # with NumPy alone, and with PyTorch as well
  local log=$logs/python-parts.log parts=5
  lacks_python_package && return
  make_zoo || return 1
  {
    "$python" tests/adapters/python_test.py Arrays Calls Definitions Dispatch Graphs Guide Names Shapes Tensors
    "$python" tests/adapters/graph_test.py
    "$python" tests/adapters/rewrites_test.py
    "$python" tests/adapters/threads_test.py
    "$python" tests/adapters/leaks_test.py
  } 2>&1 | tee "$log"
  if [ -x "$zoo_python" ]; then
    parts=7
    { $zoo_python tests/adapters/python_test.py; $zoo_python tests/adapters/sparse_test.py; } 2>&1 | tee -a "$log"
  else
    echo "skip: .venv-zoo is missing (make test makes it)"
  fi
  total_of_parts "$log" "$parts"
}
run_torch() { # torch_deploy_test.py runs its programs without Python
  lacks_python_package && return
  lacks_zoo_python && return
  run_parts torch $zoo_python tests/adapters/torch{,_autograd_node,_model,_device,_deploy,_sharding}_test.py
}
run_torch-compile() {
  lacks_python_package && return
  lacks_zoo_python && return
  OPINFO_SHARE=${OPINFO_SHARE-commit} run_parts torch-compile $zoo_python tests/adapters/torch_compile{,_numbers,_opinfo}_test.py
}
run_compile-models() { # a run of all suites takes a share of the models
  lacks_python_package && return
  [ -x .venv-compile/bin/python ] || { skip_suite ".venv-compile is missing (make test makes it)" && return; }
  [ -n "$only" ] || export COMPILE_SHARE=${COMPILE_SHARE-commit}
  .venv-compile/bin/python tests/acceptance/compile_models_test.py
}
run_torch-device() {
  lacks_python_package && return
  lacks_zoo_python && return
  command -v "${CXX:-c++}" >/dev/null || { skip_suite "there is no compiler for C++, which a device of PyTorch needs" && return; }
  build_targets torch-device-build.log vx || return 1
  OPINFO_SHARE=${OPINFO_SHARE-commit} run_parts torch-device $zoo_python tests/adapters/torch_{as_device,openreg,openreg_ops,openreg_process,opinfo}_test.py
}
run_tensorflow-device() {
  lacks_python_package && return
  [ -x .venv-tensorflow/bin/python ] || { skip_suite ".venv-tensorflow is missing (make test makes it)" && return; }
  TENSORFLOW_SHARE=${TENSORFLOW_SHARE-commit} run_parts tensorflow-device .venv-tensorflow/bin/python \
    tests/adapters/tensorflow_{device,device_values,device_builtins,device_bases,graph_pass}_test.py
}
run_jax() {
  lacks_python_package && return
  [ -x .venv-jax/bin/python ] || { skip_suite ".venv-jax is missing (make test makes it)" && return; }
  run_parts jax .venv-jax/bin/python tests/adapters/jax_*test.py
}
run_tensorflow() {
  lacks_python_package && return
  [ -x .venv-tensorflow/bin/python ] || { skip_suite ".venv-tensorflow is missing (make test makes it)" && return; }
  TF_CPP_MIN_LOG_LEVEL=2 run_parts tensorflow .venv-tensorflow/bin/python tests/adapters/tensorflow_{,abi_,builtins_,convert_,deploy_,errors_,graphs_,hosts_,keras_,shapes_}test.py
}
run_stablehlo() {
  lacks_python_package && return
  [ -x .venv-jax/bin/python ] || { skip_suite ".venv-jax is missing (make test makes it)" && return; }
  run_parts stablehlo .venv-jax/bin/python tests/adapters/{stablehlo{,_bytecode,_source,_large},convert}_test.py
}
run_contrib() {
  lacks_python_package && return
  run_parts contrib "$python" tests/acceptance/contrib/{nodes,hostile,models}_test.py
}
run_mxnet() {
  local log=$logs/mxnet-parts.log part parts=(tests/adapters/mxnet_*_test.py)
  if [ ! -e "$build/bridges/libtenon_mxnet.so" ]; then
    skip_suite "there is no compiler for C++, so the bridge to MXNet was left out"
    return
  fi
  lacks_python_package && return
  lacks_zoo_python && return
  # Two at a time: these programs mostly wait for processes with MXNet.
  printf '%s\n' "${parts[@]}" | xargs -P 2 -I{} sh -c '.venv-zoo/bin/python {} >"$0/$(basename {}).log" 2>&1' "$logs" || true
  for part in "${parts[@]}"; do cat "$logs/$(basename "$part").log"; done | tee "$log"
  total_of_parts "$log" ${#parts[@]}
}
run_tvm-ffi() {
  local log=$logs/tvm-ffi-parts.log version
  lacks_python_package && return
  for version in 0.1.15 0.1.0; do
    if [ -x ".venv-tvm-ffi-$version/bin/python" ]; then
      ".venv-tvm-ffi-$version/bin/python" tests/adapters/tvm_ffi_test.py || true
    else
      skip_suite ".venv-tvm-ffi-$version is missing (make test makes it)"
    fi
  done 2>&1 | tee "$log"
  total_of_parts "$log" 2
}
run_onnxruntime() {
  if [ ! -e "$build/bridges/libtenon_onnxruntime.so" ]; then
    skip_suite "there is no compiler for C++, so the bridge to ONNX Runtime was left out"
    return
  fi
  lacks_python_package && return
  run_parts onnxruntime "$python" tests/adapters/onnxruntime{,_faults,_extensions,_source,_operators,_provider,_streams}_test.py \
    tests/acceptance/onnxruntime_provider_test.py
}
run_guides() {
  lacks_python_package && return
  lacks_zoo_python && return
  $zoo_python tests/adapters/guides_test.py
}
run_wheel() { "$python" tests/adapters/wheel_test.py; }
run_install() { tests/acceptance/install_test.sh "$build"; }
run_new() { run_parts new "$python" tests/acceptance/{new,bench,watch}_test.py; }
run_command() { "$python" tests/acceptance/command_test.py; }
run_regions() { make_zoo minilm_16 resnet50 && "$python" tests/acceptance/regions_test.py; }
run_errors() { "$python" tests/acceptance/errors_test.py; }
run_isolation() {
  build_targets isolation-build.log isolation_rounds isolation_forgeries || return 1
  "$python" tests/acceptance/isolation_test.py
}
run_examples() { "$python" tests/acceptance/examples_test.py; }
run_search() {
  scripts/run.sh "$build" -q "May I sell copies?" >"$logs/run.log" 2>&1 || fail_suite "$logs/run.log" || return 1
  "$python" tests/acceptance/search_test.py
}
run_onnx() {
  local log=$logs/onnx-parts.log
  "$python" tests/acceptance/onnx_test.py | tee "$log"
  "$python" tests/acceptance/images_test.py 2>&1 | tee -a "$log"
  if [ -x "$zoo_python" ]; then
    make_zoo lstm minilm_16 mobilenetv2 &&
      $zoo_python tests/acceptance/graph_text_test.py 2>&1 | tee -a "$log"
  else
    skip_suite ".venv-zoo is missing (make test makes it)" | tee -a "$log"
  fi
  total_of_parts "$log" 3
}
run_artifacts() { lacks_zoo_python || { make_zoo lstm minilm_16 minilm_twin mobilenetv2 && $zoo_python tests/acceptance/artifact_test.py; }; }
run_models() { run_parts models "$python" tests/acceptance/{models,precision}_test.py; }
run_offload() { make_zoo minilm_16 mobilenetv2 resnet50 && "$python" tests/acceptance/device_models_test.py; }
run_cuda() { "$python" tests/acceptance/cuda_test.py; }
run_trust() { # those beside PyTorch need its environment
  local log=$logs/trust-parts.log part parts=(requirements elf dialect loading reason misbehave overlap escape blocks models_differ classic classic_models memory determinism threads scale weights python exported_models texts friction)
  lacks_python_package && return
  build_targets trust-build.log tenon_command isolate check_operator check_device tenon_python vx || return 1
  for part in "${parts[@]}"; do
    "$python" "tests/acceptance/trust/${part}_test.py" || true
  done 2>&1 | tee "$log"
  if [ -x "$zoo_python" ]; then
    parts+=(torch_writes slices)
    for part in torch_writes slices; do $zoo_python "tests/acceptance/trust/${part}_test.py" 2>&1 | tee -a "$log"; done
  else
    echo "skip: .venv-zoo is missing (make test makes it)"
  fi
  total_of_parts "$log" ${#parts[@]}
}
run_debug() { run_parts debug "$python" tests/acceptance/{debug,debug_tools,doctor}_test.py; }
run_sanitize() {
  local part presets=()
  for part in asan tsan; do
    if runs $part; then presets+=($part); else echo "skip: the tests under $part: the share of this commit is $share (make test-sanitize)"; fi
  done
  scripts/sanitize.sh quick "${presets[@]}"
}
run_failures() {
  if runs asan; then scripts/failures.sh 50; else skip_suite "failing requests: the share of this commit is $share (make test-failures)"; fi
}
run_mutations() {
  if runs asan; then scripts/mutations.sh 10000; else skip_suite "damaged programs: the share of this commit is $share (make mutations)"; fi
}
run_fuzz() {
  if runs fuzz; then FUZZ_SEED=1 scripts/fuzz.sh 20; else skip_suite "fuzz targets: the share of this commit is $share (make test-fuzz)"; fi
}

total_of() { # LOG: its last total line; the form of unittest is translated
  local ran bad skipped good
  grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?' "$1" | tail -1 | grep . && return
  ran=$(sed -nE 's/^Ran ([0-9]+) tests? .*/\1/p' "$1" | tail -1)
  [ -n "$ran" ] || return
  bad=$(grep -E '^FAILED \(' "$1" | tail -1 | grep -oE '(failures|errors)=[0-9]+' | grep -oE '[0-9]+' | awk '{n += $1} END {print n + 0}')
  skipped=$(grep -E '^(OK|FAILED) \(' "$1" | tail -1 | grep -oE 'skipped=[0-9]+' | grep -oE '[0-9]+')
  good=$((ran - ${bad:-0} - ${skipped:-0})) # one test may have several failing parts
  echo "$((good < 0 ? 0 : good)) passed, ${bad:-0} failed, ${skipped:-0} skipped"
}
run_timed() { # SUITE: runs it; writes how long it took and how much processor time it used, in seconds
  local start status
  start=$(date +%s)
  "run_$1"
  status=$?
  times >"$logs/$1.time" # a pipe would count the processes of another shell
  echo "$(($(date +%s) - start)) $(tail -1 "$logs/$1.time" | tr 'ms' '  ' | awk '{printf "%.0f", 60 * $1 + $2 + 60 * $3 + $4}')" >"$logs/$1.time"
  return $status
}

[ -n "$only" ] && suites=("$only")
for suite in "${suites[@]}"; do
  if ! declare -F "run_$suite" >/dev/null; then
    echo "test: no suite '$suite'; there are: ${!about[*]}" >&2
    exit 2
  fi
done

failed=0 passed=0 wrong=0 skipped=0 summary=() wrong_suites=()
take() { # SUITE STATUS: shows a suite that has ended, and adds it up
  local suite=$1 status=$2 line p f s seconds processor
  [ -n "$only" ] || { echo "== $suite: ${about[$suite]}"; cat "$logs/$suite.log"; }
  line=$(total_of "$logs/$suite.log")
  [ -n "$line" ] || { line="0 passed, 1 failed, 0 skipped"; status=1; }
  read -r p f s < <(sed -E 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?.*/\1 \2 \4/' <<<"$line")
  [ "$f" -eq 0 ] && [ "$status" -ne 0 ] && f=1
  passed=$((passed + p)) wrong=$((wrong + f)) skipped=$((skipped + ${s:-0}))
  [ "$f" -eq 0 ] || { failed=1; wrong_suites+=("$suite"); }
  read -r seconds processor <"$logs/$suite.time"
  summary+=("$(printf '%-10s %6d passed %5d failed %5d skipped %6d s %6d s of a processor' \
    "$suite" "$p" "$f" "${s:-0}" "$seconds" "$processor")")
}

declare -A suite_of=() # process: suite
begin() { # SUITE, in the background
  run_timed "$1" >"$logs/$1.log" 2>&1 &
  suite_of[$!]=$1
}
wait_for_one() {
  local process status
  wait -n -p process "${!suite_of[@]}"
  status=$?
  take "${suite_of[$process]}" $status
  unset "suite_of[$process]"
}

if [ -n "$only" ]; then
  echo "== $only: ${about[$only]}"
  run_timed "$only" 2>&1 | tee "$logs/$only.log"
  take "$only" "${PIPESTATUS[0]}"
else
  echo "test: of the parts ${shares[*]} this run takes: $share"
  if ! cmake --build "$build" --target unit_tests device_tests --parallel "$(nproc)" >"$logs/tests-build.log" 2>&1; then
    tail -30 "$logs/tests-build.log"
    echo "total: 0 passed, 1 failed, 0 skipped"
    exit 1
  fi
  # Two suites at a time (TEST_JOBS), since most of them use one processor.
  for suite in "${suites[@]}"; do
    [ ${#suite_of[@]} -lt "${TEST_JOBS:-2}" ] || wait_for_one
    begin "$suite"
  done
  while [ ${#suite_of[@]} -gt 0 ]; do wait_for_one; done
fi

echo
for suite in "${suites[@]}"; do # what did not run, and why
  {
    grep -iE '^ *skip[a-z]*: ' "$logs/$suite.log" | sed -E 's/^ *skip[a-z]*: *//' | sort | uniq -c
    sed -nE '/^skipped:$/,/passed/ { /^ +[0-9]+  /p }' "$logs/$suite.log"
  } | sed "s/^/skipped in $suite: /" | cut -c1-170
done
printf '%s\n' "${summary[@]}"
# What failed comes last, because some readers of this output see only its end.
for suite in "${wrong_suites[@]}"; do
  echo "failed in $suite ($logs/$suite.log):"
  { grep -E '^(FAIL|ERROR)|^[A-Za-z.]*(Error|Exception): |: (error|expected)' "$logs/$suite.log" || tail -8 "$logs/$suite.log"; } |
    head -12 | cut -c1-300
done
echo "total: $passed passed, $wrong failed, $skipped skipped"
exit $failed
