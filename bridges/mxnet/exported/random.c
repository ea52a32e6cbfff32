/* Seeds Tenon's generator from MXNet's random numbers. MXNet passes a library the objects of its
 * C++ library's mt19937 (Matsumoto and Nishimura 1998): in the GNU library on 64 bits these are 624
 * words of 8 bytes each, followed by the position. Two numbers of the first object make a seed. */
#include "call.h"
#include "message.h"

enum {
  WORDS = 624,
  MIDDLE = 397,
};

static void twist(uint64_t *words) {
  for (int i = 0; i < WORDS; i++) {
    uint32_t joined =
        ((uint32_t)words[i] & 0x80000000u) | ((uint32_t)words[(i + 1) % WORDS] & 0x7fffffffu);
    words[i] = (uint32_t)words[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ (joined & 1 ? 0x9908b0dfu : 0);
  }
}

static uint32_t draw(uint64_t *words) {
  uint64_t *position = words + WORDS;
  if (*position >= WORDS) {
    twist(words);
    *position = 0;
  }
  uint32_t y = (uint32_t)words[(*position)++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

static bool is_known(const uint64_t *words) {
  for (int i = 0; i < 8; i++)
    if (words[i] >> 32) return false;
  return words[WORDS] <= WORDS;
}

bool random_begin(const node_t *node, const block_t *block, tenon_generator_t **out_generator,
                  tenon_generator_t **out_before) {
  uint64_t *words = block->random;
  *out_generator = NULL;
  if (!(node->self->traits & TENON_RANDOM)) return true;
  if (!words || !is_known(words))
    return message_set("%s: random operators are not supported here: MXNet's random states are not "
                       "those of the GNU C++ library on 64 bits",
                       node->self->full);
  uint64_t seed = (uint64_t)draw(words) << 32;
  seed |= draw(words);
  if (host.tenon_generator_create(seed, out_generator) != TENON_OK) return message_of_host();
  *out_before = host.tenon_generator_use(*out_generator);
  return true;
}

void random_end(tenon_generator_t *generator, tenon_generator_t *before) {
  if (!generator) return;
  (void)host.tenon_generator_use(before);
  host.tenon_generator_release(generator);
}
