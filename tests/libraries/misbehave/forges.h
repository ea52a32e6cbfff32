/* What a hostile library knows about the memory that it shares with its host, without including
 * anything of Tenon but its public headers: the layout of a channel (src/isolation/mailbox.h), and
 * words to write into it. */
#ifndef FORGES_H
#define FORGES_H

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <tenon/op.h>

enum {
  MESSAGE = 0x40000,
  HEAD = 0x10000,
  BELL = 128,
  ENTRY = 1 << 20,
  CHANNEL = 32 << 20,
  DESCRIPTION = HEAD + 8 * ENTRY,
};
enum { IDLE, CALL, ASK, ANSWER, REPLY, DEAD };   /* states of a doorbell */
enum { ABSENT, DENSE, LIST, TEXTS, SAME, MAKE }; /* kinds of results */

static uint64_t random_state = 88172645463325252u;
static uint64_t next(void) { /* xorshift */
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state >> 11;
}
static int one_in(uint64_t n) { return next() % n == 0; }

/* Values at which comparisons and products of lengths, offsets, extents and symbols change. */
static uint64_t boundary(void) {
  static const uint64_t values[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    8,
                                    63,
                                    64,
                                    65,
                                    255,
                                    256,
                                    4096,
                                    0x40000,
                                    1u << 20,
                                    0x7fffffff,
                                    0x80000000u,
                                    0xffffffffu,
                                    0x100000000u,
                                    1ull << 40,
                                    1ull << 60,
                                    1ull << 61,
                                    1ull << 62,
                                    INT64_MAX,
                                    1ull << 63,
                                    (1ull << 63) + 1,
                                    (1ull << 63) + 63,
                                    (1ull << 63) + (1ull << 61),
                                    UINT64_MAX,
                                    UINT64_MAX - 1,
                                    UINT64_MAX - 7,
                                    UINT64_MAX / 8,
                                    UINT64_MAX / 16};
  const uint64_t value = values[next() % (sizeof values / sizeof *values)];
  return one_in(4) ? value + next() % 9 - 4 : value;
}

static uint64_t dtype_word(void) {
  static const uint32_t dtypes[] = {TENON_F32,  TENON_F64,    TENON_I64,  TENON_I32, TENON_U8,
                                    TENON_BOOL, TENON_I4,     TENON_C64,  TENON_F16, TENON_STRING,
                                    TENON_LIST, TENON_STRING, TENON_LIST, 0};
  const uint32_t dtype = dtypes[next() % (sizeof dtypes / sizeof *dtypes)];
  return one_in(8) ? dtype ^ 1u << next() % 32 : dtype;
}

static uint64_t any_word(void) {
  switch (next() % 6) {
  case 0:
    return dtype_word();
  case 1:
    return next() % 70;
  case 2:
    return (uint64_t)(CHANNEL + next() % (1 << 16) * 64);
  case 3:
    return next() << next() % 32;
  default:
    return boundary();
  }
}

static void wake(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 100, 0, 0, 0); }

#endif
