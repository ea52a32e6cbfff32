/* The happens-before checker, which finds data races between streams. When work is enqueued, the
 * vector clock of its stream says which work of every stream is finished before it: because of the
 * order within a stream, because of events, and because of waits of the host. A wait by one host
 * thread counts for all host threads.
 *
 * Two accesses to the same bytes are a race if at least one is a write and neither is ordered
 * before the other. The result does not depend on how fast the streams run, and ordered work is
 * never reported.
 *
 * Invariant: an access stays listed until every later access is either ordered after it or would
 * race with another listed access. */
#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

static void keep(sim_findings_t *findings, const sim_piece_t *first, const sim_piece_t *second,
                 const char *text) {
  uint64_t n = findings->count++;
  if (n >= SIM_FINDINGS) return;
  findings->items[n] = (sim_finding_t){0};
  if (first) findings->items[n].first = *first;
  if (second) findings->items[n].second = *second;
  snprintf(findings->items[n].text, SIM_TEXT, "%s", text);
}

void sim_find(const sim_piece_t *first, const sim_piece_t *second, const char *format, ...) {
  char text[SIM_TEXT];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  keep(&sim.races, first, second, text);
  if (sim.settings.check != SIM_CHECK_ABORT) return;
  fprintf(stderr, "%s\n", text);
  abort();
}

static void stream_text(char out[64], const sim_piece_t *piece) {
  if (piece->stream < 0)
    snprintf(out, 64, "the host");
  else
    snprintf(out, 64, "stream %d of ordinal %d", piece->stream, piece->ordinal);
}

static void race(const sim_access_t *a, const sim_piece_t *piece, const sim_region_t *region,
                 char text[SIM_TEXT]) {
  char one[64], two[64], where[64];
  uint64_t begin = a->begin > region->begin ? a->begin : region->begin;
  uint64_t end = region->begin + region->bytes;
  if (end > a->end) end = a->end;
  stream_text(one, &a->piece);
  stream_text(two, piece);
  if (region->memory)
    snprintf(where, sizeof where, "of memory %p", (void *)region->memory->key);
  else
    snprintf(where, sizeof where, "of host memory");
  const char *verb = region->is_write ? "writes" : "reads";
  const char *earlier_verb = a->is_write ? "writing" : "reading";
  snprintf(text, SIM_TEXT,
           "sim: race: %s (ticket %" PRIu64 ", %s) %s bytes %" PRIu64 " to %" PRIu64
           " %s, which %s (ticket %" PRIu64
           ", %s) may still be %s: %s must wait for ticket %" PRIu64 " of %s",
           piece->kind, piece->ticket, two, verb, begin, end - 1, where, a->piece.kind,
           a->piece.ticket, one, earlier_verb, two, a->piece.ticket, one);
  sim_find(&a->piece, piece, "%s", text);
}

static sim_accesses_t *accesses_of(const sim_region_t *region) {
  return region->memory ? &region->memory->accesses : &sim.host_accesses;
}

static bool overlap(const sim_access_t *a, const sim_region_t *region) {
  return a->begin < region->begin + region->bytes && region->begin < a->end;
}

/* Reports the races between one access and the listed accesses, and removes listed accesses that
 * the host knows to be finished. */
static bool races_of(const sim_clock_t *clock, const sim_piece_t *piece, const sim_region_t *region,
                     char text[SIM_TEXT]) {
  sim_accesses_t *accesses = accesses_of(region);
  uint64_t last = UINT64_MAX; /* count the parts of one access as one race */
  uint32_t last_slot = 0;
  bool found = false;
  for (uint32_t i = 0; i < accesses->count;) {
    const sim_access_t *a = &accesses->items[i];
    if (sim_clock_at(&sim.host, a->slot) >= a->tick) {
      accesses->items[i] = accesses->items[--accesses->count];
      continue;
    }
    i++;
    if (!overlap(a, region) || !(a->is_write || region->is_write) ||
        sim_clock_at(clock, a->slot) >= a->tick)
      continue;
    if (a->tick == last && a->slot == last_slot) continue;
    last = a->tick;
    last_slot = a->slot;
    found = true;
    race(a, piece, region, text);
  }
  return found;
}

/* Adds an access to the list. A listed access can be removed or shortened where an ordered write
 * covers it, or where a later read of the same stream covers a read. */
static void list(const sim_stream_t *stream, const sim_piece_t *piece, const sim_region_t *region) {
  sim_accesses_t *accesses = accesses_of(region);
  uint64_t begin = region->begin;
  uint64_t end = region->begin + region->bytes;
  for (uint32_t i = 0; i < accesses->count;) {
    sim_access_t *a = &accesses->items[i];
    bool own = a->slot == stream->slot && a->tick == stream->tick;
    bool follows = region->is_write ? sim_clock_at(&stream->clock, a->slot) >= a->tick
                                    : !a->is_write && a->slot == stream->slot;
    if (own || !follows || !overlap(a, region)) {
      i++;
    } else if (a->begin >= begin && a->end <= end) {
      *a = accesses->items[--accesses->count];
    } else {
      if (a->begin >= begin)
        a->begin = end;
      else if (a->end <= end)
        a->end = begin;
      i++; /* an access in the middle of another one leaves the outer one whole */
    }
  }
  accesses->items[accesses->count++] =
      (sim_access_t){begin, end, stream->tick, stream->slot, region->is_write, *piece};
}

bool sim_check_reserve(sim_work_t *work) {
  for (uint32_t i = 0; i < work->region_count; i++) {
    sim_accesses_t *accesses = accesses_of(&work->regions[i]);
    if (accesses->count + work->region_count <= accesses->room) continue;
    uint32_t room = accesses->room * 2 + work->region_count + 8;
    sim_access_t *items = realloc(accesses->items, room * sizeof *items);
    if (!items) return false;
    accesses->items = items;
    accesses->room = room;
  }
  return true;
}

void sim_check(const sim_stream_t *stream, sim_work_t *work) {
  bool found = false;
  for (uint32_t i = 0; i < work->region_count; i++)
    if (work->regions[i].bytes)
      found |= races_of(&stream->clock, &work->piece, &work->regions[i], work->failure_text);
  if (found && sim.settings.check == SIM_CHECK_FAIL) {
    work->failure = TENON_PRECONDITION; /* the work is not done, so it accesses nothing */
    return;
  }
  for (uint32_t i = 0; i < work->region_count; i++)
    if (work->regions[i].bytes) list(stream, &work->piece, &work->regions[i]);
}

static bool within(const sim_clock_t *a, const sim_clock_t *b) {
  for (uint32_t i = 0; i < a->count; i++)
    if (a->ticks[i] > sim_clock_at(b, i)) return false;
  return true;
}

/* Call this before the clock of the mark is joined into the clock of the stream. */
void sim_check_wait(sim_stream_t *stream, sim_mark_t *mark) {
  sim_piece_t waits = {stream->last.ticket, stream->object.ordinal, stream->number, "wait"};
  char text[SIM_TEXT], one[64], two[64];
  stream_text(one, &mark->last);
  stream_text(two, &waits);
  bool implied = within(&mark->clock, &stream->clock);
  if (implied) {
    snprintf(text, sizeof text,
             "sim: %s waits for ticket %" PRIu64 " of %s, after which its work was done anyway",
             two, mark->last.ticket, one);
    keep(&sim.waits, &mark->last, &waits, text);
    return;
  }
  for (uint32_t i = 0; i < stream->fresh_count;) {
    sim_mark_t *before = stream->fresh[i];
    if (!within(&before->clock, &mark->clock)) {
      i++;
      continue;
    }
    char former[64];
    stream_text(former, &before->last);
    snprintf(text, sizeof text,
             "sim: %s waits for ticket %" PRIu64 " of %s, and then for ticket %" PRIu64
             " of %s, which implies it",
             two, before->last.ticket, former, mark->last.ticket, one);
    keep(&sim.waits, &before->last, &waits, text);
    sim_mark_release(before);
    stream->fresh[i] = stream->fresh[--stream->fresh_count];
  }
  if (stream->fresh_count < sizeof stream->fresh / sizeof *stream->fresh) {
    mark->references++;
    stream->fresh[stream->fresh_count++] = mark;
  }
}

bool sim_check_writes(const void *data, uint64_t bytes) {
  sim_region_t region = {NULL, (uintptr_t)data, bytes, 0};
  for (uint32_t i = 0; i < sim.host_accesses.count; i++) {
    const sim_access_t *a = &sim.host_accesses.items[i];
    if (a->is_write && overlap(a, &region) && sim_clock_at(&sim.host, a->slot) < a->tick)
      return true;
  }
  return false;
}

bool sim_check_host(tenon_on_t on, const char *kind, const void *data, uint64_t bytes,
                    uint32_t is_write, char text[SIM_TEXT]) {
  sim_piece_t piece = {.ordinal = on->ordinal, .stream = -1};
  sim_region_t region = {NULL, (uintptr_t)data, bytes, is_write};
  snprintf(piece.kind, sizeof piece.kind, "%s", kind);
  return races_of(&sim.host, &piece, &region, text);
}
