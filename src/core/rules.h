/* The short texts of an operator: WHERE, REUSE, BATCHING, REDUCES, USES, and the words of kernels
 * and loops. */
#ifndef TN_CORE_RULES_H
#define TN_CORE_RULES_H

#include "core/schema.h"
#include "core/types.h"

enum {
  TN_INPUT_KNOWN = 1,
  TN_INPUT_DEDUCED = 2,
  TN_INPUT_STRIDED = 4,
  TN_INPUT_ANYWHERE = 8,
};
/* out_words: one byte for each input. */
tenon_status_t tn_where_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              const uint8_t **out_words);

/* out_inputs: for each result the input whose memory it may take, or -1.  text NULL: all -1. */
tenon_status_t tn_reuse_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              const int32_t **out_inputs);

typedef struct tn_batching_t {
  const char *text; /* NULL: none stated */
  bool is_none;
  uint64_t inputs;
  uint64_t outputs;
  uint64_t shifts; /* bits of inputs, results, attributes */
} tn_batching_t;
tenon_status_t tn_batching_parse(const char *text, const tn_schema_t *schema,
                                 tn_batching_t *out_batching);

typedef struct tn_reduces_t {
  const char *text; /* NULL: no reduction */
  int32_t input;
  int32_t axes_input;
  int32_t axes_attr; /* that lists them, -1; both: the axes that broadcasting would have made */
} tn_reduces_t;
tenon_status_t tn_reduces_parse(const char *text, const tn_schema_t *schema,
                                tn_reduces_t *out_reduces);

/* Full names of operators, those without a namespace being of `ns`. */
tenon_status_t tn_uses_parse(const char *text, const char *ns, tn_arena_t *arena,
                             const char *const **out_names, uint32_t *out_count);

enum {
  TN_KERNEL_STRIDED = 1,
  TN_KERNEL_SERIAL = 2,
  TN_KERNEL_ACCUMULATES = 4,
  TN_KERNEL_QUANTISED = 8,
  TN_KERNEL_CAPTURABLE = 16,
  TN_KERNEL_FALLTHROUGH = 32, /* no function: the key is passed by */
  TN_KERNEL_LOWER = 64,       /* autocast, no function: in the precision that the thread chose */
  TN_KERNEL_FALLBACK = 128,   /* no function: this operator falls back to the CPU */
  TN_KERNEL_NO_FALLBACK =
      256, /* no kernel at all: the backend's fallback must not serve this operator */
  TN_KERNEL_SCALARS = 512,   /* takes host tensors without axes beside those of its device */
  TN_KERNEL_ANYWHERE = 1024, /* of the CPU: serves tensors of every device */
  TN_KERNEL_DOUBLES = 2048,  /* of SOURCE: what a device must have for it */
  TN_KERNEL_HALVES = 4096,
  TN_KERNEL_WIDE_ATOMICS = 8192,
  TN_KERNEL_SPARSE = 16384,
  TN_KERNEL_NEEDS = TN_KERNEL_DOUBLES | TN_KERNEL_HALVES | TN_KERNEL_WIDE_ATOMICS,
};
/* What a kernel is for: a backend, or a layer's place. */
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
  const char *device; /* "cpu"; NULL: all */
  uint8_t at;
  int isa;         /* tn_cpu_rank, 0: baseline */
  uint64_t dtypes; /* of type variable 0; all ones: not restricted */
  uint32_t flags;
} tn_kernel_words_t;
tenon_status_t tn_kernel_parse(const char *text, tn_arena_t *arena, tn_kernel_words_t *out_words);

typedef struct tn_loop_words_t {
  int isa;
  uint32_t flags;              /* TN_KERNEL_STRIDED */
  const tenon_dtype_t *dtypes; /* inputs, then results */
} tn_loop_words_t;
/* Checks the number of dtypes against the schema, and that no argument is a list. */
tenon_status_t tn_loop_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                             tn_loop_words_t *out_words);

#endif
