#include "random.h"

#include <pthread.h>

enum {
  STATES = 1024,
  WORDS = 624,
};

/* the layout of std::mt19937 in the GNU C++ library on 64-bit machines */
typedef struct twister_t {
  uint64_t words[WORDS];
  uint64_t next;
} twister_t;

static twister_t states[STATES];
static pthread_mutex_t turns = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_seed, last_offset; /* seed and offset of the last call that drew numbers */
static int is_seeded;

static void seed_all(uint32_t base) {
  for (uint32_t s = 0; s < STATES; s++) {
    uint32_t word = base + s;
    for (uint32_t i = 0; i < WORDS; i++) {
      states[s].words[i] = word;
      word = 1812433253u * (word ^ word >> 30) + i + 1;
    }
    states[s].next = WORDS;
  }
}

void *random_begin(const tenon_random_t *of) {
  if (!of) return states;
  pthread_mutex_lock(&turns);
  const int goes_on = is_seeded && of->seed == last_seed && of->offset == last_offset + 1;
  if (!goes_on)
    seed_all(of->offset ? tenon_random(of->seed, of->offset) : (uint32_t)of->seed * 127u);
  is_seeded = 1;
  last_seed = of->seed;
  last_offset = of->offset;
  return states;
}

void random_end(const tenon_random_t *of) {
  if (of) pthread_mutex_unlock(&turns);
}
