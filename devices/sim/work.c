/* Pieces of work: how they are created, copied and freed.
 *
 * Invariant: a piece of work holds everything that it uses (memory, marks, programs) until it is
 * finished or abandoned. */
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static sim_work_t *empty(const char *kind, uint64_t ticket, const void *argument, uint64_t bytes,
                         uint32_t regions) {
  uint64_t listed = regions * (sizeof(sim_region_t) + sizeof(void *));
  uint64_t head = (sizeof(sim_work_t) + 15) / 16 * 16;
  sim_work_t *work = calloc(1, head + (bytes + 15) / 16 * 16 + listed);
  if (!work) return NULL;
  work->argument = (char *)work + head;
  work->regions = (sim_region_t *)(void *)((char *)work->argument + (bytes + 15) / 16 * 16);
  work->addresses = (void **)(work->regions + regions);
  work->argument_bytes = bytes;
  work->region_count = regions;
  work->piece.ticket = ticket;
  snprintf(work->piece.kind, sizeof work->piece.kind, "%s", kind);
  if (bytes && argument) memcpy(work->argument, argument, bytes);
  return work;
}

static tenon_status_t no_memory(tenon_on_t on) {
  return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a piece of work");
}

static void pin(sim_work_t *work, uint32_t i) {
  sim_region_t *region = &work->regions[i];
  if (region->memory) region->memory->pins++;
  work->addresses[i] =
      region->memory ? region->memory->work + region->begin : (void *)(uintptr_t)region->begin;
}

tenon_status_t sim_work_create(tenon_on_t on, uint64_t ticket, const char *kind,
                               sim_work_fn function, const void *argument, uint64_t bytes,
                               uint32_t range_count, const sim_use_t *ranges,
                               sim_work_t **out_work) {
  sim_work_t *work = empty(kind, ticket, argument, bytes, range_count);
  if (!work) return no_memory(on);
  work->function = function;
  for (uint32_t i = 0; i < range_count; i++) {
    const sim_use_t *range = &ranges[i];
    sim_region_t *region = &work->regions[i];
    region->bytes = range->range.bytes;
    region->is_write = range->range.is_write;
    if (range->is_host) {
      region->begin = (uintptr_t)range->range.memory.handle + range->range.memory.offset;
    } else if (range->range.memory.handle ||
               /* a range of 0 bytes, of a tensor without elements, uses nothing */
               region->bytes) {
      tenon_device_context_t of = *on; /* failures are reported to `on` */
      of.ordinal = range->peer ? range->peer->ordinal : on->ordinal;
      tenon_status_t status = sim_memory_find(&of, kind, range->range.memory, region->bytes,
                                              &region->memory, &region->begin);
      if (status) {
        work->region_count = i;
        sim_work_free(work);
        return status;
      }
    }
    pin(work, i);
  }
  *out_work = work;
  return TENON_OK;
}

tenon_status_t sim_work_copy(tenon_on_t on, const sim_work_t *from, uint64_t ticket,
                             sim_work_t **out_copy) {
  sim_work_t *work =
      empty(from->piece.kind, ticket, from->argument, from->argument_bytes, from->region_count);
  if (!work) return no_memory(on);
  for (uint32_t i = 0; i < from->region_count; i++) {
    const sim_memory_t *memory = from->regions[i].memory;
    if (memory && memory->freed && !memory->imports) {
      void *handle = (void *)memory->key;
      work->region_count = i;
      sim_work_free(work);
      sim_find(NULL, NULL, "sim: a replay uses memory %p after it was freed", handle);
      return tenon_fail(on, TENON_INVALID, "sim: a replay uses memory %p after it was freed",
                        handle);
    }
    work->regions[i] = from->regions[i];
    pin(work, i);
  }
  work->function = from->function;
  work->callback = from->callback;
  work->release = from->release;
  work->retain = from->retain;
  if (work->retain) work->retain(work->argument);
  *out_copy = work;
  return TENON_OK;
}

void sim_work_free(sim_work_t *work) {
  for (uint32_t i = 0; i < work->region_count; i++)
    if (work->regions[i].memory) sim_memory_unpin(work->regions[i].memory);
  if (work->release) work->release(work->argument);
  if (work->reach) sim_mark_release(work->reach);
  if (work->await) sim_mark_release(work->await);
  free(work);
}

void sim_works_free(sim_work_t *first) {
  for (sim_work_t *work = first, *next; work; work = next) {
    next = work->next;
    sim_work_free(work);
  }
}

void sim_captured_free(sim_captured_t *captured) {
  sim_works_free(captured->first);
  free(captured);
}
