/* The elements of the tensors of example calls.  Numbers depend on seed, stream and position
 * alone. */
#include "inspect/example_fill.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "core/element.h"
#include "core/tensor.h"

/* The number of elements that are drawn; further elements repeat them. It is a prime, so that the
 * repetitions do not begin at round offsets. */
enum { PERIOD = 16381 };

typedef struct draw_t {
  uint64_t seed;
  uint64_t first;
} draw_t;

/* A number in (0, 1). */
static double unit(const draw_t *draw, uint64_t index) {
  return ((double)tenon_random(draw->seed, draw->first + index) + 0.5) / 4294967296.0;
}

/* A normally distributed number (Box and Muller). */
static double normal(const draw_t *draw, uint64_t index) {
  return sqrt(-2 * log(unit(draw, 2 * index))) * cos(6.283185307179586 * unit(draw, 2 * index + 1));
}

static bool is_real(tenon_dtype_t dtype) {
  return dtype.code == 2 || dtype.code == 4 || dtype.code == 5 || dtype.code >= 7;
}

static double usual(tenon_dtype_t dtype, const draw_t *draw, uint64_t i) {
  if (is_real(dtype)) return normal(draw, i);
  if (tn_dtype_is(dtype, TENON_BOOL)) return unit(draw, i) < 0.5;
  /* Never zero, since kernels may divide by it; small, since it may be an index. */
  return floor(1 + 3 * unit(draw, i));
}

static double number(const tn_example_fill_t *fill, tenon_dtype_t dtype, const draw_t *draw,
                     uint64_t i) {
  switch (fill->kind) {
  case TN_FILL_NORMAL:
    return normal(draw, i);
  case TN_FILL_UNIFORM:
    return fill->low + (fill->high - fill->low) * unit(draw, i);
  case TN_FILL_INTEGERS:
    return floor(fill->low + (fill->high - fill->low) * unit(draw, i));
  case TN_FILL_ZEROS:
    return 0;
  case TN_FILL_ONES:
    return 1;
  case TN_FILL_LIST:
    return fill->count ? fill->numbers[i % fill->count] : 0;
  default:
    return usual(dtype, draw, i);
  }
}

/* Fills each row with a random permutation (Fisher and Yates). */
static void permute(tenon_tensor_t *t, const draw_t *draw) {
  int64_t width = t->ndim ? t->shape[t->ndim - 1] : 1;
  int64_t rows = width ? tenon_count(t) / width : 0;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < width; i++)
      tn_element_put(t->dtype, t->data, r * width + i, (double)i, 0);
    for (int64_t i = width - 1; i > 0; i--) {
      int64_t a = r * width + i;
      int64_t b = r * width + (int64_t)(unit(draw, (uint64_t)a) * (double)(i + 1));
      double x = tn_element_get(t->dtype, t->data, a, NULL);
      double y = tn_element_get(t->dtype, t->data, b, NULL);
      tn_element_put(t->dtype, t->data, a, y, 0);
      tn_element_put(t->dtype, t->data, b, x, 0);
    }
  }
}

static tenon_status_t fill_texts(const tn_example_fill_t *fill, const draw_t *draw,
                                 tenon_tensor_t *t) {
  int64_t count = tenon_count(t);
  for (int64_t i = 0; i < count; i++) {
    char letter = (char)('a' + (int)(26 * unit(draw, (uint64_t)i)));
    tenon_string_t text = {&letter, 1};
    if (fill->texts) text = fill->texts[(uint64_t)i % fill->count];
    TN_TRY(tenon_tensor_set_string(t, i, text.data, text.size));
  }
  return TENON_OK;
}

tenon_status_t tn_example_fill(const tn_example_fill_t *fill, uint64_t seed, uint32_t stream,
                               tenon_tensor_t *t) {
  draw_t draw = {seed, (uint64_t)stream << 40};
  int64_t count = tenon_count(t);
  if (tn_dtype_is(t->dtype, TENON_STRING)) return fill_texts(fill, &draw, t);
  if (fill->texts)
    return tn_fail(TENON_INVALID, "texts for a tensor of %s", tn_dtype_name(t->dtype));
  if (fill->kind == TN_FILL_PERMUTATION) {
    permute(t, &draw);
    return TENON_OK;
  }
  bool repeats = fill->kind != TN_FILL_LIST && t->dtype.bits >= 8;
  int64_t drawn = count < PERIOD || !repeats ? count : PERIOD;
  bool is_complex = t->dtype.code == 5;
  for (int64_t i = 0; i < drawn; i++)
    tn_element_put(t->dtype, t->data, i, number(fill, t->dtype, &draw, (uint64_t)i),
                   is_complex ? number(fill, t->dtype, &draw, (uint64_t)(i + drawn)) : 0);
  uint64_t size = (uint64_t)t->dtype.bits / 8;
  for (int64_t done = drawn; done < count; done += drawn)
    memcpy((char *)t->data + (uint64_t)done * size, t->data,
           (uint64_t)(count - done < drawn ? count - done : drawn) * size);
  return TENON_OK;
}

/* the inputs of a call */

static tenon_status_t make_tensor(const tn_example_tensor_t *plan, uint64_t seed, uint32_t stream,
                                  tenon_tensor_t **out_tensor) {
  TN_TRY(tenon_tensor_create(plan->dtype, plan->ndim, plan->shape, out_tensor));
  tenon_status_t status = tn_example_fill(&plan->fill, seed, stream, *out_tensor);
  if (status != TENON_OK) {
    tenon_tensor_release(*out_tensor);
    *out_tensor = NULL;
  }
  return status;
}

static tenon_status_t make_list(const tn_example_input_t *plan, uint64_t seed, uint32_t stream,
                                tenon_tensor_t **out) {
  enum { MOST = 64 };
  tenon_tensor_t *items[MOST] = {NULL};
  tenon_status_t status = TENON_OK;
  if (plan->count > MOST)
    return tn_fail(TENON_INVALID, "samples: a list of more than %d tensors", MOST);
  for (uint32_t k = 0; k < plan->count && status == TENON_OK; k++)
    status = make_tensor(&plan->tensors[k], seed, stream + k, &items[k]);
  if (status == TENON_OK) status = tenon_tensor_list(items, (int32_t)plan->count, out);
  for (uint32_t k = 0; k < plan->count; k++)
    tenon_tensor_release(items[k]);
  return status;
}

tenon_status_t tn_example_inputs(const tn_example_t *example, uint64_t seed,
                                 tenon_tensor_t **out_inputs) {
  const tenon_op_t *op = example->op;
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < op->input_count; i++)
    out_inputs[i] = NULL;
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++) {
    const tn_example_input_t *plan = &example->inputs[i];
    if (!plan->is_given) continue;
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS)
      status = make_list(plan, seed, i << 8, &out_inputs[i]);
    else
      status = make_tensor(plan->tensors, seed, i << 8, &out_inputs[i]);
  }
  for (uint32_t i = 0; i < op->input_count && status != TENON_OK; i++) {
    tenon_tensor_release(out_inputs[i]);
    out_inputs[i] = NULL;
  }
  return status;
}
