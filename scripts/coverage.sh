#!/usr/bin/env bash
# Line coverage of src/ by the tests: builds with gcov's counters in build-coverage, runs what reaches libtenon from C, from the
# command and from Python, and prints the table of scripts/coverage.py, which also holds the aims.  Suites are judged by
# `make test`; what fails here is said, since counters change timing and symbols, but does not count.
set -uo pipefail
build=build-coverage
cmake --preset coverage >/dev/null && cmake --build $build --target all unit_tests --parallel "$(nproc)" >$build/build.log 2>&1 ||
  { tail -20 $build/build.log; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
find $build -name '*.gcda' -delete
scripts/zoo.sh $build minilm_twin
export TENON_BUILD=$PWD/$build TENON_CACHE=$PWD/$build/cache FAULT_EVERY=20
python=$PWD/.venv/bin/python
part() { # NAME COMMAND...: runs it, and says how it ended
  local name=$1 log=$build/coverage-$1.log
  shift
  nice -n 5 "$@" >"$log" 2>&1
  echo "$name: $(grep -E '^([0-9]+ passed|OK|FAILED)' "$log" | tail -1)"
}
# Not those that measure what counters change: writes to shared data, and threads at full speed.
part unit scripts/unit.sh $build/tests 'test_\(dispatch_readonly\|registry_stress\)'
part command "$python" tests/acceptance/command_test.py
for name in errors debug doctor; do part $name "$python" tests/acceptance/${name}_test.py; done
data=$("$python" -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data"))')
# Not --isolate: its children end without writing their counters.
part onnx $build/tenon verify --shape-only '*bernoulli*' --shape-only 'test_training_dropout*' "$data"/{node,simple,pytorch-operator,pytorch-converted}/*/
part python "$python" tests/adapters/python_test.py Arrays Calls Definitions Dispatch Graphs Names Shapes Tensors
[ ! -x .venv-zoo/bin/python ] || part autograd .venv-zoo/bin/python tests/acceptance/autograd_test.py
python3 scripts/coverage.py $build --at-least 90:src --at-least 95:src/loader --at-least 95:src/import \
  --at-least 95:src/core/schema.c,src/core/lexer.c,src/core/nearest.c,src/core/types.c,src/core/declarations.c,src/core/pattern.c,src/core/gradient.c,src/core/samples.c,src/core/upgrade.c,src/core/value.c
