#!/usr/bin/env bash
# Fuzzes what reads files and texts of others: libFuzzer targets of tests/fuzz with clang, under address and undefined
# sanitizers, FUZZ_SECONDS (600) in all.  fuzz.sh [TARGET]...  What it finds stays in build-fuzz/found; the corpora in
# build-fuzz/corpus grow from run to run.
set -euo pipefail
seconds=${FUZZ_SECONDS:-600} out=build-fuzz
command -v clang >/dev/null || { echo "fuzz: clang is missing; install it (Debian: clang)" >&2; exit 1; }
targets=("$@")
[ ${#targets[@]} -gt 0 ] || for file in tests/fuzz/*_fuzz.c; do targets+=("$(basename "$file" _fuzz.c)"); done
flags=(-std=c11 -O1 -g -D_GNU_SOURCE -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all)

mkdir -p "$out/found"
echo "fuzz: building ${targets[*]} in $out"
cmake -S . -B "$out" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g -fsanitize=fuzzer-no-link" \
  -DTENON_SANITIZE=address,undefined -DTENON_OPENMP=OFF -DTENON_ONEDNN=OFF >"$out/build.log" 2>&1 &&
  cmake --build "$out" --target tenon_internal --parallel "$(nproc)" >>"$out/build.log" 2>&1 || { tail -20 "$out/build.log"; exit 1; }
for target in "${targets[@]}"; do
  more=()
  [ "$target" != mxnet ] || more=(-Ibridges/mxnet bridges/mxnet/writer.c bridges/mxnet/models/*.c)
  clang "${flags[@]}" -fsanitize=fuzzer "${more[@]}" -Iinclude -Isrc -Iops -Itests/unit -Itests/unit/fault -DMODELS="\"$PWD/tests/data/models\"" \
    "tests/fuzz/${target}_fuzz.c" "$out/libtenon_internal.a" -lm -ldl -lpthread -o "$out/fuzz_$target"
done

# Seeds: files of the tree by target, ONNX's node models and their tensors where the onnx package is there.
seeds() {
  local data
  data=$(.venv/bin/python -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/node"))' 2>/dev/null || true)
  case $1 in
  model) find tests/data -name '*.onnx'; [ -z "$data" ] || find "$data" -name model.onnx ;;
  tensor) find tests/data examples -name '*.pb' -o -name '*.npy' -o -name '*.pgm'; [ -z "$data" ] || find "$data" -name 'input_*.pb' -size -4k | awk 'NR <= 400' ;;
  text) find "$out/seeds-text" -type f ;;
  mxnet) find "$out/seeds-mxnet" -type f -size -32k ;;
  elf) find build* -maxdepth 6 -name '*.so' -size -64k | awk 'NR <= 60'; find "$out" -name 'wire.c.o' -o -name 'npy.c.o' ;;
  esac
}
# Texts of the contract are in the sources of the operators: each quoted run of lines that looks like one.
mkdir -p "$out/seeds-text"
.venv/bin/python - "$out/seeds-text" <<'PY' || true
import glob, re, sys
for path in sorted(glob.glob("ops/*.c") + glob.glob("tests/libraries/contract/*.c")):
    source = re.sub(r'"\s*\n\s*"', "", open(path).read())
    for i, op in enumerate(re.findall(r'TENON_OP\("([^"]+)"(.*?)(?=TENON_OP\(|\Z)', source, re.S)):
        lines = [op[0]]
        for tag, letter in dict(TYPES="t", SHAPES="p", GRADIENT="g", WHERE="w", REUSE="r", BATCHING="b", USES="u", KERNEL="k", LOOP="l").items():
            lines += [letter + text for text in re.findall(rf'TENON_{tag}\("([^"]+)"', op[1])]
        open(f"{sys.argv[1]}/{re.sub('.*/', '', path)}-{i}", "w").write("\n".join(lines))
PY

# MXNet's own models of its operators: both files as one.
mxnet=${TENON_MXNET_1_9:-.venv-mxnet-1.9/bin/python}
mkdir -p "$out/seeds-mxnet" "$out/mxnet"
[ ! -x "$mxnet" ] || "$mxnet" tests/adapters/mxnet_models_oracle.py "$out/mxnet" >"$out/mxnet.log" 2>&1 || true
for file in "$out"/mxnet/*-symbol.json; do
  [ ! -e "$file" ] || { tr -d '\000' <"$file"; printf '\0'; cat "${file%-symbol.json}-0000.params" 2>/dev/null; } >"$out/seeds-mxnet/$(basename "$file")"
done

failed=0
each=$((seconds / ${#targets[@]}))
for target in "${targets[@]}"; do
  corpus=$out/corpus/$target
  mkdir -p "$corpus"
  seeds "$target" | while read -r file; do cp -n "$file" "$corpus/seed-$(cksum <"$file" | cut -d' ' -f1)"; done
  echo "== $target: $each s from $(find "$corpus" -type f | wc -l) files"
  if ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=2048 UBSAN_OPTIONS=print_stacktrace=1 \
    "$out/fuzz_$target" -max_total_time="$each" -timeout=30 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$out/found/$target-" "$corpus" >"$out/$target.log" 2>&1; then
    grep -E 'stat::number_of_executed_units|stat::new_units_added' "$out/$target.log"
  else
    failed=1
    grep -E 'ERROR|SUMMARY|runtime error|^wrong|Test unit written' "$out/$target.log" | head -20
  fi
done
exit $failed
