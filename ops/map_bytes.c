/* map_bytes: the elements of a table at 8-bit numbers. The graph compiler makes such tables of
 * pointwise operators between 8-bit numbers.
 * Invariant: a table has an element for each 8-bit number, so no index is out of range. */
#include "axes.h"
#include "dense.h"
#include <tenon/check.h>

enum { CODES = 256, WORK = 1 << 15 };

static tenon_status_t map_infer(tenon_infer_t *infer) {
  const tenon_meta_t *table = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (table->ndim != 1 || dim_differ(table->dims[0], tenon_extent(CODES)))
    return tenon_fail(infer, TENON_INVALID,
                      "table has shape %s; expected [256], an element for each 8-bit number",
                      dims_text(table->dims, table->ndim).text);
  TENON_TRY(out_like(out, infer->inputs[1]));
  out->dtype = table->dtype;
  return TENON_OK;
}

typedef struct map_job_t {
  const uint8_t *table;
  const uint8_t *x;
  uint8_t *out;
} map_job_t;

static tenon_status_t map_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const map_job_t *job = (const map_job_t *)argument;
  const uint8_t *table = job->table;
  (void)call;
  for (int64_t i = begin; i < end; i++)
    job->out[i] = table[job->x[i]];
  return TENON_OK;
}

static tenon_status_t map_run(tenon_call_t *call) {
  const tenon_tensor_t *table = core_dense(call, call->inputs[0], call->inputs[0]->dtype);
  const tenon_tensor_t *x = core_dense(call, call->inputs[1], call->inputs[1]->dtype);
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], call->outputs[0]->dtype);
  if (!table || !x || !out) return TENON_MEMORY;
  map_job_t job = {table->data, x->data, out->data};
  int64_t count = tenon_count(x);
  if (count) TENON_TRY(call->host->parallel(call, count, WORK, map_part, &job));
  return core_settle(call, call->outputs[0], out);
}

/* clang-format off */
TENON_ITEMS(core_map_bytes,
  TENON_OP("map_bytes(Tensor table, Tensor x) -> Tensor",
    TENON_DOC("The elements of the table, which has 256, at the numbers x. "
              "Negative numbers count from the end."),
    TENON_TYPES("table: i8|u8; x: i8|u8; out = table"),
    TENON_SAMPLES("table: [256], x: [n, m]"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(map_infer),
    TENON_KERNEL("cpu strided", map_run)))
/* clang-format on */
