/* The short declarations of an operator: WHERE, REUSE, BATCHING, REDUCES, USES, and the
 * declarations of kernels and loops. */
#ifndef TN_CORE_DECLARATIONS_H
#define TN_CORE_DECLARATIONS_H

#include "core/schema.h"
#include "core/types.h"

enum {
  TN_INPUT_KNOWN = 1,
  TN_INPUT_DEDUCED = 2,
  TN_INPUT_STRIDED = 4,
  TN_INPUT_ANYWHERE = 8,
};
/* *out_words: one byte of TN_INPUT_... bits for each input. */
tenon_status_t tn_where_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              const uint8_t **out_words);

/* *out_inputs: for each result the input whose memory it may reuse, or -1. With `text` NULL all are
 * -1. */
tenon_status_t tn_reuse_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              const int32_t **out_inputs);

typedef struct tn_batching_t {
  const char *text; /* NULL: not declared */
  bool is_none;
  uint64_t inputs;  /* bit mask of inputs */
  uint64_t outputs; /* bit mask of results */
  uint64_t shifts;  /* bit mask of attributes */
} tn_batching_t;
tenon_status_t tn_batching_parse(const char *text, const tn_schema_t *schema,
                                 tn_batching_t *out_batching);

typedef struct tn_reduces_t {
  const char *text; /* NULL: no reduction */
  int32_t input;
  /* The input or attribute that lists the axes, or -1. If both are -1, the axes are those that
   * broadcasting would have created. */
  int32_t axes_input;
  int32_t axes_attr;
} tn_reduces_t;
tenon_status_t tn_reduces_parse(const char *text, const tn_schema_t *schema,
                                tn_reduces_t *out_reduces);

/* Full names of operators. A name without a namespace gets `ns`. */
tenon_status_t tn_uses_parse(const char *text, const char *ns, tn_arena_t *arena,
                             const char *const **out_names, uint32_t *out_count);

enum {
  TN_KERNEL_STRIDED = 1,
  TN_KERNEL_SERIAL = 2,
  TN_KERNEL_ACCUMULATES = 4,
  TN_KERNEL_QUANTISED = 8,
  TN_KERNEL_CAPTURABLE = 16,
  TN_KERNEL_FALLTHROUGH = 32, /* no function: the key is skipped */
  /* autocast, no function: runs in the precision that the thread chose */
  TN_KERNEL_LOWER = 64,
  TN_KERNEL_FALLBACK = 128, /* no function: this operator falls back to the CPU */
  /* no function: the backend's fallback must not serve this operator */
  TN_KERNEL_NO_FALLBACK = 256,
  TN_KERNEL_SCALARS = 512,   /* accepts host tensors without axes besides tensors of its device */
  TN_KERNEL_ANYWHERE = 1024, /* CPU kernel that accepts tensors of every device */
  TN_KERNEL_DOUBLES = 2048,  /* requirements of a SOURCE kernel on its device */
  TN_KERNEL_HALVES = 4096,
  TN_KERNEL_WIDE_ATOMICS = 8192,
  TN_KERNEL_SPARSE = 16384,
  TN_KERNEL_ROWS = 32768, /* computes each row as if it were alone */
  TN_KERNEL_NEEDS = TN_KERNEL_DOUBLES | TN_KERNEL_HALVES | TN_KERNEL_WIDE_ATOMICS,
};
/* What a kernel is registered for: a backend, or a position among the layers. */
enum {
  TN_AT_BACKEND,
  TN_AT_EXPLICIT,
  TN_AT_COMPOSITE,
  TN_AT_AUTOGRAD,
  TN_AT_AUTOCAST,
  TN_AT_VIEW,
  TN_AT_FUNCTIONAL,
};
typedef struct tn_kernel_words_t {
  const char *device; /* "cpu"; NULL: all devices */
  uint8_t at;
  int isa;         /* rank as of tn_cpu_rank; 0: baseline */
  uint64_t dtypes; /* dtypes of type variable 0; all bits set: no restriction */
  uint32_t flags;
} tn_kernel_words_t;
tenon_status_t tn_kernel_parse(const char *text, tn_arena_t *arena, tn_kernel_words_t *out_words);

typedef struct tn_loop_words_t {
  int isa;
  uint32_t flags;              /* TN_KERNEL_STRIDED */
  const tenon_dtype_t *dtypes; /* inputs, then results */
} tn_loop_words_t;
/* Also checks the number of dtypes against the schema, and that no argument is a list. */
tenon_status_t tn_loop_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                             tn_loop_words_t *out_words);

#endif
