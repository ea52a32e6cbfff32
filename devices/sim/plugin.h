/* The state of sim. The process has one instance of the plug-in, `sim`. Its lock guards everything
 * in it, except the bytes that a piece of work reads and writes.
 *
 * The functions of the device table take the lock themselves. All other functions of sim are called
 * with the lock held unless their comment says otherwise. */
#ifndef TENON_SIM_PLUGIN_H
#define TENON_SIM_PLUGIN_H

#include "clock.h"
#include "settings.h"
#include "sim.h"

#include <pthread.h>
#include <stdbool.h>

enum { SIM_FINDINGS = 64 };

struct sim_memory_t;
struct sim_stream_t;

/* An access to bytes [begin, end) by work `tick` of the stream in `slot`. */
typedef struct sim_access_t {
  uint64_t begin;
  uint64_t end;
  uint64_t tick;
  uint32_t slot;
  uint32_t is_write;
  sim_piece_t piece;
} sim_access_t;

typedef struct sim_accesses_t {
  sim_access_t *items;
  uint32_t count;
  uint32_t room;
} sim_accesses_t;

typedef struct sim_findings_t {
  uint64_t count;
  sim_finding_t items[SIM_FINDINGS];
} sim_findings_t;

typedef struct sim_ordinal_t {
  bool started;
  bool lost;
  uint64_t used; /* bytes */
  int32_t stream_count;
  struct sim_stream_t *own;
  sim_clock_t past; /* clock of streams that no longer exist; joined by a synchronize */
} sim_ordinal_t;

typedef struct sim_slot_t { /* a slot in the clocks */
  bool taken;
  uint64_t tick;
} sim_slot_t;

typedef struct sim_plugin_t {
  pthread_mutex_t lock;
  pthread_cond_t ended; /* signalled when a stream has ended */
  sim_settings_t settings;
  sim_ordinal_t ordinals[SIM_ORDINALS];
  uint32_t started;
  struct sim_stream_t *streams;
  sim_clock_t host;
  sim_slot_t *slots;
  uint32_t slot_count;
  uint32_t slot_room;
  struct sim_memory_t **memories; /* sorted by key */
  uint32_t memory_count;
  uint32_t memory_room;
  uint32_t gone_count;
  uint64_t last_key;            /* the last handle that is a number (handles=1) */
  sim_accesses_t host_accesses; /* accesses to host memory, by address */
  uint64_t failure_order;
  uint64_t stream_order;
  sim_findings_t races;
  sim_findings_t waits;
} sim_plugin_t;

extern sim_plugin_t sim;
static inline void sim_lock(void) { pthread_mutex_lock(&sim.lock); }
static inline void sim_unlock(void) { pthread_mutex_unlock(&sim.lock); }
/* Records that the host knows the work in this clock to be finished. */
void sim_host_knows(const sim_clock_t *clock);
tenon_status_t sim_usable(tenon_on_t on); /* fails if the ordinal is not started, or is lost */
/* Takes the lock and does the same. The lock stays held only if the ordinal is usable. */
tenon_status_t sim_enter(tenon_on_t on);
static inline tenon_status_t sim_leave(tenon_status_t status) {
  sim_unlock();
  return status;
}

#endif
