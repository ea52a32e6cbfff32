#!/usr/bin/env bash
# Makes a virtual environment: venv.sh FOLDER REQUIREMENTS [OPTION OF PIP]...
# Every file must have a hash that REQUIREMENTS lists.
set -euo pipefail
folder=$1 requirements=$2
shift 2
[ -x "$folder/bin/python" ] || { echo "venv: making $folder"; python3 -m venv "$folder"; }
echo "venv: installing $requirements into $folder"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { "$folder/bin/python" -m pip install --disable-pip-version-check -q --require-hashes "$@" -r "$requirements" >>"$log" 2>&1; }
install_with_torch() { # PyPI's build of torch requires gigabytes of CUDA, so its hash is not listed
  grep -q '^torch==' "$requirements" || return 1
  echo "venv: looking for torch's build for CPUs at download.pytorch.org"
  install "$@" --extra-index-url https://download.pytorch.org/whl/cpu
}
install "$@" || install_with_torch "$@" || {
  cat "$log" >&2
  exit 1
}
