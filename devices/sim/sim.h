/* devices/sim/sim.h: what kernels and tests reach beyond the device table: table->native(on, "sim",
 * NULL) is a sim_table_t.
 *
 * Every function here may be called by any thread at any time between start and stop of the
 * ordinal. */
#ifndef TENON_SIM_H
#define TENON_SIM_H

#include <tenon/device.h>

/* What one piece of work reads or writes.  bytes 0: it is used, nobody knows where, and that is not
 * checked. */
typedef struct sim_range_t {
  tenon_memory_t memory;
  uint64_t bytes;
  uint32_t is_write;
  uint32_t reserved;
} sim_range_t;

/* A piece of work, called on the stream's thread.  addresses[i] is where range i can be read and
 * written now, and only now. A failure puts its reason (SIM_TEXT bytes of room) into message. */
enum { SIM_TEXT = 512 };
typedef tenon_status_t (*sim_work_fn)(void *argument, void *const *addresses, char *message);

typedef struct sim_piece_t {
  uint64_t ticket;
  int32_t ordinal;
  int32_t stream; /* number of the stream: 0 is the ordinal's own first one; -1: the host */
  char kind[24];  /* "copy in", "fill", "launch", "replay", or as enqueue was told */
} sim_piece_t;

typedef struct sim_finding_t {
  sim_piece_t first;
  sim_piece_t
      /* a race: two pieces of work without order.  A wait: what is waited for, and who waits */
      second;
  char text[SIM_TEXT];
} sim_finding_t;

/* How a kernel of TENON_SOURCE_C is called, once for each item of each group:
 *     void NAME(const struct sim_item_t *item, void *const *arguments) (the source declares the
 *     structure itself; it is compiled alone).  arguments[i]: of MEMORY the address, of BYTES where
 *     they lie, of LOCAL the group's own memory.  The items of a group run in turns, each up to the
 *     next barrier; those of groups with an odd number last to first.  A barrier that some items of
 *     a group reach and others do not is a failure of the launch.  In a group of one item a barrier
 *     does nothing. */
typedef struct sim_item_t {
  uint64_t group[3];
  uint64_t groups[3]; /* which group, of how many */
  uint32_t item[3];
  uint32_t items[3]; /* which item of the group, of how many */
  void (*barrier)(const struct sim_item_t *item);
} sim_item_t;

typedef struct sim_table_t {
  uint32_t size;
  uint32_t reserved;
  /* Puts a piece of work into a stream.  argument (bytes of it) and ranges are copied.  Fails with
   * TENON_INVALID where a range is not in memory of the ordinal, and with the stream's failure. */
  tenon_status_t (*enqueue)(tenon_on_t on, void *stream, uint64_t ticket, const char *kind,
                            sim_work_fn function, const void *argument, uint64_t bytes,
                            uint32_t range_count, const sim_range_t *ranges);
  /* Changes settings of both ordinals from here on, "key=value,..." as in the context.
   * TENON_INVALID: none is changed. */
  tenon_status_t (*set)(tenon_on_t on, const char *settings);
  /* How many races were found since the first ordinal was started; the first `room` of the earliest
   * 64 go to out. */
  uint64_t (*races)(tenon_on_t on, sim_finding_t *out, uint64_t room);
  /* The same for waits that changed nothing: the order was there already, or the waiting stream
   * waited for more before it did anything else. */
  uint64_t (*implied_waits)(tenon_on_t on, sim_finding_t *out, uint64_t room);
  /* The host is about to read (or write) its own memory: is that ordered after the copies that use
   * it?  If not, that is a race, counted and given as TENON_PRECONDITION. */
  tenon_status_t (*host_access)(tenon_on_t on, const void *data, uint64_t bytes, uint32_t is_write);
  /* The ordinal is lost now: everything but free, destroy and stop fails from here on. */
  void (*lose)(tenon_on_t on);
} sim_table_t;

#endif
