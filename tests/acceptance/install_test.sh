#!/usr/bin/env bash
# `make install` gives what an outsider needs: the command builds a library against the installed header, CMake's package
# builds one by tenon_add_library and a program against tenon::tenon, pkg-config knows the flags.  install_test.sh BUILD
set -uo pipefail
build=$1 passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() { # sentence, command...
  if "${@:2}" >"$work/log" 2>&1; then passed=$((passed + 1)); echo "ok    $1"; else failed=$((failed + 1)); echo "FAIL  $1"; tail -20 "$work/log"; fi
}
prefix=$work/prefix
check "make install succeeds" cmake --install "$build" --prefix "$prefix"
check "the headers are there, and no other" test "$(ls "$prefix/include/tenon" | sort | tr '\n' ' ')" = "api bridge.h check.h device.h graph.h iterator.h op.h source.h tenon.h tenon.hpp tensorflow.h torch.h tvm_ffi.h "
check "the parts of tenon.h are there, and no other" test "$(ls "$prefix/include/tenon/api" | sort)" = "$(sed -n 's|#include <tenon/api/\([a-z]*\.h\)>.*|\1|p' include/tenon/tenon.h | sort)"
check "the command finds its other programs" test -f "$prefix/share/tenon/gdb/tenon-gdb.py" -a -f "$prefix/share/tenon/onnxruntime_values.py"
cp examples/01_gelu/gelu.c "$work/gelu.c"
check "the installed command builds a library" "$prefix/bin/tenon" build "$work/gelu.c" -o "$work/gelu.so"
check "the installed command builds a device" "$prefix/bin/tenon" build examples/08_device/*.c -o "$work/vx.so"
check "and checks it by the suite" "$prefix/bin/tenon" check --device "$work/vx.so" --case memory. --quick
check "and loads it into a process of its own" "$prefix/bin/tenon" show --ops "$work/gelu.so" --isolate-ops demo::gelu
check "the library exports one symbol" test "$(nm -D --defined-only "$work/gelu.so" | awk '{print $3}' | tr '\n' ' ')" = "tenon_library "
check "the installed command exports it to MXNet" test "$(cd "$work" && "$prefix/bin/tenon" export --mxnet gelu.so)" = "exported gelu_mxnet.so: 2 operators"
lib=$(dirname "$(find "$prefix" -name libtenon.so)")
for part in tensorflow_device tensorflow_graph; do
  check "libtenon_$part.so is installed and finds its libraries there" test "$(ldd "$lib/libtenon_$part.so" | grep -c "libtenon[_a-z]*\.so.* => $lib/")" = 3 -a -z "$(ldd "$lib/libtenon_$part.so" | grep 'not found')"
done
check "libtenon_onnxruntime_provider.so is installed and finds libtenon there" test "$(ldd "$lib/libtenon_onnxruntime_provider.so" | grep -c "libtenon\.so.* => $lib/")" = 1
cc -w -fPIC -shared tests/adapters/mxnet/plain.c -o "$work/plain.so" -lm
check "and loads a library of MXNet by its bridge" test "$("$prefix/bin/tenon" ops "$work/plain.so" | grep -c plain::t_gemm)" = 2
cc -w -fPIC -shared -DAPI=18 tests/adapters/onnxruntime_libraries/ops.c -o "$work/ops.so"
check "and one of ONNX Runtime" test "$("$prefix/bin/tenon" ops "$work/ops.so" | grep -c test_api18::Twice)" = 1
cat >"$work/program.c" <<'C'
#include <stdio.h>
#include <tenon/tenon.h>
int main(int argc, char **argv) {
  const tenon_op_t *op;
  if (tenon_library_load(argv[argc - 1], 0, NULL) || tenon_op_find("demo::gelu", &op)) return puts(tenon_error()), 1;
  return 0;
}
C
cat >"$work/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.20)
project(outsider C CXX)
find_package(tenon 1.0 REQUIRED)
tenon_add_library(demo SOURCES gelu.c LIBRARIES m)
add_executable(program program.c)
target_link_libraries(program tenon::tenon)
add_executable(fluent fluent.cc)
target_link_libraries(fluent tenon::tenon)
target_compile_features(fluent PRIVATE cxx_std_17)
add_executable(torch torch.cc)
target_link_libraries(torch tenon::torch)
C
cat >"$work/torch.cc" <<'C'
#include <cstdio>
#include <cstring>
#include <tenon/torch.h>
int main(int, char **argv) { // libtorch is not linked
  const char *why;
  return tenon_torch_load(argv[1], &why) == TENON_UNAVAILABLE && std::strstr(why, "PyTorch is not loaded") ? 0 : (std::puts(why), 1);
}
C
cat >"$work/fluent.cc" <<'C'
#include <tenon/tenon.hpp>
int main() {
  auto twice = tenon::op("outsider::twice(Tensor x) -> Tensor").types("x: f32; out = x").pointwise([](float x) { return 2 * x; }).add();
  return tenon::call("outsider::twice", 21.0f).data<float>()[0] == 42 ? 0 : 1;
}
C
check "CMake finds the package" cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix"
check "tenon_add_library and tenon::tenon build" cmake --build "$work/build"
check "the program loads the library and finds its operator" "$work/build/program" "$work/build/demo.so"
check "a program of lambdas runs" "$work/build/fluent"
check "tenon::torch says that PyTorch is not there" "$work/build/torch" "$work/build/demo.so"
if command -v pkg-config >/dev/null; then
  pc() { PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tenon.pc)") pkg-config "$@" tenon; }
  check "pkg-config knows the version" test "$(pc --modversion)" = 1.0.0
  compile() { eval "cc '$1/program.c' -o '$1/program_pc' $(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs tenon) '-Wl,-rpath,$1/lib'"; }
  [ -d "$prefix/lib" ] || ln -s "$(dirname "$(dirname "$(find "$prefix" -name tenon.pc)")")" "$prefix/lib"
  cp "$work/program.c" "$prefix"
  check "a program is compiled with the flags of pkg-config" compile "$prefix"
  check "and runs" "$prefix/program_pc" "$work/gelu.so"
  mv "$prefix" "$work/moved to a folder with blanks"
  moved="$work/moved to a folder with blanks"
  check "a tree that was moved to a path with blanks compiles a program" compile "$moved"
  check "which runs" "$moved/program_pc" "$work/gelu.so"
  mv "$moved" "$prefix"
else
  skipped=$((skipped + 1)); echo "skip  pkg-config is not installed (apt-get install pkg-config)"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
