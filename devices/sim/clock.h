/* Vector clocks: how much work of each stream is known to be finished, indexed by the slot of the
 * stream. */
#ifndef TENON_SIM_CLOCK_H
#define TENON_SIM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_clock_t {
  uint64_t *ticks;
  uint32_t count;
  uint32_t room; /* ticks from `count` on are 0 */
} sim_clock_t;

bool sim_clock_reserve(sim_clock_t *clock, uint32_t count); /* false: no host memory */
/* The caller has reserved room for other->count ticks. */
void sim_clock_join(sim_clock_t *clock, const sim_clock_t *other);
void sim_clock_set(sim_clock_t *clock, uint32_t slot, uint64_t tick); /* room is reserved */
uint64_t sim_clock_at(const sim_clock_t *clock, uint32_t slot);
void sim_clock_free(sim_clock_t *clock);

#endif
