/* Calls a function of tvm-ffi with three tensors, through Tenon and directly, for
 * bench/tvm_ffi_calls.py.
 *
 *   tvm_ffi_calls LIBRARY direct|tenon|both COUNT
 *
 * `both` prints the shortest time of a call in nanoseconds, direct and through Tenon, of rounds
 * that take turns. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tvm_ffi.h>
#include <time.h>

#include "abi.h"

enum { ROUNDS = 40 };

static tenon_tensor_t *tensors[3];
static const tenon_op_t *op;
static ffi_call_fn function;

static int64_t call_directly(long count) {
  int64_t sum = 0;
  for (long i = 0; i < count; i++) {
    ffi_any_t result = {0};
    ffi_any_t arguments[3];
    for (int k = 0; k < 3; k++)
      arguments[k] = (ffi_any_t){.kind = FFI_TENSOR_VIEW, .as.pointer = tensors[k]};
    sum += function(NULL, arguments, 3, &result);
  }
  return sum;
}

static int64_t call_through_tenon(long count) {
  int64_t sum = 0;
  for (long i = 0; i < count; i++)
    sum += tenon_op_run(op, NULL, tensors, tensors + 2);
  return sum;
}

static double seconds_of(int64_t (*call)(long count), long count) {
  struct timespec from;
  struct timespec to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  if (call(count) != 0) abort();
  clock_gettime(CLOCK_MONOTONIC, &to);
  return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

static void print_both(long count) {
  double best[2] = {1e9, 1e9};
  for (int i = 0; i < 2 * ROUNDS; i++) {
    double found = seconds_of(i % 2 ? call_through_tenon : call_directly, count);
    if (found < best[i % 2]) best[i % 2] = found;
  }
  printf("%.2f %.2f\n", best[0] / (double)count * 1e9, best[1] / (double)count * 1e9);
}

int main(int argc, char **argv) {
  const tenon_tvm_ffi_function_t nop = {.size = sizeof nop,
                                        .name = "nop",
                                        .schema = "nop(Tensor a, Tensor b) -> Tensor",
                                        .shapes = "out = a"};
  const int64_t shape[1] = {4};
  if (argc != 4) return 2;
  for (int k = 0; k < 3; k++)
    if (tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &tensors[k])) return 3;
  if (tenon_tvm_ffi_load(argv[1], 0, &nop, 1, NULL) || tenon_op_find("nop::nop", &op) ||
      tenon_op_call_into(op, NULL, tensors, tensors + 2)) {
    fprintf(stderr, "%s\n", tenon_error());
    return 4;
  }
  void *address = dlsym(dlopen(argv[1], RTLD_NOW), "__tvm_ffi_nop");
  memcpy(&function, &address, sizeof address);
  const long count = strtol(argv[3], NULL, 10);
  if (strcmp(argv[2], "both") == 0)
    print_both(count);
  else if ((strcmp(argv[2], "direct") == 0 ? call_directly : call_through_tenon)(count) != 0)
    return 5;
  return 0;
}
