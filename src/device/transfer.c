/* Which way bytes go, and what waits for what on it. */
#include "device/transfer.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

enum { STAGE = 4 << 20 }; /* bytes that go by way of the host at once */

/* One copy on a stream. */
static tenon_status_t enqueue(tenon_stream_t *stream, uint32_t direction, const tn_end_t *from, const tn_end_t *to,
                              uint64_t bytes, const char *name) {
  tn_ordinal_t *o = stream->ordinal;
  tn_copy_counts(o, direction, bytes);
  TN_TRY(tn_stream_check(stream));
  if (tn_stream_is_recording(stream) && direction != TENON_COPY_WITHIN)
    return tn_fail(TENON_UNIMPLEMENTED, "%s copies to or from another memory, which is not recorded", name);
  uint64_t ticket = tn_stream_ticket(stream, name);
  tenon_copy_t copy = {.size = sizeof copy,
                       .direction = direction,
                       .ticket = ticket,
                       .bytes = bytes,
                       .from = from->at,
                       .to = to->at,
                       .peer = direction == TENON_COPY_PEER ? &from->ordinal->context : NULL};
  tn_needs_t needs = {0};
  tenon_status_t status = from->memory ? tn_memory_use(from->memory, stream, ticket, false, &needs) : TENON_OK;
  if (status == TENON_OK && to->memory) status = tn_memory_use(to->memory, stream, ticket, true, &needs);
  if (status == TENON_OK) status = tn_stream_follow(stream, &needs);
  if (status != TENON_OK) return tn_stream_ended(stream), status;
  status = o->table->copy(&o->context, stream->native, &copy);
  tn_stream_ended(stream);
  return status == TENON_OK ? status : tn_stream_refused(stream, status, name);
}

static tenon_status_t staged(const tn_end_t *from, const tn_end_t *to, uint64_t bytes, const char *name) {
  const tn_ordinal_t *o = from->ordinal;
  uint64_t size = bytes < STAGE ? bytes : STAGE;
  void *stage = NULL;
  bool is_pinned = TN_SLOT(o->table, host_allocate) && o->table->host_allocate(&o->context, size, &stage) == TENON_OK;
  if (!is_pinned && !(stage = tn_allocate_aligned(size))) return tn_no_memory("a copy between devices", size);
  tenon_status_t status = TENON_OK;
  for (uint64_t done = 0, part; done < bytes && status == TENON_OK; done += part) {
    part = bytes - done < size ? bytes - done : size;
    tn_end_t host = {NULL, {stage, 0}, NULL}, source = *from, target = *to;
    source.at.offset += done, target.at.offset += done;
    status = tn_transfer(&source, &host, part, name);
    if (status == TENON_OK) status = tn_transfer(&host, &target, part, name);
  }
  if (is_pinned) o->table->host_free(&o->context, stage);
  else tn_release_aligned(stage);
  return status;
}

tenon_status_t tn_transfer(const tn_end_t *from, const tn_end_t *to, uint64_t bytes, const char *name) {
  tn_ordinal_t *source = from->ordinal, *target = to->ordinal;
  if (!bytes) return TENON_OK;
  if (!source && !target) return memcpy(to->at.handle, from->at.handle, bytes), TENON_OK;
  tenon_stream_t *stream = tn_stream_current(target ? target : source);
  if (!source || !target) { /* the host's side must be free when this returns */
    TN_TRY(enqueue(stream, source ? TENON_COPY_OUT : TENON_COPY_IN, from, to, bytes, name));
    return tn_stream_finish(stream);
  }
  if (source == target) return enqueue(stream, TENON_COPY_WITHIN, from, to, bytes, name);
  if (source->plugin == target->plugin && TN_SLOT(target->table, peers) &&
      target->table->peers(&target->context, &source->context))
    return enqueue(stream, TENON_COPY_PEER, from, to, bytes, name);
  return staged(from, to, bytes, name);
}
