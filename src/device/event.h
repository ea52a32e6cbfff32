/* Events of programs: positions in the work of a stream, which the host and streams can wait for.
 * On a device without events an event is a ticket of its stream. Invariant: an event whose ordinal
 * has stopped has NULL in place of it, and can only be released. */
#ifndef TN_DEVICE_EVENT_H
#define TN_DEVICE_EVENT_H

#include "device/stream.h"

struct tenon_event_t { /* protected by tn_streams_order */
  struct tenon_event_t *before;
  struct tenon_event_t *after; /* list of the ordinal */
  tn_ordinal_t *ordinal;
  uint32_t flags;
  void *native; /* NULL: the device has no events */
  /* The stream in which it was last recorded; NULL: never. The event holds a reference, unless the
   * stream is imported. */
  tenon_stream_t *stream;
  uint64_t ticket;     /* the last ticket of that stream then */
  uint64_t recordings; /* how often it was recorded */
  int64_t time;        /* time of the host when it was recorded */
  tn_clock_t at;       /* what the device's event stands for */
};

void tn_events_release(tn_ordinal_t *ordinal); /* called before its streams end */

#endif
