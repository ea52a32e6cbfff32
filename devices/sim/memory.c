/* Device memory. An allocation is one mapping with five parts: a gap, bytes whose address the host
 * receives, a second gap, the bytes that workers read and write, and a third gap. Only the fourth
 * part is accessible. A host that dereferences a device address therefore crashes at once, even
 * while a kernel runs and even if it misses by less than a gap; so does a kernel that leaves its
 * allocation. The second part is not another view of the fourth one, because no program could see
 * the difference: the pages are private, and a child has its own after a fork. With handles=1 the
 * host receives a number in place of an address.
 *
 * Invariant: the address range of an allocation stays reserved after free, so that the address is
 * not reused soon. */
#include "memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

enum {
  PAGE = 4096,
  GAP = 1 << 20,
  KEPT = 1024,
  POISONED = 1 << 24,
};

/* The number of allocations with a key less than `key`. */
static uint32_t index_of(uintptr_t key) {
  uint32_t low = 0;
  uint32_t high = sim.memory_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (sim.memories[middle]->key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void forget(uint32_t index) {
  sim_memory_t *memory = sim.memories[index];
  memmove(sim.memories + index, sim.memories + index + 1,
          (--sim.memory_count - index) * sizeof *sim.memories);
  munmap(memory->reserved, memory->gone ? GAP + memory->bytes : memory->mapped);
  free(memory->accesses.items);
  free(memory);
}

/* Releases the pages of an allocation that nothing uses any more. Its address range stays reserved
 * for a while. */
static void let_go(sim_memory_t *memory) {
  if (!memory->freed || memory->pins || memory->imports || memory->gone) return;
  sim.ordinals[memory->ordinal].used -= memory->bytes;
  /* the key is a number, which is never reused */
  if (memory->key != (uintptr_t)memory->reserved + GAP) {
    forget(index_of(memory->key));
    return;
  }
  munmap(memory->reserved + GAP + memory->bytes, memory->mapped - GAP - memory->bytes);
  free(memory->accesses.items);
  memory->accesses = (sim_accesses_t){0};
  memory->gone = true;
  if (++sim.gone_count <= KEPT) return;
  for (uint32_t i = 0; i < sim.memory_count; i++) {
    if (!sim.memories[i]->gone) continue;
    sim.gone_count--;
    forget(i);
    return;
  }
}

void sim_memory_unpin(sim_memory_t *memory) {
  memory->pins--;
  let_go(memory);
}

static tenon_status_t reserve(tenon_on_t on, sim_memory_t **out_memory) {
  if (sim.memory_count == sim.memory_room) {
    uint32_t room = sim.memory_room ? sim.memory_room * 2 : 64;
    sim_memory_t **memories = realloc(sim.memories, room * sizeof *memories);
    if (!memories) return tenon_fail(on, TENON_MEMORY, "sim: no host memory to list an allocation");
    sim.memories = memories;
    sim.memory_room = room;
  }
  *out_memory = calloc(1, sizeof **out_memory);
  return *out_memory ? TENON_OK
                     : tenon_fail(on, TENON_MEMORY, "sim: no host memory to list an allocation");
}

tenon_status_t sim_allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_inject(on, SIM_CALL_ALLOCATE);
  if (status) return sim_leave(status);
  uint64_t left = sim.settings.memory - sim.ordinals[on->ordinal].used;
  if (sim.ordinals[on->ordinal].used > sim.settings.memory) left = 0;
  if (!bytes) return sim_leave(tenon_fail(on, TENON_INVALID, "sim: an allocation of 0 bytes"));
  uint64_t rounded = bytes > left ? 0 : (bytes + PAGE - 1) / PAGE * PAGE;
  if (!rounded || rounded > left)
    return sim_leave(tenon_fail(on, TENON_MEMORY,
                                "sim: ordinal %d has %" PRIu64 " of %" PRIu64
                                " bytes left, %" PRIu64
                                " were asked for; memory=BYTES changes that",
                                on->ordinal, left, sim.settings.memory, bytes));
  sim_memory_t *memory;
  if ((status = reserve(on, &memory))) return sim_leave(status);
  memory->bytes = rounded;
  memory->mapped = rounded * 3 + 3 * GAP;
  memory->ordinal = on->ordinal;
  memory->reserved =
      mmap(NULL, memory->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory->reserved == MAP_FAILED ||
      mprotect(memory->reserved + rounded * 2 + 2 * GAP, rounded, PROT_READ | PROT_WRITE)) {
    if (memory->reserved != MAP_FAILED) munmap(memory->reserved, memory->mapped);
    free(memory);
    return sim_leave(tenon_fail(on, TENON_MEMORY,
                                "sim: the system cannot map a further %" PRIu64 " bytes", rounded));
  }
  memory->work = memory->reserved + rounded * 2 + 2 * GAP;
  /* 0xff bytes are NaN as floats */
  memset(memory->work, 0xff, rounded < POISONED ? rounded : POISONED);
  memory->key =
      sim.settings.handles ? (uintptr_t)++sim.last_key : (uintptr_t)memory->reserved + GAP;
  uint32_t index = index_of(memory->key);
  memmove(sim.memories + index + 1, sim.memories + index,
          (sim.memory_count++ - index) * sizeof *sim.memories);
  sim.memories[index] = memory;
  sim.ordinals[on->ordinal].used += rounded;
  *out_handle = (void *)memory->key;
  return sim_leave(TENON_OK);
}

tenon_status_t sim_memory_find(tenon_on_t on, const char *what, tenon_memory_t at, uint64_t bytes,
                               sim_memory_t **out_memory, uint64_t *out_begin) {
  uintptr_t handle = (uintptr_t)at.handle;
  uint32_t after = index_of(handle + 1);
  sim_memory_t *memory = after ? sim.memories[after - 1] : NULL;
  bool number = sim.settings.handles != 0;
  uint64_t shift = memory && !number ? handle - memory->key : 0;
  if (!handle || !memory || (number ? memory->key != handle : shift >= memory->bytes)) {
    bool was = number && handle && handle <= sim.last_key;
    if (was) sim_find(NULL, NULL, "sim: %s uses memory %p after it was freed", what, at.handle);
    return tenon_fail(on, TENON_INVALID,
                      was ? "sim: %s uses memory %p after it was freed"
                          : "sim: %s: %p is not memory of sim",
                      what, at.handle);
  }
  if (memory->ordinal != on->ordinal)
    return tenon_fail(on, TENON_INVALID,
                      "sim: %s on ordinal %d uses memory %p, which is of ordinal %d", what,
                      on->ordinal, at.handle, memory->ordinal);
  if (memory->gone || (memory->freed && !memory->imports)) {
    sim_find(NULL, NULL, "sim: %s uses memory %p after it was freed", what, at.handle);
    return tenon_fail(on, TENON_INVALID, "sim: %s uses memory %p after it was freed", what,
                      at.handle);
  }
  if (at.offset > memory->bytes - shift || bytes > memory->bytes - shift - at.offset)
    return tenon_fail(on, TENON_INVALID,
                      "sim: %s: %" PRIu64 " bytes from offset %" PRIu64
                      " of memory %p, which has %" PRIu64 " bytes",
                      what, bytes, at.offset + shift, (void *)memory->key, memory->bytes);
  *out_memory = memory;
  *out_begin = shift + at.offset;
  return TENON_OK;
}

void sim_memory_drop(tenon_on_t on, void *handle) {
  uint32_t index = index_of((uintptr_t)handle);
  sim_memory_t *memory = index < sim.memory_count ? sim.memories[index] : NULL;
  if (!memory || memory->key != (uintptr_t)handle || memory->freed ||
      memory->ordinal != on->ordinal) {
    sim_find(NULL, NULL, "sim: free of %p, which is not memory of ordinal %d%s", handle,
             on->ordinal,
             memory && memory->key == (uintptr_t)handle && memory->freed
                 ? " any more: it was freed before"
                 : "");
  } else {
    memory->freed = true;
    let_go(memory);
  }
}

void sim_free(tenon_on_t on, void *handle) {
  sim_lock();
  sim_memory_drop(on, handle);
  sim_unlock();
}

tenon_status_t sim_memory_left(tenon_on_t on, uint64_t *out_bytes) {
  TENON_TRY(sim_enter(on));
  uint64_t used = sim.ordinals[on->ordinal].used;
  *out_bytes = used < sim.settings.memory ? sim.settings.memory - used : 0;
  return sim_leave(TENON_OK);
}

/* Imports memory that another user of sim owns: an address that the same ordinal's allocate
 * returned, or an address inside such an allocation. */
tenon_status_t sim_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle) {
  sim_memory_t *memory;
  uint64_t begin;
  TENON_TRY(sim_enter(on));
  tenon_status_t status =
      sim_memory_find(on, "import", (tenon_memory_t){native, 0}, bytes, &memory, &begin);
  if (status) return sim_leave(status);
  memory->imports++;
  *out_handle = native;
  return sim_leave(TENON_OK);
}

void sim_memory_forget(tenon_on_t on, void *handle) {
  sim_lock();
  uint32_t after = index_of((uintptr_t)handle + 1);
  sim_memory_t *memory = after ? sim.memories[after - 1] : NULL;
  if (!memory || memory->ordinal != on->ordinal || !memory->imports ||
      (uintptr_t)handle - memory->key >= memory->bytes) {
    sim_find(NULL, NULL, "sim: memory_forget of %p, which was not imported on ordinal %d", handle,
             on->ordinal);
  } else {
    memory->imports--;
    let_go(memory);
  }
  sim_unlock();
}

void sim_memory_stop(int32_t ordinal) {
  for (uint32_t i = sim.memory_count; i-- > 0;) {
    sim_memory_t *memory = sim.memories[i];
    if (memory->ordinal != ordinal || memory->gone) continue;
    memory->freed = true;
    memory->imports = 0;
    let_go(memory);
  }
}

void sim_memory_forget_all(void) {
  while (sim.memory_count)
    forget(sim.memory_count - 1);
  free(sim.memories);
  sim.memories = NULL;
  sim.memory_room = sim.gone_count = 0;
}
