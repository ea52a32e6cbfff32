/* The test rig of the cases; each child process has one. The must_ functions call a function of the
 * device table, and a failure of that function is a finding. A case whose required functions are
 * missing does not run. finding() ends the process. */
#ifndef TENON_CONFORMANCE_RIG_H
#define TENON_CONFORMANCE_RIG_H

#include "conformance.h"
#include <stdarg.h>
#include <stdatomic.h>

/* What a case needs, and how it is run. */
enum {
  NEEDS_STREAMS = 1 << 0,
  NEEDS_EVENTS = 1 << 1,
  NEEDS_CALLBACK = 1 << 2,
  NEEDS_PINNED = 1 << 3,
  NEEDS_FILL = 1 << 4,
  NEEDS_PEER = 1 << 5, /* a second ordinal */
  NEEDS_TIMES = 1 << 6,
  NEEDS_RECORD = 1 << 7,
  NEEDS_SOURCE = 1 << 8,
  NEEDS_HOOK = 1 << 9,    /* the native object enqueue_failure */
  NEEDS_LEVEL = 1 << 10,  /* the function memory_free */
  NEEDS_DIRECT = 1 << 11, /* peers returns 1 */
  NEEDS_NATIVE = 1 << 12,
  NEEDS_LIBRARY = 1 << 13,
  NEEDS_MEMORY_IMPORT = 1 << 14,
  NEEDS_STREAM_IMPORT = 1 << 15,
  NEEDS_FORK = 1 << 16,
  NEEDS_ADDRESSES = 1 << 17,
  NEEDS_CLAIMS = 1 << 18,
  PLUGIN = 1 << 29, /* runs once, not for each ordinal, with nothing started and `on` NULL */
  ALONE = 1 << 30, /* a PLUGIN case that runs in a process of its own, because it starts ordinals */
};

typedef struct case_t {
  const char *name;
  const char *about;
  uint32_t needs;
  void (*run)(tenon_on_t on);
} case_t;

/* Each group ends with a case without name; the list ends with NULL. */
extern const case_t *const conformance_groups[];

enum {
  CASES_MOST = 400,
  RUNNING = -1,
};

typedef struct board_t { /* shared with the process that watches */
  _Atomic uint64_t progress;
  _Atomic int32_t current;
  _Atomic int32_t count; /* index of the case, and number of ordinals */
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
  /* Of all ordinals; state is NULL for ordinals that were not started. */
  tenon_device_context_t *contexts;
  int32_t count;
  tenon_device_properties_t properties; /* of the ordinal under test */
  uint64_t seed;
  _Atomic int unseen; /* some contents were not compared */
  int quick;
  int rounds; /* number of rounds in cases that look for work done too early */
  _Atomic uint64_t ticket;
} rig;

void finding(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void skip_case(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void doing(const char *format, ...)
    /* States what is called next; counts as progress. */
    __attribute__((format(printf, 1, 2)));
void asking(const char *what); /* the same for calls that are repeated endlessly; no progress */
const char *said(void);        /* message of this thread's last failure */
void hush(void);               /* clears that message */
const char *status_name(tenon_status_t status);
void must(tenon_status_t status, const char *format, ...)
    /* Reports a finding unless the status is TENON_OK. */
    __attribute__((format(printf, 2, 3)));
#define EXPECT(condition, ...)                                                                     \
  do {                                                                                             \
    if (!(condition)) finding(__VA_ARGS__);                                                        \
  } while (0)

/* The same for contents that the device's work has written; see no_contents. */
#define EXPECT_DATA(condition, ...)                                                                \
  do {                                                                                             \
    if (rig.options->no_contents)                                                                  \
      rig.unseen = 1;                                                                              \
    else                                                                                           \
      EXPECT(condition, __VA_ARGS__);                                                              \
  } while (0)

/* Whether the function is present, and within the size of the table. */
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

extern const tenon_host_t host;
/* Fills in rig.contexts. A failure is a finding; without a device the case is skipped. */
int32_t enumerate(void);
tenon_status_t start(int32_t ordinal); /* starts the ordinal unless it is started already */
void stop(int32_t ordinal);
tenon_on_t other_of(tenon_on_t on); /* another ordinal, started; skips the case if there is none */
const char *lacks(uint32_t needs, tenon_on_t on); /* why a case cannot run here; NULL: it can */

/* Test data: byte i of pattern `key` is the same wherever it is computed. */

void pattern(void *at, uint64_t bytes, uint64_t key, uint64_t first);
/* Compares with bytes [first, first + bytes) of pattern `key`. `before` is the key of the previous
 * contents; 0: unknown. */
void expect_pattern(const void *found, uint64_t bytes, uint64_t key, uint64_t first,
                    uint64_t before, const char *format, ...) __attribute__((format(printf, 6, 7)));
uint64_t any(uint64_t *state, uint64_t below); /* a random number below `below` */
void *host_new(uint64_t bytes);                /* host memory; skips the case if there is none */

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
void must_finish(tenon_on_t on);                        /* waits for all streams */
tenon_status_t ask_stream(tenon_on_t on, void *stream); /* TENON_OK or TENON_UNAVAILABLE */
void *must_event(tenon_on_t on);
void must_event_destroy(tenon_on_t on, void *event);
void must_record(tenon_on_t on, void *event, void *stream);
void must_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event);
void must_event_pass(tenon_on_t on, void *event);
tenon_status_t ask_event(tenon_on_t on, void *event);
void must_callback(tenon_on_t on, void *stream, void (*function)(void *, tenon_status_t),
                   void *argument);
void *must_pinned(tenon_on_t on, uint64_t bytes);

/* filled allocates memory that holds a pattern; put writes a pattern and waits; the others read,
 * wait and compare. All use the stream NULL. */
void *filled(tenon_on_t on, uint64_t bytes, uint64_t key);
void put(tenon_on_t on, void *handle, uint64_t offset, uint64_t bytes, uint64_t key);
void expect_holds(tenon_on_t on, const void *handle, uint64_t offset, uint64_t bytes, uint64_t key,
                  uint64_t first, uint64_t before, const char *format, ...)
    __attribute__((format(printf, 8, 9)));

/* Enqueues work that takes tens of milliseconds, long enough for other work to overtake it if
 * nothing orders them. `place` is 0 to 7 and selects separate memory: streams that work at the same
 * time use different places. */
void delay(tenon_on_t on, void *stream, int place);
void delay_ready(tenon_on_t on); /* call before delay is used on an ordinal */
/* Runs body(argument, i) on `count` threads and waits for them. */
void in_threads(int count, void (*body)(void *argument, int index), void *argument);

#define POISON 0xDEADu /* key of the contents that memory has before a case writes to it */

#endif
