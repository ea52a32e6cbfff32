/* Streams, and what they know about one another. Work on a stream has tickets 1, 2, ... For every
 * other stream, a stream knows the last ticket that it has waited for, so a wait is enqueued only
 * if no earlier wait implies it. The failure of a stream is kept with the name of the operator.
 * Invariant: a stream lives as long as its ordinal, used or idle, so its state can be queried at
 * any time. */
#ifndef TN_DEVICE_STREAM_H
#define TN_DEVICE_STREAM_H

#include "device/plugin.h"

typedef struct tenon_event_t tenon_event_t; /* event.h */

typedef struct tn_clock_t { /* for each stream, the last ticket known to be before */
  struct tn_known_t {
    const tenon_stream_t *stream;
    uint64_t ticket;
  } * at;
  size_t count;
  size_t capacity;
} tn_clock_t;

enum { TN_RING = 256 };
struct tenon_stream_t {
  tn_ordinal_t *ordinal;
  void *native;
  uint64_t ticket; /* given out last; atomic */
  /* Number of tickets whose work has been enqueued. It equals `ticket` while no thread is
   * enqueueing. Atomic. */
  uint64_t ended;
  uint64_t done; /* all work up to here is done; atomic */
  /* Of a failed stream: all work up to here is done or discarded; atomic. */
  uint64_t over;
  /* The last ticket before a second stream was created. Up to here reads were not tracked. */
  uint64_t alone;
  int32_t failed;     /* status of its failure, once known; atomic */
  int32_t references; /* handles; 0 for a stream other than the first: idle */
  bool is_imported;
  bool is_ended; /* an imported stream that was returned to its owner */
  /* Its work is being captured: nothing may wait for it, or copy to or from the host. Atomic. */
  int32_t is_capturing;
  int32_t asked; /* threads that wait for it or query it; atomic */
  /* while positive, its cached memory is not returned to the device; atomic */
  int32_t kept;
  char *failure; /* text */
  void *event;   /* for streams that wait for this one; `at_event` says what it stands for */
  tn_clock_t known;
  tn_clock_t at_event;
  struct tenon_stream_t *next;
  struct tn_entry_t { /* who enqueued the work of a ticket; the index is ticket % TN_RING */
    uint64_t ticket;  /* atomic, like the name */
    /* an operator's name or a constant text; cleared when a library is unloaded */
    const char *name;
  } ring[TN_RING];
};

extern tn_mutex_t tn_streams_order; /* protects the clocks and events of all streams */
/* Keeps an imported stream from being returned meanwhile. Returns: false if it was returned. */
bool tn_stream_hold(tenon_stream_t *stream);
void tn_stream_let_go(tenon_stream_t *stream);
/* Returns: the last ticket up to which all work has been enqueued, or 0 if a thread is enqueueing
 * just now. */
uint64_t tn_stream_quiet(const tenon_stream_t *stream);
tenon_status_t tn_stream_cannot_capture(const char *what); /* the error of such an attempt */

tenon_status_t tn_streams_start(tn_ordinal_t *ordinal); /* creates its first stream */
void tn_streams_release(tn_ordinal_t *ordinal);

/* Returns the stream that calls of this thread on the ordinal use. */
tenon_stream_t *tn_stream_current(tn_ordinal_t *ordinal);
/* Returns the ticket of the work that is enqueued next, by the operator `name`. */
static inline uint64_t tn_stream_ticket(tenon_stream_t *s, const char *name) {
  uint64_t ticket = __atomic_add_fetch(&s->ticket, 1, __ATOMIC_RELAXED);
  struct tn_entry_t *entry = &s->ring[ticket % TN_RING];
  __atomic_store_n(&entry->ticket, ticket, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->name, name, __ATOMIC_RELAXED);
  return ticket;
}
/* States that the work of a ticket has been enqueued, or that enqueueing failed. */
static inline void tn_stream_ended(tenon_stream_t *s) {
  __atomic_add_fetch(&s->ended, 1, __ATOMIC_RELEASE);
}
/* Starts capturing the work that this thread alone enqueues from now on. Other threads do not query
 * the stream meanwhile. */
tenon_status_t tn_stream_capture(tenon_stream_t *stream);
tenon_status_t tn_stream_capture_end(tenon_stream_t *stream,
                                     void **out_captured); /* NULL: capturing failed */
static inline bool tn_stream_is_capturing(const tenon_stream_t *s) {
  return __builtin_expect(__atomic_load_n(&s->is_capturing, __ATOMIC_RELAXED), 0);
}
/* Keeps the stream's cached memory while a captured graph uses it. */
static inline void tn_stream_keep(tenon_stream_t *s, bool is_kept) {
  __atomic_add_fetch(&s->kept, is_kept ? 1 : -1, __ATOMIC_RELAXED);
}
/* Returns the last ticket of the work in the stream. For an imported stream this is a new ticket,
 * which stands for its owner's work, too. */
uint64_t tn_stream_mark(tenon_stream_t *stream);
/* Returns: the stream's failure, if it is known to have failed. */
tenon_status_t tn_stream_failure(const tenon_stream_t *stream);
static inline tenon_status_t tn_stream_check(const tenon_stream_t *s) {
  return __builtin_expect(__atomic_load_n(&s->failed, __ATOMIC_RELAXED), 0) ? tn_stream_failure(s)
                                                                            : TENON_OK;
}
/* Remembers the status that a function of the table returned for the stream, and returns it with
 * the operator's name. */
tenon_status_t tn_stream_fault(tenon_stream_t *stream, tenon_status_t status,
                               const tenon_fault_t *fault);
/* Handles a status with which a function of the table refused to enqueue the work `name` (NULL: the
 * message names it): the stream has failed, or only this request. */
tenon_status_t tn_stream_refused(tenon_stream_t *stream, tenon_status_t status, const char *name);
/* Waits for the enqueued work. */
tenon_status_t tn_stream_finish(tenon_stream_t *stream);
/* The same for a stream that may have failed, before the things that its work uses are freed.
 * Leaves the thread's error message unchanged. */
void tn_stream_drain(tenon_stream_t *stream);
/* Queries without waiting. Returns: UNAVAILABLE, without a message, if the work is not done. */
tenon_status_t tn_stream_poll(tenon_stream_t *stream);
/* What one piece of work must wait for: the last ticket of each stream. */
enum { TN_NEEDS = 16 };
typedef struct tn_needs_t {
  size_t count;
  struct tn_known_t at[TN_NEEDS];
} tn_needs_t;
/* Returns: false if the list is full; wait for its streams and start again. */
bool tn_needs_add(tn_needs_t *needs, tenon_stream_t *of, uint64_t ticket);
/* Lets the work that `stream` enqueues from now on wait for all of them. Implied waits are left
 * out. */
tenon_status_t tn_stream_follow(tenon_stream_t *stream, tn_needs_t *needs);
/* The same for one event that was recorded, under tn_streams_order. *out_is_left: only the host can
 * wait, and the caller must let it. */
tenon_status_t tn_stream_follow_event(tenon_stream_t *stream, const tenon_event_t *event,
                                      bool *out_is_left);
/* Fixes a point: streams that wait for the present work wait for no more than that, even if more
 * work is enqueued meanwhile. */
tenon_status_t tn_stream_point(tenon_stream_t *stream);
/* Records an event of the device, under tn_streams_order, and writes to `at` what it stands for. */
tenon_status_t tn_stream_record(tenon_stream_t *stream, void *event, tn_clock_t *at);
/* The host has seen that this work is done. */
void tn_streams_set_done(const struct tn_known_t *at, size_t count);
/* Is the work done, as far as the host has seen? */
bool tn_stream_is_done(const tenon_stream_t *stream, uint64_t ticket);
/* A library is unloaded: removes the names of its operators from all rings. */
void tn_streams_forget_names(void);
/* The text is freed: removes it from all rings and waits until no thread reads it. */
void tn_streams_forget_name(const char *name);
void tn_streams_in_child(void); /* after fork(): no other thread holds its lock */
/* Waits for all streams of an ordinal. */
tenon_status_t tn_ordinal_finish(tn_ordinal_t *ordinal);
/* Numbers of waits that were enqueued, implied by others, or performed by the host; for tests and
 * `tenon devices`. */
typedef struct tn_waits_t {
  uint64_t enqueued;
  uint64_t implied;
  uint64_t host;
} tn_waits_t;
extern tn_waits_t tn_waits; /* atomic */
/* For tests: the n-th wait from now on is silently left out; 0: none. */
void tn_waits_skip(uint64_t n);

#endif
