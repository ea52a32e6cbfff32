/* Finds given outputs that share memory with one another or with inputs. Called by run.c before
 * each run with given outputs. The outputs are sorted by address, so that each tensor is compared
 * only with those whose range of addresses meets its own. */
#include "graph/given_outputs.h"

#include <stdlib.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "storage/device_memory.h"
#include "storage/overlap.h"

/* The addresses of an output. */
typedef struct span_t {
  char *begin;
  char *end;
  char *reach; /* the greatest end of this and all earlier spans */
  const tenon_tensor_t *tensor;
  int32_t index;
} span_t;

/* Finds the addresses of a tensor's elements; false: it has none. */
static bool find_span(const tenon_tensor_t *t, span_t *out_span) {
  if (!t || !t->data || tn_layout(t) || tn_dtype_is(t->dtype, TENON_LIST)) return false;
  out_span->tensor = t;
  return tn_tensor_span(t, &out_span->begin, &out_span->end);
}

static int compare_begins(const void *x, const void *y) {
  const span_t *a = x;
  const span_t *b = y;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}

/* The last of the first `count` spans that shares memory with `span`; NULL: none does. All later
 * spans begin where `span` ends, or later. */
static const span_t *find_sharing(const span_t *spans, size_t count, const span_t *span) {
  for (size_t i = count; i-- > 0 && spans[i].reach > span->begin;)
    if (tn_tensors_share(spans[i].tensor, span->tensor)) return &spans[i];
  return NULL;
}

/* The number of spans that begin before `end`. */
static size_t count_before(const span_t *spans, size_t count, const char *end) {
  size_t low = 0;
  while (low < count) {
    size_t middle = low + (count - low) / 2;
    if (spans[middle].begin < end)
      low = middle + 1;
    else
      count = middle;
  }
  return low;
}

/* Lists the addresses of the outputs in ascending order, and refuses outputs that share memory. */
static tenon_status_t list_spans(const tenon_graph_t *graph, tenon_tensor_t *const *outputs,
                                 span_t *out_spans, size_t *out_count) {
  size_t count = 0;
  for (size_t o = 0; o < graph->output_count; o++) {
    const tenon_tensor_t *t = outputs[o];
    if (t && t->data && !tn_layout(t) && t->dtype.code < 200 && tn_tensor_folds(t))
      return tn_fail(TENON_PRECONDITION,
                     "output '%s' would be written to, but several of its elements share one "
                     "address: pass another tensor",
                     graph->output_names[o]);
    out_spans[count].index = (int32_t)o;
    if (find_span(t, &out_spans[count])) count++;
  }
  qsort(out_spans, count, sizeof *out_spans, compare_begins);
  for (size_t i = 0; i < count; i++) {
    span_t *span = &out_spans[i];
    const span_t *other = find_sharing(out_spans, i, span);
    if (other) {
      int32_t first = span->index < other->index ? span->index : other->index;
      int32_t second = span->index + other->index - first;
      return tn_fail(TENON_INVALID,
                     "output '%s' overlaps output '%s': expected separate memory, pass another "
                     "tensor for one of them",
                     graph->output_names[first], graph->output_names[second]);
    }
    span->reach = i && span[-1].reach > span->end ? span[-1].reach : span->end;
  }
  *out_count = count;
  return TENON_OK;
}

tenon_status_t tn_given_outputs_check(const tenon_graph_t *graph, tenon_tensor_t *const *inputs,
                                      tenon_tensor_t *const *outputs, bool *out_overwritten,
                                      bool *out_any) {
  span_t *spans = tn_scratch((graph->output_count + 1) * sizeof *spans);
  size_t count = 0;
  *out_any = false;
  if (!spans) return tn_no_memory("a run", graph->output_count * sizeof *spans);
  TN_TRY(list_spans(graph, outputs, spans, &count));
  for (size_t i = 0; i < graph->input_count; i++) {
    span_t input;
    out_overwritten[i] = find_span(inputs[i], &input) &&
                         find_sharing(spans, count_before(spans, count, input.end), &input) != NULL;
    *out_any |= out_overwritten[i];
  }
  return TENON_OK;
}
