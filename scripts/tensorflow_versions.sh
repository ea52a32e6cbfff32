#!/usr/bin/env bash
# Runs the tests of the bridge to TensorFlow with other releases: tensorflow_versions.sh BUILD VERSION...
# TENSORFLOW_PYTHON is the Python for the environments. Tests of functions that XLA compiles are skipped with releases whose
# XLA cannot call operators.
set -uo pipefail
: "${2:?usage: tensorflow_versions.sh BUILD VERSION...}"
build=$1 failed=0
shift
export TENON_BUILD=$PWD/$build PYTHONPATH=$PWD/$build/python TF_CPP_MIN_LOG_LEVEL=2
for version; do
  folder=$build/tensorflow/$version
  if [ ! -x "$folder/bin/python" ]; then
    "${TENSORFLOW_PYTHON:-python3}" -m venv "$folder"
    "$folder/bin/python" -m pip install --disable-pip-version-check -q "tensorflow-cpu==$version" || {
      rm -rf "$folder"
      failed=1
      continue
    }
  fi
  echo "== TensorFlow $version, $("$folder/bin/python" --version)"
  for file in tests/adapters/tensorflow_{,abi_,builtins_,deploy_,errors_,graphs_,hosts_,keras_,shapes_}test.py; do
    echo "-- $(basename "$file")"
    "$folder/bin/python" "$file" || failed=1
  done
done
exit $failed
