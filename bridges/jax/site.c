/* Finds call sites by the addresses of their texts, and runs calls whose shapes are known. */
#include "site.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
  SLOTS = 4096, /* a power of two */
  PROBES = 4,
  SMALL = 4096 /* elements of all tensors of a call that is too short for several threads */
};

/* Where a text lay when it was looked up before. XLA keeps the text of a call at one address, so
 * most calls find their site here. The text is compared all the same, because the memory may have
 * been freed and have another text by now. */
static _Atomic(const site_t *) slots[SLOTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static site_t *sites; /* all sites */

static size_t first_slot(const char *text) {
  const uintptr_t address = (uintptr_t)text;
  return (address >> 4 ^ address >> 16) & (SLOTS - 1);
}

/* Replaces `before` in the slots of an address, or takes one of its slots in turn. The lock is
 * held. */
static void store_site(const char *text, const site_t *before, const site_t *site) {
  static size_t turn;
  const size_t first = first_slot(text);
  size_t at = turn++ % PROBES;
  for (size_t i = 0; i < PROBES && before; i++)
    if (atomic_load_explicit(&slots[(first + i) & (SLOTS - 1)], memory_order_relaxed) == before)
      at = i;
  atomic_store_explicit(&slots[(first + at) & (SLOTS - 1)], site, memory_order_release);
}

/* Returns the site of a call that knows no shapes. The lock is held. */
static const site_t *find_without_shapes(const call_t *call) {
  for (const site_t *s = sites; s; s = s->next)
    if (s->call == call && !s->dtypes) return s;
  site_t *site = calloc(1, sizeof *site);
  if (!site) return NULL;
  site->call = call;
  site->next = sites;
  sites = site;
  return site;
}

static tenon_status_t find_slowly(const char *text, size_t size, const site_t **out_site) {
  const call_t *call = NULL;
  const tenon_status_t status = call_prepare(text, size, &call);
  if (status != TENON_OK) return status;
  pthread_mutex_lock(&lock);
  *out_site = find_without_shapes(call);
  if (*out_site) store_site(text, NULL, *out_site);
  pthread_mutex_unlock(&lock);
  return *out_site ? TENON_OK : tenon_error_set(TENON_MEMORY, "out of memory");
}

tenon_status_t site_find(const char *text, size_t size, const site_t **out_site) {
  const size_t first = first_slot(text);
  for (size_t i = 0; i < PROBES; i++) {
    const site_t *site =
        atomic_load_explicit(&slots[(first + i) & (SLOTS - 1)], memory_order_acquire);
    if (!site || !call_has_text(site->call, text, size)) continue;
    *out_site = site;
    return TENON_OK;
  }
  return find_slowly(text, size, out_site);
}

static bool has_shape(const tenon_tensor_t *view, int32_t dtype, const xla_buffer_t *buffer) {
  if (buffer->dtype != dtype || buffer->rank != view->ndim) return false;
  for (int32_t d = 0; d < view->ndim; d++) /* too few for memcmp */
    if (buffer->dims[d] != view->shape[d]) return false;
  return true;
}

static bool has_shapes(const site_t *site, const xla_buffers_t *buffers, uint32_t first,
                       uint32_t count) {
  if (buffers->count != count) return false;
  for (uint32_t k = 0; k < count; k++)
    if (buffers->types[k] != XLA_ARGUMENT_BUFFER ||
        !has_shape(&site->views[first + k], site->dtypes[first + k], buffers->items[k]))
      return false;
  return true;
}

static bool fits(const site_t *site, const xla_frame_t *frame) {
  return site->dtypes && has_shapes(site, &frame->operands, 0, site->operand_count) &&
         has_shapes(site, &frame->results, site->operand_count, site->result_count);
}

/* Fills in the views of some buffers, and their dtypes. Returns the next free extent. */
static int64_t *set_views(site_t *site, const xla_buffers_t *buffers, uint32_t first,
                          int64_t *extents) {
  for (int64_t k = 0; k < buffers->count; k++) {
    const xla_buffer_t *buffer = buffers->items[k];
    const size_t rank = (size_t)buffer->rank;
    static char no_data[1];
    memcpy(extents, buffer->dims, rank * sizeof *extents);
    (void)tenon_tensor_view(&site->views[first + (uint32_t)k], no_data, call_dtype(buffer->dtype),
                            (int32_t)rank, extents, NULL, extents + rank);
    site->dtypes[first + (uint32_t)k] = buffer->dtype;
    extents += 2 * rank;
  }
  return extents;
}

static size_t count_extents(const xla_buffers_t *buffers) {
  size_t count = 0;
  for (int64_t k = 0; k < buffers->count; k++)
    count += 2 * (size_t)((const xla_buffer_t *)buffers->items[k])->rank;
  return count;
}

/* Makes a site in one block: the structure, its views, the extents, the dtypes. */
static site_t *make_site(const call_t *call, const xla_frame_t *frame) {
  const size_t count = (size_t)(frame->operands.count + frame->results.count);
  const size_t extents = count_extents(&frame->operands) + count_extents(&frame->results);
  int64_t elements = 0;
  const size_t views = sizeof(site_t) + count * sizeof(tenon_tensor_t);
  site_t *site = calloc(1, views + extents * sizeof(int64_t) + count * sizeof(int32_t));
  if (!site) return NULL;
  int64_t *next = (int64_t *)((char *)site + views);
  site->call = call;
  site->operand_count = (uint32_t)frame->operands.count;
  site->result_count = (uint32_t)frame->results.count;
  site->dtypes = (int32_t *)(next + extents);
  next = set_views(site, &frame->operands, 0, next);
  (void)set_views(site, &frame->results, site->operand_count, next);
  for (size_t k = 0; k < count; k++)
    elements += tenon_count(&site->views[k]);
  site->is_small = elements <= SMALL;
  return site;
}

void site_remember(const site_t *site, const char *text, const xla_frame_t *frame) {
  const call_t *call = site->call;
  if (!call->is_plain || call->keeps || call->written || !call->has_fixed_shapes) return;
  pthread_mutex_lock(&lock);
  site_t *found = sites;
  while (found && !(found->call == call && fits(found, frame)))
    found = found->next;
  if (!found) {
    found = make_site(call, frame);
    if (found) {
      found->next = sites;
      sites = found;
    }
  }
  if (found) store_site(text, site, found);
  pthread_mutex_unlock(&lock);
}

bool site_run(const site_t *site, const xla_frame_t *frame, tenon_status_t *out_status) {
  const call_t *call = site->call;
  tenon_tensor_t views[2 * CALL_MOST];
  tenon_tensor_t *inputs[CALL_MOST];
  tenon_tensor_t *outputs[CALL_MOST];
  if (!fits(site, frame)) return false;
  uint32_t k = 0;
  for (uint32_t i = 0; i < call->input_count; i++) {
    inputs[i] = NULL;
    if (call->counts[i] < 0) continue;
    views[k] = site->views[k];
    views[k].data = call_data(frame->operands.items[k]);
    inputs[i] = &views[k++];
  }
  for (uint32_t o = 0; o < call->output_count; o++, k++) {
    views[k] = site->views[k];
    views[k].data = call_data(frame->results.items[o]);
    outputs[o] = &views[k];
  }
  call_threads_t threads;
  if (!site->is_small) call_enter_threads(&threads, frame);
  *out_status = tenon_op_run(call->op, call->values + call->input_count, inputs, outputs);
  if (!site->is_small) call_leave_threads(&threads);
  return true;
}
