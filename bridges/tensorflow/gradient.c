/* The operator "Tenon>Gradient": gradients of operators that declare no formula, computed by
 * Tenon's tape. Its string attribute `call` is the text of common/call_text.h, as in JAX. */
#include "gradient.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_text.h"
#include "common/hold.h"
#include "kernel.h"

enum { TEXT_MOST = 1 << 20 };

/* ---- descriptions of operators, one for all nodes ---- */

typedef struct entry_t {
  struct entry_t *next;
  const operator_t *self;
} entry_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry_t *entries;

static tenon_status_t add_description(const tenon_op_t *op, const operator_t **out_self) {
  char why[300];
  entry_t *entry = calloc(1, sizeof *entry);
  if (!entry) return tenon_error_set(TENON_MEMORY, "out of memory");
  entry->self = operator_describe(op, why, sizeof why);
  if (!entry->self) {
    free(entry);
    return tenon_error_set(TENON_UNIMPLEMENTED, why);
  }
  entry->next = entries;
  entries = entry;
  *out_self = entry->self;
  return TENON_OK;
}

static tenon_status_t get_description(const tenon_op_t *op, const operator_t **out_self) {
  tenon_status_t status = TENON_OK;
  pthread_mutex_lock(&lock);
  const entry_t *entry = entries;
  while (entry && entry->self->op != op)
    entry = entry->next;
  if (entry)
    *out_self = entry->self;
  else
    status = add_description(op, out_self);
  pthread_mutex_unlock(&lock);
  return status;
}

/* ---- kernels ---- */

/* Reads the operator, and makes its kernel. */
static tenon_status_t begin_kernel(text_t *text, kernel_t **out_kernel) {
  char name[TEXT_NAME_MOST];
  const tenon_op_t *op = NULL;
  const operator_t *self = NULL;
  tenon_status_t status = text_read_name(text, name);
  if (status == TENON_OK) status = tenon_op_find(name, &op);
  if (status == TENON_OK) status = hold_library(op);
  if (status == TENON_OK) status = get_description(op, &self);
  if (status != TENON_OK) return status;
  *out_kernel = kernel_new(self);
  return *out_kernel ? TENON_OK : tenon_error_set(TENON_MEMORY, "out of memory");
}

static tenon_status_t read_gradient_call(text_t *text, kernel_t *kernel) {
  bool is_list[OPERATOR_MOST];
  const operator_t *self = kernel->self;
  uint32_t total = 0;
  text_bits_t bits;
  for (uint32_t i = 0; i < self->input_count; i++)
    is_list[i] = self->inputs[i].of.kind == TENON_KIND_TENSORS;
  tenon_status_t status =
      text_read_counts(text, self->input_count, is_list, kernel->counts, &total);
  if (status == TENON_OK) status = text_read_fields(text, kernel->attrs, &bits);
  if (status != TENON_OK) return status;
  if (!bits.given || !bits.inputs || bits.is_forward)
    return text_fail(text, "@given and @inputs, which are not 0");
  kernel->given = bits.given;
  kernel->requested = bits.inputs;
  return kernel_finish(kernel);
}

/* Returns the attribute `call`, which the caller frees; NULL after a failure. */
static char *read_call_text(tf_construction_t *construction, tf_status_t *status) {
  int32_t count = 0;
  int32_t size = -1;
  tf.TF_OpKernelConstruction_GetAttrSize(construction, "call", &count, &size, status);
  char *text = size >= 0 && size <= TEXT_MOST ? calloc((size_t)size + 1, 1) : NULL;
  if (text)
    tf.TF_OpKernelConstruction_GetAttrString(construction, "call", text, (size_t)size, status);
  return text;
}

static void *create_gradient(tf_construction_t *construction) {
  tf_status_t *status = status_of_thread();
  kernel_t *kernel = NULL;
  char *copy = read_call_text(construction, status);
  text_t text = {copy, copy};
  tenon_status_t code =
      copy ? TENON_OK
           : tenon_error_set(TENON_INVALID, "Tenon>Gradient: the attribute `call` is missing or "
                                            "too long");
  if (code == TENON_OK) code = begin_kernel(&text, &kernel);
  if (code == TENON_OK) code = read_gradient_call(&text, kernel);
  free(copy);
  if (code == TENON_OK) return kernel;
  kernel_fail(construction, status, code, tenon_error());
  kernel_delete(kernel);
  return NULL;
}

static void add_parts(tf_op_builder_t *builder) {
  tf.TF_OpDefinitionBuilderAddInput(builder, "inputs: Tin");
  tf.TF_OpDefinitionBuilderAddOutput(builder, "grads: Tout");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "Tin: list(type) >= 0");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "Tout: list(type) >= 0");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "call: string");
}

bool gradient_define(char *why, size_t capacity) {
  return operator_define_own("Tenon>Gradient", add_parts, create_gradient, why, capacity);
}
