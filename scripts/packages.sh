#!/usr/bin/env bash
# Installs missing Debian packages: packages.sh [test]
# Those of the build and the main job; with `test` also those of the tests.
set -euo pipefail
packages=(libutf8proc-dev libjpeg-dev libpng-dev)
[ "${1:-}" = test ] && packages+=(abigail-tools clang libclang-rt-14-dev clang-format valgrind gdb pkg-config locales libdw1 ocl-icd-libopencl1 pocl-opencl-icd fonts-dejavu-core graphviz libpcre2-8-0 libtiff6 libwebp7 libopenjp2-7)
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || packages+=(python3-dev)
for tool in g++ make; do command -v "$tool" >/dev/null || packages+=("$tool"); done
missing=()
for package in "${packages[@]}"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
[ ${#missing[@]} -eq 0 ] && exit 0
run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "packages: install ${missing[*]} as root, then try again" >&2; exit 1; }
  run=(sudo)
fi
echo "packages: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ "${run[@]}" apt-get update && "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
  { cat "$log" >&2; exit 1; }
