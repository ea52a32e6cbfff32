/* Copies bytes between memories: chooses the way, and orders each copy with the streams and memory
 * that it uses. */
#include "device/transfer.h"

#include <string.h>

#include "base/status.h"
#include "base/thread.h"

enum {
  STAGE = 4 << 20,  /* bytes of one part that goes through the host */
  UPLOAD = 1 << 18, /* up to this size, bytes are copied on the host rather than waited for */
};

/* Prepares a stream for work that reads `from` and writes to `to`; NULL, and ends without a record
 * are left out. After an error the ticket has ended. */
static tenon_status_t order_work(tenon_stream_t *stream, uint64_t ticket, const tn_end_t *from,
                                 const tn_end_t *to) {
  tn_needs_t needs = {0};
  tenon_status_t status =
      from && from->memory ? tn_memory_use(from->memory, stream, ticket, false, &needs) : TENON_OK;
  if (status == TENON_OK && to->memory)
    status = tn_memory_use(to->memory, stream, ticket, true, &needs);
  if (status == TENON_OK) status = tn_stream_follow(stream, &needs);
  if (status != TENON_OK) tn_stream_ended(stream);
  return status;
}

/* Called after the plug-in has enqueued the work, or has failed to. */
static tenon_status_t end_work(tenon_stream_t *stream, uint64_t errors, const char *function,
                               const char *name, tenon_status_t status) {
  status = tn_ordinal_complete(stream->ordinal, errors, function, status);
  tn_stream_ended(stream);
  return status == TENON_OK ? status : tn_stream_refused(stream, status, name);
}

/* Enqueues one copy on a stream. */
static tenon_status_t enqueue_copy(tenon_stream_t *stream, uint32_t direction, const tn_end_t *from,
                                   const tn_end_t *to, uint64_t bytes, const char *name) {
  tn_ordinal_t *o = stream->ordinal;
  tn_copy_counts(o, direction, bytes);
  TN_TRY(tn_stream_check(stream));
  if (tn_stream_is_capturing(stream) && direction != TENON_COPY_WITHIN)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s copies to or from another memory, which cannot be captured", name);
  uint64_t ticket = tn_stream_ticket(stream, name);
  tenon_copy_t copy = {.size = sizeof copy,
                       .direction = direction,
                       .ticket = ticket,
                       .bytes = bytes,
                       .from = from->at,
                       .to = to->at,
                       .peer = direction == TENON_COPY_PEER ? &from->ordinal->context : NULL};
  TN_TRY(order_work(stream, ticket, from, to));
  const uint64_t errors = tn_error_count();
  return end_work(stream, errors, "copy", name, o->table->copy(&o->context, stream->native, &copy));
}

bool tn_ordinal_fills(const tn_ordinal_t *ordinal) { return TN_SLOT(ordinal->table, fill); }

tenon_status_t tn_fill_begin(const tn_end_t *to, uint64_t bytes, const void *pattern,
                             uint32_t pattern_bytes, const char *name) {
  tn_ordinal_t *o = to->ordinal;
  tenon_stream_t *stream = tn_stream_current(o);
  TN_TRY(tn_stream_check(stream));
  uint64_t ticket = tn_stream_ticket(stream, name);
  TN_TRY(order_work(stream, ticket, NULL, to));
  const uint64_t errors = tn_error_count();
  return end_work(
      stream, errors, "fill", name,
      o->table->fill(&o->context, stream->native, ticket, to->at, bytes, pattern, pattern_bytes));
}

static tn_end_t host_end(tn_memory_t *memory) {
  return (tn_end_t){NULL, {(char *)memory->handle + memory->offset, 0}, memory};
}

/* Copies through the host in parts: part i goes to the host while part i - 1 goes on from there.
 * Streams of one plug-in wait for each other. Between two plug-ins the host waits for each part,
 * and before a piece is reused. */
static tenon_status_t copy_staged(const tn_end_t *from, const tn_end_t *to, uint64_t bytes,
                                  const char *name) {
  tn_ordinal_t *source = from->ordinal;
  tn_ordinal_t *target = to->ordinal;
  tenon_stream_t *reads = tn_stream_current(source);
  tenon_stream_t *writes = tn_stream_current(target);
  bool waits = source->plugin != target->plugin || !source->has_events;
  tn_ordinal_t *stages = TN_SLOT(source->table, host_allocate) ? source : target;
  uint64_t size = bytes < STAGE ? bytes : STAGE;
  uint64_t count = (bytes + size - 1) / size;
  tn_memory_t *pieces[2] = {NULL, NULL};
  tenon_status_t status = TENON_OK;
  for (uint64_t i = 0; i < 2 && i < count && status == TENON_OK; i++)
    status = tn_memory_get_pinned(stages, size, &pieces[i]);
  for (uint64_t i = 0; i <= count && status == TENON_OK; i++) {
    uint64_t done = i * size;
    uint64_t before = done - size;
    if (i < count) {
      tn_end_t part = *from;
      tn_end_t host = host_end(pieces[i % 2]);
      part.at.offset += done;
      status = enqueue_copy(reads, TENON_COPY_OUT, &part, &host,
                            bytes - done < size ? bytes - done : size, name);
    }
    if (i > 0 && status == TENON_OK) {
      tn_end_t part = *to;
      tn_end_t host = host_end(pieces[(i - 1) % 2]);
      part.at.offset += before;
      status = enqueue_copy(writes, TENON_COPY_IN, &host, &part,
                            bytes - before < size ? bytes - before : size, name);
    }
    /* The stream that takes part i waits for this part, not for the next one. */
    if (i < count && status == TENON_OK)
      status = waits ? tn_stream_finish(reads) : tn_stream_point(reads);
  }
  for (int i = 0; i < 2; i++)
    if (pieces[i]) tn_memory_put(pieces[i]);
  return status;
}

tenon_status_t tn_transfer_begin(const tn_end_t *from, const tn_end_t *to, uint64_t bytes,
                                 const char *name) {
  tn_ordinal_t *source = from->ordinal;
  tn_ordinal_t *target = to->ordinal;
  if (!bytes) return TENON_OK;
  if (!source && !target) {
    memcpy(to->at.handle, from->at.handle, bytes);
    return TENON_OK;
  }
  tenon_stream_t *stream = tn_stream_current(target ? target : source);
  if (!source || !target)
    return enqueue_copy(stream, source ? TENON_COPY_OUT : TENON_COPY_IN, from, to, bytes, name);
  if (source == target) return enqueue_copy(stream, TENON_COPY_WITHIN, from, to, bytes, name);
  if (source->plugin == target->plugin && TN_SLOT(target->table, peers) &&
      target->table->peers(&target->context, &source->context))
    return enqueue_copy(stream, TENON_COPY_PEER, from, to, bytes, name);
  return copy_staged(from, to, bytes, name);
}

tenon_status_t tn_transfer(const tn_end_t *from, const tn_end_t *to, uint64_t bytes,
                           const char *name) {
  tn_ordinal_t *target = to->ordinal;
  bool is_small =
      target && !from->ordinal && !from->memory && bytes <= UPLOAD && target->has_streams;
  tn_memory_t *piece = NULL;
  if (is_small && bytes && tn_memory_get_pinned(target, bytes, &piece) == TENON_OK) {
    tn_end_t host = host_end(piece);
    memcpy(host.at.handle, from->at.handle, bytes);
    tenon_status_t status = tn_transfer_begin(&host, to, bytes, name);
    tn_memory_put(piece);
    return status;
  }
  TN_TRY(tn_transfer_begin(from, to, bytes, name));
  if (!from->ordinal == !target) return TENON_OK;
  return tn_stream_finish(tn_stream_current(target ? target : from->ordinal));
}
