/* What a function's metadata say about its arguments and results. */
#ifndef BRIDGES_TVM_FFI_HOSTED_METADATA_H
#define BRIDGES_TVM_FFI_HOSTED_METADATA_H

#include <stdbool.h>

#include "abi.h"
#include "base/arena.h"

typedef enum type_kind_t {
  TYPE_OTHER, /* a type that Tenon cannot pass */
  TYPE_NONE,
  TYPE_VIEW, /* a tensor, passed as a DLTensor */
  TYPE_TENSOR,
  TYPE_INT,
  TYPE_FLOAT,
  TYPE_BOOL,
  TYPE_STR,
  TYPE_DTYPE,
  TYPE_DEVICE,
} type_kind_t;

typedef struct type_t {
  type_kind_t kind;
  bool is_list;     /* `kind` is that of the items */
  bool is_optional; /* None is allowed */
  const char *name; /* as the metadata spell it */
} type_t;

typedef struct signature_t {
  const type_t *arguments;
  uint32_t argument_count;
  const type_t *results; /* none for a function that returns None; several for a Tuple */
  uint32_t result_count;
} signature_t;

/* Reads the text of a function's metadata: {"type_schema": "{...}"}.
 *
 * Arguments: `text` may be hostile.
 * Errors: TENON_INVALID, TENON_MEMORY, with the message in tenon_error().
 * Ownership: the arena owns the result. */
tenon_status_t metadata_read(const char *text, size_t size, tn_arena_t *arena,
                             const signature_t **out_signature);
/* The type in the language of schemas: "Tensor", "int[]"; NULL if there is none. */
const char *metadata_word(const type_t *type);

#endif
