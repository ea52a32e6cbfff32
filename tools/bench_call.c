/* Makes the arguments of an operator and calls it; see bench_call.h. Calls go through
 * tenon_bound_t, so attributes and state are made once and nothing is inferred while time is
 * measured. */
#include "bench_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fill.h"
#include "summary.h"

static bool fail_with_runtime_error(text_t *why) {
  text_add(why, "%s", tenon_error());
  return false;
}

static const char *form_of(const bench_size_t *size, const char *name) {
  for (int32_t i = 0; i < size->forms->count; i++) {
    const char *text = size->forms->items[i];
    if (strncmp(text, name, strlen(name)) == 0 && text[strlen(name)] == '=') return text;
  }
  return NULL;
}

static bool make_form(const bench_size_t *size, const char *text, uint32_t stream,
                      tenon_tensor_t **out, text_t *why) {
  tensor_spec_t form;
  if (!tensor_spec_parse(text, &form, why)) return false;
  for (int32_t d = 0; d < form.ndim; d++) {
    if (form.extents[d] >= 0) continue;
    for (int32_t k = 0; k < size->count; k++)
      if (strcmp(size->names[k], form.names[d]) == 0) form.extents[d] = size->extents[k];
    if (form.extents[d] < 0) {
      text_add(why, "--input %s: the extent has no value: add --dim %s=N, or write a number", text,
               form.names[d]);
      return false;
    }
  }
  if (tenon_tensor_create(form.dtype, form.ndim, form.extents, out) != TENON_OK)
    return fail_with_runtime_error(why);
  return fill_tensor(*out, "random:1", stream, why);
}

/* Makes every input from the operator's example inputs, unless --input states all required ones. */
static bool make_example_inputs(bench_call_t *s, text_t *why) {
  const bench_size_t *size = s->size;
  tenon_argument_t argument = {.size = sizeof argument};
  tenon_sample_t example = {.size = sizeof example,
                            .index = (uint32_t)size->example,
                            .extent = size->extent,
                            .seed = 1,
                            .name_count = (uint32_t)size->count,
                            .names = size->names,
                            .extents = size->extents};
  bool needed = !s->info.input_count || !size->forms->count;
  for (int32_t i = 0; i < s->info.input_count; i++)
    if (tenon_op_argument(s->op, TENON_ARGUMENT_INPUT, i, &argument) == TENON_OK &&
        !argument.is_optional)
      needed = needed || !form_of(size, argument.name);
  if (size->dtype && tenon_dtype_parse(size->dtype, &example.dtype) != TENON_OK)
    return fail_with_runtime_error(why);
  return !needed || tenon_op_sample(s->op, &example, s->values) == TENON_OK ||
         fail_with_runtime_error(why);
}

static bool make_inputs(bench_call_t *s, text_t *why) {
  tenon_argument_t argument = {.size = sizeof argument};
  if (!make_example_inputs(s, why)) return false;
  for (int32_t i = 0; i < s->info.input_count; i++) {
    tenon_value_t *value = &s->values[i];
    if (tenon_op_argument(s->op, TENON_ARGUMENT_INPUT, i, &argument) != TENON_OK)
      return fail_with_runtime_error(why);
    const char *text = form_of(s->size, argument.name);
    if (text) {
      if (argument.kind == TENON_KIND_TENSORS) {
        text_add(why,
                 "--input %s: argument %s is a list of tensors, which only example inputs "
                 "(TENON_SAMPLES) can provide",
                 text, argument.name);
        return false;
      }
      if (value->kind == TENON_KIND_TENSOR) tenon_tensor_release(value->as.tensor);
      *value = (tenon_value_t){.kind = TENON_KIND_NONE};
      if (!make_form(s->size, text, (uint32_t)i, &s->inputs[i], why)) return false;
    } else if (value->kind == TENON_KIND_TENSOR) {
      tenon_tensor_retain(s->inputs[i] = value->as.tensor);
    } else if (value->kind == TENON_KIND_TENSORS) {
      if (tenon_tensor_list(value->as.tensors, (int32_t)value->count, &s->inputs[i]) != TENON_OK)
        return fail_with_runtime_error(why);
    }
    if (!s->inputs[i] || s->device.type <= 1 || argument.is_host) continue;
    tenon_tensor_t *there = NULL;
    if (tenon_tensor_copy_to(s->inputs[i], s->device, &there) != TENON_OK)
      return fail_with_runtime_error(why);
    tenon_tensor_release(s->inputs[i]);
    s->inputs[i] = there;
  }
  return true;
}

static bool has_attr(const bench_call_t *s, const char *name) {
  tenon_argument_t argument = {.size = sizeof argument};
  for (int32_t a = 0; tenon_op_argument(s->op, TENON_ARGUMENT_ATTR, a, &argument) == TENON_OK; a++)
    if (strcmp(argument.name, name) == 0) return true;
  return false;
}

static bool make_attrs(bench_call_t *s, const tenon_value_t **out_values, text_t *why) {
  tenon_argument_t argument = {.size = sizeof argument};
  if (tenon_attrs_create(s->op, &s->attrs) != TENON_OK) return fail_with_runtime_error(why);
  for (int32_t a = 0; a < s->info.attr_count; a++) {
    const tenon_value_t *value = &s->values[s->info.input_count + a];
    if (tenon_op_argument(s->op, TENON_ARGUMENT_ATTR, a, &argument) != TENON_OK)
      return fail_with_runtime_error(why);
    if (value->kind != TENON_KIND_NONE &&
        tenon_attrs_set(s->attrs, argument.name, value) != TENON_OK)
      return fail_with_runtime_error(why);
  }
  for (int32_t i = 0; i < s->size->attrs->count; i++) {
    const char *text = s->size->attrs->items[i];
    const char *equals = strchr(text, '=');
    char name[128];
    if (!equals) {
      text_add(why, "--attr %s: expected NAME=VALUE", text);
      return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    if (s->is_other && !has_attr(s, name)) continue;
    if (tenon_attrs_parse(s->attrs, name, equals + 1) != TENON_OK)
      return fail_with_runtime_error(why);
  }
  return tenon_attrs_values(s->attrs, out_values) == TENON_OK || fail_with_runtime_error(why);
}

static bool create_call(const tenon_op_t *op, const bench_size_t *size, bench_call_t *s,
                        text_t *why) {
  *s = (bench_call_t){.op = op, .size = size, .device = size->device};
  s->info.size = sizeof s->info;
  tenon_op_info(op, &s->info);
  s->values = calloc((size_t)(s->info.input_count + s->info.attr_count) + 1, sizeof *s->values);
  s->inputs = calloc((size_t)s->info.input_count + 1, sizeof(tenon_tensor_t *));
  s->outputs = calloc((size_t)s->info.output_count + 1, sizeof(tenon_tensor_t *));
  return (s->values && s->inputs && s->outputs) || (text_add(why, "out of memory"), false);
}

/* Binds the operator and calls it once. */
static bool bind_and_call(bench_call_t *s, text_t *why) {
  const tenon_value_t *attrs = NULL;
  if (!make_attrs(s, &attrs, why)) return false;
  tenon_status_t status = s->device.type > 1
                              ? tenon_bound_create_on(s->device, s->op, attrs, &s->bound)
                              : tenon_bound_create(s->op, attrs, &s->bound);
  if (status == TENON_OK) status = tenon_bound_call(s->bound, s->inputs, s->outputs, 0);
  if (status == TENON_OK && s->device.type > 1) status = tenon_device_synchronize(s->device);
  return status == TENON_OK || fail_with_runtime_error(why);
}

bool bench_call_begin(const tenon_op_t *op, const bench_size_t *size, bench_call_t *s,
                      text_t *why) {
  return create_call(op, size, s, why) && make_inputs(s, why) && bind_and_call(s, why);
}

bool bench_call_begin_with(const tenon_op_t *op, const bench_call_t *like, bench_call_t *s,
                           text_t *why) {
  if (!create_call(op, like->size, s, why)) return false;
  if (s->info.input_count != like->info.input_count) {
    text_add(why, "expected an operator with %d inputs, as %s has, found one with %d",
             (int)like->info.input_count, like->info.name, (int)s->info.input_count);
    return false;
  }
  for (int32_t i = 0; i < s->info.input_count; i++)
    if (like->inputs[i]) tenon_tensor_retain(s->inputs[i] = like->inputs[i]);
  s->is_other = true;
  return bind_and_call(s, why);
}

void bench_call_end(bench_call_t *s) {
  for (int32_t i = 0; s->inputs && i < s->info.input_count; i++)
    tenon_tensor_release(s->inputs[i]);
  for (int32_t o = 0; s->outputs && o < s->info.output_count; o++)
    tenon_tensor_release(s->outputs[o]);
  if (s->values) tenon_op_sample_release(s->op, s->values);
  tenon_bound_release(s->bound);
  tenon_attrs_release(s->attrs);
  free(s->values);
  free(s->inputs);
  free(s->outputs);
  *s = (bench_call_t){.op = NULL};
}

bool bench_call_repeat(void *subject, int64_t count, text_t *why) {
  bench_call_t *s = subject;
  tenon_status_t status = TENON_OK;
  while (count-- && status == TENON_OK)
    status = tenon_bound_run(s->bound, s->inputs, s->outputs);
  if (status == TENON_OK && s->device.type > 1) status = tenon_device_synchronize(s->device);
  return status == TENON_OK || fail_with_runtime_error(why);
}

static bool is_list(const tenon_tensor_t *t) { return tenon_dtype_id(t->dtype) == TENON_LIST; }

/* Counts bytes in memory: elements that are broadcast by a stride of 0 count once. */
static double argument_bytes(const tenon_tensor_t *t) {
  double bytes = (double)t->dtype.bits * t->dtype.lanes / 8;
  if (is_list(t)) {
    bytes = 0;
    for (int64_t i = 0; i < t->shape[0]; i++)
      bytes += argument_bytes(tenon_item(t, i));
    return bytes;
  }
  for (int32_t d = 0; d < t->ndim; d++)
    bytes *= t->strides[d] ? (double)t->shape[d] : t->shape[d] > 0;
  return bytes;
}

typedef bool (*visit_fn)(void *context, const char *name,
                         const tenon_tensor_t *tensor); /* returns false to stop */

static void visit_tensors(const bench_call_t *s, visit_fn visit, void *context) {
  tenon_argument_t argument = {.size = sizeof argument};
  for (int32_t i = 0; i < s->info.input_count + s->info.output_count; i++) {
    const bool is_input = i < s->info.input_count;
    const int32_t at = is_input ? i : i - s->info.input_count;
    const tenon_tensor_t *t = is_input ? s->inputs[at] : s->outputs[at];
    if (t &&
        tenon_op_argument(s->op, is_input ? TENON_ARGUMENT_INPUT : TENON_ARGUMENT_OUTPUT, at,
                          &argument) == TENON_OK &&
        !visit(context, argument.name, t))
      return;
  }
}

static bool add_bytes(void *context, const char *name, const tenon_tensor_t *tensor) {
  (void)name;
  *(double *)context += argument_bytes(tensor);
  return true;
}

double bench_call_bytes(const bench_call_t *s) {
  double bytes = 0;
  visit_tensors(s, add_bytes, &bytes);
  return bytes;
}

static bool take_largest(void *context, const char *name, const tenon_tensor_t *tensor) {
  int64_t *largest = context;
  int64_t count = is_list(tensor) ? 0 : tenon_count(tensor);
  (void)name;
  for (int64_t i = 0; is_list(tensor) && i < tensor->shape[0]; i++)
    count += tenon_count(tenon_item(tensor, i));
  if (count > *largest) *largest = count;
  return true;
}

int64_t bench_call_elements(const bench_call_t *s) {
  int64_t largest = 0;
  visit_tensors(s, take_largest, &largest);
  return largest;
}

static bool add_words(void *context, const char *name, const tenon_tensor_t *tensor) {
  text_t *out = context;
  text_add(out, "%s%s ", out->size ? ", " : "", name);
  if (is_list(tensor)) {
    text_add(out, "%lld tensors", (long long)tensor->shape[0]);
  } else {
    text_add(out, "%s", tenon_dtype_name(tensor->dtype));
    summary_add_shape(out, tensor->ndim, tensor->shape);
  }
  return true;
}

void bench_call_describe(const bench_call_t *s, text_t *out) { visit_tensors(s, add_words, out); }

typedef struct wanted_t {
  const char *name;
  int64_t index;
  double value;
  bool found;
} wanted_t;

static bool find_name(void *context, const char *name, const tenon_tensor_t *tensor) {
  wanted_t *wanted = context;
  if (strcmp(name, wanted->name) != 0 || is_list(tensor) || wanted->index >= tensor->ndim)
    return true;
  wanted->value =
      wanted->index < 0 ? (double)tenon_count(tensor) : (double)tensor->shape[wanted->index];
  return !(wanted->found = true);
}

bool bench_call_lookup(void *subject, const char *name, int64_t index, double *out_value) {
  const bench_call_t *s = subject;
  wanted_t wanted = {name, index, 0, false};
  for (int32_t i = 0; i < s->size->count && index < 0 && !wanted.found; i++)
    if (strcmp(s->size->names[i], name) == 0) {
      wanted.value = (double)s->size->extents[i];
      wanted.found = true;
    }
  if (!wanted.found) visit_tensors(s, find_name, &wanted);
  *out_value = wanted.value;
  return wanted.found;
}
