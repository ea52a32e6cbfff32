/* Creates and destroys the kernels of a library. A node of a compiled graph has a kernel of its
 * own, which knows shapes and constants; other calls share kernels by the dtypes of their inputs,
 * as those need not be the same in each call. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "common/ort_element.h"
#include "status.h"
#include "table.h"

/* one kernel */

typedef struct create_t {
  kernel_t *kernel;
  OrtStatus *status;
} create_t;

static int create_object(void *argument) {
  create_t *c = argument;
  const OrtCustomOp *op = c->kernel->overload->op;
  if (c->kernel->overload->version >= SINCE_STATUS && op->CreateKernelV2)
    c->status = op->CreateKernelV2(op, table_api(), c->kernel->info, &c->kernel->object);
  else
    c->kernel->object = op->CreateKernel(op, table_api(), c->kernel->info);
  return 1;
}

static int destroy_object(void *argument) {
  const kernel_t *kernel = argument;
  kernel->overload->op->KernelDestroy(kernel->object);
  return 1;
}

void kernel_release(void *pointer) {
  kernel_t *kernel = pointer;
  char ignored[WHY];
  if (!kernel) return;
  if (kernel->object) (void)guard_call(destroy_object, kernel, ignored, sizeof ignored);
  ort_ReleaseKernelInfo(kernel->info);
  free(kernel);
}

static kernel_t *make_kernel(const state_t *state, const overload_t *overload,
                             const signature_t *signature) {
  kernel_t *kernel = calloc(1, sizeof *kernel + signature->in_count);
  if (!kernel) return NULL;
  kernel->overload = overload;
  kernel->wanted = signature->wanted;
  kernel->in_count = signature->in_count;
  kernel->out_count = signature->out_count;
  kernel->info =
      info_make(state->op, overload, state->attributes, signature->in_count, signature->out_count);
  memcpy(kernel->elements, signature->elements, signature->in_count);
  if (kernel->info) return kernel;
  free(kernel);
  return NULL;
}

/* Lets the library create_object its object. After a failure the kernel is released. */
static kernel_t *fill_kernel(kernel_t *kernel, char *why, size_t capacity) {
  create_t c = {.kernel = kernel};
  OrtKernelInfo *info = kernel->info;
  for (uint32_t i = 0; i < kernel->in_count; i++)
    info->arguments[i].element = (ort_element_t)kernel->elements[i];
  for (uint32_t i = 0; i < kernel->out_count; i++) {
    const size_t at = i < info->op->out_count ? i : info->op->out_count - 1;
    argument_t *argument = &info->arguments[kernel->in_count + i];
    if (!argument->element) argument->element = (ort_element_t)kernel->overload->outputs[at];
  }
  *why = 0;
  const int result = guard_call(create_object, &c, why, capacity);
  info_finish(info);
  if (result > 0 && status_take(c.status, why, capacity)) return kernel;
  kernel->object = NULL;
  kernel_release(kernel);
  return NULL;
}

/* the state */

void state_destroy(void *pointer) {
  state_t *state = pointer;
  if (!state) return;
  for (kernel_t *k = state->kernels, *next; k; k = next) {
    next = k->next;
    kernel_release(k);
  }
  pthread_mutex_destroy(&state->lock);
  free(state);
}

static tenon_status_t check_texts(tenon_node_t *node, const tenon_value_t *list) {
  for (uint32_t i = 0; i < list->count; i++) {
    const tenon_string_t *text = &list->as.strs[i];
    const char *equals = memchr(text->data, '=', text->size);
    if (!equals || equals == text->data)
      return tenon_fail(node, TENON_INVALID, "attribute '%.*s': expected name=value",
                        text->size < 100 ? (int)text->size : 100, text->data);
  }
  return TENON_OK;
}

/* The attributes of a schema are ATTRIBUTE_COUNT, if there is a variadic output, and then the list
 * of all others. */
tenon_status_t state_create(tenon_node_t *node) {
  const operator_t *op = operator_find(node->context, node->op);
  if (!op) return tenon_fail(node, TENON_INTERNAL, "the library no longer has this operator");
  const tenon_value_t *attrs = node->attrs + op->has_output_list;
  TENON_TRY(check_texts(node, attrs));
  state_t *state = calloc(1, sizeof *state);
  if (!state) return tenon_fail(node, TENON_MEMORY, "out of memory");
  state->op = op;
  state->attributes = attrs;
  pthread_mutex_init(&state->lock, NULL);
  node->state = state;
  return TENON_OK;
}

static bool serves_signature(const kernel_t *kernel, const signature_t *signature) {
  return kernel->in_count == signature->in_count && kernel->out_count == signature->out_count &&
         kernel->wanted == signature->wanted &&
         memcmp(kernel->elements, signature->elements, signature->in_count) == 0;
}

static const kernel_t *find_kernel(state_t *state, const signature_t *signature) {
  const kernel_t *kernel = __atomic_load_n(&state->kernels, __ATOMIC_ACQUIRE);
  while (kernel && !serves_signature(kernel, signature))
    kernel = kernel->next;
  return kernel;
}

static const kernel_t *add_state_kernel(state_t *state, const signature_t *signature, char *why,
                                        size_t capacity) {
  const overload_t *overload = operator_choose(state->op, signature->elements, signature->in_count);
  if (!overload) {
    operator_explain(state->op, signature->elements, signature->in_count, why, capacity);
    return NULL;
  }
  kernel_t *kernel = make_kernel(state, overload, signature);
  if (!kernel) {
    snprintf(why, capacity, "out of memory");
    return NULL;
  }
  if (!(kernel = fill_kernel(kernel, why, capacity))) return NULL;
  kernel->next = state->kernels;
  __atomic_store_n(&state->kernels, kernel, __ATOMIC_RELEASE);
  return kernel;
}

const kernel_t *state_kernel(state_t *state, const signature_t *signature, char *why,
                             size_t capacity) {
  const kernel_t *found = find_kernel(state, signature);
  if (found) return found;
  pthread_mutex_lock(&state->lock);
  found = find_kernel(state, signature);
  if (!found) found = add_state_kernel(state, signature, why, capacity);
  pthread_mutex_unlock(&state->lock);
  return found;
}

/* nodes of graphs */

typedef struct node_input_t {
  const tenon_meta_t *meta; /* NULL: absent */
  bool is_constant;
} node_input_t;

static bool describe_argument(argument_t *argument, const node_input_t *input) {
  const tenon_meta_t *meta = input->meta;
  if (!meta) return true;
  argument->constant = input->is_constant ? meta->value : NULL;
  if (meta->ndim < 0) return true;
  if (!(argument->dims = calloc((size_t)meta->ndim + 1, sizeof *argument->dims))) return false;
  argument->ndim = meta->ndim;
  for (int32_t d = 0; d < meta->ndim; d++)
    argument->dims[d] = tenon_is_known(meta->dims[d]) ? meta->dims[d].value : -1;
  return true;
}

/* Lists the inputs of a node in the order of the library. */
static uint32_t list_inputs(const tenon_node_t *node, const operator_t *op, node_input_t *out) {
  uint32_t count = 0;
  for (size_t i = 0; i < op->in_count; i++) {
    const tenon_meta_t *meta = node->inputs[i];
    const bool is_list = op->in_kinds[i] == ORT_VARIADIC;
    if (!is_list) out[count++] = (node_input_t){meta, i < 64 && node->constant >> i & 1};
    for (uint32_t k = 0; is_list && meta && k < meta->count; k++)
      out[count++] = (node_input_t){meta->items[k], false};
  }
  while (count && !out[count - 1].meta)
    count--;
  return count;
}

static uint32_t count_inputs(const tenon_node_t *node, const operator_t *op) {
  uint32_t count = (uint32_t)op->in_count;
  for (size_t i = 0; i < op->in_count; i++)
    if (op->in_kinds[i] == ORT_VARIADIC && node->inputs[i]) count += node->inputs[i]->count;
  return count;
}

static tenon_status_t prepare_with(tenon_node_t *node, const state_t *state, node_input_t *inputs,
                                   uint8_t *elements) {
  const operator_t *op = state->op;
  const bool has_list = op->has_output_list;
  char why[WHY] = "";
  signature_t signature = {.elements = elements};
  signature.in_count = list_inputs(node, op, inputs);
  signature.out_count = (uint32_t)op->out_count;
  if (has_list) signature.out_count += (uint32_t)node->attrs[0].as.i - 1;
  for (uint32_t i = 0; i < signature.in_count; i++)
    elements[i] = inputs[i].meta ? (uint8_t)element_of(inputs[i].meta->dtype) : 0;
  const overload_t *overload = operator_choose(op, elements, signature.in_count);
  if (!overload) {
    operator_explain(op, elements, signature.in_count, why, sizeof why);
    return tenon_fail(node, TENON_INVALID, "%s", why);
  }
  kernel_t *kernel = make_kernel(state, overload, &signature);
  bool good = kernel != NULL;
  for (uint32_t i = 0; i < signature.in_count && good; i++)
    good = describe_argument(&kernel->info->arguments[i], &inputs[i]);
  if (!good) {
    kernel_release(kernel);
    return tenon_fail(node, TENON_MEMORY, "out of memory");
  }
  node->plan = fill_kernel(kernel, why, sizeof why);
  return node->plan ? TENON_OK : tenon_fail(node, TENON_UNKNOWN, "%s", why);
}

tenon_status_t kernel_prepare(tenon_node_t *node) {
  const state_t *state = node->state;
  const uint32_t most = count_inputs(node, state->op);
  node_input_t *inputs = calloc((size_t)most + 1, sizeof *inputs + sizeof(uint8_t));
  if (!inputs) return tenon_fail(node, TENON_MEMORY, "out of memory");
  tenon_status_t status = prepare_with(node, state, inputs, (uint8_t *)(inputs + most + 1));
  free(inputs);
  return status;
}
