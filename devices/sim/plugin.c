/* The state of sim, and the check that an ordinal can be used. Most other units depend on this one,
 * which depends on clock.c alone. */
#include "plugin.h"

sim_plugin_t sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

tenon_status_t sim_usable(tenon_on_t on) {
  const sim_ordinal_t *ordinal = &sim.ordinals[on->ordinal];
  if (!ordinal->started)
    return tenon_fail(on, TENON_PRECONDITION, "sim: ordinal %d is not started", on->ordinal);
  return ordinal->lost ? tenon_fail(on, TENON_ABORTED, "sim: ordinal %d is lost", on->ordinal)
                       : TENON_OK;
}

tenon_status_t sim_enter(tenon_on_t on) {
  sim_lock();
  tenon_status_t status = sim_usable(on);
  return status ? sim_leave(status) : TENON_OK;
}

/* The clock of the host has room for all slots: stream.c reserves it with each new slot. */
void sim_host_knows(const sim_clock_t *clock) { sim_clock_join(&sim.host, clock); }
