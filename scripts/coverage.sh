#!/usr/bin/env bash
# Measures the line coverage of src/: builds with gcov's counters in build-coverage, runs the suites that reach libtenon from
# C, from the command and from Python, and prints the table of scripts/coverage.py, with the aims.
# A failing suite is reported but does not fail this script, since the counters change timing and symbols; `make test` is
# the judge of the suites.
set -uo pipefail
build=build-coverage
cmake --preset coverage >/dev/null && cmake --build $build --target all unit_tests --parallel "$(nproc)" >$build/build.log 2>&1 ||
  { tail -20 $build/build.log; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
find $build -name '*.gcda' -delete
scripts/zoo.sh $build minilm_twin
export TENON_BUILD=$PWD/$build TENON_CACHE=$PWD/$build/cache FAULT_EVERY=20
python=$PWD/.venv/bin/python
part() { # NAME COMMAND...: runs the command and prints its total
  local name=$1 log=$build/coverage-$1.log
  shift
  nice -n 5 "$@" >"$log" 2>&1
  echo "$name: $(grep -E '^([0-9]+ passed|OK|FAILED)' "$log" | tail -1)"
}
# Two tests are left out because the counters change what they measure: writes to shared data, and threads at full speed.
part unit scripts/unit.sh $build/tests 'test_\(dispatch_readonly\|registry_stress\)'
part command "$python" tests/acceptance/command_test.py
for name in errors debug doctor; do part $name "$python" tests/acceptance/${name}_test.py; done
data=$("$python" -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data"))')
# Without --isolate: isolated processes end without writing their counters.
part onnx $build/tenon verify "$data"/{node,simple,pytorch-operator,pytorch-converted}/*/
part python "$python" tests/adapters/python_test.py Arrays Calls Definitions Dispatch Graphs Names Shapes Tensors
[ ! -x .venv-zoo/bin/python ] || part autograd .venv-zoo/bin/python tests/acceptance/autograd_test.py
[ ! -x .venv-zoo/bin/python ] || part training .venv-zoo/bin/python tests/acceptance/training_test.py
python3 scripts/coverage.py $build --at-least 90:src --at-least 95:src/loader --at-least 95:src/import \
  --at-least 95:src/core/schema.c,src/core/lexer.c,src/core/nearest.c,src/core/types.c,src/core/declarations.c,src/core/pattern.c,src/core/gradient.c,src/core/samples.c,src/core/upgrade.c,src/core/value.c
