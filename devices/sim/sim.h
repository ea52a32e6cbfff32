/* devices/sim/sim.h: what kernels and tests reach beyond the device table: table->native(on, "sim",
 * NULL) is a sim_table_t.
 *
 * Every function here may be called by any thread at any time between start and stop of the
 * ordinal. */
#ifndef TENON_SIM_H
#define TENON_SIM_H

#include <tenon/device.h>

/* A range that one piece of work reads or writes. bytes 0: the memory is used, but which bytes is
 * unknown, and the access is not checked. */
typedef struct sim_range_t {
  tenon_memory_t memory;
  uint64_t bytes;
  uint32_t is_write;
  uint32_t reserved;
} sim_range_t;

/* The function of a piece of work, called on the thread of the stream. addresses[i] is the address
 * of range i, which is valid only during this call. On failure the function writes the reason into
 * `message`, which has room for SIM_TEXT bytes. */
enum { SIM_TEXT = 512 };
typedef tenon_status_t (*sim_work_fn)(void *argument, void *const *addresses, char *message);

typedef struct sim_piece_t {
  uint64_t ticket;
  int32_t ordinal;
  int32_t stream; /* number of the stream; 0: the default stream of the ordinal; -1: the host */
  /* "copy in", "fill", "launch", "replay", or the kind that was passed to enqueue */
  char kind[24];
} sim_piece_t;

typedef struct sim_finding_t {
  sim_piece_t first;
  sim_piece_t
      /* For a race: two unordered pieces of work. For a wait: the work waited for, and the
       * waiter. */
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
  uint64_t groups[3]; /* index of the group, and the number of groups */
  uint32_t item[3];
  uint32_t items[3]; /* index of the item in its group, and the number of items */
  void (*barrier)(const struct sim_item_t *item);
} sim_item_t;

typedef struct sim_table_t {
  uint32_t size;
  uint32_t reserved;
  /* Enqueues a piece of work in a stream. `bytes` of `argument` and the ranges are copied. Fails
   * with TENON_INVALID if a range is not in memory of the ordinal, and with the failure of the
   * stream if it has one. */
  tenon_status_t (*enqueue)(tenon_on_t on, void *stream, uint64_t ticket, const char *kind,
                            sim_work_fn function, const void *argument, uint64_t bytes,
                            uint32_t range_count, const sim_range_t *ranges);
  /* Changes settings of both ordinals from now on; "key=value,..." as in the context. On
   * TENON_INVALID no setting is changed. */
  tenon_status_t (*set)(tenon_on_t on, const char *settings);
  /* Returns how many races were found since the first ordinal was started. The earliest races, at
   * most `room` and at most 64, are copied to `out`. */
  uint64_t (*races)(tenon_on_t on, sim_finding_t *out, uint64_t room);
  /* The same for redundant waits: the order existed already, or the waiting stream then waited for
   * later work before it did anything else. */
  uint64_t (*implied_waits)(tenon_on_t on, sim_finding_t *out, uint64_t room);
  /* Declares that the host is about to read or write its own memory. If this access is not ordered
   * after the copies that use the memory, it is counted as a race, and the call fails with
   * TENON_PRECONDITION. */
  tenon_status_t (*host_access)(tenon_on_t on, const void *data, uint64_t bytes, uint32_t is_write);
  /* Makes the ordinal lost. From now on everything fails except free, destroy and stop. */
  void (*lose)(tenon_on_t on);
} sim_table_t;

#endif
