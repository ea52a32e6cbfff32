/* Generators: the streams of random numbers.  Each device has one, a thread may use another, and
 * programs create more.  A stream is Philox, determined by seed and position, so equal streams
 * give equal numbers on every device and with any number of threads.  Invariant: taking numbers
 * is one atomic addition, without a lock, and no two calls get the same numbers. */
#include "operator/generator.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"

/* choosing a generator */

static tenon_generator_t *of_device(tenon_device_t device) {
  tn_backend_t *backend = tn_backend_of(device);
  return backend ? &backend->generators[device.id & 255] : NULL;
}

tenon_random_t tn_random_take(tenon_device_t device, int64_t draws) {
  tenon_generator_t *generator = tn_thread()->calls.generator;
  if (!generator) generator = of_device(device);
  if (!generator) generator = &tn_backend_cpu.generators[0];
  uint64_t offset = tenon_generator_take(generator, draws > 0 ? (uint64_t)draws : 0);
  return (tenon_random_t){sizeof(tenon_random_t), 0, tenon_generator_seed_get(generator), offset,
                          NULL};
}

void tn_generators_clear(void) {
  tn_backend_t *backend;
  for (int32_t i = 0; (backend = tn_backend_at(i)); i++)
    memset(backend->generators, 0, sizeof backend->generators);
}

tenon_status_t tenon_generator_of(tenon_device_t device, tenon_generator_t **out_generator) {
  if (!out_generator) return tn_fail(TENON_INVALID, "a generator: there is no place for it");
  *out_generator = of_device(device);
  return *out_generator ? TENON_OK
                        : tn_fail(TENON_INVALID, "device (type %d, id %d) belongs to no backend",
                                  (int)device.type, (int)device.id);
}

tenon_status_t tenon_generator_create(uint64_t seed, tenon_generator_t **out_generator) {
  if (!out_generator) return tn_fail(TENON_INVALID, "a generator: there is no place for it");
  if (!(*out_generator = tn_allocate_zero(1, sizeof **out_generator)))
    return tn_no_memory("a generator", sizeof **out_generator);
  (*out_generator)->seed = seed;
  return TENON_OK;
}

void tenon_generator_release(tenon_generator_t *generator) {
  tn_thread_calls_t *calls = &tn_thread()->calls;
  if (generator && calls->generator == generator) calls->generator = NULL;
  tn_release_memory(generator);
}

tenon_generator_t *tenon_generator_use(tenon_generator_t *generator) {
  tn_thread_calls_t *calls = &tn_thread()->calls;
  tenon_generator_t *before = calls->generator;
  calls->generator = generator;
  return before;
}

void tenon_random_seed(uint64_t seed) {
  tn_thread_t *thread = tn_thread();
  tenon_generator_seed_set(&thread->own_generator, seed);
  thread->calls.generator = &thread->own_generator;
}

/* seed and position */

void tenon_generator_seed_set(tenon_generator_t *generator, uint64_t seed) {
  __atomic_store_n(&generator->seed, seed, __ATOMIC_RELAXED);
  __atomic_store_n(&generator->offset, 0, __ATOMIC_RELAXED);
}

uint64_t tenon_generator_seed_get(const tenon_generator_t *generator) {
  return __atomic_load_n(&generator->seed, __ATOMIC_RELAXED);
}

tenon_status_t tenon_generator_seed_system(tenon_generator_t *generator, uint64_t *out_seed) {
  uint64_t seed;
  if (!tn_entropy(&seed, sizeof seed))
    return tn_fail(TENON_UNAVAILABLE, "the system gave no random bytes for a seed");
  tenon_generator_seed_set(generator, seed);
  if (out_seed) *out_seed = seed;
  return TENON_OK;
}

void tenon_generator_offset_set(tenon_generator_t *generator, uint64_t offset) {
  __atomic_store_n(&generator->offset, offset, __ATOMIC_RELAXED);
}

uint64_t tenon_generator_offset_get(const tenon_generator_t *generator) {
  return __atomic_load_n(&generator->offset, __ATOMIC_RELAXED);
}

uint64_t tenon_generator_take(tenon_generator_t *generator, uint64_t count) {
  return __atomic_fetch_add(&generator->offset, count, __ATOMIC_RELAXED);
}

/* state */

/* The saved state: "tenonrng", version, size, seed, offset, and FNV-1a of the bytes before it.
 * Numbers are little-endian on every machine. */
enum {
  STATE_VERSION = 1,
  AT_VERSION = 8,
  AT_SIZE = 12,
  AT_SEED = 16,
  AT_OFFSET = 24,
  AT_CHECK = 32,
};
static const char magic[8] = {'t', 'e', 'n', 'o', 'n', 'r', 'n', 'g'};

static void put_bytes(uint8_t *bytes, int size, uint64_t value) {
  for (int i = 0; i < size; i++)
    bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_bytes(const uint8_t *bytes, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; i++)
    value |= (uint64_t)bytes[i] << (8 * i);
  return value;
}

static uint64_t check_of(const uint8_t *bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < AT_CHECK; i++)
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

tenon_status_t tenon_generator_save(const tenon_generator_t *generator, void *out_state,
                                    uint64_t size) {
  uint8_t *bytes = out_state;
  if (!generator || !out_state || size != TENON_GENERATOR_STATE)
    return tn_fail(TENON_INVALID, "the state of a generator takes %d bytes, found room for %llu",
                   TENON_GENERATOR_STATE, (unsigned long long)(out_state ? size : 0));
  memcpy(bytes, magic, sizeof magic);
  put_bytes(bytes + AT_VERSION, 4, STATE_VERSION);
  put_bytes(bytes + AT_SIZE, 4, TENON_GENERATOR_STATE);
  put_bytes(bytes + AT_SEED, 8, tenon_generator_seed_get(generator));
  put_bytes(bytes + AT_OFFSET, 8, tenon_generator_offset_get(generator));
  put_bytes(bytes + AT_CHECK, 8, check_of(bytes));
  return TENON_OK;
}

tenon_status_t tenon_generator_restore(tenon_generator_t *generator, const void *state,
                                       uint64_t size) {
  const uint8_t *bytes = state;
  if (!generator || !state)
    return tn_fail(TENON_INVALID, "the state of a generator: there is none");
  if (size < AT_SEED || memcmp(bytes, magic, sizeof magic) != 0)
    return tn_fail(
        TENON_INVALID,
        "%llu bytes are no state of a generator: expected what tenon_generator_save wrote",
        (unsigned long long)size);
  if (get_bytes(bytes + AT_VERSION, 4) != STATE_VERSION)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "the state of a generator is of version %llu, this libtenon reads %d: update it",
                   (unsigned long long)get_bytes(bytes + AT_VERSION, 4), STATE_VERSION);
  if (size != TENON_GENERATOR_STATE || get_bytes(bytes + AT_SIZE, 4) != size)
    return tn_fail(TENON_INVALID,
                   "the state of a generator has %llu bytes, expected %d: is a part of it missing?",
                   (unsigned long long)size, TENON_GENERATOR_STATE);
  if (get_bytes(bytes + AT_CHECK, 8) != check_of(bytes))
    return tn_fail(TENON_INVALID,
                   "the state of a generator is damaged: its check does not fit its contents");
  __atomic_store_n(&generator->seed, get_bytes(bytes + AT_SEED, 8), __ATOMIC_RELAXED);
  __atomic_store_n(&generator->offset, get_bytes(bytes + AT_OFFSET, 8), __ATOMIC_RELAXED);
  return TENON_OK;
}
