/* Pointers that are kept: what a call was given is out of reach when the next one runs. */
#include <string.h>
#include <sys/mman.h>

#include "call.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "dispatch/call.h"
#include "dispatch/infer.h"
#include "run.h"

enum { PAGE = 4096 };

/* ---- pages -------------------------------------------------------------------------------------------------------------------- */

typedef struct pages_t { /* memory that is made inaccessible as a whole, and stays where it is */
  char *base;
  size_t size, used;
} pages_t;

static bool pages_open(pages_t *p, size_t size) {
  p->size = (size + PAGE - 1) / PAGE * PAGE + PAGE, p->used = 0;
  p->base = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p->base != MAP_FAILED;
}

static void *pages_take(pages_t *p, size_t size) {
  void *at = p->base + p->used;
  p->used += (size + 63) / 64 * 64;
  return p->used <= p->size ? at : NULL;
}

static void *pages_copy(pages_t *p, const void *from, size_t size) {
  void *to = from ? pages_take(p, size) : NULL;
  return to ? memcpy(to, from, size) : NULL;
}

static void pages_lock(pages_t *p) { mprotect(p->base, p->size, PROT_NONE); }
static void pages_close(pages_t *p) { munmap(p->base, p->size); }

/* ---- run ---------------------------------------------------------------------------------------------------------------------- */

/* A view whose data, shape and the structure itself lie in the pages. */
static tenon_tensor_t *place(pages_t *p, const tenon_tensor_t *t) {
  uint64_t bytes;
  if (!tn_dtype_bytes(t->dtype, tenon_count(t), &bytes)) return NULL;
  tenon_tensor_t *view = pages_take(p, sizeof *view);
  int64_t *shape = pages_take(p, (size_t)(t->ndim + 1) * sizeof *shape);
  int64_t *strides = pages_take(p, (size_t)(t->ndim + 1) * sizeof *strides);
  void *data = pages_take(p, bytes + 1);
  if (!view || !shape || !strides || !data) return NULL;
  memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
  memcpy(data, t->data, bytes);
  return tenon_tensor_view(view, data, t->dtype, t->ndim, shape, NULL, strides) == TENON_OK ? view : NULL;
}

static bool is_plain(const tenon_tensor_t *t) {
  return !t || (!tn_dtype_is(t->dtype, TENON_LIST) && !tn_dtype_is(t->dtype, TENON_STRING) && !t->detail);
}

/* Fills views of all inputs and of results like `outputs`; false: not of this operator. */
static bool place_all(const trial_t *trial, pages_t *p, tenon_tensor_t *const *outputs, tenon_tensor_t **out_inputs,
                      tenon_tensor_t **out_outputs) {
  uint64_t size = 0, bytes;
  for (uint32_t k = 0; k < 2; k++) {
    tenon_tensor_t *const *list = k ? outputs : trial->inputs;
    for (uint32_t i = 0; i < (k ? trial->op->output_count : trial->op->input_count); i++) {
      if (!is_plain(list[i])) return false;
      if (list[i] && tn_dtype_bytes(list[i]->dtype, tenon_count(list[i]), &bytes))
        size += bytes + 4 * TENON_RANK_MAX * 8;
    }
  }
  if (!pages_open(p, size + 64 * PAGE)) return false;
  for (uint32_t i = 0; i < trial->op->input_count; i++)
    out_inputs[i] = trial->inputs[i] ? place(p, trial->inputs[i]) : NULL;
  for (uint32_t o = 0; o < trial->op->output_count; o++) out_outputs[o] = outputs[o] ? place(p, outputs[o]) : NULL;
  return true;
}

/* Two calls, the second when the arguments of the first are out of reach. */
static void check_run(trial_t *trial) {
  tenon_tensor_t *expected[TRIAL_ARGUMENTS] = {NULL}, *inputs[TRIAL_ARGUMENTS], *outputs[TRIAL_ARGUMENTS];
  pages_t first = {NULL, 0, 0}, second = {NULL, 0, 0};
  call_doing(trial, "", "once");
  if (tenon_op_call(trial->op, trial->attrs, trial->inputs, expected, 0) == TENON_OK &&
      place_all(trial, &first, expected, inputs, outputs)) {
    tenon_status_t status = tenon_op_call_into(trial->op, trial->attrs, inputs, outputs);
    pages_lock(&first);
    call_doing(trial, "pointer.kept", "when the memory of the call before is out of reach");
    if (status == TENON_OK && place_all(trial, &second, expected, inputs, outputs))
      tenon_op_call_into(trial->op, trial->attrs, inputs, outputs);
    pages_close(&first);
    if (second.base) pages_close(&second);
  }
  for (uint32_t o = 0; o < TRIAL_ARGUMENTS; o++) tenon_tensor_release(expected[o]);
}

static const char *lacks_run(const subject_t *subject) {
  if (!subject_runs_code(subject)) return "nothing of it runs";
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (subject->op->schema.inputs[i].is_written) return "it writes to an input";
  return NULL;
}

static void run_kept(const subject_t *subject) {
  trials_t all = trials(subject, false);
  for (trial_t *t; (t = trials_next(&all));) check_run(t);
}

/* ---- infer -------------------------------------------------------------------------------------------------------------------- */

/* A meta in the pages, with what it points to. */
static tenon_meta_t *place_meta(pages_t *p, const tenon_meta_t *meta, bool is_result) {
  tenon_meta_t *copy = meta ? pages_copy(p, meta, sizeof *meta) : NULL;
  if (!copy) return NULL;
  size_t room = (is_result || meta->ndim < 0 ? TENON_RANK_MAX : (size_t)meta->ndim + 1) * sizeof *meta->dims;
  if (meta->dims) copy->dims = pages_copy(p, meta->dims, room);
  if (meta->strides) copy->strides = pages_copy(p, meta->strides, room);
  if (meta->values)
    copy->values = is_result ? pages_take(p, 64 * sizeof *meta->values)
                             : pages_copy(p, meta->values, meta->value_count * sizeof *meta->values);
  return copy;
}

/* One inference whose arguments go out of reach, then the kernel alone, then a whole call. */
static void check_infer(trial_t *trial) {
  const tenon_op_t *op = trial->op;
  tenon_tensor_t *outputs[TRIAL_ARGUMENTS] = {NULL};
  tenon_meta_t **inputs, **results, *in[TRIAL_ARGUMENTS] = {NULL}, *out[TRIAL_ARGUMENTS] = {NULL};
  pages_t pages;
  tn_inference_t inference = {.extents = NULL};
  void *state = NULL;
  call_doing(trial, "", "once");
  if (tenon_op_call(op, trial->attrs, trial->inputs, outputs, 0) != TENON_OK) return;
  tn_scratch_mark_t mark = tn_scratch_mark();
  bool fine = (!op->create || tn_state_get(op, trial->attrs, &state) == TENON_OK) &&
              tn_metas_of_inputs(op, trial->inputs, &inputs) == TENON_OK &&
              tn_metas_of_results(op, trial->attrs, 0, &results) == TENON_OK && pages_open(&pages, 256 * PAGE);
  if (fine) {
    for (uint32_t i = 0; i < op->input_count; i++) in[i] = place_meta(&pages, inputs[i], false);
    for (uint32_t o = 0; o < op->output_count; o++) out[o] = place_meta(&pages, results[o], true);
    tenon_meta_t **in_list = pages_copy(&pages, in, sizeof in), **out_list = pages_copy(&pages, out, sizeof out);
    if (in_list && out_list) tn_infer(&inference, op, trial->attrs, state, in_list, out_list);
    pages_lock(&pages);
    call_doing(trial, "pointer.infer", "when what infer was given is out of reach");
    tenon_op_run(op, trial->attrs, trial->inputs, outputs);
    tenon_tensor_t *again[TRIAL_ARGUMENTS] = {NULL};
    tenon_op_call(op, trial->attrs, trial->inputs, again, 0);
    for (uint32_t o = 0; o < op->output_count; o++) tenon_tensor_release(again[o]);
    pages_close(&pages);
  }
  tn_scratch_reset(mark);
  for (uint32_t o = 0; o < op->output_count; o++) tenon_tensor_release(outputs[o]);
}

static const char *lacks_infer(const subject_t *subject) {
  const tenon_op_t *op = subject->op;
  if (!op->infer || op->body >= 0) return "it has no infer";
  if (!subject_runs_code(subject)) return "nothing of it runs";
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS || op->schema.inputs[i].is_written)
      return "it takes lists, or writes to an input";
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS) return "it gives lists";
  return op->traits & TENON_RANDOM ? "it draws random numbers" : NULL;
}

static void run_infer(const subject_t *subject) {
  trials_t all = trials(subject, false);
  for (trial_t *t; (t = trials_next(&all));) check_infer(t);
}

const check_t checks_pointers[] = {
    {"pointer.kept", "A call reads nothing of the memory, shapes and structures that the call before was given.", NULL,
     lacks_run, run_kept},
    {"pointer.infer", "Neither run nor a later infer reads what an infer was given.", NULL, lacks_infer, run_infer},
    {NULL, NULL, NULL, NULL, NULL}};
