/* A program that runs libraries: host LIB...  Calls the operator `value` of each with the tensor [1, 2, 3] of f64, and prints one line,
 * "LIB: NAME 1.0.0 (1.0): 2 4 6" or "LIB: MESSAGE"; what a library states besides, it is asked for too.  Compiled with the headers of
 * its own version, and linked with the libtenon that is tried. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static void print(const tenon_tensor_t *t) {
  for (int64_t i = 0; i < tenon_count(t); i++) printf(" %g", ((const double *)t->data)[i]);
}

static int call(const tenon_op_t *op) {
  double x[3] = {1, 2, 3};
  int64_t shape[1] = {3}, strides[1] = {1};
  tenon_tensor_t in = {0}, *inputs[1] = {&in}, *outputs[1] = {NULL};
  in.data = x, in.device.type = 1, in.ndim = 1, in.dtype = tenon_dtype(TENON_F64), in.shape = shape,
  in.strides = strides;
  if (tenon_op_call(op, NULL, inputs, outputs, 0) != TENON_OK) return printf(" %s", tenon_error()), 1;
  print(outputs[0]);
  tenon_tensor_release(outputs[0]);
  return 0;
}

static int run(const char *path) {
  tenon_library_t *library = NULL;
  const char *slash = strrchr(path, '/');
  int failed = 0;
  printf("%s:", slash ? slash + 1 : path);
  if (tenon_library_load(path, TENON_LOAD_UNLOADABLE, &library) != TENON_OK) return printf(" %s\n", tenon_error()), 0;
  printf(" %s %s", tenon_library_name(library), tenon_library_version(library));
  for (int32_t i = 0; i < tenon_library_op_count(library); i++) {
    tenon_op_info_t info = {0};
    info.size = sizeof info;
    tenon_op_info(tenon_library_op(library, i), &info);
    printf(" %s", strstr(info.name, "::") + 2);
    failed |= call(tenon_library_op(library, i));
  }
  printf("\n");
  tenon_library_release(library);
  return failed;
}

int main(int argc, char **argv) {
  int failed = 0;
  printf("host %u.%u\n", TENON_ABI >> 16, TENON_ABI & 0xffffu);
  for (int i = 1; i < argc; i++) failed |= run(argv[i]);
  tenon_shutdown();
  return failed;
}
