/* Standard operators that kernels call. An operator is a model of one node, written in the format
 * of ONNX, which Tenon reads and compiles once for each combination of dtypes and ranks that is
 * called. Kernels may call one operator at the same time. */
#include "invoke.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "common/ort_element.h"
#include "context.h"
#include "model.h"
#include "status.h"

enum { OPERANDS_MOST = 64 };

typedef struct program_t { /* the operator, compiled for dtypes and ranks of its inputs */
  struct program_t *next;
  model_t model;
  tenon_graph_t *graph;
  tenon_executable_t *executable;
  uint8_t elements[OPERANDS_MOST];
  uint8_t ranks[OPERANDS_MOST];
} program_t;

struct OrtOp {
  char *name;
  model_t attributes; /* as they are written in a node */
  char *domain;
  int version;
  uint32_t in_count;
  uint32_t out_count;
  pthread_mutex_t lock; /* held while a program is compiled */
  program_t *programs;  /* atomic; the newest first */
};

/* creation */

static void release_program(program_t *program) {
  tenon_executable_release(program->executable);
  tenon_graph_release(program->graph);
  model_clear(&program->model);
  free(program);
}

void ort_ReleaseOp(OrtOp *op) {
  if (!op) return;
  for (program_t *p = op->programs, *next; p; p = next) {
    next = p->next;
    release_program(p);
  }
  pthread_mutex_destroy(&op->lock);
  model_clear(&op->attributes);
  free(op->name);
  free(op->domain);
  free(op);
}

OrtStatus *ort_CreateOp(const OrtKernelInfo *info, const char *name, const char *domain,
                        int version, const char **constraint_names,
                        const ort_element_t *constraints, int constraint_count,
                        const OrtOpAttr *const *attributes, int attribute_count, int in_count,
                        int out_count, OrtOp **out) {
  /* The dtypes follow from the tensors of the first call. */
  (void)info;
  (void)constraint_names;
  (void)constraints;
  (void)constraint_count;
  *out = NULL;
  if (in_count < 0 || in_count > OPERANDS_MOST || out_count < 1 || out_count > OPERANDS_MOST ||
      version < 1)
    return status_make(ORT_INVALID_ARGUMENT,
                       "CreateOp: %s of version %d has %d inputs and %d outputs: expected at most "
                       "%d, and a version from 1",
                       name, version, in_count, out_count, OPERANDS_MOST);
  OrtOp *op = calloc(1, sizeof *op);
  if (!op) return status_make(ORT_FAIL, "out of memory");
  pthread_mutex_init(&op->lock, NULL);
  op->version = version;
  op->in_count = (uint32_t)in_count;
  op->out_count = (uint32_t)out_count;
  op->name = strdup(name);
  op->domain = strdup(domain ? domain : "");
  for (int i = 0; i < attribute_count; i++)
    model_add_attribute(&op->attributes, attributes[i]);
  if (op->name && op->domain && !op->attributes.has_failed) {
    *out = op;
    return NULL;
  }
  ort_ReleaseOp(op);
  return status_make(ORT_FAIL, "out of memory");
}

/* programs */

static bool fits_operands(const program_t *program, const OrtOp *op, const uint8_t *elements,
                          const uint8_t *ranks) {
  return memcmp(program->elements, elements, op->in_count) == 0 &&
         memcmp(program->ranks, ranks, op->in_count) == 0;
}

static program_t *find_program(const OrtOp *op, const uint8_t *elements, const uint8_t *ranks) {
  program_t *program = __atomic_load_n(&op->programs, __ATOMIC_ACQUIRE);
  while (program && !fits_operands(program, op, elements, ranks))
    program = program->next;
  return program;
}

static program_t *add_program(OrtOp *op, const uint8_t *elements, const uint8_t *ranks) {
  program_t *program = calloc(1, sizeof *program);
  if (!program) return NULL;
  memcpy(program->elements, elements, op->in_count);
  memcpy(program->ranks, ranks, op->in_count);
  const model_node_t node = {.name = op->name,
                             .domain = op->domain,
                             .version = op->version,
                             .attributes = &op->attributes,
                             .elements = elements,
                             .ranks = ranks,
                             .in_count = op->in_count,
                             .out_count = op->out_count};
  model_write(&program->model, &node);
  if (program->model.has_failed ||
      tenon_graph_read(program->model.data, program->model.size, NULL, &program->graph) !=
          TENON_OK ||
      tenon_executable_create(program->graph, NULL, &program->executable) != TENON_OK) {
    if (program->model.has_failed) (void)tenon_error_set(TENON_MEMORY, "out of memory");
    release_program(program);
    return NULL;
  }
  program->next = op->programs;
  __atomic_store_n(&op->programs, program, __ATOMIC_RELEASE);
  return program;
}

/* The library passes a constant operator, as its programs are not part of what it sees. */
static program_t *get_program(const OrtOp *of, const uint8_t *elements, const uint8_t *ranks) {
  OrtOp *op = (OrtOp *)(uintptr_t)of;
  program_t *program = find_program(op, elements, ranks);
  if (program) return program;
  pthread_mutex_lock(&op->lock);
  program = find_program(op, elements, ranks);
  if (!program) program = add_program(op, elements, ranks);
  pthread_mutex_unlock(&op->lock);
  return program;
}

/* calls */

static OrtStatus *copy_strings_to_value(const tenon_tensor_t *from, OrtValue *to) {
  const tenon_string_t *strings = from->data;
  for (int64_t i = 0; i < tenon_count(from); i++) {
    tenon_status_t status =
        to->call
            ? to->call->host->set_string(to->call, to->tensor, i, strings[i].data, strings[i].size)
            : tenon_tensor_set_string(to->tensor, i, strings[i].data, strings[i].size);
    if (status != TENON_OK) return status_of_tenon("a string cannot be set");
  }
  return NULL;
}

static OrtStatus *copy_to_value(const OrtOp *op, int index, const tenon_tensor_t *from,
                                OrtValue *to) {
  bool same = to->tensor && tenon_dtype_id(from->dtype) == tenon_dtype_id(to->tensor->dtype) &&
              from->ndim == to->tensor->ndim;
  for (int32_t d = 0; same && d < from->ndim; d++)
    same = from->shape[d] == to->tensor->shape[d];
  if (!same)
    return status_make(ORT_INVALID_ARGUMENT,
                       "InvokeOp: result %d of %s has another dtype or shape than the tensor that "
                       "the library gave for it",
                       index, op->name);
  if (tenon_dtype_id(from->dtype) == TENON_STRING) return copy_strings_to_value(from, to);
  const size_t bits = (size_t)tenon_count(from) * from->dtype.bits;
  if (bits)
    memcpy((char *)to->tensor->data + to->tensor->byte_offset,
           (const char *)from->data + from->byte_offset, (bits + 7) / 8);
  return NULL;
}

static OrtStatus *describe_inputs(const OrtOp *op, const OrtValue *const *inputs,
                                  tenon_tensor_t **tensors, uint8_t *elements, uint8_t *ranks) {
  size_t present = 0;
  for (uint32_t i = 0; i < op->in_count; i++) {
    tenon_tensor_t *tensor = inputs[i] ? inputs[i]->tensor : NULL;
    elements[i] = ranks[i] = 0;
    if (!tensor) continue;
    elements[i] = (uint8_t)element_of(tensor->dtype);
    ranks[i] = (uint8_t)tensor->ndim;
    tensors[present++] = tensor;
    if (!elements[i])
      return status_make(ORT_INVALID_ARGUMENT,
                         "InvokeOp: input %u of %s has dtype %s, which ONNX "
                         "Runtime lacks",
                         i, op->name, tenon_dtype_name(tensor->dtype));
  }
  return NULL;
}

OrtStatus *ort_InvokeOp(const OrtKernelContext *context, const OrtOp *op,
                        const OrtValue *const *inputs, int in_count, OrtValue *const *outputs,
                        int out_count) {
  tenon_tensor_t *tensors[OPERANDS_MOST];
  tenon_tensor_t *results[OPERANDS_MOST] = {NULL};
  uint8_t elements[OPERANDS_MOST];
  uint8_t ranks[OPERANDS_MOST];
  (void)context;
  if (!op || in_count != (int)op->in_count || out_count != (int)op->out_count)
    return status_make(ORT_INVALID_ARGUMENT,
                       "InvokeOp: %s was created for other numbers than %d inputs and %d outputs",
                       op ? op->name : "NULL", in_count, out_count);
  OrtStatus *status = describe_inputs(op, inputs, tensors, elements, ranks);
  if (status) return status;
  const program_t *program = get_program(op, elements, ranks);
  if (!program || tenon_executable_run(program->executable, tensors, results, NULL) != TENON_OK)
    return status_of_tenon(op->name);
  for (int i = 0; i < out_count && !status; i++)
    if (outputs[i]) status = copy_to_value(op, i, results[i], outputs[i]);
  for (int i = 0; i < out_count; i++)
    tenon_tensor_release(results[i]);
  return status;
}
