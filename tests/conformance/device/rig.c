/* The test rig: findings, the host that the device sees, its ordinals, and test data. */
#include "rig.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rig_t rig;

static pthread_mutex_t board_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local char last_said[8192];

static void end_case(int32_t outcome, const char *format, va_list arguments) {
  pthread_mutex_lock(&board_lock); /* never released: only the first of several threads reports */
  vsnprintf(rig.board->results[rig.board->current].text, sizeof rig.board->results[0].text, format,
            arguments);
  rig.board->results[rig.board->current].outcome = outcome;
  _exit(0);
}

void finding(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  end_case(CONFORMANCE_FAILED, format, arguments);
  va_end(arguments);
  abort();
}

void skip_case(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  end_case(CONFORMANCE_SKIPPED, format, arguments);
  va_end(arguments);
  abort();
}

void doing(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&board_lock);
  vsnprintf(rig.board->doing, sizeof rig.board->doing, format, arguments);
  rig.board->progress++;
  pthread_mutex_unlock(&board_lock);
  va_end(arguments);
  last_said[0] = 0;
}

void asking(const char *what) {
  pthread_mutex_lock(&board_lock);
  snprintf(rig.board->doing, sizeof rig.board->doing, "%s", what);
  pthread_mutex_unlock(&board_lock);
  last_said[0] = 0;
}

const char *said(void) { return last_said[0] ? last_said : "(no message by tenon_fail)"; }
void hush(void) { last_said[0] = 0; }

const char *status_name(tenon_status_t status) {
  static const char *const names[] = {"TENON_OK",
                                      "TENON_CANCELLED",
                                      "TENON_UNKNOWN",
                                      "TENON_INVALID",
                                      "TENON_DEADLINE",
                                      "TENON_NOT_FOUND",
                                      "TENON_EXISTS",
                                      "TENON_DENIED",
                                      "TENON_MEMORY",
                                      "TENON_PRECONDITION",
                                      "TENON_ABORTED",
                                      "TENON_RANGE",
                                      "TENON_UNIMPLEMENTED",
                                      "TENON_INTERNAL",
                                      "TENON_UNAVAILABLE"};
  return status >= 0 && status < (tenon_status_t)(sizeof names / sizeof *names)
             ? names[status]
             : "an invalid status";
}

void must(tenon_status_t status, const char *format, ...) {
  if (status == TENON_OK) return;
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  finding("%s failed: expected TENON_OK, found %s (%d): %s", what, status_name(status), status,
          said());
}

static tenon_status_t host_fail(const void *context, tenon_status_t code, const char *format, ...) {
  (void)context;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_said, sizeof last_said, format, arguments);
  va_end(arguments);
  return code;
}
static void host_zone(const void *context, const char *name) {
  (void)context;
  (void)name;
}
static void *host_native(const void *context, const char *name) {
  (void)context;
  (void)name;
  return NULL;
}

const tenon_host_t host = {.size = sizeof host,
                           .abi = TENON_ABI,
                           .fail = host_fail,
                           .zone = host_zone,
                           .native = host_native};

static tenon_device_context_t context_of(int32_t ordinal) {
  return (tenon_device_context_t){.size = sizeof(tenon_device_context_t),
                                  .phase = TENON_PHASE_DEVICE,
                                  .host = &host,
                                  .device = {rig.table->type, ordinal},
                                  .ordinal = ordinal,
                                  .settings = rig.options->settings ? rig.options->settings : ""};
}

int32_t enumerate(void) {
  tenon_device_context_t context = context_of(-1);
  int32_t count = -1;
  doing("enumerate()");
  tenon_status_t status = rig.table->enumerate(&context, &count);
  if (status == TENON_UNAVAILABLE) {
    EXPECT(last_said[0],
           "enumerate returned TENON_UNAVAILABLE without saying by tenon_fail what is missing");
    skip_case("no device: %s", said());
  }
  must(status, "enumerate");
  EXPECT(count >= 1 && count <= 256,
         "enumerate returned TENON_OK: expected 1 to 256 ordinals, found %d", count);
  rig.contexts = calloc((size_t)count, sizeof *rig.contexts);
  for (int32_t i = 0; i < count; i++) {
    rig.contexts[i] = context_of(i);
    rig.contexts[i].plugin = context.plugin;
  }
  rig.board->count = count;
  rig.count = count;
  return count;
}

static uint64_t started[4];

tenon_status_t start(int32_t ordinal) {
  if (started[ordinal / 64] >> ordinal % 64 & 1) return TENON_OK;
  doing("start() of ordinal %d", ordinal);
  tenon_status_t status = rig.table->start(&rig.contexts[ordinal]);
  if (status == TENON_OK) started[ordinal / 64] |= (uint64_t)1 << ordinal % 64;
  return status;
}

void stop(int32_t ordinal) {
  if (!(started[ordinal / 64] >> ordinal % 64 & 1)) return;
  doing("stop() of ordinal %d", ordinal);
  rig.table->stop(&rig.contexts[ordinal]);
  started[ordinal / 64] &= ~((uint64_t)1 << ordinal % 64);
  rig.contexts[ordinal].state = NULL;
}

tenon_on_t other_of(tenon_on_t on) {
  int32_t other = (on->ordinal + 1) % rig.count;
  if (other == on->ordinal) skip_case("the device has only one ordinal");
  must(start(other), "start of ordinal %d", other);
  delay_ready(&rig.contexts[other]);
  return &rig.contexts[other];
}

const char *lacks(uint32_t needs, tenon_on_t on) {
  static const char *const names[] = {
      "the device has no streams",
      "the device has no events",
      "the device has no callbacks",
      "the device has no pinned host memory",
      "the device has no function fill",
      "the device has only one ordinal",
      "the events have no times",
      "the device cannot record work",
      "the device does not compile source code",
      "the device has no native object enqueue_failure (see docs/devices.md)",
      "the device has no function memory_free",
      "the ordinals have no direct copies",
      "the device has no function native",
      "the table is linked, not loaded from a file",
      "the device has no function memory_import",
      "the device has no function stream_import",
      "the device has no function forked",
      "the device's memory has no addresses",
      "the device claims no groups of graphs"};
  uint32_t has = 0;
  if (HAS_STREAMS) has |= NEEDS_STREAMS;
  if (HAS_EVENTS) has |= NEEDS_EVENTS;
  if (HAS(callback)) has |= NEEDS_CALLBACK;
  if (HAS(host_allocate) && HAS(host_free)) has |= NEEDS_PINNED;
  if (HAS(fill)) has |= NEEDS_FILL;
  if (rig.count > 1) has |= NEEDS_PEER;
  if (HAS(event_time) && rig.properties.features & TENON_DEVICE_TIMES) has |= NEEDS_TIMES;
  if (HAS_RECORD) has |= NEEDS_RECORD;
  if (HAS_SOURCE && rig.properties.languages) has |= NEEDS_SOURCE;
  if (HAS(native)) has |= NEEDS_NATIVE;
  if (needs & NEEDS_HOOK && on && HAS(native) && rig.table->native(on, "enqueue_failure", NULL))
    has |= NEEDS_HOOK;
  if (HAS(memory_free)) has |= NEEDS_LEVEL;
  if (needs & NEEDS_DIRECT && on && HAS(peers) && rig.count > 1 &&
      rig.table->peers(on, other_of(on)))
    has |= NEEDS_DIRECT;
  if (rig.options->library) has |= NEEDS_LIBRARY;
  if (HAS(memory_import) && HAS(memory_forget)) has |= NEEDS_MEMORY_IMPORT;
  if (HAS(stream_import) && HAS(stream_forget)) has |= NEEDS_STREAM_IMPORT;
  if (HAS(forked)) has |= NEEDS_FORK;
  if (rig.properties.features & TENON_DEVICE_ADDRESSES) has |= NEEDS_ADDRESSES;
  if (HAS_CLAIMS) has |= NEEDS_CLAIMS;
  for (uint32_t bit = 0; bit < sizeof names / sizeof *names; bit++)
    if (needs >> bit & 1 && !(has >> bit & 1)) return names[bit];
  return NULL;
}

static uint64_t mix(uint64_t x) { /* splitmix64 */
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

uint64_t any(uint64_t *state, uint64_t below) { return mix((*state)++) % below; }

static uint8_t byte_of(uint64_t key, uint64_t i) {
  return (uint8_t)(mix(key * 0x10001u + rig.seed + i / 8) >> i % 8 * 8);
}

void pattern(void *at, uint64_t bytes, uint64_t key, uint64_t first) {
  uint8_t *to = at;
  uint64_t i = 0;
  for (; i < bytes && (first + i) % 8; i++)
    to[i] = byte_of(key, first + i);
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word = mix(key * 0x10001u + rig.seed + (first + i) / 8);
    memcpy(to + i, &word, 8);
  }
  for (; i < bytes; i++)
    to[i] = byte_of(key, first + i);
}

void expect_pattern(const void *found, uint64_t bytes, uint64_t key, uint64_t first,
                    uint64_t before, const char *format, ...) {
  const uint8_t *is = found;
  if (rig.options->no_contents) {
    rig.unseen = 1;
    return;
  }
  uint64_t wrong = 0;
  uint64_t at = 0;
  uint64_t old = 0;
  for (uint64_t i = 0; i < bytes; i += 8) {
    uint8_t word[8];
    uint64_t n = bytes - i < 8 ? bytes - i : 8;
    pattern(word, n, key, first + i);
    if (memcmp(word, is + i, n) == 0) continue;
    for (uint64_t k = 0; k < n; k++) {
      if (is[i + k] == word[k]) continue;
      if (!wrong++) at = i + k;
      if (before && is[i + k] == byte_of(before, first + i + k)) old++;
    }
  }
  if (!wrong) return;
  char what[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  const char *why = ": these bytes have their previous contents, as if they had been skipped";
  if (wrong == bytes)
    why = ": all bytes have their previous contents, as if the work had not been done";
  if (!before || old < wrong - wrong / 8) why = "";
  finding("%s: byte %llu of %llu: expected 0x%02x, found 0x%02x; %llu bytes are wrong%s", what,
          (unsigned long long)at, (unsigned long long)bytes, byte_of(key, first + at), is[at],
          (unsigned long long)wrong, why);
}

void *host_new(uint64_t bytes) {
  void *made = malloc(bytes ? bytes : 1);
  if (!made) skip_case("no host memory for %llu bytes", (unsigned long long)bytes);
  return made;
}

typedef struct body_t {
  void (*run)(void *, int);
  void *argument;
  int index;
  pthread_barrier_t *together; /* so that the threads begin at once */
} body_t;

static void *thread_main(void *argument) {
  body_t *body = argument;
  pthread_barrier_wait(body->together);
  body->run(body->argument, body->index);
  return NULL;
}

void in_threads(int count, void (*body)(void *argument, int index), void *argument) {
  pthread_t threads[32];
  body_t bodies[32];
  pthread_barrier_t together;
  pthread_barrier_init(&together, NULL, (unsigned)count);
  for (int i = 0; i < count; i++) {
    bodies[i] = (body_t){body, argument, i, &together};
    if (pthread_create(&threads[i], NULL, thread_main, &bodies[i]))
      skip_case("the system cannot create a thread");
  }
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&together);
}
