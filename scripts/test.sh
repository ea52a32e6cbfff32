#!/usr/bin/env bash
# Runs the tests.
#   test.sh BUILD          all suites, with the totals at the end
#   test.sh BUILD SUITE    one suite
#   test.sh --list         the names of the suites
# Each suite ends with a line "N passed, M failed, K skipped". This script adds these lines up and
# prints the reason of each skipped test.
set -uo pipefail
: "${1:?usage: test.sh BUILD [SUITE], or test.sh --list}"
build=$(realpath -m --relative-to=. -- "$1") only=${2:-}
logs=$build/logs
python=$PWD/.venv/bin/python
[ "$1" = --list ] || mkdir -p "$logs"
export TENON_BUILD=$PWD/$build TENON_CACHE=${TENON_CACHE:-$PWD/$build/cache} # compiled kernels stay out of the home folder
suites=(sanitize fuzz wheel torch mxnet unit devices models onnx guides python layers format style docs header dispatch autograd install command errors examples search offload cuda abi new isolation debug failures check) # the longest first
declare -A about=(
  [sanitize]="a share of the tests under sanitizers"
  [wheel]="the wheel in clean environments"
  [torch]="operators as PyTorch's own"
  [mxnet]="MXNet's libraries and models here, and ours there, beside real MXNet"
  [unit]="C tests"
  [devices]="the device suite on the example device and on faulty ones"
  [models]="light models and the zoo against ONNX Runtime"
  [onnx]="ONNX's backend cases"
  [guides]="the guides, as a reader follows them"
  [python]="the Python package, on arrays of NumPy's and tensors of PyTorch's"
  [layers]="includes and calls never climb"
  [format]="clang-format changes nothing"
  [style]="statements, columns, lengths and names of the C sources"
  [docs]="links and retired words of the documentation; its table of supported combinations"
  [header]="every public header by itself: standards, compilers; the number of declarations in op.h"
  [dispatch]="tables against PyTorch's"
  [autograd]="gradients against PyTorch's"
  [install]="make install, CMake package, pkg-config"
  [command]="the tenon command"
  [errors]="messages for broken models"
  [examples]="the examples"
  [search]="MiniLM against stored vectors"
  [offload]="models on devices against the CPU"
  [cuda]="source kernels to PTX by nvcc and NVRTC; the device where a GPU is"
  [abi]="layouts, symbols, and libraries of each header in hosts of each version"
  [new]="tenon new, as a new user: every command of each kind's README; tenon bench and tenon watch"
  [isolation]="libraries that misbehave, in processes of their own"
  [debug]="recordings, crash reports, gdb, compare, doctor"
  [failures]="every 50th request to the system fails, under address sanitizer"
  [fuzz]="20 s of each fuzz target"
  [check]="tenon check on built-in operators, examples, a library of MXNet's interface, planted defects and their right twins"
)

[ "$1" != --list ] || { printf '%s\n' "${suites[@]}" | sort; exit 0; }

parts_of() { # LOG COUNT: the sum of the total lines of that many programs; one that has none has failed
  grep -E '^[0-9]+ passed' "$1" | awk -v parts="$2" '{p += $1; f += $3; s += $5} END {print p + 0 " passed, " f + (NR < parts ? parts - NR : 0) " failed, " s + 0 " skipped"}'
}
zoo() { scripts/zoo.sh "$build" "$@" || { echo "0 passed, 1 failed, 0 skipped"; return 1; }; } # models that a suite reads
has_python() { compgen -G "$build/python/tenon/_core.*.so" >/dev/null; }
run_layers() { "$python" tests/layers.py; }
run_format() { # of clang-format 14, Debian 12's: others lay out differently
  clang-format --version | grep -q 'version 14' || { echo "skip: clang-format 14 is not installed"; echo "0 passed, 0 failed, 1 skipped"; return; }
  local bad=() files=()
  mapfile -t files < <(find include src devices ops tools bridges python examples tests bench \( -name '*.[ch]' -o -name '*.hpp' -o -name '*.cc' \) ! -path include/tenon/op.h | sort)
  mapfile -t bad < <(clang-format --style=file -n "${files[@]}" 2>&1 | sed -nE 's/^([^:]+):[0-9]+:.*warning: .*/\1/p' | sort -u)
  [ ${#bad[@]} -eq 0 ] || printf 'laid out differently: %s (make format)\n' "${bad[@]}"
  echo "$((${#files[@]} - ${#bad[@]})) passed, ${#bad[@]} failed, 0 skipped"
}
run_style() { "$python" scripts/style.py; }
run_docs() { "$python" tests/docs.py; }
run_abi() { "$python" tests/abi/abi_test.py; }
run_header() { "$python" tests/header.py; }
run_unit() {
  cmake --build "$build" --target unit_tests --parallel "$(nproc)" >"$logs/unit-build.log" 2>&1 || { tail -30 "$logs/unit-build.log"; echo "0 passed, 1 failed, 0 skipped"; return 1; }
  zoo minilm_twin || return 1
  scripts/unit.sh "$build/tests"
}
run_devices() { "$python" tests/acceptance/devices_test.py; }
run_check() {
  local log=$logs/check-parts.log
  "$python" tests/acceptance/check_test.py 2>&1 | tee "$log"
  "$python" tests/acceptance/check_defects_test.py 2>&1 | tee -a "$log"
  parts_of "$log" 2
}
run_dispatch() {
  [ -x .venv-zoo/bin/python ] || { echo "skip: .venv-zoo is missing (make test makes it)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  .venv-zoo/bin/python tests/acceptance/dispatch_test.py
}
run_autograd() {
  [ -x .venv-zoo/bin/python ] || { echo "skip: .venv-zoo is missing (make test makes it)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  .venv-zoo/bin/python tests/acceptance/autograd_test.py
}
run_python() { # with NumPy alone, and with PyTorch too
  local log=$logs/python-parts.log parts=1
  has_python || { echo "skip: the headers of Python are not installed (python3-dev)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  zoo || return 1
  "$python" tests/adapters/python_test.py Arrays Calls Definitions Dispatch Graphs Guide Names Shapes Tensors 2>&1 | tee "$log"
  "$python" tests/adapters/graph_test.py 2>&1 | tee -a "$log"
  "$python" tests/adapters/threads_test.py 2>&1 | tee -a "$log"
  if [ -x .venv-zoo/bin/python ]; then parts=3; for part in python sparse; do .venv-zoo/bin/python "tests/adapters/${part}_test.py"; done 2>&1 | tee -a "$log"
  else echo "skip: .venv-zoo is missing (make test makes it)"; fi
  "$python" tests/adapters/leaks_test.py 2>&1 | tee -a "$log"
  parts_of "$log" $((parts + 3))
}
run_torch() { # what is in torch_deploy_test.py runs without Python
  local log=$logs/torch-parts.log part
  has_python || { echo "skip: the headers of Python are not installed (python3-dev)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  [ -x .venv-zoo/bin/python ] || { echo "skip: .venv-zoo is missing (make test makes it)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  for part in torch torch_model torch_device torch_deploy; do .venv-zoo/bin/python "tests/adapters/${part}_test.py" || true; done 2>&1 | tee "$log"
  parts_of "$log" 4
}
run_mxnet() {
  local log=$logs/mxnet-parts.log part parts=(tests/adapters/mxnet_*_test.py)
  [ -e "$build/bridges/libtenon_mxnet.so" ] || { echo "skip: there is no compiler for C++, so the bridge to MXNet was left out"; echo "0 passed, 0 failed, 1 skipped"; return; }
  has_python || { echo "skip: the headers of Python are not installed (python3-dev)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  [ -x .venv-zoo/bin/python ] || { echo "skip: .venv-zoo is missing (make test makes it)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  printf '%s\n' "${parts[@]}" | xargs -P 2 -I{} sh -c '.venv-zoo/bin/python {} >"$0/$(basename {}).log" 2>&1' "$logs" || true # they wait for MXNet
  for part in "${parts[@]}"; do cat "$logs/$(basename "$part").log"; done | tee "$log"
  parts_of "$log" ${#parts[@]}
}
run_guides() {
  has_python || { echo "skip: the headers of Python are not installed (python3-dev)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  [ -x .venv-zoo/bin/python ] || { echo "skip: .venv-zoo is missing (make test makes it)"; echo "0 passed, 0 failed, 1 skipped"; return; }
  .venv-zoo/bin/python tests/adapters/guides_test.py
}
run_wheel() { "$python" tests/adapters/wheel_test.py; }
run_install() { tests/acceptance/install_test.sh "$build"; }
run_new() {
  local log=$logs/new-parts.log part
  for part in new bench watch; do "$python" "tests/acceptance/${part}_test.py"; done 2>&1 | tee "$log"
  parts_of "$log" 3
}
run_command() { "$python" tests/acceptance/command_test.py; }
run_errors() { "$python" tests/acceptance/errors_test.py; }
run_isolation() {
  cmake --build "$build" --target isolation_rounds --parallel "$(nproc)" >"$logs/isolation-build.log" 2>&1 || { tail -30 "$logs/isolation-build.log"; echo "0 passed, 1 failed, 0 skipped"; return 1; }
  "$python" tests/acceptance/isolation_test.py
}
run_examples() { "$python" tests/acceptance/examples_test.py; }
run_search() {
  scripts/run.sh "$build" -q "May I sell copies?" >"$logs/run.log" 2>&1 || { tail -20 "$logs/run.log"; echo "0 passed, 1 failed, 0 skipped"; return 1; }
  "$python" tests/acceptance/search_test.py
}
run_onnx() { "$python" tests/acceptance/onnx_test.py; }
run_models() { "$python" tests/acceptance/models_test.py; }
run_offload() { zoo minilm_16 mobilenetv2 resnet50 && "$python" tests/acceptance/device_models_test.py; }
run_cuda() { "$python" tests/acceptance/cuda_test.py; }
run_debug() {
  local log=$logs/debug-parts.log part
  for part in debug debug_tools doctor; do "$python" "tests/acceptance/${part}_test.py" || true; done 2>&1 | tee "$log"
  parts_of "$log" 3
}
run_sanitize() { scripts/sanitize.sh quick; }
run_failures() { scripts/failures.sh 50; }
run_fuzz() { FUZZ_SEED=1 scripts/fuzz.sh 20; }

totals_of() { # the last total line of a log; unittest's own form is put into ours
  grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?' "$1" | tail -1 | grep . && return
  local ran bad skip
  ran=$(sed -nE 's/^Ran ([0-9]+) tests? .*/\1/p' "$1" | tail -1)
  [ -n "$ran" ] || return
  bad=$(grep -E '^FAILED \(' "$1" | tail -1 | grep -oE '(failures|errors)=[0-9]+' | grep -oE '[0-9]+' | awk '{n += $1} END {print n + 0}')
  skip=$(grep -E '^(OK|FAILED) \(' "$1" | tail -1 | grep -oE 'skipped=[0-9]+' | grep -oE '[0-9]+')
  local good=$((ran - ${bad:-0} - ${skip:-0})) # of parts of a test that fail there may be more than tests
  echo "$((good < 0 ? 0 : good)) passed, ${bad:-0} failed, ${skip:-0} skipped"
}

# Suites run two at a time (TEST_JOBS), since most of them use one processor; each is shown when it has ended.
failed=0 passed=0 wrong=0 skipped=0
[ -n "$only" ] && suites=("$only")
for suite in "${suites[@]}"; do
  declare -F "run_$suite" >/dev/null || { echo "test: no suite '$suite'; there are: ${!about[*]}" >&2; exit 2; }
done
declare -A suite_of=()
summary=()
take() { # SUITE STATUS: shows a suite that has ended, and adds it up
  local suite=$1 status=$2 line p f s
  [ -n "$only" ] || { echo "== $suite: ${about[$suite]}"; cat "$logs/$suite.log"; }
  line=$(totals_of "$logs/$suite.log")
  [ -n "$line" ] || { line="0 passed, 1 failed, 0 skipped"; status=1; }
  read -r p f s < <(sed -E 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?.*/\1 \2 \4/' <<<"$line")
  [ "$f" -eq 0 ] && [ "$status" -ne 0 ] && f=1
  passed=$((passed + p)) wrong=$((wrong + f)) skipped=$((skipped + ${s:-0}))
  [ "$f" -eq 0 ] || failed=1
  summary+=("$(printf '%-10s %6d passed %5d failed %5d skipped %6d s' "$suite" "$p" "$f" "${s:-0}" "$(cat "$logs/$suite.time")")")
}
begin() { # SUITE, in the background
  { start=$(date +%s)
    "run_$1" >"$logs/$1.log" 2>&1
    status=$?
    echo "$(($(date +%s) - start))" >"$logs/$1.time"
    exit $status; } &
  suite_of[$!]=$1
}
wait_one() {
  local process status
  wait -n -p process "${!suite_of[@]}"
  status=$?
  take "${suite_of[$process]}" $status
  unset "suite_of[$process]"
}
if [ -n "$only" ]; then
  echo "== $only: ${about[$only]}"
  start=$(date +%s)
  "run_$only" 2>&1 | tee "$logs/$only.log"
  status=${PIPESTATUS[0]}
  echo "$(($(date +%s) - start))" >"$logs/$only.time"
  take "$only" "$status"
else
  cmake --build "$build" --target unit_tests device_tests --parallel "$(nproc)" >"$logs/tests-build.log" 2>&1 || { tail -30 "$logs/tests-build.log"; echo "total: 0 passed, 1 failed, 0 skipped"; exit 1; }
  for suite in "${suites[@]}"; do
    [ ${#suite_of[@]} -lt ${TEST_JOBS:-2} ] || wait_one
    begin "$suite"
  done
  while [ ${#suite_of[@]} -gt 0 ]; do wait_one; done
fi
echo
printf '%s\n' "${summary[@]}"
echo "total: $passed passed, $wrong failed, $skipped skipped"
for suite in "${suites[@]}"; do # what did not run, and why
  { grep -iE '^ *skip[a-z]*: ' "$logs/$suite.log" | sed -E 's/^ *skip[a-z]*: *//' | sort | uniq -c
    sed -nE '/^skipped:$/,/passed/ { /^ +[0-9]+  /p }' "$logs/$suite.log"; } | sed "s/^/skipped in $suite: /" | cut -c1-170
done
exit $failed
