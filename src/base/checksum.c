/* Checksums by CRC32C (Castagnoli), which x86 computes in one instruction for eight bytes. Four
 * lanes take turns, because the result of the instruction comes three cycles later.
 * Invariant: the value does not depend on the processor, nor on who computes which piece. */
#include "base/checksum.h"

#include <string.h>

enum { LANES = 4, STRIPE = 8 * LANES };

typedef struct lanes_t {
  uint64_t at[LANES];
} lanes_t;

static uint64_t word_at(const unsigned char *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

/* CRC32C bit by bit: where there is no instruction, and for the few words at the end. */
static uint64_t add_word(uint64_t crc, uint64_t word) {
  const uint64_t polynomial = 0x82F63B78;
  crc ^= word;
  for (int bit = 0; bit < 64; bit++)
    crc = crc >> 1 ^ (polynomial & -(crc & 1));
  return crc;
}

static void add_stripes_slowly(lanes_t *lanes, const unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count * LANES; i++)
    lanes->at[i % LANES] = add_word(lanes->at[i % LANES], word_at(bytes + 8 * i));
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static void
add_stripes_by_instruction(lanes_t *lanes, const unsigned char *bytes, size_t count) {
  uint64_t a = lanes->at[0];
  uint64_t b = lanes->at[1];
  uint64_t c = lanes->at[2];
  uint64_t d = lanes->at[3];
  for (size_t i = 0; i < count; i++, bytes += STRIPE) {
    a = __builtin_ia32_crc32di(a, word_at(bytes));
    b = __builtin_ia32_crc32di(b, word_at(bytes + 8));
    c = __builtin_ia32_crc32di(c, word_at(bytes + 16));
    d = __builtin_ia32_crc32di(d, word_at(bytes + 24));
  }
  *lanes = (lanes_t){{a, b, c, d}};
}

static void add_stripes(lanes_t *lanes, const unsigned char *bytes, size_t count) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2"))
    add_stripes_by_instruction(lanes, bytes, count);
  else
    add_stripes_slowly(lanes, bytes, count);
}
#else
static void add_stripes(lanes_t *lanes, const unsigned char *bytes, size_t count) {
  add_stripes_slowly(lanes, bytes, count);
}
#endif

static uint64_t checksum_of(const unsigned char *bytes, uint64_t size) {
  lanes_t lanes = {{0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFC}};
  unsigned char last[STRIPE] = {0};
  const size_t whole = (size_t)(size / STRIPE);
  const size_t rest = (size_t)(size % STRIPE);
  if (whole) add_stripes(&lanes, bytes, whole);
  if (rest) {
    memcpy(last, bytes + whole * STRIPE, rest);
    add_stripes(&lanes, last, 1);
  }
  uint64_t low = add_word(0xFFFFFFFF, size);
  low = add_word(low, lanes.at[0] | lanes.at[1] << 32);
  low = add_word(low, lanes.at[2] | lanes.at[3] << 32);
  uint64_t high = add_word(0, lanes.at[3] | lanes.at[1] << 32);
  high = add_word(high, lanes.at[2] | lanes.at[0] << 32);
  return low | high << 32;
}

uint64_t tn_checksum_pieces(uint64_t size) { return size ? (size - 1) / TN_CHECKSUM_PIECE + 1 : 1; }

uint64_t tn_checksum_piece(const void *data, uint64_t size, uint64_t piece) {
  const uint64_t begin = piece * TN_CHECKSUM_PIECE;
  const uint64_t left = size - begin;
  return checksum_of((const unsigned char *)data + begin,
                     left < TN_CHECKSUM_PIECE ? left : TN_CHECKSUM_PIECE);
}

uint64_t tn_checksum_join(const uint64_t *pieces, uint64_t count) {
  return checksum_of((const unsigned char *)pieces, count * sizeof *pieces);
}

uint64_t tn_checksum(const void *data, uint64_t size) { return checksum_of(data, size); }
