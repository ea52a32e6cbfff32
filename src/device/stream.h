/* Streams, and what they know of one another.  Work on a stream has tickets, 1, 2, ...; a stream
 * knows, of each other one, the ticket that it comes after, so that a wait is enqueued only where
 * none before implies it.  What failed in a stream is remembered with the name of the operator.
 * Invariant: a stream lives as long as its ordinal, used or idle, so what was done on it can be
 * asked at any time. */
#ifndef TN_DEVICE_STREAM_H
#define TN_DEVICE_STREAM_H

#include "device/plugin.h"

typedef struct tn_clock_t { /* by stream, the last ticket that is before */
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
  uint64_t ticket; /* that was given out last; atomic */
  uint64_t
      /* tickets whose work is enqueued: as many as given out, if no thread is at it; atomic */
      ended;
  uint64_t done; /* all work up to here is; atomic */
  uint64_t over; /* of one that failed: all work up to here is done or left undone; atomic */
  uint64_t
      /* the last ticket before there were several streams: who read what is not known so far */
      alone;
  int32_t failed;     /* atomic: its status, once it is known to have failed */
  int32_t references; /* handles; 0 and not an ordinal's first: idle */
  bool is_imported;
  bool is_ended;        /* it was somebody else's, and was given back */
  int32_t is_recording; /* nothing waits, nor is copied to or from the host; atomic */
  int32_t asked;        /* threads that wait for it, or ask whether it is done; atomic */
  int32_t kept;         /* its cached memory is not given back to the device; atomic */
  char *failure;        /* text */
  void *event;          /* for who waits, and what who waits for it comes after */
  tn_clock_t known;
  tn_clock_t at_event;
  struct tenon_stream_t *next;
  struct tn_entry_t { /* who enqueued: entry ticket % TN_RING */
    uint64_t ticket;  /* atomic, as the name */
    const char *name; /* of an operator or a constant text; cleared when a library goes */
  } ring[TN_RING];
};

extern tn_mutex_t tn_streams_order; /* of clocks and events of all streams */
/* So that it is not given back meanwhile; false: it was. */
bool tn_stream_hold(tenon_stream_t *stream);
void tn_stream_let_go(tenon_stream_t *stream);
/* The last ticket up to which all work is enqueued, as far as can be told; 0: a thread is at it
 * just now. */
uint64_t tn_stream_quiet(const tenon_stream_t *stream);
tenon_status_t tn_stream_cannot_record(const char *what); /* the failure of it */

tenon_status_t tn_streams_start(tn_ordinal_t *ordinal); /* its first stream */
void tn_streams_release(tn_ordinal_t *ordinal);

/* The stream that calls of this thread on this ordinal use. */
tenon_stream_t *tn_stream_current(tn_ordinal_t *ordinal);
/* The ticket of work that is enqueued next, by an operator of that name. */
static inline uint64_t tn_stream_ticket(tenon_stream_t *s, const char *name) {
  uint64_t ticket = __atomic_add_fetch(&s->ticket, 1, __ATOMIC_RELAXED);
  struct tn_entry_t *entry = &s->ring[ticket % TN_RING];
  __atomic_store_n(&entry->ticket, ticket, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->name, name, __ATOMIC_RELAXED);
  return ticket;
}
/* The work of a ticket is enqueued, or it failed to be. */
static inline void tn_stream_ended(tenon_stream_t *s) {
  __atomic_add_fetch(&s->ended, 1, __ATOMIC_RELEASE);
}
/* What is enqueued from here on is recorded, by this thread alone; others do not ask for the stream
 * meanwhile. */
tenon_status_t tn_stream_record(tenon_stream_t *stream);
tenon_status_t tn_stream_record_end(tenon_stream_t *stream,
                                    void **out_recording); /* NULL: it failed */
static inline bool tn_stream_is_recording(const tenon_stream_t *s) {
  return __builtin_expect(__atomic_load_n(&s->is_recording, __ATOMIC_RELAXED), 0);
}
/* Its cached memory stays while somebody keeps it: recorded work uses it. */
static inline void tn_stream_keep(tenon_stream_t *s, bool is_kept) {
  __atomic_add_fetch(&s->kept, is_kept ? 1 : -1, __ATOMIC_RELAXED);
}
/* The last ticket of what is in it now.  Of a stream of somebody else's a new one, that stands for
 * their work too. */
uint64_t tn_stream_mark(tenon_stream_t *stream);
/* Its failure, if it is known to have failed. */
tenon_status_t tn_stream_failure(const tenon_stream_t *stream);
static inline tenon_status_t tn_stream_check(const tenon_stream_t *s) {
  return __builtin_expect(__atomic_load_n(&s->failed, __ATOMIC_RELAXED), 0) ? tn_stream_failure(s)
                                                                            : TENON_OK;
}
/* A function of the table gave this status for the stream: remembers it and gives it with the
 * operator's name. */
tenon_status_t tn_stream_fault(tenon_stream_t *stream, tenon_status_t status,
                               const tenon_fault_t *fault);
/* A function of the table refused to enqueue something of that name (NULL: the message has it):
 * because the stream has failed, or by itself. */
tenon_status_t tn_stream_refused(tenon_stream_t *stream, tenon_status_t status, const char *name);
/* Waits for what is enqueued. */
tenon_status_t tn_stream_finish(tenon_stream_t *stream);
/* The same, of one that may have failed, before what it uses goes; the thread's message stays as it
 * is. */
void tn_stream_drain(tenon_stream_t *stream);
/* The same without waiting: UNAVAILABLE, and nothing is said, if it is not done. */
tenon_status_t tn_stream_poll(tenon_stream_t *stream);
/* What one piece of work comes after: of each stream the last ticket. */
enum { TN_NEEDS = 16 };
typedef struct tn_needs_t {
  size_t count;
  struct tn_known_t at[TN_NEEDS];
} tn_needs_t;
/* False: there is no room; follow what is there, and begin anew. */
bool tn_needs_add(tn_needs_t *needs, tenon_stream_t *of, uint64_t ticket);
/* What `stream` enqueues from here on comes after all of them; waits that others imply are left
 * out. */
tenon_status_t tn_stream_follow(tenon_stream_t *stream, tn_needs_t *needs);
/* Who follows what is in it now follows just that, also when more is enqueued before. */
tenon_status_t tn_stream_point(tenon_stream_t *stream);
/* Is it done, as far as the host has seen? */
bool tn_stream_is_done(const tenon_stream_t *stream, uint64_t ticket);
/* A library goes: no ring names its operators any more. */
void tn_streams_forget_names(void);
/* The text goes: no ring has it any more, and nobody is reading it. */
void tn_streams_forget_name(const char *name);
void tn_streams_in_child(void); /* no other thread has its lock */
/* Waits for all streams of an ordinal. */
tenon_status_t tn_ordinal_finish(tn_ordinal_t *ordinal);
/* Waits that were enqueued, and those that others implied: for tests and `tenon devices`. */
typedef struct tn_waits_t {
  uint64_t enqueued;
  uint64_t implied;
  uint64_t host;
} tn_waits_t;
extern tn_waits_t tn_waits; /* atomic */
/* The n-th wait from now on is not enqueued, though all goes on as if it were; 0: none.  Tests
 * only. */
void tn_waits_skip(uint64_t n);

#endif
