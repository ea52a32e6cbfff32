/* Checks tensors without elements, tensors without axes, and broadcasting. */
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "run.h"

/* Compares with the reference if there is one; else the call only has to return. The call may fail,
 * because only run knows whether the elements of its inputs fit together. */
static void try_call(example_t *t, const char *what) {
  ran_t ran, expected;
  run_way(t, &(way_t){.provides_outputs = true, .place = AT_TAIL, .poison = 0x55}, &ran);
  if (t->subject->reference) {
    run_way(t, &(way_t){.op = t->subject->reference}, &expected);
    const char *differs = NULL;
    if (expected.status == TENON_OK)
      differs = ran.status != TENON_OK ? ran.error : ran_differs(t, &expected, &ran, 4);
    if (differs) finding(t, NULL, what, "compare with the reference", "%s", differs);
    ran_free(&expected);
  }
  ran_free(&ran);
}

static void check_zero(const subject_t *subject) {
  for (uint32_t sample = 0; sample < tn_example_count(subject->op); sample++) {
    example_t first;
    tn_example_options_t plain = {.index = sample, .rank = -1};
    if (!example_make(subject, &plain, options.seed, "", &first)) continue;
    for (uint32_t n = 0; n < first.plan.name_count; n++) {
      const tn_example_name_t *name = &first.plan.names[n];
      int64_t none = 0;
      char label[96];
      if (!name->is_free) continue;
      snprintf(label, sizeof label, "%s%.60s=0", sample ? "1." : "", name->name);
      for (char *c = label; *c; c++)
        if (*c == ' ') *c = '_';
      tn_example_options_t o = {
          .index = sample, .rank = -1, .name_count = 1, .names = &name->name, .extents = &none};
      example_t t;
      if (example_make(subject, &o, options.seed, label, &t) && t.is_taken &&
          is_label_chosen(label))
        try_call(&t, "a call without elements returns what the reference returns");
      example_free(&t);
    }
    example_free(&first);
  }
}

static void check_scalar(const subject_t *subject) {
  example_t t;
  tn_example_options_t o = {.rank = 0};
  if (example_make(subject, &o, options.seed, "no_axes", &t) && t.is_taken)
    try_call(&t, "a call with tensors without axes returns what the reference returns");
  example_free(&t);
}

/* Expands `from` to `shape`, which has at least as many axes, by repeating elements. */
static tenon_tensor_t *expand_tensor(const tenon_tensor_t *from, int32_t ndim,
                                     const int64_t *shape) {
  tenon_tensor_t *out;
  size_t size = from->dtype.bits / 8u;
  if (tenon_tensor_create(from->dtype, ndim, shape, &out) != TENON_OK) return NULL;
  for (int64_t i = 0; i < tenon_count(out); i++) {
    int64_t rest = i;
    int64_t at = 0;
    int64_t step = 1;
    for (int32_t d = ndim - 1, k = from->ndim - 1; d >= 0; d--, k--) {
      int64_t index = rest % shape[d];
      rest /= shape[d];
      if (k < 0) continue;
      at += from->shape[k] == 1 ? 0 : index * step;
      step *= from->shape[k];
    }
    memcpy((char *)out->data + (size_t)i * size, (const char *)from->data + (size_t)at * size,
           size);
  }
  return out;
}

/* If the shapes differ, the input was not broadcast: the result has shrunk with it. */
static bool have_same_shapes(const example_t *t, const ran_t *a, const ran_t *b) {
  for (uint32_t o = 0; o < t->op->output_count; o++) {
    const tenon_tensor_t *x = a->outputs[o];
    const tenon_tensor_t *y = b->outputs[o];
    if (x && y &&
        (x->ndim != y->ndim || memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) != 0))
      return false;
  }
  return true;
}

/* Calls with one input that has fewer or shorter axes, and compares with a call in which that input
 * is expanded. */
static void broadcast_input(const subject_t *subject, uint32_t index, example_t *t, int how) {
  tn_example_tensor_t *plan = t->plan.inputs[index].tensors;
  int64_t full[TENON_RANK_MAX];
  int32_t ndim = plan->ndim;
  char label[96];
  bool by_pattern = subject->op->shapes.text != NULL;
  const tn_pattern_t *pattern = &subject->op->shapes.inputs[index];
  int32_t leading = by_pattern ? ndim - pattern->count : ndim;
  memcpy(full, plan->shape, (size_t)ndim * sizeof *full);
  if (leading < 1 || tn_dtype_is(plan->dtype, TENON_STRING) || plan->dtype.bits < 8) return;
  if (how == 0)
    plan->shape[0] = 1;
  else if (how > 3 && how - 3 < leading && ndim < TENON_RANK_MAX)
    plan->shape[how - 3] = 1;
  else if (how == 1) {
    plan->ndim--;
    memmove(plan->shape, plan->shape + 1, (size_t)plan->ndim * sizeof *full);
  } else if (!by_pattern && how == 2)
    plan->shape[ndim - 1] = 1;
  else if (!by_pattern && how == 3)
    plan->ndim = 0;
  else
    return;
  snprintf(label, sizeof label, "%s.%d", subject->op->schema.inputs[index].name, how);
  snprintf(t->label, sizeof t->label, "%s", label);
  if (!is_label_chosen(label) || !example_remake(t)) return;
  ran_t narrow, wide;
  bool has_row = false;
  for (const tn_kernel_t *k = subject->op->kernels; k; k = k->next)
    has_row |= k->kind == TN_KIND_ROW;
  const char *id = has_row ? "broadcast.rows" : "broadcast.values";
  run_way(t, &(way_t){.provides_outputs = true, .place = AT_TAIL, .poison = 0x55, .crash_id = id},
          &narrow);
  tenon_tensor_t *small = t->inputs[index];
  tenon_tensor_t *large = expand_tensor(small, ndim, full);
  t->inputs[index] = large;
  run_plainly(t, &wide);
  t->inputs[index] = small;
  tenon_tensor_release(large);
  const char *differs = NULL;
  if (narrow.status != TENON_OK)
    differs = has_row ? NULL : narrow.error; /* row kernels follow the extents of the first input */
  else if (wide.status == TENON_OK && have_same_shapes(t, &wide, &narrow))
    differs = ran_differs(t, &wide, &narrow, 1);
  if (differs)
    finding(t, id, "a call with a broadcast input returns what it returns with that input expanded",
            "check the code that assumes strides other than 0", "%s", differs);
  ran_free(&narrow);
  ran_free(&wide);
}

static void check_broadcast(const subject_t *subject) {
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    for (int how = 0; how < 6; how++) {
      example_t t;
      tn_example_options_t o = {.rank = subject->op->shapes.text ? -1 : 3};
      if (subject->op->schema.inputs[i].kind != TENON_KIND_TENSOR ||
          subject->op->schema.inputs[i].is_host)
        continue;
      if (example_make(subject, &o, options.seed, "", &t) && t.is_taken && t.inputs[i])
        broadcast_input(subject, i, &t, how);
      example_free(&t);
    }
}

static const char *lacks_broadcast(const subject_t *s) {
  const tenon_op_t *op = s->op;
  bool leading = false;
  uint32_t tensors = 0;
  for (uint32_t i = 0; i < op->input_count; i++) {
    tensors += !op->schema.inputs[i].is_optional;
    leading |= op->shapes.text && op->shapes.inputs[i].has_leading;
    if (op->schema.inputs[i].is_written) return "it writes to inputs";
  }
  if (!subject_is_pure(s) || op->traits & TENON_RANDOM)
    return "its results do not depend on its arguments alone";
  return tensors > 1 && (op->traits & TENON_POINTWISE || leading) ? NULL : "no input is broadcast";
}
static const char *lacks_inputs(const subject_t *s) {
  return s->op->input_count ? NULL : "it has no tensor arguments";
}

const check_t checks_sizes[] = {
    {"size.zero", "Extents of 0, one at a time.", NULL, NULL, check_zero},
    {"size.scalar", "Tensors without axes.", NULL, lacks_inputs, check_scalar},
    {"broadcast.values", "Broadcast inputs give the same results as expanded ones.",
     "broadcast.rows", lacks_broadcast, check_broadcast},
    {NULL, NULL, NULL, NULL, NULL}};
