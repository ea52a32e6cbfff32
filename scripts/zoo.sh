#!/usr/bin/env bash
# Makes those models of the zoo that tests read and that are missing: zoo.sh BUILD [NAME...].  Without names: the whole zoo.
# Without .venv-zoo no model is made; tests that want one are then skipped, and say so.
set -euo pipefail
folder=$1/zoo missing=()
shift
[ -x .venv-zoo/bin/python ] || exit 0
for name; do [ -e "$folder/$name.onnx" ] || missing+=("$name"); done
if [ $# -gt 0 ]; then [ ${#missing[@]} -gt 0 ] || exit 0; elif [ "$folder/all.stamp" -nt bench/models/make_zoo.py ]; then exit 0; fi
mkdir -p "$folder"
log=$(.venv-zoo/bin/python bench/models/make_zoo.py "$folder" "${missing[@]}" 2>&1) || { echo "zoo: make_zoo.py failed:"; tail -20 <<<"$log"; exit 1; } >&2
[ $# -gt 0 ] || touch "$folder/all.stamp"
