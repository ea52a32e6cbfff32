#!/usr/bin/env bash
# Fuzzes the readers of untrusted input: runs the libFuzzer targets of tests/fuzz under the address and
# undefined-behaviour sanitizers (clang).
#   fuzz.sh SECONDS [TARGET]...    SECONDS for each target; without TARGET, all targets
# Each target starts from tests/fuzz/corpus/TARGET, from files of the tree, and from files of ONNX's tests. The corpora in
# build-fuzz/corpus grow from run to run. Inputs that break a target are kept in build-fuzz/found.
# FUZZ_SEED=N fixes the seed, as `make test` does, so that a commit always meets the same inputs; otherwise it is random.
# After a fix, the input goes into tests/fuzz/corpus/TARGET, which `make test` replays (tests/fuzz/replay.c).
set -uo pipefail
seconds=$1 out=build-fuzz
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || for file in tests/fuzz/*_fuzz.c; do targets+=("$(basename "$file" _fuzz.c)"); done
if ! clang -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null <<<'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n ? 0 : 0; }'; then
  echo "skip: clang or its libFuzzer is not installed (Debian: clang, libclang-rt-14-dev): only the corpus was run"
  echo "0 passed, 0 failed, ${#targets[@]} skipped"
  exit 0
fi

mkdir -p "$out/found" "$out/seeds-text" "$out/seeds-mxnet" "$out/mxnet"
refuse() { tail -20 "$out/build.log"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
cmake --preset fuzz >"$out/build.log" 2>&1 || refuse
skipped=0 kept=()
for target in "${targets[@]}"; do
  if [ "$target" = images ] && ! cmake --build "$out" --target help | grep -qw fuzz_images; then
    echo "skip: images: libjpeg or libpng is not installed (Debian: libjpeg-dev, libpng-dev)"
    skipped=$((skipped + 1))
  else
    kept+=("$target")
  fi
done
[ ${#kept[@]} -gt 0 ] || { echo "0 passed, 0 failed, $skipped skipped"; exit 0; }
targets=("${kept[@]}")
cmake --build "$out" --parallel "$(nproc)" --target $(printf 'fuzz_%s ' "${targets[@]}") >>"$out/build.log" 2>&1 || refuse

# Prints the files that a target starts from: its corpus, files of the tree, and, if the onnx package is installed, ONNX's node
# models and their tensors.
seeds() { # TARGET
  local data
  data=$(.venv/bin/python -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/node"))' 2>/dev/null || true)
  find "tests/fuzz/corpus/$1" -type f 2>/dev/null
  case $1 in
  convert) find tests/fuzz/corpus/stablehlo tests/fuzz/corpus/model -type f; [ -z "$data" ] || find "$data" -name model.onnx -size -40k ;;
  model) find tests/data "$out/seeds-model" -name '*.onnx'; [ -z "$data" ] || find "$data" -name model.onnx ;;
  tensor) find tests/data examples -name '*.pb' -o -name '*.npy' -o -name '*.pgm'; [ -z "$data" ] || find "$data" -name 'input_*.pb' -size -4k | awk 'NR <= 400' ;;
  text | descriptor | graph) find "$out/seeds-$1" -type f ;;
  description) find "$out/seeds-descriptor" tests/fuzz/corpus/descriptor -type f ;;
  mxnet) find "$out/seeds-mxnet" -type f -size -32k ;;
  elf) find build/devices build/tests/libraries -maxdepth 1 -name '*.so' -size -64k 2>/dev/null | sort | awk 'NR <= 60'; find "$out" -name 'wire.c.o' -o -name 'npy.c.o' ;;
  esac
}
.venv/bin/python scripts/fuzz_seeds.py "$out" || true
.venv/bin/python tests/acceptance/contrib/nodes.py "$out/seeds-model" || true
# MXNet's own models of its operators. A seed is the two files of a model, joined by a zero byte.
mxnet=${TENON_MXNET_1_9:-.venv-mxnet-1.9/bin/python}
[ ! -x "$mxnet" ] || "$mxnet" tests/adapters/mxnet_models_oracle.py "$out/mxnet" >"$out/mxnet.log" 2>&1 || true
for file in "$out"/mxnet/*-symbol.json; do
  [ ! -e "$file" ] || { tr -d '\000' <"$file"; printf '\0'; cat "${file%-symbol.json}-0000.params" 2>/dev/null; } >"$out/seeds-mxnet/$(basename "$file")"
done

passed=0 failed=0
for target in "${targets[@]}"; do
  corpus=$out/corpus/$target
  mkdir -p "$corpus"
  seeds "$target" | while read -r file; do cp -n "$file" "$corpus/seed-$(cksum <"$file" | cut -d' ' -f1)"; done
  if ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=2048 UBSAN_OPTIONS=print_stacktrace=1 TENON_CACHE=off \
    "$out/tests/fuzz_$target" ${FUZZ_SEED:+-seed=$FUZZ_SEED} -max_total_time="$seconds" -timeout=120 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$out/found/$target-" "$corpus" >"$out/$target.log" 2>&1; then
    passed=$((passed + 1)) verdict=ok
  else
    failed=$((failed + 1)) verdict=FOUND
  fi
  printf '%-6s %-11s %9s executions, %6s edges, %6s files, %s s\n' "$verdict" "$target" \
    "$(sed -nE 's/^stat::number_of_executed_units: *//p' "$out/$target.log")" "$(grep -oE 'cov: [0-9]+' "$out/$target.log" | tail -1 | cut -c6-)" \
    "$(find "$corpus" -type f | wc -l)" "$seconds"
  [ $verdict = ok ] || grep -E 'ERROR|SUMMARY|runtime error|^wrong|^  (input|attribute)|Test unit written' "$out/$target.log" | head -20
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
