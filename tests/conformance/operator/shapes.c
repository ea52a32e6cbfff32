/* Compares infer with symbolic extents, and with unknown values, with infer with numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scratch.h"
#include "core/dtype.h"
#include "dispatch/infer.h"
#include "dispatch/services.h"
#include "run.h"

enum { SYMBOLS = 256 };

typedef struct symbols_t {
  tenon_shapes_t *shapes;
  int32_t count;
  tenon_dim_t dims[SYMBOLS];
  int64_t numbers[SYMBOLS]; /* the number that each symbol stands for */
} symbols_t;

/* Returns a symbol for the extent; equal extents share a symbol, as in a graph with named axes. */
static tenon_dim_t symbol_for(symbols_t *s, int64_t number) {
  if (number <= 1) return tenon_extent(number);
  for (int32_t i = 0; i < s->count; i++)
    if (s->numbers[i] == number) return s->dims[i];
  if (s->count == SYMBOLS || tenon_shapes_symbol(s->shapes, &s->dims[s->count]) != TENON_OK)
    return tenon_extent(number);
  s->numbers[s->count] = number;
  return s->dims[s->count++];
}

/* Evaluates an extent with the numbers that symbols stand for; -1 if only run knows it. */
static int64_t value_of(const symbols_t *s, tenon_dim_t dim, int depth) {
  if (tenon_is_known(dim)) return dim.value;
  for (int32_t i = 0; i < s->count; i++)
    if (s->dims[i].value == dim.value) return s->numbers[i];
  tenon_part_t part = {.size = sizeof part};
  if (depth > 30 || tenon_shapes_part(s->shapes, dim, &part) != TENON_OK ||
      part.kind == TENON_PART_FOUND)
    return -1;
  if (part.kind == TENON_PART_NUMBER) return part.a.value;
  if (part.kind == TENON_PART_SYMBOL) {
    for (int32_t i = 0; i < s->count; i++) { /* symbols of the same class */
      tenon_part_t of = {.size = sizeof of};
      if (tenon_shapes_part(s->shapes, s->dims[i], &of) == TENON_OK && of.a.value == part.a.value)
        return s->numbers[i];
    }
    return -1;
  }
  tn_inference_t f = {.extents = NULL};
  tenon_infer_t *infer = &f.infer;
  int64_t a = value_of(s, part.a, depth + 1);
  int64_t b = value_of(s, part.b, depth + 1);
  if (a < 0 || b < 0) return -1;
  infer->host = &tn_host;
  tenon_dim_t made = tn_dim(infer, part.operation, tenon_extent(a), tenon_extent(b));
  return f.status == TENON_OK && tenon_is_known(made) ? made.value : -1;
}

/* Makes metas of the inputs, with symbols if `s` is not NULL, without values if `hides`. */
static bool make_metas(const example_t *t, symbols_t *s, bool hides, tenon_meta_t ***out) {
  const tenon_op_t *op = t->op;
  if (tn_metas_of_inputs(op, t->inputs, out) != TENON_OK) return false;
  for (uint32_t i = 0; i < op->input_count; i++) {
    tenon_meta_t *m = (*out)[i];
    bool known = op->where && op->where[i] & TN_INPUT_KNOWN;
    if (!m || m->items) continue;
    if (hides) {
      m->value = NULL;
      m->values = NULL;
      m->value_count = 0;
    }
    if (!s || m->ndim < 1 || known || op->schema.inputs[i].is_host) continue;
    tenon_dim_t *dims = tn_scratch((size_t)m->ndim * sizeof *dims);
    for (int32_t d = 0; d < m->ndim && dims; d++)
      dims[d] = symbol_for(s, m->dims[d].value);
    if (dims) {
      m->dims = dims;
      m->strides = NULL;
    }
  }
  return true;
}

static bool is_fully_stated(const example_t *t) { /* no shape depends on values */
  for (uint32_t i = 0; i < t->op->input_count; i++)
    if (t->op->where && t->op->where[i] & TN_INPUT_KNOWN && t->inputs[i]) return false;
  return true;
}

static void compare_shapes(const example_t *t, const symbols_t *s,
                           const tenon_meta_t *const *symbolic, const ran_t *ran) {
  for (uint32_t o = 0; o < t->op->output_count; o++) {
    const tenon_meta_t *m = symbolic[o];
    const tenon_tensor_t *r = ran->outputs[o];
    const char *name = t->op->schema.outputs[o].name;
    if (!m || !r || m->items || m->ndim < 0) continue;
    if (m->ndim != r->ndim) {
      finding(t, "shapes.symbolic", "infer returns the same shapes with symbols as with numbers",
              "let the rank depend on the number of extents, not on their values",
              "result %s has %d axes with symbols, %d with numbers", name, m->ndim, r->ndim);
      continue;
    }
    for (int32_t d = 0; d < m->ndim; d++) {
      int64_t extent = value_of(s, m->dims[d], 0);
      if (extent >= 0 && extent != r->shape[d])
        finding(t, "shapes.symbolic", "infer returns the same shapes with symbols as with numbers",
                "compute extents by tenon_dim() only",
                "result %s: axis %d is %lld according to infer with symbols, and %lld in the call",
                name, d, (long long)extent, (long long)r->shape[d]);
    }
    if (m->dtype.bits && !tn_dtype_same(m->dtype, r->dtype))
      finding(t, "types.infer", "infer states the dtype that results have",
              "correct infer or TENON_TYPES", "result %s is %s, infer states %s", name,
              tn_dtype_name(r->dtype), tn_dtype_name(m->dtype));
  }
}

static void check_symbolic(const subject_t *subject) {
  examples_t all = examples(subject, true);
  for (example_t *t; (t = examples_next(&all));) {
    symbols_t s = {.count = 0};
    tenon_meta_t **metas;
    const tenon_meta_t *const *results;
    char text[1400];
    ran_t ran;
    if (tenon_shapes_create(&s.shapes) != TENON_OK) continue;
    run_plainly(t, &ran);
    example_describe(t, NULL, text, sizeof text);
    doing(t, "shapes.symbolic", text);
    tn_scratch_mark_t mark = tn_scratch_mark();
    bool made = make_metas(t, &s, false, &metas) && ran.status == TENON_OK;
    tenon_status_t status =
        made ? tenon_shapes_infer(s.shapes, t->op, t->attrs, metas, 0, &results) : TENON_OK;
    if (made && status == TENON_OK)
      compare_shapes(t, &s, results, &ran);
    else if (made && status != TENON_UNIMPLEMENTED && is_fully_stated(t))
      finding(t, "shapes.symbolic", "infer accepts extents that are not known yet",
              "compute extents by tenon_dim(), and check tenon_is_known before reading a number",
              "with symbolic extents it fails: %s", tenon_error());
    tn_scratch_reset(mark);
    tenon_shapes_release(s.shapes);
    ran_free(&ran);
  }
}

/* If values are missing, infer may refuse the call or leave extents to run, but it must not read
 * them. */
static void check_unknown(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_next(&all));) {
    tenon_shapes_t *shapes;
    tenon_meta_t **metas;
    const tenon_meta_t *const *results;
    if (tenon_shapes_create(&shapes) != TENON_OK) continue;
    doing(t, NULL, "infer, with unknown input values");
    tn_scratch_mark_t mark = tn_scratch_mark();
    if (make_metas(t, NULL, true, &metas))
      (void)tenon_shapes_infer(shapes, t->op, t->attrs, metas, 0, &results);
    tn_scratch_reset(mark);
    tenon_shapes_release(shapes);
  }
}

static const char *lacks_infer(const subject_t *s) {
  return s->op->infer ? NULL : "it has no infer function of its own";
}
static const char *lacks_shapes(const subject_t *s) {
  return s->op->infer || s->op->shapes.text || s->op->traits & TENON_POINTWISE
             ? NULL
             : "its shapes are those of its parts";
}

const check_t checks_shapes[] = {
    {"shapes.infer", "Infer returns the same shapes with symbolic extents as with numbers.",
     "shapes.symbolic types.infer", lacks_shapes, check_symbolic},
    {"shapes.unknown", "Infer works if the values of inputs are unknown.", NULL, lacks_infer,
     check_unknown},
    {NULL, NULL, NULL, NULL, NULL}};
