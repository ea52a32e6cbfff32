/* Iterates over the calls to try; see example.h. First come the example calls in their preferred
 * dtypes, then the first example in each other dtype of each type variable, one variable at a
 * time. */
#include "example.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/dtype.h"
#include "core/value.h"
#include "inspect/example_fill.h"

enum { ELEMENTS_MOST = 1 << 18 };

static bool make_inputs(example_t *t) {
  t->is_taken = tn_example_inputs(&t->plan, t->seed, t->inputs) == TENON_OK;
  if (t->is_taken) t->is_taken = tn_example_infer(&t->plan, t->inputs) == TENON_OK;
  snprintf(t->why, sizeof t->why, "%s", t->is_taken ? "" : tenon_error());
  return t->is_taken;
}

static void place_attributes(example_t *t) {
  const uint32_t count = t->op->schema.attr_count;
  tenon_value_t *attrs;
  guard_free(t->attr_guard);
  t->attr_guard = guard_attributes(count, &attrs);
  if (attrs && count) memcpy(attrs, t->plan.attrs, count * sizeof *attrs);
  t->attrs = attrs ? attrs : t->plan.attrs;
}

bool example_make(const subject_t *subject, const tn_example_options_t *options_, uint64_t seed,
                  const char *label, example_t *t) {
  memset(t, 0, sizeof *t);
  t->subject = subject;
  t->op = subject->op;
  t->seed = seed;
  snprintf(t->label, sizeof t->label, "%s", label);
  if (tn_example_plan(t->op, options_, &t->arena, &t->plan) != TENON_OK) {
    snprintf(t->why, sizeof t->why, "%s", tenon_error());
    tn_arena_clear(&t->arena);
    return false;
  }
  place_attributes(t);
  int64_t count = 0;
  for (uint32_t i = 0; i < t->op->input_count; i++)
    for (uint32_t k = 0; k < t->plan.inputs[i].count; k++) {
      int64_t of =
          tn_shape_count(t->plan.inputs[i].tensors[k].ndim, t->plan.inputs[i].tensors[k].shape);
      count = of < 0 || of > ELEMENTS_MOST ? ELEMENTS_MOST + 1 : count + of;
    }
  if (count <= ELEMENTS_MOST)
    make_inputs(t);
  else
    snprintf(t->why, sizeof t->why, "more than %d elements", ELEMENTS_MOST);
  return true;
}

static void drop_inputs(example_t *t) {
  for (uint32_t i = 0; i < t->op->input_count && i < EXAMPLE_ARGUMENTS; i++) {
    tenon_tensor_release(t->inputs[i]);
    t->inputs[i] = NULL;
  }
}

bool example_remake(example_t *t) {
  drop_inputs(t);
  place_attributes(t);
  return make_inputs(t);
}

void example_free(example_t *t) {
  if (!t->op) return;
  drop_inputs(t);
  guard_free(t->attr_guard);
  t->attr_guard = NULL;
  tn_arena_clear(&t->arena);
  t->op = NULL;
}

examples_t examples(const subject_t *subject, bool every_dtype) {
  examples_t all = {.subject = subject, .every_dtype = every_dtype};
  return all;
}

/* Returns the `at`-th dtype among the dtypes of all type variables, and its variable. */
static bool dtype_at(const tenon_op_t *op, uint32_t at, uint32_t *out_variable,
                     tenon_dtype_t *out_dtype) {
  for (uint32_t v = 0; v < op->types.variable_count; v++)
    for (int d = 0; d < TN_DTYPE_LIST; d++)
      if (op->types.sets[v] >> d & 1 && at-- == 0) {
        *out_variable = v;
        *out_dtype = tn_dtype_at(d);
        return true;
      }
  return false;
}

/* Whether an example call states this dtype. Then that example is used for it. */
static bool is_stated(const tenon_op_t *op, uint32_t variable, tenon_dtype_t dtype) {
  for (uint32_t s = 0; s < op->samples.count; s++)
    for (uint32_t i = 0; i < op->input_count; i++) {
      const tn_sample_input_t *input = &op->samples.calls[s].inputs[i];
      const tn_type_source_t *source = &op->types.inputs[i];
      if (source->kind == TN_TYPE_VARIABLE && source->index == (int32_t)variable &&
          input->form == TN_SAMPLE_GIVEN && input->count &&
          tn_dtype_same(input->tensors->dtype, dtype))
        return true;
    }
  return false;
}

static void print_label(char *out, size_t size, const tenon_op_t *op, uint32_t sample,
                        uint32_t variable, tenon_dtype_t dtype) {
  size_t used = 0;
  if (tn_example_count(op) > 1) used = (size_t)snprintf(out, size, "%u.", sample);
  if (variable) used += (size_t)snprintf(out + used, size - used, "%s=", op->types.names[variable]);
  snprintf(out + used, size - used, "%s", dtype.bits ? tn_dtype_name(dtype) : "all");
}

example_t *examples_any(examples_t *all) {
  const tenon_op_t *op = all->subject->op;
  uint32_t samples = tn_example_count(op);
  tenon_dtype_t dtypes[TN_TYPE_VARIABLES];
  example_free(&all->now);
  for (;;) {
    uint32_t at = all->at++;
    uint32_t variable = 0;
    tenon_dtype_t dtype = {0, 0, 0};
    char label[96];
    memset(dtypes, 0, sizeof dtypes);
    tn_example_options_t o = {.index = at < samples ? at : 0, .dtypes = dtypes, .rank = -1};
    if (at >= samples) {
      if (!all->every_dtype || !dtype_at(op, at - samples, &variable, &dtype)) return NULL;
      if (tn_dtype_is(dtype, TENON_LIST) || is_stated(op, variable, dtype)) continue;
      dtypes[variable] = dtype;
    }
    bool is_made = example_make(all->subject, &o, options.seed, "", &all->now);
    example_t *t = &all->now;
    if (at < samples && is_made && op->types.variable_count) dtype = t->plan.variables[0];
    print_label(label, sizeof label, op, o.index, at < samples ? 0 : variable, dtype);
    snprintf(t->label, sizeof t->label, "%s", label);
    if (!is_label_chosen(label)) {
      if (is_made) example_free(t);
      t->op = NULL;
      continue;
    }
    if (!is_made) {
      t->op = op;
      return t;
    }
    bool is_first = at == 0;
    bool is_other = false;
    for (uint32_t v = 0; at >= samples && v < op->types.variable_count; v++)
      is_other |= v == variable && tn_dtype_same(t->plan.variables[v], dtype);
    if (at >= samples && !is_other) { /* the example states another dtype */
      example_free(t);
      continue;
    }
    if (at >= samples && !is_first) { /* the preferred dtype was tried before */
      example_t preferred;
      tn_example_options_t plain = {.rank = -1};
      bool same = example_make(all->subject, &plain, options.seed, "", &preferred) &&
                  tn_dtype_same(preferred.plan.variables[variable], dtype);
      example_free(&preferred);
      if (same) {
        example_free(t);
        continue;
      }
    }
    return t;
  }
}

example_t *examples_next(examples_t *all) {
  example_t *t;
  while ((t = examples_any(all)) && !t->is_taken)
    continue;
  return t;
}

static void describe_tensor(tn_text_t *text, const tenon_tensor_t *t) {
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    for (int64_t i = 0; i < t->shape[0]; i++) {
      tn_text_add(text, i ? ", " : "(");
      describe_tensor(text, tenon_item(t, i));
    }
    tn_text_add(text, t->shape[0] ? ")" : "()");
    return;
  }
  char shape[400];
  tn_text_add(text, "%s%s", tn_dtype_name(t->dtype),
              tn_shape_print(t->ndim, t->shape, shape, sizeof shape));
  if (!tn_is_dense(t->ndim, t->shape, t->strides))
    tn_text_add(text, " with strides %s", tn_shape_print(t->ndim, t->strides, shape, sizeof shape));
}

void example_describe(const example_t *t, tenon_tensor_t *const *inputs, char *out,
                      size_t capacity) {
  const tn_schema_t *schema = &t->op->schema;
  tn_text_t text = {0};
  bool any = false;
  if (!inputs) inputs = t->inputs;
  tn_text_add(&text, "%s(", t->subject->name);
  for (uint32_t i = 0; i < schema->input_count; i++) {
    if (!inputs[i]) continue;
    tn_text_add(&text, "%s%s: ", any ? ", " : "", schema->inputs[i].name);
    describe_tensor(&text, inputs[i]);
    any = true;
  }
  for (uint32_t i = 0; i < schema->attr_count && t->attrs; i++) {
    if (t->attrs[i].kind == TENON_KIND_NONE) continue;
    tn_text_add(&text, "%s%s=", any ? ", " : "", schema->attrs[i].name);
    tn_value_print(&schema->attrs[i], &t->attrs[i], &text);
    any = true;
  }
  tn_text_add(&text, ")");
  snprintf(out, capacity, "%s", tn_text_get(&text));
  tn_text_clear(&text);
}

bool is_sample_good(const example_t *t) {
  if (t->is_taken) return true;
  if (t->op->samples.count)
    finding(t, "samples.valid", "infer accepts the calls that TENON_SAMPLES declares",
            "correct TENON_SAMPLES or infer", "%s", t->why);
  else
    note(t, "samples.missing", "no call could be made, so little was checked: %s", t->why);
  return false;
}
