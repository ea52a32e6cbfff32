/* Plans example calls; see example.h. A plan fixes the attributes first, then the dtypes of type
 * variables, then the inputs that SAMPLES state, and last the other inputs, by the names of SHAPES.
 * Invariant: a plan that was returned has a shape for each input. */
#include "inspect/example.h"

#include <inttypes.h>
#include <string.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/value.h"
#include "dispatch/infer.h"
#include "inspect/example_fill.h"
#include "operator/attrs.h"
#include "operator/state.h"

typedef struct plan_t {
  const tenon_op_t *op;
  const tn_example_options_t *options;
  tn_arena_t *arena;
  tn_example_t *example;
  int32_t rank;
} plan_t;

uint32_t tn_example_count(const tenon_op_t *op) {
  return op->samples.count ? op->samples.count : 1;
}

/* attributes */

/* A value for an attribute to which the schema gives no default. */
static tenon_status_t required(const tenon_op_t *op, const tn_argument_t *attr,
                               tenon_value_t *out) {
  static const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  static const tenon_dim_t dims[8] = {{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}};
  static const double floats[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  uint32_t count = attr->count < 0 ? 2 : (uint32_t)attr->count;
  *out = (tenon_value_t){.kind = attr->kind, .count = 0};
  switch (attr->kind) {
  case TENON_KIND_BOOL:
    return TENON_OK;
  case TENON_KIND_CHOICE:
    /* The first choice. */
    return TENON_OK;
  case TENON_KIND_INT:
    out->as.i = 1;
    return TENON_OK;
  case TENON_KIND_DIM:
    out->as.dim = tenon_extent(1);
    return TENON_OK;
  case TENON_KIND_FLOAT:
    out->as.f = 1;
    return TENON_OK;
  case TENON_KIND_STR:
    out->as.s = "a";
    out->count = 1;
    return TENON_OK;
  case TENON_KIND_DTYPE:
    out->as.dtype = tenon_dtype(TENON_F32);
    return TENON_OK;
  case TENON_KIND_DEVICE:
    out->as.device = (tenon_device_t){1, 0};
    return TENON_OK;
  case TENON_KIND_INTS:
    out->as.ints = ones;
    break;
  case TENON_KIND_DIMS:
    out->as.dims = dims;
    break;
  case TENON_KIND_FLOATS:
    out->as.floats = floats;
    break;
  default:
    count = 9;
  }
  out->count = count;
  if (count <= 8) return TENON_OK;
  return tn_fail(TENON_UNIMPLEMENTED,
                 "%s: nothing says what attribute %s may be (%s): add TENON_SAMPLES", op->name,
                 attr->name, tn_kind_name(attr->kind));
}

static bool names_extent(const tn_example_t *example, uint32_t attr) {
  const tn_patterns_t *shapes = &example->op->shapes;
  for (uint32_t i = 0; example->sample && i < example->sample->name_count; i++)
    if (example->sample->name_attrs[i] == (int32_t)attr) return true;
  for (uint32_t i = 0; i < shapes->name_count; i++)
    if (shapes->name_attrs[i] == (int32_t)attr) return true;
  return false;
}

static tenon_status_t plan_attrs(plan_t *p) {
  const tenon_op_t *op = p->op;
  tn_example_t *example = p->example;
  for (uint32_t i = 0; i < op->schema.attr_count; i++) {
    const tn_argument_t *attr = &op->schema.attrs[i];
    tenon_value_t *value = &example->attrs[i];
    *value = op->schema.defaults[i];
    if (p->options->attrs && p->options->attrs[i].kind != TENON_KIND_NONE)
      *value = p->options->attrs[i];
    else if (example->sample && example->sample->has_attr[i] && !p->options->has_defaults)
      *value = example->sample->attrs[i];
    else if (!attr->has_default && !attr->is_optional && !names_extent(example, i))
      TN_TRY(required(op, attr, value));
  }
  return TENON_OK;
}

/* extents by name */

/* The extent that an attribute states; -1: the attribute is no number. */
static int64_t attr_extent(const tenon_value_t *value) {
  if (value->kind == TENON_KIND_INT) return value->as.i;
  return value->kind == TENON_KIND_DIM ? value->as.dim.value : -1;
}

/* The index of a name in the example. A new name gets an extent: the one that an attribute states,
 * or `usual`. Returns -1 if the example has too many names. */
static int32_t place_of_name(plan_t *p, const char *name, int32_t attr, int64_t usual) {
  tn_example_t *example = p->example;
  for (uint32_t i = 0; i < example->name_count; i++)
    if (strcmp(example->names[i].name, name) == 0) return (int32_t)i;
  if (example->name_count == TN_EXAMPLE_NAMES) return -1;
  tn_example_name_t *made = &example->names[example->name_count];
  const tn_example_options_t *o = p->options;
  *made = (tn_example_name_t){name, o->extent ? o->extent : usual, attr, true, false};
  for (uint32_t i = 0; i < o->name_count; i++)
    if (strcmp(o->names[i], name) == 0) made->extent = o->extents[i];
  tenon_value_t *value = attr < 0 ? NULL : &example->attrs[attr];
  const tn_argument_t *argument = attr < 0 ? NULL : &p->op->schema.attrs[attr];
  bool is_stated =
      value && (value->kind != TENON_KIND_NONE || argument->is_optional) && attr_extent(value) >= 0;
  if (is_stated) {
    made->extent = attr_extent(value);
    made->is_free = false;
  } else if (value && !argument->is_optional && argument->kind == TENON_KIND_INT)
    *value = (tenon_value_t){.kind = TENON_KIND_INT, .as.i = made->extent};
  else if (value && !argument->is_optional)
    *value = (tenon_value_t){.kind = TENON_KIND_DIM, .as.dim = {made->extent}};
  return (int32_t)example->name_count++;
}

static int64_t usual_extent(const plan_t *p) { return 4 + (int64_t)(p->example->name_count % 8); }

/* The name of an axis whose extent nothing states. All such inputs share these names. */
static int32_t axis_name(plan_t *p, int32_t axis) {
  static const char *const names[] = {"axis 0", "axis 1", "axis 2", "axis 3",
                                      "axis 4", "axis 5", "axis 6", "axis 7"};
  int32_t at = place_of_name(p, names[axis & 7], -1, usual_extent(p));
  if (at >= 0) p->example->names[at].is_unnamed = true;
  return at;
}

static double amount(plan_t *p, const tn_amount_t *a) {
  if (a->name < 0) return a->number;
  const tn_sample_t *s = p->example->sample;
  int32_t at = place_of_name(p, s->names[a->name], s->name_attrs[a->name], usual_extent(p));
  double extent = at < 0 ? 0 : (double)p->example->names[at].extent;
  return a->is_negative ? -extent : extent;
}

/* dtypes */

static tenon_dtype_t preferred(uint64_t set) {
  static const uint32_t order[] = {TENON_F32, TENON_I64,  TENON_I32,
                                   TENON_F64, TENON_BOOL, TENON_U8};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++)
    if (set >> tn_dtype_index(tenon_dtype(order[i])) & 1) return tenon_dtype(order[i]);
  return set ? tn_dtype_at(__builtin_ctzll(set)) : tenon_dtype(TENON_F32);
}

static tenon_status_t plan_variables(plan_t *p) {
  const tn_types_t *types = &p->op->types;
  char allowed[256];
  for (uint32_t v = 0; v < types->variable_count; v++) {
    tenon_dtype_t asked = p->options->dtypes ? p->options->dtypes[v] : (tenon_dtype_t){0, 0, 0};
    int index = asked.bits ? tn_dtype_index(asked) : -1;
    p->example->variables[v] = asked.bits ? asked : preferred(types->sets[v]);
    if (!asked.bits || (index >= 0 && types->sets[v] >> index & 1)) continue;
    tn_dtype_set_print(types->sets[v], allowed, sizeof allowed);
    return tn_fail(TENON_INVALID, "%s: %s of dtype %s: expected one of %s", p->op->name,
                   types->names[v], tn_dtype_name(asked), allowed);
  }
  /* A dtype that SAMPLES state replaces the preferred one. */
  for (uint32_t i = 0; p->example->sample && i < p->op->input_count; i++) {
    const tn_sample_input_t *input = &p->example->sample->inputs[i];
    const tn_type_source_t *source = &types->inputs[i];
    if (source->kind != TN_TYPE_VARIABLE || input->form != TN_SAMPLE_GIVEN || !input->count)
      continue;
    if (input->tensors->dtype.bits) p->example->variables[source->index] = input->tensors->dtype;
  }
  return TENON_OK;
}

static tenon_dtype_t example_dtype(const plan_t *p, uint32_t input) {
  const tn_type_source_t *source = &p->op->types.inputs[input];
  if (source->kind == TN_TYPE_VARIABLE) return p->example->variables[source->index];
  if (source->kind == TN_TYPE_FIXED) return source->fixed;
  if (source->kind == TN_TYPE_ATTR && p->example->attrs[source->index].kind == TENON_KIND_DTYPE)
    return p->example->attrs[source->index].as.dtype;
  return p->op->types.variable_count ? p->example->variables[0] : tenon_dtype(TENON_F32);
}

/* inputs */

static tenon_status_t no_memory(void) { return tn_no_memory("a call to try", 0); }

static tenon_status_t new_tensors(plan_t *p, uint32_t count, tn_example_input_t *out) {
  *out =
      (tn_example_input_t){true, count, tn_arena_array(p->arena, count + 1, sizeof *out->tensors)};
  if (!out->tensors) return no_memory();
  for (uint32_t k = 0; k < count; k++)
    if (!(out->tensors[k].shape = tn_arena_array(p->arena, TENON_RANK_MAX, sizeof(int64_t))))
      return no_memory();
  return TENON_OK;
}

static tenon_status_t resolve_fill(plan_t *p, const tn_fill_t *fill, tn_example_fill_t *out) {
  *out = (tn_example_fill_t){
      fill->kind, amount(p, &fill->low), amount(p, &fill->high), fill->count, NULL, fill->texts};
  double *numbers =
      fill->numbers ? tn_arena_array(p->arena, fill->count + 1, sizeof *numbers) : NULL;
  if (fill->numbers && !numbers) return no_memory();
  for (uint32_t i = 0; numbers && i < fill->count; i++)
    numbers[i] = amount(p, &fill->numbers[i]);
  out->numbers = numbers;
  return TENON_OK;
}

/* The extent that the caller asks for, if TENON_SHAPES names this axis of an input (counted from
 * the end); else -1. It takes the place of a number in TENON_SAMPLES. */
static int64_t asked_extent(const plan_t *p, uint32_t i, int32_t from_end) {
  const tn_pattern_t *pattern = &p->op->shapes.inputs[i];
  const tn_example_options_t *o = p->options;
  if (!p->op->shapes.text || !pattern->is_given || from_end > pattern->count) return -1;
  const tn_pattern_extent_t *extent = &pattern->extents[pattern->count - from_end];
  for (uint32_t k = 0; k < o->name_count && extent->kind == TN_EXTENT_NAME; k++)
    if (strcmp(o->names[k], p->op->shapes.names[extent->number]) == 0) return o->extents[k];
  return -1;
}

static tenon_status_t plan_stated(plan_t *p, uint32_t i, const tn_sample_input_t *stated) {
  tn_example_input_t *input = &p->example->inputs[i];
  TN_TRY(new_tensors(p, stated->count, input));
  for (uint32_t k = 0; k < stated->count; k++) {
    const tn_sample_tensor_t *from = &stated->tensors[k];
    tn_example_tensor_t *to = &input->tensors[k];
    to->dtype = from->dtype.bits ? from->dtype : example_dtype(p, i);
    to->ndim = from->ndim;
    for (int32_t d = 0; d < from->ndim; d++) {
      int64_t asked = from->extents[d].name < 0 ? asked_extent(p, i, from->ndim - d) : -1;
      to->shape[d] = asked >= 0 ? asked : (int64_t)amount(p, &from->extents[d]);
    }
    TN_TRY(resolve_fill(p, &from->fill, &to->fill));
  }
  return TENON_OK;
}

/* Gives the names of SHAPES the extents that this input has. */
static void bind(plan_t *p, uint32_t i) {
  const tn_pattern_t *pattern = &p->op->shapes.inputs[i];
  const tn_example_input_t *input = &p->example->inputs[i];
  if (!pattern->is_given || !input->is_given || !input->count ||
      input->tensors->ndim < pattern->count)
    return;
  const int64_t *shape = input->tensors->shape + input->tensors->ndim - pattern->count;
  for (int32_t d = 0; d < pattern->count; d++) {
    if (pattern->extents[d].kind != TN_EXTENT_NAME) continue;
    int64_t name = pattern->extents[d].number;
    int32_t at =
        place_of_name(p, p->op->shapes.names[name], p->op->shapes.name_attrs[name], shape[d]);
    if (at >= 0) p->example->names[at].extent = shape[d];
  }
}

static void shape_by_pattern(plan_t *p, const tn_pattern_t *pattern, tn_example_tensor_t *out) {
  out->ndim = pattern->has_leading ? pattern->count + 1 : pattern->count;
  int64_t *shape = out->shape;
  if (pattern->has_leading) {
    int32_t at = place_of_name(p, "...", -1, 2);
    *shape++ = at < 0 ? 2 : p->example->names[at].extent;
  }
  for (int32_t d = 0; d < pattern->count; d++) {
    const tn_pattern_extent_t *e = &pattern->extents[d];
    int32_t at = -1;
    if (e->kind == TN_EXTENT_NAME)
      at = place_of_name(p, p->op->shapes.names[e->number], p->op->shapes.name_attrs[e->number],
                         usual_extent(p));
    else if (e->kind == TN_EXTENT_ANY)
      at = axis_name(p, d);
    if (e->kind == TN_EXTENT_NUMBER)
      shape[d] = e->number;
    else
      shape[d] = at < 0 ? 4 : p->example->names[at].extent;
  }
}

/* The shape of an earlier input, which an input must have. */
static void shape_by_input(const tn_example_input_t *of, tn_example_tensor_t *out) {
  if (!of->is_given || !of->count) return;
  out->ndim = of->tensors->ndim;
  memcpy(out->shape, of->tensors->shape, (size_t)out->ndim * sizeof *out->shape);
}

static uint32_t list_count(const plan_t *p, const tn_argument_t *argument) {
  int64_t count = argument->count_attr >= 0 ? attr_extent(&p->example->attrs[argument->count_attr])
                                            : argument->count;
  return count >= 0 && count <= 64 ? (uint32_t)count : 2;
}

static tenon_status_t plan_unstated(plan_t *p, uint32_t i) {
  const tn_argument_t *argument = &p->op->schema.inputs[i];
  const tn_pattern_t *pattern = &p->op->shapes.inputs[i];
  tn_example_input_t *input = &p->example->inputs[i];
  TN_TRY(new_tensors(p, argument->kind == TENON_KIND_TENSORS ? list_count(p, argument) : 1, input));
  for (uint32_t k = 0; k < input->count; k++) {
    tn_example_tensor_t *tensor = &input->tensors[k];
    tensor->dtype = example_dtype(p, i);
    if (pattern->is_given && p->op->shapes.text && pattern->same_as >= 0)
      shape_by_input(&p->example->inputs[pattern->same_as], tensor);
    else if (pattern->is_given && p->op->shapes.text)
      shape_by_pattern(p, pattern, tensor);
    else if (argument->is_host) {
      /* Most host inputs are an axis or a number: one element. */
      tensor->ndim = 1;
      tensor->shape[0] = 1;
    } else
      for (tensor->ndim = 0; tensor->ndim < p->rank; tensor->ndim++) {
        int32_t at = axis_name(p, tensor->ndim);
        tensor->shape[tensor->ndim] = at < 0 ? 4 : p->example->names[at].extent;
      }
    tensor->fill.kind =
        argument->is_host && tensor->dtype.code <= 1 ? TN_FILL_ZEROS : TN_FILL_USUAL;
  }
  return TENON_OK;
}

static bool is_left_out(const plan_t *p, uint32_t i) {
  const tn_sample_t *sample = p->example->sample;
  if (sample && sample->inputs[i].form == TN_SAMPLE_ABSENT) return true;
  return p->op->schema.inputs[i].is_optional && !(p->options->has >> i & 1);
}

static tenon_status_t plan_with_rank(plan_t *p) {
  const tenon_op_t *op = p->op;
  const tn_sample_t *sample = p->example->sample;
  p->example->name_count = 0;
  TN_TRY(plan_attrs(p));
  TN_TRY(plan_variables(p));
  for (uint32_t i = 0; sample && i < op->input_count; i++) {
    if (sample->inputs[i].form != TN_SAMPLE_GIVEN) continue;
    TN_TRY(plan_stated(p, i, &sample->inputs[i]));
    bind(p, i);
  }
  for (uint32_t i = 0; i < op->input_count; i++) {
    bool is_stated = sample && sample->inputs[i].form == TN_SAMPLE_GIVEN;
    if (is_stated) continue;
    if (is_left_out(p, i))
      p->example->inputs[i] = (tn_example_input_t){false, 0, NULL};
    else
      TN_TRY(plan_unstated(p, i));
  }
  /* Names that only outputs use get extents too, and with them their attributes. */
  for (uint32_t n = 0; n < op->shapes.name_count; n++)
    if (place_of_name(p, op->shapes.names[n], op->shapes.name_attrs[n], usual_extent(p)) < 0) break;
  return TENON_OK;
}

/* Whether the plan depends on a rank that nothing states. */
static bool guesses_rank(const plan_t *p) {
  for (uint32_t i = 0; i < p->op->input_count; i++) {
    bool is_stated = p->example->sample && p->example->sample->inputs[i].form != TN_SAMPLE_UNSTATED;
    bool has_pattern = p->op->shapes.text && p->op->shapes.inputs[i].is_given;
    if (!is_stated && !has_pattern && !p->op->schema.inputs[i].is_host) return true;
  }
  return false;
}

static bool is_taken(const plan_t *p) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_tensor_t **inputs = tn_scratch((p->op->input_count + 1) * sizeof *inputs);
  bool taken = inputs && tn_example_inputs(p->example, 1, inputs) == TENON_OK;
  if (taken) {
    taken = tn_example_infer(p->example, inputs) == TENON_OK;
    for (uint32_t i = 0; i < p->op->input_count; i++)
      tenon_tensor_release(inputs[i]);
  }
  tn_scratch_reset(mark);
  return taken;
}

tenon_status_t tn_example_plan(const tenon_op_t *op, const tn_example_options_t *options,
                               tn_arena_t *arena, tn_example_t *out_example) {
  static const int32_t ranks[] = {2, 3, 4, 1, 0};
  tn_example_options_t small = *options;
  plan_t p = {op, options, arena, out_example, options->rank < 0 ? 2 : options->rank};
  *out_example = (tn_example_t){.op = op};
  if (options->index >= tn_example_count(op))
    return tn_fail(TENON_RANGE, "%s: sample %" PRIu32 ": it has %" PRIu32, op->name, options->index,
                   tn_example_count(op));
  out_example->sample = op->samples.count ? &op->samples.calls[options->index] : NULL;
  out_example->inputs = tn_arena_array(arena, op->input_count + 1, sizeof *out_example->inputs);
  out_example->attrs = tn_arena_array(arena, op->schema.attr_count + 1, sizeof *out_example->attrs);
  if (!out_example->inputs || !out_example->attrs) return no_memory();
  bool searches = options->rank < 0 && !(op->traits & TENON_POINTWISE) && guesses_rank(&p);
  small.extent = 0;
  small.name_count = 0;
  p.options = &small;
  for (size_t r = 0; searches && r < sizeof ranks / sizeof *ranks; r++) {
    p.rank = ranks[r];
    TN_TRY(plan_with_rank(&p));
    if (is_taken(&p)) break;
    p.rank = 2;
  }
  p.options = options;
  return plan_with_rank(&p);
}

tenon_status_t tn_example_infer(const tn_example_t *example, tenon_tensor_t *const *inputs) {
  const tenon_op_t *op = example->op;
  tn_inference_t inference = {.extents = NULL};
  tenon_meta_t **metas, **results;
  void *state = NULL;
  bool knows_shapes =
      op->infer || op->shapes.text || op->traits & TENON_POINTWISE || op->output_count == 0;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = tn_attrs_check(op, example->attrs);
  if (status == TENON_OK && op->create) status = tn_state_get(op, example->attrs, &state);
  if (status == TENON_OK) status = tn_metas_of_inputs(op, inputs, &metas);
  if (status == TENON_OK) status = tn_metas_of_results(op, example->attrs, 0, &results);
  if (status == TENON_OK && knows_shapes)
    status = tn_infer(&inference, op, example->attrs, state, metas, results);
  tn_scratch_reset(mark);
  if (status == TENON_OK) return TENON_OK;
  return tn_prefix(
      status, example->sample ? "its SAMPLES: "
                              : "what its schema alone says is no valid call, add TENON_SAMPLES: ");
}
