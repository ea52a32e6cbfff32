/* Creates kernels from the attributes of nodes; see kernel.h. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "graph.h"

/* ---- the status of a thread ---- */

static pthread_key_t status_key;
static pthread_once_t status_once = PTHREAD_ONCE_INIT;
static _Thread_local tf_status_t *thread_status;

static void delete_status(void *status) {
  thread_status = NULL;
  tf.TF_DeleteStatus(status);
}

static void create_status_key(void) { (void)pthread_key_create(&status_key, delete_status); }

tf_status_t *status_of_thread(void) {
  if (!thread_status) {
    (void)pthread_once(&status_once, create_status_key);
    thread_status = tf.TF_NewStatus();
    (void)pthread_setspecific(status_key, thread_status);
  } else if (tf.TF_GetCode(thread_status) != TF_OK) {
    tf.TF_SetStatus(thread_status, TF_OK, "");
  }
  return thread_status;
}

/* ---- attributes ---- */

typedef struct reader_t {
  kernel_t *kernel;
  tf_construction_t *from;
  tf_status_t *status;
} reader_t;

static tenon_status_t check_status(const reader_t *r) {
  if (tf.TF_GetCode(r->status) == TF_OK) return TENON_OK;
  char message[500];
  snprintf(message, sizeof message, "%s: %s", r->kernel->self->name, tf.TF_Message(r->status));
  return tenon_error_set(TENON_INVALID, message);
}

static tenon_status_t get_size(const reader_t *r, const char *name, int32_t *out_count,
                               int32_t *out_size) {
  *out_count = 0;
  *out_size = 0;
  tf.TF_OpKernelConstruction_GetAttrSize(r->from, name, out_count, out_size, r->status);
  if (*out_size < 0) *out_size = 0; /* that of an empty list */
  return check_status(r);
}

/* Reads a string; the caller frees it. */
static tenon_status_t read_string(const reader_t *r, const char *name, char **out_text,
                                  int32_t *out_size) {
  int32_t count;
  tenon_status_t status = get_size(r, name, &count, out_size);
  if (status != TENON_OK) return status;
  *out_text = *out_size >= 0 ? calloc((size_t)*out_size + 1, 1) : NULL;
  if (!*out_text) return tenon_error_set(TENON_MEMORY, "out of memory");
  tf.TF_OpKernelConstruction_GetAttrString(r->from, name, *out_text, (size_t)*out_size, r->status);
  return check_status(r);
}

/* Devices are written as in schemas, without the quotes. */
static tenon_status_t parse_device(tenon_attrs_t *attrs, const char *name, const char *text) {
  char literal[100];
  const int size = snprintf(literal, sizeof literal, "'%s'", text);
  const bool fits = size > 0 && (size_t)size < sizeof literal;
  return tenon_attrs_parse(attrs, name, fits ? literal : text);
}

static tenon_status_t set_string(const reader_t *r, const attribute_t *attribute) {
  tenon_attrs_t *attrs = r->kernel->attrs;
  const char *name = attribute->of.name;
  char *text = NULL;
  int32_t size = 0;
  tenon_status_t status = read_string(r, attribute->name, &text, &size);
  const tenon_value_t value = {.kind = TENON_KIND_STR, .count = (uint32_t)size, .as.s = text};
  if (status == TENON_OK && attribute->encoding == ENCODING_LITERAL)
    status = tenon_attrs_parse(attrs, name, text);
  else if (status == TENON_OK && attribute->of.kind == TENON_KIND_DEVICE)
    status = parse_device(attrs, name, text);
  else if (status == TENON_OK)
    status = tenon_attrs_set(attrs, name, &value);
  free(text);
  return status;
}

static tenon_status_t set_bool(const reader_t *r, const attribute_t *attribute) {
  unsigned char bit = 0;
  tf.TF_OpKernelConstruction_GetAttrBool(r->from, attribute->name, &bit, r->status);
  const tenon_status_t status = check_status(r);
  const tenon_value_t value = {.kind = TENON_KIND_BOOL, .as.i = bit != 0};
  return status == TENON_OK ? tenon_attrs_set(r->kernel->attrs, attribute->of.name, &value)
                            : status;
}

static tenon_status_t read_int(const reader_t *r, const char *name, int64_t *out) {
  *out = 0;
  tf.TF_OpKernelConstruction_GetAttrInt64(r->from, name, out, r->status);
  return check_status(r);
}

static tenon_status_t set_int(const reader_t *r, const attribute_t *attribute) {
  int64_t number;
  const tenon_status_t status = read_int(r, attribute->name, &number);
  return status == TENON_OK ? tenon_attrs_int(r->kernel->attrs, attribute->of.name, number)
                            : status;
}

static tenon_status_t set_type(const reader_t *r, const attribute_t *attribute) {
  int code = 0;
  char message[300];
  tenon_value_t value = {.kind = TENON_KIND_DTYPE};
  tf.TF_OpKernelConstruction_GetAttrType(r->from, attribute->name, &code, r->status);
  const tenon_status_t status = check_status(r);
  if (status != TENON_OK) return status;
  if (tf_dtype_from(code, &value.as.dtype))
    return tenon_attrs_set(r->kernel->attrs, attribute->of.name, &value);
  snprintf(message, sizeof message, "%s: attribute %s: Tenon has no dtype %s",
           r->kernel->self->name, attribute->of.name, dtype_name(code));
  return tenon_error_set(TENON_INVALID, message);
}

static tenon_status_t set_ints(const reader_t *r, const attribute_t *attribute) {
  int32_t count;
  int32_t size;
  tenon_status_t status = get_size(r, attribute->name, &count, &size);
  if (status != TENON_OK) return status;
  int64_t *numbers = count >= 0 ? calloc((size_t)count + 1, sizeof *numbers) : NULL;
  if (!numbers) return tenon_error_set(TENON_MEMORY, "out of memory");
  tf.TF_OpKernelConstruction_GetAttrInt64List(r->from, attribute->name, numbers, count, r->status);
  status = check_status(r);
  if (status == TENON_OK)
    status = tenon_attrs_ints(r->kernel->attrs, attribute->of.name, numbers, (uint32_t)count);
  free(numbers);
  return status;
}

typedef struct texts_t {
  char **texts;
  size_t *sizes;
  tenon_string_t *strings;
  char *storage;
} texts_t;

static tenon_status_t read_texts(const reader_t *r, const attribute_t *attribute, texts_t *t,
                                 int32_t count, int32_t size) {
  if (!t->texts || !t->sizes || !t->strings || !t->storage)
    return tenon_error_set(TENON_MEMORY, "out of memory");
  tf.TF_OpKernelConstruction_GetAttrStringList(r->from, attribute->name, t->texts, t->sizes, count,
                                               t->storage, (size_t)size, r->status);
  const tenon_status_t status = check_status(r);
  if (status != TENON_OK) return status;
  for (int32_t i = 0; i < count; i++)
    t->strings[i] = (tenon_string_t){t->texts[i], t->sizes[i]};
  const tenon_value_t value = {
      .kind = TENON_KIND_STRS, .count = (uint32_t)count, .as.strs = t->strings};
  return tenon_attrs_set(r->kernel->attrs, attribute->of.name, &value);
}

static tenon_status_t set_texts(const reader_t *r, const attribute_t *attribute) {
  int32_t count;
  int32_t size;
  tenon_status_t status = get_size(r, attribute->name, &count, &size);
  if (status != TENON_OK || count < 0 || size < 0) return status;
  texts_t t = {calloc((size_t)count + 1, sizeof *t.texts),
               calloc((size_t)count + 1, sizeof *t.sizes),
               calloc((size_t)count + 1, sizeof *t.strings), calloc((size_t)size + 1, 1)};
  status = read_texts(r, attribute, &t, count, size);
  free(t.texts);
  free(t.sizes);
  free(t.strings);
  free(t.storage);
  return status;
}

static tenon_status_t set_kernel_attribute(const reader_t *r, const attribute_t *attribute) {
  switch (attribute->encoding) {
  case ENCODING_BOOL:
    return set_bool(r, attribute);
  case ENCODING_INT:
    return set_int(r, attribute);
  case ENCODING_TYPE:
    return set_type(r, attribute);
  case ENCODING_INTS:
    return set_ints(r, attribute);
  case ENCODING_TEXTS:
    return set_texts(r, attribute);
  case ENCODING_TEXT:
  case ENCODING_LITERAL:
    return set_string(r, attribute);
  default:
    return TENON_OK;
  }
}

/* ---- numbers of tensors ---- */

static tenon_status_t read_types_count(const reader_t *r, const side_t *side, int64_t *out) {
  int32_t count;
  int32_t size;
  const tenon_status_t status = get_size(r, side->type, &count, &size);
  *out = count;
  return status;
}

/* Reads how many tensors an input or a result has. */
static tenon_status_t read_count(const reader_t *r, const side_t *side, int32_t *out_count) {
  int64_t count = 1;
  tenon_status_t status = TENON_OK;
  if (side->is_types)
    status = read_types_count(r, side, &count);
  else if (*side->count)
    status = read_int(r, side->count, &count);
  if (status != TENON_OK) return status;
  const bool is_single = side->of.kind != TENON_KIND_TENSORS;
  if (count < 0 || count > (is_single ? 1 : OPERATOR_TENSORS_MOST)) {
    char message[300];
    snprintf(message, sizeof message, "%s: argument %s: expected at most %d tensors, found %lld",
             r->kernel->self->name, side->of.name, is_single ? 1 : OPERATOR_TENSORS_MOST,
             (long long)count);
    return tenon_error_set(TENON_INVALID, message);
  }
  *out_count = (int32_t)count;
  return TENON_OK;
}

static tenon_status_t read_counts(const reader_t *r) {
  kernel_t *kernel = r->kernel;
  const operator_t *self = kernel->self;
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < self->input_count && status == TENON_OK; i++) {
    status = read_count(r, &self->inputs[i], &kernel->counts[i]);
    if (self->inputs[i].of.kind == TENON_KIND_TENSOR && !kernel->counts[i]) kernel->counts[i] = -1;
  }
  for (uint32_t o = 0; o < self->output_count && status == TENON_OK; o++)
    status = read_count(r, &self->outputs[o], &kernel->output_counts[o]);
  return status;
}

/* ---- kernels ---- */

kernel_t *kernel_new(const operator_t *self) {
  kernel_t *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return NULL;
  kernel->self = self;
  (void)pthread_mutex_init(&kernel->lock, NULL);
  if (!self->op || tenon_attrs_create(self->op, &kernel->attrs) == TENON_OK) return kernel;
  kernel_delete(kernel);
  return NULL;
}

void kernel_delete(void *of) {
  kernel_t *kernel = of;
  if (!kernel) return;
  for (size_t i = 0; i < SITES_MOST; i++)
    free((void *)(uintptr_t)atomic_load_explicit(&kernel->sites[i], memory_order_relaxed));
  if (kernel->model.executable) graph_close(&kernel->model);
  tenon_attrs_release(kernel->attrs);
  (void)pthread_mutex_destroy(&kernel->lock);
  free(kernel);
}

static tenon_status_t count_tensors(kernel_t *kernel) {
  const operator_t *self = kernel->self;
  kernel->is_plain = self->has_fixed_shapes && !self->written && !kernel->given;
  for (uint32_t i = 0; i < self->input_count; i++) {
    if (kernel->counts[i] > 0) kernel->tensor_count += (uint32_t)kernel->counts[i];
    if (self->inputs[i].of.kind == TENON_KIND_TENSORS) kernel->keeps = true;
  }
  if (kernel->tensor_count > OPERATOR_TENSORS_MOST)
    return tenon_error_set(TENON_UNIMPLEMENTED, "a call has more than 256 tensors");
  uint64_t all = 0;
  for (uint32_t o = 0; o < self->output_count; o++) {
    const side_t *side = &self->outputs[o];
    const bool is_list = side->of.kind == TENON_KIND_TENSORS;
    all |= (uint64_t)1 << o;
    if (kernel->output_counts[o] || is_list) kernel->wanted |= (uint64_t)1 << o;
    if (side->of.mark) kernel->keeps = true;
    if (side->of.mark || is_list || side->of.is_optional) kernel->is_plain = false;
  }
  if (kernel->wanted == all) kernel->wanted = 0;
  if (kernel->given) kernel->keeps = true;
  kernel->is_plain = kernel->is_plain && !kernel->keeps;
  return TENON_OK;
}

tenon_status_t kernel_finish(kernel_t *kernel) {
  const tenon_status_t status = count_tensors(kernel);
  return status == TENON_OK ? tenon_attrs_values(kernel->attrs, &kernel->attr_values) : status;
}

void kernel_fail(tf_construction_t *construction, tf_status_t *status, tenon_status_t code,
                 const char *message) {
  tf.TF_SetStatus(status, code, message);
  tf.TF_OpKernelConstruction_Failure(construction, status);
}

void *kernel_create(const operator_t *self, tf_construction_t *construction) {
  reader_t r = {kernel_new(self), construction, status_of_thread()};
  tenon_status_t status = r.kernel ? TENON_OK : tenon_error_set(TENON_MEMORY, "out of memory");
  for (uint32_t i = 0; i < self->attr_count && status == TENON_OK; i++)
    status = set_kernel_attribute(&r, &self->attrs[i]);
  if (status == TENON_OK) status = read_counts(&r);
  if (status == TENON_OK) status = kernel_finish(r.kernel);
  if (status == TENON_OK) return r.kernel;
  kernel_fail(construction, r.status, status, tenon_error());
  kernel_delete(r.kernel);
  return NULL;
}
