/* tenon/api/random.h: generators of random numbers (docs/random.md).  Part of tenon/tenon.h. */
#ifndef TENON_API_RANDOM_H
#define TENON_API_RANDOM_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A generator: a seed, and a position in the stream of this seed, whose number i is
 * tenon_random(seed, i).
 *
 * Random operators (trait TENON_RANDOM) draw from a generator.  A call takes as many numbers as its
 * infer states, starting at the position.  Which element uses which number depends only on the
 * position of the element.  The same seed and position therefore give the same numbers on every
 * device and with any number of threads.
 *
 * Each device has a generator, initially with seed 0.  Calls draw from the generator of their
 * device, unless the thread has selected another one.
 *
 * Threads: any thread may draw from any generator, without a lock.  Simultaneous calls get
 * different numbers, in an unspecified order. */
typedef struct tenon_generator_t tenon_generator_t;

/* ---- selecting ------------------------------------------------------------------------------- */

/* Gives this thread a generator of its own, with this seed and position 0.
 *
 * Threads: thread-local. */
TENON_API void tenon_random_seed(uint64_t seed);

/* Selects the generator for calls of this thread.
 *
 * Arguments: NULL: the generators of the devices.
 * Returns: the previous generator; NULL: those of the devices.
 * Ownership: `generator` must outlive its use.
 * Threads: thread-local. */
TENON_API tenon_generator_t *tenon_generator_use(tenon_generator_t *generator);

/* Lends the generator of a device. */
TENON_API tenon_status_t tenon_generator_of(tenon_device_t device,
                                            tenon_generator_t **out_generator);

/* Creates a generator, which the caller releases. */
TENON_API tenon_status_t tenon_generator_create(uint64_t seed, tenon_generator_t **out_generator);
TENON_API void tenon_generator_release(tenon_generator_t *generator);

/* ---- seed and position ----------------------------------------------------------------------- */

/* Sets the seed, and the position to 0.
 *
 * Threads: simultaneous calls of other threads draw from the old seed or the new one. */
TENON_API void tenon_generator_seed_set(tenon_generator_t *generator, uint64_t seed);
TENON_API uint64_t tenon_generator_seed_get(const tenon_generator_t *generator);

/* Sets a seed that the system chooses.
 *
 * Arguments: `out_seed` receives the seed; may be NULL. */
TENON_API tenon_status_t tenon_generator_seed_system(tenon_generator_t *generator,
                                                     uint64_t *out_seed);
TENON_API void tenon_generator_offset_set(tenon_generator_t *generator, uint64_t offset);
TENON_API uint64_t tenon_generator_offset_get(const tenon_generator_t *generator);

/* Takes `count` numbers for the program itself.
 *
 * Returns: the position of the first number. */
TENON_API uint64_t tenon_generator_take(tenon_generator_t *generator, uint64_t count);

/* ---- saving ---------------------------------------------------------------------------------- */

/* Size of a saved generator, in bytes. */
enum {
  TENON_GENERATOR_STATE = 40
};

/* Save and restore seed and position, as bytes that are the same on every machine.
 *
 * Arguments: `size`: TENON_GENERATOR_STATE.
 * Errors: restore refuses bytes that are not a saved generator, come from a newer version, or are
 * truncated or modified; the generator is then unchanged. */
TENON_API tenon_status_t tenon_generator_save(const tenon_generator_t *generator, void *out_state,
                                              uint64_t size);
TENON_API tenon_status_t tenon_generator_restore(tenon_generator_t *generator, const void *state,
                                                 uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
