#!/usr/bin/env bash
# Makes the missing models of the zoo, which tests read: zoo.sh BUILD [NAME...]
# Without names it makes the whole zoo. Without .venv-zoo it makes none, and the tests that need one are skipped.
set -euo pipefail
folder=$1/zoo missing=()
shift
[ -x .venv-zoo/bin/python ] || exit 0
for name; do [ -e "$folder/$name.onnx" ] || missing+=("$name"); done
if [ $# -gt 0 ]; then [ ${#missing[@]} -gt 0 ] || exit 0; elif [ "$folder/all.stamp" -nt bench/models/make_zoo.py ]; then exit 0; fi
mkdir -p "$folder"
log=$(.venv-zoo/bin/python bench/models/make_zoo.py "$folder" "${missing[@]}" 2>&1) || { echo "zoo: make_zoo.py failed:"; tail -20 <<<"$log"; exit 1; } >&2
[ $# -gt 0 ] || touch "$folder/all.stamp"
