/* Vector clocks: for each stream, how many pieces of its work are known to be finished. The
 * checker, each mark and the host have one clock each.
 *
 * Invariant: a clock only grows. */
#include "clock.h"

#include <stdlib.h>
#include <string.h>

bool sim_clock_reserve(sim_clock_t *clock, uint32_t count) {
  if (count <= clock->room) return true;
  uint32_t room = clock->room * 2 > count ? clock->room * 2 : count + 4;
  uint64_t *ticks = realloc(clock->ticks, room * sizeof *ticks);
  if (!ticks) return false;
  memset(ticks + clock->room, 0, (room - clock->room) * sizeof *ticks);
  clock->ticks = ticks;
  clock->room = room;
  return true;
}

void sim_clock_join(sim_clock_t *clock, const sim_clock_t *other) {
  for (uint32_t i = 0; i < other->count; i++)
    if (clock->ticks[i] < other->ticks[i]) clock->ticks[i] = other->ticks[i];
  if (clock->count < other->count) clock->count = other->count;
}

void sim_clock_set(sim_clock_t *clock, uint32_t slot, uint64_t tick) {
  clock->ticks[slot] = tick;
  if (clock->count <= slot) clock->count = slot + 1;
}

uint64_t sim_clock_at(const sim_clock_t *clock, uint32_t slot) {
  return slot < clock->count ? clock->ticks[slot] : 0;
}

void sim_clock_free(sim_clock_t *clock) {
  free(clock->ticks);
  *clock = (sim_clock_t){0};
}
