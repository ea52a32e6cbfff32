/* An operator with arguments of one size, ready to be called repeatedly. Called by the verb
 * bench. */
#ifndef TOOLS_BENCH_CALL_H
#define TOOLS_BENCH_CALL_H

#include <tenon/tenon.h>

#include "tensor_spec.h"
#include "text.h"

enum { BENCH_NAMES = 16 };
typedef struct bench_size_t { /* the size that is requested */
  int64_t extent;             /* value of extents that nothing else determines; 0: small ones */
  int32_t example;            /* index of the example call in TENON_SAMPLES */
  int32_t count;              /* number of extents that are given by name */
  const char *names[BENCH_NAMES];
  int64_t extents[BENCH_NAMES];
  const char *dtype;     /* NULL: the dtype that the operator prefers */
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

/* Makes the arguments and calls the operator once, which creates the results. bench_call_end must
 * be called after a failure, too. */
bool bench_call_begin(const tenon_op_t *op, const bench_size_t *size, bench_call_t *out_subject,
                      text_t *why);
/* Prepares another operator with the inputs of an existing call. Attributes have the operator's own
 * defaults; an --attr that it does not have is ignored. */
bool bench_call_begin_with(const tenon_op_t *op, const bench_call_t *like,
                           bench_call_t *out_subject, text_t *why);
void bench_call_end(bench_call_t *subject);
/* A measure_fn: calls the operator `count` times with the same arguments and results. */
bool bench_call_repeat(void *subject, int64_t count, text_t *why);
/* Number of elements of the largest argument or result, and bytes of all arguments and results. */
int64_t bench_call_elements(const bench_call_t *subject);
double bench_call_bytes(const bench_call_t *subject);
/* "x f32[1024], out f32[1024]" */
void bench_call_describe(const bench_call_t *subject, text_t *out);
/* A formula_fn: looks up an extent by name, the number of elements of an argument or result, or one
 * of its extents. */
bool bench_call_lookup(void *subject, const char *name, int64_t index, double *out_value);

#endif
