#!/usr/bin/env bash
# Makes a virtual environment: venv.sh FOLDER REQUIREMENTS [OPTION OF PIP]...
set -euo pipefail
folder=$1 requirements=$2
shift 2
[ -x "$folder/bin/python" ] || { echo "venv: making $folder"; python3 -m venv "$folder"; }
echo "venv: installing $requirements into $folder"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$folder/bin/python" -m pip install --disable-pip-version-check -q "$@" -r "$requirements" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
