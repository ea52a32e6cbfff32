/* Handles of streams, events, programs, kernels, captured graphs and groups. A handle is a number
 * that encodes an index in one table, the generation of that table entry, and the kind of the
 * object. A call with a handle that was destroyed, or that has another kind or ordinal, fails with
 * a message that says so. */
#include "handle.h"

#include <inttypes.h>
#include <stdlib.h>

#include "plugin.h"

static struct {
  struct {
    sim_object_t *object; /* NULL: free */
    uint32_t generation;
    uint32_t next;
  } * entries;
  uint32_t count;
  uint32_t room;
  uint32_t first_free; /* index + 1; 0: none */
} table;

static const char *const kinds[] = {"handle", "stream",         "event", "program",
                                    "kernel", "captured graph", "group"};

static void *handle_of(uint32_t index, uint32_t kind) {
  return (void *)((uintptr_t)table.entries[index].generation << 32 | (uintptr_t)(index + 1) << 3 |
                  kind);
}

tenon_status_t sim_handle_create(tenon_on_t on, uint32_t kind, sim_object_t *object) {
  uint32_t index = table.first_free - 1;
  if (table.first_free) {
    table.first_free = table.entries[index].next;
  } else {
    if (table.count == table.room) {
      uint32_t room = table.room ? table.room * 2 : 64;
      void *entries = room < 1u << 28 ? realloc(table.entries, room * sizeof *table.entries) : NULL;
      if (!entries) return tenon_fail(on, TENON_MEMORY, "sim: no memory for a %s", kinds[kind]);
      table.entries = entries;
      table.room = room;
    }
    index = table.count++;
    table.entries[index].generation = 0;
  }
  table.entries[index].object = object;
  *object = (sim_object_t){kind, on->ordinal, handle_of(index, kind)};
  return TENON_OK;
}

tenon_status_t sim_handle_find(tenon_on_t on, uint32_t kind, void *handle, void *out_object) {
  uint32_t index = ((uint32_t)(uintptr_t)handle >> 3) - 1;
  uint32_t is = (uint32_t)(uintptr_t)handle & 7;
  if (is != kind || index >= table.count) {
    const bool is_known = is && is <= SIM_CHAIN;
    const char *perhaps = is_known ? ", but perhaps of kind " : "";
    const char *other = is_known ? kinds[is] : "";
    return tenon_fail(on, TENON_INVALID, "sim: %p is not a handle of kind %s%s%s", handle,
                      kinds[kind], perhaps, other);
  }
  sim_object_t *object = table.entries[index].object;
  if (!object || object->handle != handle)
    return tenon_fail(on, TENON_INVALID, "sim: %s %p does not exist any more: it was destroyed",
                      kinds[kind], handle);
  if (object->ordinal != on->ordinal)
    return tenon_fail(on, TENON_INVALID, "sim: %s %p is of ordinal %d and was used with ordinal %d",
                      kinds[kind], handle, object->ordinal, on->ordinal);
  *(void **)out_object = object;
  return TENON_OK;
}

static void *end(uint32_t index) {
  sim_object_t *object = table.entries[index].object;
  table.entries[index].object = NULL;
  object->handle = NULL;
  if (!sim.settings.reuse) table.entries[index].generation++;
  table.entries[index].next = table.first_free;
  table.first_free = index + 1;
  return object;
}

void *sim_handle_end(tenon_on_t on, uint32_t kind, void *handle) {
  sim_object_t *object;
  if (sim_handle_find(on, kind, handle, &object))
    return NULL; /* a second destroy is reported and changes nothing */
  return end(((uint32_t)(uintptr_t)handle >> 3) - 1);
}

void sim_handle_drop(sim_object_t *object) { end(((uint32_t)(uintptr_t)object->handle >> 3) - 1); }

void *sim_handle_any(int32_t ordinal, uint32_t kind) {
  for (uint32_t i = 0; i < table.count; i++) {
    const sim_object_t *object = table.entries[i].object;
    if (object && object->ordinal == ordinal && object->kind == kind) return end(i);
  }
  return NULL;
}

void sim_handle_forget_all(void) {
  free(table.entries);
  table.entries = NULL;
  table.count = table.room = table.first_free = 0;
}
