/* An operator with arguments of one size, ready to be called: what bench measures. */
#ifndef TOOLS_BENCH_CALL_H
#define TOOLS_BENCH_CALL_H

#include <tenon/tenon.h>

#include "tensor_spec.h"
#include "text.h"

enum { BENCH_NAMES = 16 };
typedef struct bench_size_t { /* what is asked for */
  int64_t extent;             /* of extents that nothing states; 0: small ones */
  int32_t sample;             /* which call of the operator's samples */
  int32_t count;              /* extents by name */
  const char *names[BENCH_NAMES];
  int64_t extents[BENCH_NAMES];
  const char *dtype;     /* NULL: as the operator likes */
  const texts_t *forms;  /* "x=f32[rows,64]" */
  const texts_t *attrs;  /* "axis=1" */
  tenon_device_t device; /* type 0: the CPU */
} bench_size_t;

typedef struct bench_call_t {
  const tenon_op_t *op;
  tenon_op_info_t info;
  tenon_value_t *values; /* inputs, then attributes */
  tenon_attrs_t *attrs;
  tenon_bound_t *bound;
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs;
  tenon_device_t device;
  const bench_size_t *size;
  bool is_other; /* made with the inputs of another operator */
} bench_call_t;

/* Makes arguments, and calls it once, so that results are there.  After a failure subject_end is
 * called too. */
bool bench_call_begin(const tenon_op_t *op, const bench_size_t *size, bench_call_t *out_subject,
                      text_t *why);
/* The same of another operator, with the inputs of one that was made, and its own defaults and
 * --attr that it has. */
bool bench_call_begin_with(const tenon_op_t *op, const bench_call_t *like,
                           bench_call_t *out_subject, text_t *why);
void bench_call_end(bench_call_t *subject);
/* A measure_fn: calls it so often with the same arguments and results. */
bool bench_call_repeat(void *subject, int64_t count, text_t *why);
/* Elements of the largest argument or result; bytes of all. */
int64_t bench_call_elements(const bench_call_t *subject);
double bench_call_bytes(const bench_call_t *subject);
/* "x f32[1024], out f32[1024]" */
void bench_call_describe(const bench_call_t *subject, text_t *out);
/* A formula_fn: extents by name, elements of an argument or result, its extents. */
bool bench_call_lookup(void *subject, const char *name, int64_t index, double *out_value);

#endif
