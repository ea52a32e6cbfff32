/* Functions of tvm-ffi in plain C, and faulty ones; each test compiles it with a FAULT. They import
 * nothing of libtvm_ffi but the function that raises an error. */
#include <stdint.h>
#include <string.h>

typedef struct {
  int32_t kind;
  uint32_t size;
  union {
    int64_t integer;
    void *pointer;
    const char *text;
  } as;
} any_t;

typedef struct {
  void *data;
  int32_t device[2];
  int32_t ndim;
  uint8_t dtype[4];
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} tensor_t;

#define EXPORT __attribute__((visibility("default")))
#define FUNCTION(name)                                                                             \
  EXPORT int __tvm_ffi_##name(void *self, const any_t *arguments, int32_t count, any_t *result);   \
  int __tvm_ffi_##name(void *self, const any_t *arguments, int32_t count, any_t *result)

FUNCTION(twice) { /* (x, out) */
  const tensor_t *x = arguments[0].as.pointer;
  tensor_t *out = arguments[1].as.pointer;
  (void)self;
  (void)result;
  if (count != 2) return -1;
  for (int64_t i = 0; i < x->shape[0]; i++)
    ((float *)out->data)[i] = 2 * ((float *)x->data)[i];
  return 0;
}

/* Returns the number of arguments, for the measurement of calls. */
FUNCTION(count) {
  (void)self;
  (void)arguments;
  (void)result;
  return count < 0;
}

#ifdef MISSING
int TVMFFISomethingOfTheFuture(void);
FUNCTION(future) {
  (void)self;
  (void)arguments;
  (void)count;
  (void)result;
  return TVMFFISomethingOfTheFuture();
}
#endif

#ifdef METADATA
FUNCTION(_metadata_twice) {
  static struct {
    uint64_t references;
    int32_t kind;
    uint32_t padding;
    void *deleter;
    const char *data;
    uint64_t size;
  } string = {0x100000001, 65, 0, 0, METADATA, sizeof METADATA - 1};
  (void)self;
  (void)arguments;
  (void)count;
  result->kind = KIND;
  result->as.pointer = &string;
  return CODE;
}
#endif

#ifdef RESULT
FUNCTION(returns) { /* (x) -> a faulty value */
  static int64_t shape[2] = {-1, 3};
  static int64_t fine[1] = {2};
  static float values[2] = {1, 2};
  static struct {
    uint64_t references;
    int32_t kind;
    uint32_t padding;
    void *deleter;
    tensor_t tensor;
  } object = {0x100000001, 70, 0, 0, {values, {1, 0}, 1, {2, 32, 1, 0}, fine, 0, 0}};
  (void)self;
  (void)arguments;
  (void)count;
  (void)shape;
  result->kind = 70;
  result->as.pointer = &object;
  RESULT;
  return 0;
}
#endif
