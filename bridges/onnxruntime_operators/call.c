/* Calls whose shapes are new, or that are not plain. Results whose shapes inference knows are
 * written to outputs of ONNX Runtime; others, strings and views are copied there, because ONNX
 * Runtime allocates an output only when its shape is known. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { STRIDES_MOST = 4096 };

typedef struct call_t {
  kernel_t *kernel;
  OrtKernelContext *context;
  const given_t *given;
  tenon_tensor_t views[TENSORS_MOST];
  tenon_tensor_t *tensors[TENSORS_MOST]; /* the inputs */
  void *blocks[TENSORS_MOST];            /* of memory that the call frees */
  size_t block_count;
  int32_t owned_count; /* tensors that the call releases; they come first */
  lists_t lists;
  tenon_tensor_t *inputs[SIDE_MOST];
  tenon_tensor_t results[SIDE_MOST]; /* views of outputs of ONNX Runtime */
  tenon_tensor_t *outputs[SIDE_MOST];
  int64_t shapes[SIDE_MOST][TENON_RANK_MAX]; /* of `results` */
  int64_t strides[STRIDES_MOST];
  size_t stride_count;
} call_t;

static tenon_status_t call_fail(const call_t *c, tenon_status_t status, const char *format, ...) {
  char text[700];
  va_list arguments;
  const int size = snprintf(text, sizeof text, "%s: ", c->kernel->of->name);
  va_start(arguments, format);
  (void)vsnprintf(text + size, sizeof text - (size_t)size, format, arguments);
  va_end(arguments);
  return host.tenon_error_set(status, text);
}

static tenon_status_t take_status(const call_t *c, OrtStatus *status) {
  return ort_take(status, c->kernel->of->name);
}

static void *take_block(call_t *c, size_t size) {
  void *block = c->block_count < TENSORS_MOST ? malloc(size + 1) : NULL;
  if (block) c->blocks[c->block_count++] = block;
  return block;
}

static int64_t *take_strides(call_t *c, size_t count) {
  if (count > STRIDES_MOST - c->stride_count) return NULL;
  c->stride_count += count;
  return c->strides + c->stride_count - count;
}

/* ---- inputs ---- */

/* Makes the elements of a string tensor. */
static tenon_status_t read_given_texts(call_t *c, const given_t *given, size_t count, void **out) {
  size_t size = 0;
  TENON_TRY(take_status(c, ort.GetStringTensorDataLength(given->value, &size)));
  char *bytes = take_block(c, size + 1);
  size_t *offsets = take_block(c, (count + 1) * sizeof *offsets);
  tenon_string_t *texts = take_block(c, count * sizeof *texts);
  if (!bytes || !offsets || !texts) return call_fail(c, TENON_MEMORY, "out of memory: strings");
  if (count)
    TENON_TRY(
        take_status(c, ort.GetStringTensorContent(given->value, bytes, size, offsets, count)));
  offsets[count] = size;
  for (size_t i = 0; i < count; i++)
    texts[i] = (tenon_string_t){bytes + offsets[i], offsets[i + 1] - offsets[i]};
  *out = texts;
  return TENON_OK;
}

static size_t given_size(const given_t *given, tenon_dtype_t dtype) {
  size_t count = 1;
  for (size_t d = 0; d < given->rank; d++)
    count *= (size_t)given->shape[d];
  return (count * dtype.bits + 7) / 8;
}

/* Makes the memory of an input that is written to: the output with its new contents. */
static tenon_status_t copy_written(call_t *c, int32_t t, void **out) {
  const port_t *place = &c->kernel->in[t];
  const given_t *given = &c->given[t];
  const size_t size = given_size(given, place->dtype);
  OrtValue *value = NULL;
  *out = NULL;
  if (tenon_dtype_id(place->dtype) == TENON_STRING)
    return call_fail(c, TENON_UNIMPLEMENTED,
                     "argument '%s': strings of ONNX Runtime cannot be written to",
                     c->kernel->of->inputs[place->argument].name);
  for (int32_t k = 0; k < c->kernel->out_count && !value; k++) {
    if (c->kernel->of->written[c->kernel->out[k].argument] != place->argument) continue;
    TENON_TRY(take_status(c, ort.KernelContext_GetOutput(c->context, c->kernel->out[k].index,
                                                         given->shape, given->rank, &value)));
  }
  if (value)
    TENON_TRY(take_status(c, ort.GetTensorMutableData(value, out)));
  else
    *out = take_block(c, size);
  if (!*out && size) return call_fail(c, TENON_MEMORY, "out of memory: an input");
  if (size && *out != given->data) memcpy(*out, given->data, size);
  return TENON_OK;
}

static tenon_status_t make_tensor(call_t *c, int32_t t) {
  const port_t *place = &c->kernel->in[t];
  const given_t *given = &c->given[t];
  void *data = given->data;
  size_t count = 1;
  tenon_detail_t *detail = c->kernel->details[place->argument];
  int64_t *shape = (int64_t *)(uintptr_t)given->shape;
  int64_t *strides = take_strides(c, given->rank);
  if (given->rank > TENON_RANK_MAX || !strides)
    return call_fail(c, TENON_UNIMPLEMENTED, "argument '%s': it has %zu axes, which is too many",
                     c->kernel->of->inputs[place->argument].name, given->rank);
  for (size_t d = 0; d < given->rank; d++)
    count *= (size_t)given->shape[d];
  if (c->kernel->of->inputs[place->argument].is_written)
    TENON_TRY(copy_written(c, t, &data));
  else if (tenon_dtype_id(place->dtype) == TENON_STRING)
    TENON_TRY(read_given_texts(c, given, count, &data));
  c->tensors[t] = &c->views[t];
  if (c->kernel->keeps) {
    TENON_TRY(host.tenon_tensor_borrow(data, place->dtype, (int32_t)given->rank, shape, NULL, NULL,
                                       NULL, &c->tensors[t]));
    c->owned_count = t + 1;
  } else {
    TENON_TRY(host.tenon_tensor_view(&c->views[t], data, place->dtype, (int32_t)given->rank, shape,
                                     NULL, strides));
  }
  return detail ? host.tenon_tensor_detail_set(c->tensors[t], detail) : TENON_OK;
}

/* ---- shapes ---- */

typedef struct inference_t {
  tenon_dim_t dims[STRIDES_MOST];
  tenon_meta_t tensors[TENSORS_MOST];
  tenon_meta_t *places[TENSORS_MOST];
  tenon_meta_t lists[SIDE_MOST];
  tenon_meta_t *inputs[SIDE_MOST];
} inference_t;

static void make_metas(const call_t *c, inference_t *f, bool has_values) {
  const kernel_t *kernel = c->kernel;
  tenon_dim_t *dims = f->dims;
  int32_t t = 0;
  for (int32_t i = 0; i < kernel->of->input_count; i++) {
    const int32_t count = kernel->counts[i];
    const int32_t first = t;
    for (int32_t k = 0; k < count; k++, t++) {
      const given_t *given = &c->given[t];
      f->tensors[t] = (tenon_meta_t){.size = sizeof *f->tensors,
                                     .dtype = kernel->in[t].dtype,
                                     .device = {1, 0},
                                     .ndim = (int32_t)given->rank,
                                     .dims = dims,
                                     .value = has_values ? c->tensors[t] : NULL,
                                     .detail = kernel->details[i]};
      for (size_t d = 0; d < given->rank; d++)
        (dims++)->value = given->shape[d];
      f->places[t] = &f->tensors[t];
    }
    f->lists[i] = (tenon_meta_t){.size = sizeof *f->lists,
                                 .dtype = tenon_dtype(TENON_LIST),
                                 .device = {1, 0},
                                 .count = count > 0 ? (uint32_t)count : 0,
                                 .items = &f->places[first]};
    f->inputs[i] = count < 0 ? NULL : f->places[first];
    if (kernel->of->inputs[i].kind == TENON_KIND_TENSORS) f->inputs[i] = &f->lists[i];
  }
}

/* Reads a shape that inference stated. Returns false if an extent is unknown. */
static bool read_known(tenon_shapes_t *shapes, const tenon_meta_t *meta, int64_t *out) {
  if (!meta || meta->ndim < 0 || meta->layout) return false;
  for (int32_t d = 0; d < meta->ndim; d++) {
    tenon_part_t part = {.size = sizeof part};
    if (host.tenon_shapes_part(shapes, meta->dims[d], &part) != TENON_OK ||
        part.kind != TENON_PART_NUMBER)
      return false;
    out[d] = part.a.value;
  }
  return true;
}

/* The place of a result among the outputs of the node; NULL: it has none of its own. */
static const port_t *find_place(const kernel_t *kernel, int32_t o) {
  for (int32_t t = 0; t < kernel->out_count; t++)
    if (kernel->out[t].argument == o) return &kernel->out[t];
  return NULL;
}

static tenon_status_t allocate_result(call_t *c, const port_t *place, int32_t rank) {
  const int32_t o = place->argument;
  OrtValue *value = NULL;
  void *data = NULL;
  int64_t *strides = take_strides(c, (size_t)rank);
  if (!strides) return call_fail(c, TENON_UNIMPLEMENTED, "its tensors have too many axes");
  TENON_TRY(take_status(c, ort.KernelContext_GetOutput(c->context, place->index, c->shapes[o],
                                                       (size_t)rank, &value)));
  TENON_TRY(take_status(c, ort.GetTensorMutableData(value, &data)));
  TENON_TRY(host.tenon_tensor_view(&c->results[o], data, place->dtype, rank, c->shapes[o], NULL,
                                   strides));
  c->outputs[o] = &c->results[o];
  return TENON_OK;
}

/* Allocates the outputs whose shapes are known. `*out_all`: that is every result. */
static tenon_status_t allocate_known(call_t *c, tenon_shapes_t *shapes,
                                     const tenon_meta_t *const *results, bool *out_all) {
  const operator_t *self = c->kernel->of;
  *out_all = true;
  for (int32_t o = 0; o < self->output_count; o++) {
    const port_t *place = find_place(c->kernel, o);
    const bool is_plain = place && self->outputs[o].kind == TENON_KIND_TENSOR &&
                          !self->outputs[o].mark && tenon_dtype_id(place->dtype) != TENON_STRING;
    if (is_plain && read_known(shapes, results[o], c->shapes[o]) &&
        tenon_dtype_id(results[o]->dtype) == tenon_dtype_id(place->dtype))
      TENON_TRY(allocate_result(c, place, results[o]->ndim));
    else if (place)
      *out_all = false;
  }
  return TENON_OK;
}

/* Infers shapes, without data or with them, and allocates outputs if all shapes are known, or if
 * data cannot tell more. `*out_all`: all results are allocated. */
static tenon_status_t infer_outputs(call_t *c, inference_t *f, bool has_values, bool *out_known,
                                    bool *out_all) {
  const kernel_t *kernel = c->kernel;
  tenon_shapes_t *shapes = NULL;
  const tenon_meta_t *const *results = NULL;
  *out_known = *out_all = false;
  make_metas(c, f, has_values);
  TENON_TRY(host.tenon_shapes_create(&shapes));
  tenon_status_t status = host.tenon_shapes_infer(shapes, kernel->of->op, kernel->attr_values,
                                                  f->inputs, kernel->wanted, &results);
  if (status == TENON_OK) {
    bool is_known = true;
    int64_t ignored[TENON_RANK_MAX];
    for (int32_t o = 0; o < kernel->of->output_count && !has_values; o++)
      is_known = is_known && (!results[o] || read_known(shapes, results[o], ignored));
    if (is_known) status = allocate_known(c, shapes, results, out_all);
    *out_known = is_known;
  } else {
    status = TENON_OK; /* the call reports what is wrong */
  }
  host.tenon_shapes_release(shapes);
  return status;
}

static tenon_status_t make_outputs(call_t *c, bool *out_fixed) {
  *out_fixed = false;
  inference_t *f = malloc(sizeof *f);
  if (!f) return call_fail(c, TENON_MEMORY, "out of memory: shapes");
  tenon_status_t status = TENON_OK;
  bool is_known = false;
  bool is_all;
  if (!atomic_load_explicit(&c->kernel->depends_on_data, memory_order_relaxed))
    status = infer_outputs(c, f, false, &is_known, out_fixed);
  if (status == TENON_OK && !is_known) {
    atomic_store_explicit(&c->kernel->depends_on_data, true, memory_order_relaxed);
    status = infer_outputs(c, f, true, &is_known, &is_all);
  }
  free(f);
  return status;
}

/* ---- results ---- */

static tenon_status_t copy_texts(call_t *c, const tenon_tensor_t *t, OrtValue *value) {
  const tenon_string_t *texts = t->data;
  const int64_t count = tenon_count(t);
  for (int64_t i = 0; i < count; i++) {
    char *room = NULL;
    TENON_TRY(take_status(
        c, ort.GetResizedStringTensorElementBuffer(value, (size_t)i, texts[i].size, &room)));
    if (texts[i].size) memcpy(room, texts[i].data, texts[i].size);
  }
  return TENON_OK;
}

static tenon_status_t check_computed(call_t *c, const port_t *place, const tenon_tensor_t *t) {
  const operator_t *self = c->kernel->of;
  const char *name = self->outputs[place->argument].name;
  if (t->detail)
    return call_fail(c, TENON_UNIMPLEMENTED,
                     "result '%s' is %s, which an output of ONNX Runtime cannot hold", name,
                     host.tenon_tensor_layout(t));
  if (t->device.type != 1)
    return call_fail(c, TENON_UNIMPLEMENTED, "result '%s' is not in host memory", name);
  if (tenon_dtype_id(t->dtype) == tenon_dtype_id(place->dtype)) return TENON_OK;
  return call_fail(c, TENON_INVALID,
                   "result '%s': the operator computes %s, and the model states %s", name,
                   host.tenon_dtype_name(t->dtype), host.tenon_dtype_name(place->dtype));
}

/* Copies a result to an output. */
static tenon_status_t copy_to_output(call_t *c, const port_t *place, tenon_tensor_t *t) {
  OrtValue *value = NULL;
  void *data = NULL;
  tenon_tensor_t view;
  int64_t strides[TENON_RANK_MAX];
  TENON_TRY(check_computed(c, place, t));
  TENON_TRY(take_status(
      c, ort.KernelContext_GetOutput(c->context, place->index, t->shape, (size_t)t->ndim, &value)));
  if (tenon_dtype_id(t->dtype) == TENON_STRING) return copy_texts(c, t, value);
  if (!tenon_count(t)) return TENON_OK;
  TENON_TRY(take_status(c, ort.GetTensorMutableData(value, &data)));
  TENON_TRY(host.tenon_tensor_view(&view, data, t->dtype, t->ndim, t->shape, NULL, strides));
  return host.tenon_tensor_copy_async(t, &view);
}

static tenon_status_t copy_items(call_t *c, const port_t *first, int32_t count,
                                 const tenon_tensor_t *list) {
  if (list->shape[0] != count)
    return call_fail(c, TENON_INVALID,
                     "result '%s': the operator makes %lld tensors, and the node "
                     "has %d outputs for them",
                     c->kernel->of->outputs[first->argument].name, (long long)list->shape[0],
                     (int)count);
  for (int32_t k = 0; k < count; k++)
    if (first[k].dtype.bits) TENON_TRY(copy_to_output(c, first + k, tenon_item(list, k)));
  return TENON_OK;
}

/* Copies results that Tenon created, and releases them. */
static tenon_status_t take_results(call_t *c) {
  tenon_status_t status = TENON_OK;
  const operator_t *self = c->kernel->of;
  for (int32_t o = 0; o < self->output_count; o++) {
    tenon_tensor_t *t = c->outputs[o];
    const port_t *place = find_place(c->kernel, o);
    if (!t || t == &c->results[o]) continue;
    const bool is_list = self->outputs[o].kind == TENON_KIND_TENSORS;
    if (status == TENON_OK && place && is_list)
      status = copy_items(c, place, c->kernel->out_counts[o], t);
    else if (status == TENON_OK && place && self->written[o] < 0)
      status = copy_to_output(c, place, t);
    host.tenon_tensor_release(t);
  }
  return status;
}

/* ---- calls ---- */

static tenon_status_t run_prepared(call_t *c) {
  kernel_t *kernel = c->kernel;
  bool is_fixed = false;
  for (int32_t t = 0; t < kernel->in_count; t++)
    TENON_TRY(make_tensor(c, t));
  kernel_arrange(kernel, c->tensors, &c->lists, c->inputs);
  TENON_TRY(make_outputs(c, &is_fixed));
  const tenon_status_t status =
      host.tenon_bound_call(kernel->bound, c->inputs, c->outputs, kernel->wanted);
  if (status != TENON_OK) return status;
  if (is_fixed && kernel->is_plain) site_remember(kernel, c->tensors, c->outputs);
  return take_results(c);
}

static tenon_status_t run_seeded(call_t *c) {
  if (!c->kernel->generator) return run_prepared(c);
  tenon_generator_t *before = host.tenon_generator_use(c->kernel->generator);
  const tenon_status_t status = run_prepared(c);
  (void)host.tenon_generator_use(before);
  return status;
}

OrtStatus *call_run(kernel_t *kernel, OrtKernelContext *context, const given_t *given) {
  call_t *c = malloc(sizeof *c);
  if (!c) return ort_fail(ORT_FAIL, "%s: out of memory: a call", kernel->of->name);
  c->kernel = kernel;
  c->context = context;
  c->given = given;
  c->block_count = c->stride_count = 0;
  c->owned_count = 0;
  memset(c->outputs, 0, sizeof c->outputs);
  const tenon_status_t status = run_seeded(c);
  OrtStatus *made = status == TENON_OK ? NULL : ort_fail_tenon(status);
  for (int32_t t = 0; t < c->owned_count; t++)
    host.tenon_tensor_release(c->tensors[t]);
  while (c->block_count)
    free(c->blocks[--c->block_count]);
  free(c);
  return made;
}
