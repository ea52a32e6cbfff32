/* An open library of functions, its functions as operators, and how long its code stays. */
#ifndef BRIDGES_TVM_FFI_HOSTED_MODULE_H
#define BRIDGES_TVM_FFI_HOSTED_MODULE_H

#include <tenon/tenon.h>
#include <tenon/tvm_ffi.h>

#include "abi.h"
#include "base/arena.h"
#include "runtime.h"

#define FFI_PREFIX "__tvm_ffi_"

enum {
  ARGUMENTS_MOST = 192, /* inputs, attributes and results of a schema */
  WHY = 16384,          /* bytes of a message */
};

/* How an argument of the operator is passed to the function. */
typedef enum pass_t {
  PASS_INPUT,        /* as a DLTensor */
  PASS_INPUT_OBJECT, /* as a Tensor object, for functions that take one */
  PASS_INPUTS,       /* a list: as an Array of Tensor objects */
  PASS_ATTR,
  PASS_OUTPUT, /* a result of the operator that the function writes to */
  PASS_OUTPUT_OBJECT,
} pass_t;

typedef struct argument_t {
  uint8_t pass; /* pass_t */
  uint8_t index;
} argument_t;

typedef struct function_t {
  struct module_t *module;
  ffi_call_fn call;
  const char *name; /* as the library exports it, without the prefix */
  argument_t arguments[ARGUMENTS_MOST];
  int32_t argument_count;
  bool has_objects; /* some argument is passed as an object, or is a list */
  int32_t returned_count;
  uint8_t returned[64]; /* the results of the operator that the function returns, in order */
} function_t;

typedef struct module_t {
  char *path;
  void *handle;
  runtime_t runtime;
  uint64_t references; /* atomic: the library, and each result whose memory is the function's */
  bool is_pinned;      /* the library left pointers to itself in libtvm_ffi */
  tn_arena_t arena;    /* texts and functions */
  const char *ns;
  tenon_descriptor_t descriptor;
  uint32_t function_count;
  function_t *functions;
} module_t;

/* Opens a library and describes its functions as operators.
 *
 * Arguments: `declared`: how the caller describes functions; NULL: all functions of the library are
 * taken that have metadata. */
tenon_status_t module_open(const char *path, const tenon_tvm_ffi_function_t *declared,
                           uint32_t count, module_t **out_module, char *why, size_t capacity);
void module_retain(module_t *module);
/* Releases a reference. The last one closes the library. */
void module_release(module_t *module);

#endif
