/* What the cases are written with: one child process has one rig.  The must_ functions call a slot,
 * and a failure of it is a finding; where a slot of a case's needs is absent the case does not run.
 * finding() ends the process. */
#ifndef TENON_CONFORMANCE_RIG_H
#define TENON_CONFORMANCE_RIG_H

#include "conformance.h"
#include <stdarg.h>
#include <stdatomic.h>

/* clang-format off */
enum { /* what a case needs */
  NEEDS_STREAMS = 1, NEEDS_EVENTS = 2, NEEDS_CALLBACK = 4, NEEDS_PINNED = 8, NEEDS_FILL = 16, NEEDS_PEER = 32 /* ordinal */,
  NEEDS_TIMES = 64, NEEDS_RECORD = 128, NEEDS_SOURCE = 256, NEEDS_HOOK = 512 /* enqueue_failure */, NEEDS_LEVEL = 1024
  /* memory_free */, NEEDS_DIRECT = 2048 /* peers says 1 */, NEEDS_NATIVE = 4096, NEEDS_LIBRARY = 8192,
  NEEDS_MEMORY_IMPORT = 16384, NEEDS_STREAM_IMPORT = 32768, NEEDS_FORK = 65536, NEEDS_ADDRESSES = 131072, NEEDS_CLAIMS = 262144,
  PLUGIN = 1 << 29, /* is run once, not for each ordinal, with nothing started and `on` NULL */
  ALONE = 1 << 30,   /* a PLUGIN case in a process of its own, for it starts ordinals */
};
/* clang-format on */

typedef struct case_t {
  const char *name;
  const char *about;
  uint32_t needs;
  void (*run)(tenon_on_t on);
} case_t;

extern const case_t *const conformance_groups[]; /* each up to a case without name; up to NULL */

enum {
  CASES_MOST = 400,
  RUNNING = -1,
};

typedef struct board_t { /* shared with the process that watches */
  _Atomic uint64_t progress;
  _Atomic int32_t current;
  _Atomic int32_t count; /* the case; ordinals */
  char doing[256];
  struct {
    _Atomic int32_t outcome; /* set after the text */
    char text[1500];
  } results[CASES_MOST];
} board_t;

extern struct rig_t {
  const tenon_device_table_t *table;
  const conformance_options_t *options;
  board_t *board;
  tenon_device_context_t *contexts; /* of all ordinals; state is NULL where they were not started */
  int32_t count;
  tenon_device_properties_t properties; /* of the ordinal under test */
  uint64_t seed;
  _Atomic int unseen; /* something was not compared */
  int quick;
  int rounds; /* rounds: of cases that look for work done too early */
  _Atomic uint64_t ticket;
} rig;

/* findings */

void finding(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void skip_case(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void doing(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* what is called now; counts as progress */
void asking(const char *what); /* the same, for what may be asked for ever: no progress */
const char *said(void);        /* the text of this thread's last failure */
void hush(void);               /* forgets it */
const char *status_name(tenon_status_t status);
void must(tenon_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* be OK */
#define EXPECT(condition, ...)                                                                     \
  do {                                                                                             \
    if (!(condition)) finding(__VA_ARGS__);                                                        \
  } while (0)

/* The same of what the device's work has written, see no_contents. */
#define EXPECT_DATA(condition, ...)                                                                \
  do {                                                                                             \
    if (rig.options->no_contents)                                                                  \
      rig.unseen = 1;                                                                              \
    else                                                                                           \
      EXPECT(condition, __VA_ARGS__);                                                              \
  } while (0)

/* Is the slot there, and within the size of the table? */
#define HAS(slot) (TENON_HAS(rig.table, slot) && rig.table->slot != NULL)
#define HAS_STREAMS                                                                                \
  (HAS(stream_create) && HAS(stream_destroy) && HAS(stream_query) && HAS(stream_synchronize))
#define HAS_EVENTS                                                                                 \
  (HAS_STREAMS && HAS(event_create) && HAS(event_destroy) && HAS(event_record) &&                  \
   HAS(event_query) && HAS(event_synchronize) && HAS(stream_wait))
#define HAS_RECORD (HAS(record_begin) && HAS(record_end) && HAS(replay) && HAS(recording_free))
#define HAS_CLAIMS                                                                                 \
  (HAS(claim) && HAS(group_compile) && HAS(group_run) && HAS(group_save) && HAS(group_load) &&     \
   HAS(group_free))
#define HAS_SOURCE                                                                                 \
  (HAS(compile) && HAS(program_load) && HAS(program_unload) && HAS(kernel_find) && HAS(launch))

/* the host, contexts */

extern const tenon_host_t host;
int32_t
enumerate(void); /* fills in rig.contexts; fails as finding, or skips where there is no device */
tenon_status_t start(int32_t ordinal); /* once; others do not start again */
void stop(int32_t ordinal);
tenon_on_t other_of(tenon_on_t on); /* another ordinal, started; skips the case if there is none */
const char *lacks(uint32_t needs, tenon_on_t on); /* why a case cannot run here; NULL: it can */

/* data: byte i of pattern `key` is the same wherever it is asked for */

void pattern(void *at, uint64_t bytes, uint64_t key, uint64_t first);
/* Compares with bytes [first, first + bytes) of pattern `key`; `before` is what was there before,
 * 0: not known. */
void expect_pattern(const void *found, uint64_t bytes, uint64_t key, uint64_t first,
                    uint64_t before, const char *format, ...) __attribute__((format(printf, 6, 7)));
uint64_t any(uint64_t *state, uint64_t below); /* a random number */
void *host_new(uint64_t bytes);                /* host memory; skips the case if there is none */

/* slots */

void *must_allocate(tenon_on_t on, uint64_t bytes);
void must_free(tenon_on_t on, void *handle);
tenon_status_t try_copy(tenon_on_t on, void *stream, uint32_t direction, tenon_memory_t to,
                        tenon_memory_t from, uint64_t bytes, tenon_on_t peer);
void must_in(tenon_on_t on, void *stream, void *to, uint64_t offset, const void *from,
             uint64_t bytes);
void must_out(tenon_on_t on, void *stream, void *to, const void *from, uint64_t offset,
              uint64_t bytes);
void must_within(tenon_on_t on, void *stream, void *to, uint64_t to_offset, const void *from,
                 uint64_t from_offset, uint64_t bytes);
void must_peer(tenon_on_t on, void *stream, void *to, uint64_t to_offset, tenon_on_t peer,
               const void *from, uint64_t from_offset, uint64_t bytes);
void must_fill(tenon_on_t on, void *stream, void *to, uint64_t offset, uint64_t bytes,
               const void *with, uint32_t width);
void *must_stream(tenon_on_t on);
void must_stream_destroy(tenon_on_t on, void *stream);
void must_pass(tenon_on_t on, void *stream);            /* waits for one stream */
void must_finish(tenon_on_t on);                        /* waits for all */
tenon_status_t ask_stream(tenon_on_t on, void *stream); /* OK or UNAVAILABLE */
void *must_event(tenon_on_t on);
void must_event_destroy(tenon_on_t on, void *event);
void must_record(tenon_on_t on, void *event, void *stream);
void must_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event);
void must_event_pass(tenon_on_t on, void *event);
tenon_status_t ask_event(tenon_on_t on, void *event);
void must_callback(tenon_on_t on, void *stream, void (*function)(void *, tenon_status_t),
                   void *argument);
void *must_pinned(tenon_on_t on, uint64_t bytes);

/* Memory that holds a pattern; writes one and waits; reads, waits and compares; all by the stream
 * NULL. */
void *filled(tenon_on_t on, uint64_t bytes, uint64_t key);
void put(tenon_on_t on, void *handle, uint64_t offset, uint64_t bytes, uint64_t key);
void expect_holds(tenon_on_t on, const void *handle, uint64_t offset, uint64_t bytes, uint64_t key,
                  uint64_t first, uint64_t before, const char *format, ...)
    __attribute__((format(printf, 8, 9)));

/* Enqueues work that takes long enough (tens of milliseconds) for others to come before it, if
 * nothing makes them wait. `place` 0..7: places are memory of their own: two streams at a time use
 * two places. */
void delay(tenon_on_t on, void *stream, int place);
void delay_ready(tenon_on_t on); /* before it is used on an ordinal */
/* Runs body(argument, i) on `count` threads and waits for them. */
void in_threads(int count, void (*body)(void *argument, int index), void *argument);

#define POISON 0xDEADu /* the key of what is in memory before a case writes to it */

#endif
