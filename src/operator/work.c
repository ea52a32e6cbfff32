/* Computes the work of operators; see work.h. */
#include "operator/work.h"

#include <string.h>

#include "core/dtype.h"

/* How operations are counted: two for each product that is added to a sum. */
typedef enum rule_t {
  UNKNOWN,
  PRODUCT,    /* each element of the result sums over the last axis of the first operand */
  CONV,       /* each element of the result sums over one filter of the weights */
  TRANSPOSED, /* each element of the input is multiplied with all weights of its channel */
  ATTENTION,  /* each query is multiplied with each key, and each weight with a value */
  RECURRENT,  /* each element of a sequence is multiplied with all weights */
} rule_t;

typedef struct counted_t {
  const char *name;
  rule_t rule;
  uint32_t weights; /* the index of the second operand */
  bool is_lookup;   /* of the first operand, only as many bytes as the result has are read */
} counted_t;

static const counted_t counted[] = {
    {"core::matmul", PRODUCT, 1, false},
    {"core::gemm", PRODUCT, 1, false},
    {"core::matmul_integer", PRODUCT, 1, false},
    {"core::matmul_nbits", PRODUCT, 1, false},
    {"core::qlinear_matmul", PRODUCT, 3, false},
    {"core::conv", CONV, 1, false},
    {"core::causal_conv", CONV, 1, false},
    {"core::deform_conv", CONV, 1, false},
    {"core::conv_integer", CONV, 1, false},
    {"core::qlinear_conv", CONV, 3, false},
    {"core::conv_transpose", TRANSPOSED, 1, false},
    {"core::attention", ATTENTION, 1, false},
    {"core::lstm", RECURRENT, 1, false},
    {"core::gru", RECURRENT, 1, false},
    {"core::rnn", RECURRENT, 1, false},
    {"core::gather", UNKNOWN, 0, true},
    {"core::gather_elements", UNKNOWN, 0, true},
    {"core::gather_nd", UNKNOWN, 0, true},
    {"core::slice", UNKNOWN, 0, true},
};

static const counted_t *find_counted(const tenon_op_t *op) {
  static const counted_t other = {NULL, UNKNOWN, 0, false};
  for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
    if (strcmp(counted[i].name, op->name) == 0) return &counted[i];
  return &other;
}

tn_size_t tn_size_of_scalar(tenon_dtype_t dtype) {
  return (tn_size_t){0, dtype.bits * dtype.lanes / 8.0, 1, 1, 1, 1};
}

void tn_size_add_axis(tn_size_t *size, double extent) {
  if (size->ndim == 0) size->first = extent;
  if (size->ndim > 0) size->before_last = size->last;
  size->last = extent;
  size->count *= extent;
  size->ndim++;
}

double tn_size_bytes(const tn_size_t *size) { return size->element * size->count; }

/* Terms of each sum of a matrix product: the common extent of its operands, of which one may be a
 * vector, and each may be transposed. */
static double terms_of_product(const tn_size_t *a, const tn_size_t *b, const tn_size_t *out) {
  if (a->ndim < 2 || b->ndim < 2) return a->last;
  return out->before_last > 0 ? a->last * a->before_last / out->before_last : 0;
}

static double operations_of(const counted_t *how, const tenon_op_t *op, const tn_size_t *sizes) {
  const tn_size_t *x = &sizes[0];
  const tn_size_t *w = &sizes[how->weights];
  const tn_size_t *out = &sizes[op->input_count];
  const double filters = w->first > 0 ? w->first : 1;
  switch (how->rule) {
  case PRODUCT:
    return 2 * out->count * terms_of_product(x, w, out);
  case CONV:
    return 2 * out->count * w->count / filters;
  case TRANSPOSED:
    return 2 * x->count * w->count / filters;
  case ATTENTION: /* w: the keys; their sequence is the axis before the last */
    return 2 * (x->count + out->count) * w->before_last;
  case RECURRENT: /* after the weights of the inputs come those of the hidden state */
    return x->last > 0 ? 2 * x->count / x->last * (w->count + w[1].count) : 0;
  case UNKNOWN:
    break;
  }
  return 0;
}

tn_work_t tn_work_of(const tenon_op_t *op, const tn_size_t *sizes) {
  tn_work_t work = {0, 0};
  if (op->is_view) return work;
  const counted_t *how = find_counted(op);
  double made = 0;
  for (uint32_t o = 0; o < op->output_count; o++)
    made += tn_size_bytes(&sizes[op->input_count + o]);
  for (uint32_t i = 0; i < op->input_count; i++) {
    const double bytes = tn_size_bytes(&sizes[i]);
    work.bytes += i == 0 && how->is_lookup && bytes > made ? made : bytes;
  }
  work.bytes += made;
  work.operations = operations_of(how, op, sizes);
  return work;
}

tn_size_t tn_size_of_tensor(const tenon_tensor_t *tensor) {
  if (!tensor) return (tn_size_t){0};
  if (!tn_dtype_is(tensor->dtype, TENON_LIST)) {
    tn_size_t size = tn_size_of_scalar(tensor->dtype);
    for (int32_t i = 0; i < tensor->ndim; i++)
      tn_size_add_axis(&size, (double)tensor->shape[i]);
    return size;
  }
  double bytes = 0;
  for (int64_t i = 0; i < tensor->shape[0]; i++) {
    const tn_size_t item = tn_size_of_tensor(tenon_item(tensor, i));
    bytes += tn_size_bytes(&item);
  }
  return (tn_size_t){0, 1, bytes, 1, 1, 1};
}

tn_work_t tn_work_of_tensors(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                             tenon_tensor_t *const *outputs) {
  enum { MOST = 128 }; /* a schema has at most 64 inputs and 64 outputs */
  tn_size_t sizes[MOST] = {{0}};
  for (uint32_t i = 0; i < op->input_count; i++)
    sizes[i] = tn_size_of_tensor(inputs[i]);
  for (uint32_t o = 0; o < op->output_count; o++)
    sizes[op->input_count + o] = tn_size_of_tensor(outputs[o]);
  return tn_work_of(op, sizes);
}
