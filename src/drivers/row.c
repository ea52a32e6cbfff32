/* The driver of row kernels: passes whole rows of the last axis, split over threads, and widens
 * narrow floats one block of rows at a time.  The table's entries and executables call it.
 * Operands are dense. */
#include "drivers/row.h"

#include <string.h>

#include "base/parallel.h"
#include "base/status.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "operator/kernel.h"

typedef struct rows_t {
  tenon_call_t *call;
  const tn_kernel_t *kernel;
  uint32_t count;
  int64_t first; /* the number of the first row */
  int64_t rows;
  int64_t width;
  char **data;
  int64_t *widths;  /* elements of a row */
  int64_t *sizes;   /* bytes of an element in memory */
  int64_t *strides; /* bytes from row to row; 0: all rows share one */
  bool *converts;
} rows_t;

/* Sets the operands of a block of rows: those in memory, or inputs converted into the block's own
 * memory. */
static void load_rows(const rows_t *r, void **data, int64_t at, int64_t rows) {
  const tenon_call_t *c = r->call;
  for (uint32_t i = 0; i < r->count; i++) {
    if (!r->data[i]) continue;
    char *memory = r->data[i] + at * r->strides[i];
    if (!r->converts[i])
      data[i] = memory;
    else if (i < c->op->input_count)
      tn_convert(memory, c->inputs[i]->dtype, data[i], r->kernel->loop.words.dtypes[i],
                 (r->strides[i] ? rows : 1) * r->widths[i]);
  }
}

/* Converts the outputs that the kernel wrote in a dtype other than that of their tensors. */
static void store_rows(const rows_t *r, void **data, int64_t at, int64_t rows) {
  const tenon_call_t *c = r->call;
  for (uint32_t i = c->op->input_count; i < r->count; i++)
    if (r->data[i] && r->converts[i])
      tn_convert(data[i], r->kernel->loop.words.dtypes[i], r->data[i] + at * r->strides[i],
                 c->outputs[i - c->op->input_count]->dtype, rows * r->widths[i]);
}

static tenon_status_t run_rows(const rows_t *r, int64_t begin, int64_t end) {
  uint32_t n = r->count;
  tn_scratch_mark_t mark = tn_scratch_mark();
  int64_t block = end - begin;
  int64_t bytes = 0;
  bool any = false;
  for (uint32_t i = 0; i < n; i++)
    any |= r->converts[i];
  if (any) block = r->width > 0 && r->width < 4096 ? 4096 / r->width : 1;
  if (block > end - begin) block = end - begin;
  void **data = tn_scratch(n * (sizeof *data + sizeof(int64_t)) + 64);
  int64_t *strides = (int64_t *)(void *)(data + n);
  for (uint32_t i = 0; i < n; i++)
    if (r->converts[i]) bytes += (block * r->widths[i] * 8 + 63) & ~(int64_t)63;
  char *room = bytes ? tn_scratch((size_t)bytes) : NULL;
  if (!data || (bytes && !room)) {
    tn_scratch_reset(mark);
    return tn_no_memory("rows", (size_t)bytes);
  }
  for (uint32_t i = 0; i < n; i++) {
    data[i] = NULL;
    strides[i] = r->strides[i];
    if (!r->converts[i]) continue;
    data[i] = room;
    room += (block * r->widths[i] * 8 + 63) & ~(int64_t)63;
    if (strides[i]) strides[i] = r->widths[i] * r->kernel->loop.words.dtypes[i].bits / 8;
  }
  const tenon_call_t *c = r->call;
  tenon_loop_t loop = {.size = sizeof loop,
                       .phase = TENON_PHASE_LOOP,
                       .host = c->host,
                       .op = c->op,
                       .attrs = c->attrs,
                       .context = r->kernel->context,
                       .state = c->state,
                       .count = r->width,
                       .data = data,
                       .stride = strides,
                       .seed = c->random ? c->random->seed : 0,
                       .offset = c->random ? c->random->offset : 0,
                       .widths = r->widths};
  tenon_status_t status = TENON_OK;
  for (int64_t at = begin; at < end && status == TENON_OK; at += block) {
    int64_t rows = end - at < block ? end - at : block;
    load_rows(r, data, at, rows);
    loop.first = (uint64_t)(r->first + at);
    loop.rows = rows;
    status = r->kernel->loop.function(&loop);
    if (status == TENON_OK) store_rows(r, data, at, rows);
  }
  tn_scratch_reset(mark);
  return status;
}

static tenon_status_t run_part(void *argument, int64_t begin, int64_t end) {
  return run_rows(argument, begin, end);
}

tenon_status_t tn_row_run_from(tenon_call_t *call, int64_t first) {
  const tenon_op_t *op = call->op;
  const tn_kernel_t *kernel = tn_frame_of(call)->kernel;
  if (!kernel && !(kernel = tn_op_kernel(op, call->inputs, call->outputs)))
    return tn_op_missing(op, "cpu", call->inputs);
  uint32_t n = op->input_count + op->output_count;
  const tenon_tensor_t *x = call->inputs[0];
  tn_scratch_mark_t mark = tn_scratch_mark();
  char *room = tn_scratch(n * (sizeof(char *) + 3 * sizeof(int64_t) + sizeof(bool)) + 64);
  if (!room) return tn_no_memory("rows", n);
  rows_t r = {.call = call, .kernel = kernel, .count = n, .first = first};
  r.data = (char **)(void *)room;
  r.widths = (int64_t *)(void *)(r.data + n);
  r.sizes = r.widths + n;
  r.strides = r.sizes + n;
  r.converts = (bool *)(r.strides + n);
  r.width = x->ndim ? x->shape[x->ndim - 1] : 1;
  r.rows = 1;
  for (int32_t i = 0; i < x->ndim - 1; i++)
    r.rows *= x->shape[i];
  for (uint32_t i = 0; i < n; i++) {
    const tenon_tensor_t *t =
        i < op->input_count ? call->inputs[i] : call->outputs[i - op->input_count];
    r.data[i] = t ? t->data : NULL;
    r.widths[i] = 0;
    r.strides[i] = 0;
    r.converts[i] = false;
    if (!t) continue;
    int64_t rows = 1;
    for (int32_t k = 0; k < t->ndim - 1; k++)
      rows *= t->shape[k];
    r.sizes[i] = t->dtype.bits * t->dtype.lanes / 8;
    r.widths[i] = t->ndim ? t->shape[t->ndim - 1] : 1;
    if (t->ndim < x->ndim && tenon_count(t) == r.rows && i >= op->input_count) {
      rows = r.rows;
      r.widths[i] = 1;
    }
    if (rows != r.rows && (rows != 1 || i >= op->input_count)) {
      bool is_input = i < op->input_count;
      const char *name =
          is_input ? op->schema.inputs[i].name : op->schema.outputs[i - op->input_count].name;
      tn_scratch_reset(mark);
      return tn_fail(TENON_INVALID, "%s: %s has %lld rows, expected %lld%s", op->name, name,
                     (long long)rows, (long long)r.rows, is_input ? " or 1" : "");
    }
    r.strides[i] = rows == 1 && r.rows != 1 ? 0 : r.widths[i] * r.sizes[i];
    r.converts[i] = !tn_dtype_same(t->dtype, kernel->loop.words.dtypes[i]);
  }
  int64_t grain = r.width > 0 && r.width < 16384 ? 16384 / r.width : 1;
  tenon_status_t status = r.rows ? tn_parallel(r.rows, grain, run_part, &r) : TENON_OK;
  tn_scratch_reset(mark);
  return status;
}

tenon_status_t tn_row_run(tenon_call_t *call) { return tn_row_run_from(call, 0); }
