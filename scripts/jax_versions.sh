#!/usr/bin/env bash
# Runs the tests of the bridge to JAX with other releases: jax_versions.sh BUILD VERSION...
# JAX_PYTHON is the Python for the environments; releases after 0.10 need 3.12 or later.
set -uo pipefail
: "${2:?usage: jax_versions.sh BUILD VERSION...}"
build=$1 failed=0
shift
export TENON_BUILD=$PWD/$build PYTHONPATH=$PWD/$build/python
for version; do
  folder=$build/jax/$version
  if [ ! -x "$folder/bin/python" ]; then
    "${JAX_PYTHON:-python3}" -m venv "$folder"
    "$folder/bin/python" -m pip install --disable-pip-version-check -q "jax==$version" "jaxlib==$version" numpy flatbuffers absl-py || {
      rm -rf "$folder"
      failed=1
      continue
    }
  fi
  echo "== JAX $version, $("$folder/bin/python" --version)"
  "$folder/bin/python" tests/adapters/jax_test.py || failed=1
done
exit $failed
