/* The list of instruction sets, its order, and the limit from the environment.  What the processor
 * reports comes from cpu_x86.c or cpu_other.c. */
#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu_probe.h"
#include "base/environment.h"

static const char *const words[] = {"",       "neon",       "dotprod",    "sve", "avx2",
                                    "avx512", "avx512vnni", "avx512bf16", "amx"};
enum { WORDS = sizeof words / sizeof *words };

int tn_cpu_rank(const char *word, size_t size) {
  for (int i = 0; i < WORDS; i++)
    if (strlen(words[i]) == size && memcmp(words[i], word, size) == 0) return i;
  return -1;
}

const char *tn_cpu_word(int rank) { return rank >= 0 && rank < WORDS ? words[rank] : NULL; }

static int read_limit(void) {
  const char *text = tn_environment("TENON_CPU_CAPABILITY");
  if (!text || !*text) return WORDS;
  if (strcmp(text, "default") == 0) return 0;
  int rank = tn_cpu_rank(text, strlen(text));
  return rank < 0 ? WORDS : rank;
}

/* The highest rank that may be used; -1: the environment has not been read. */
static int limit = -1;

void tn_cpu_limit_read(void) { __atomic_store_n(&limit, read_limit(), __ATOMIC_RELAXED); }

static int rank_limit(void) {
  int rank = __atomic_load_n(&limit, __ATOMIC_RELAXED);
  if (rank >= 0) return rank;
  tn_cpu_limit_read();
  return __atomic_load_n(&limit, __ATOMIC_RELAXED);
}

bool tn_cpu_limit_valid(const char **out_value) {
  const char *text = tn_environment("TENON_CPU_CAPABILITY");
  *out_value = text;
  return !text || !*text || strcmp(text, "default") == 0 || tn_cpu_rank(text, strlen(text)) > 0;
}

/* Bit mask of the instruction sets that the processor reports. Cached, because CPUID traps in
 * virtual machines. */
static unsigned reported_sets(void) {
  /* Bit 0 is set once the mask has been computed. The race is benign: every thread computes the
   * same value. */
  static unsigned known;
  unsigned bits = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (bits) return bits;
  bits = 1;
  for (int i = 1; i < WORDS; i++)
    bits |= (unsigned)tn_cpu_probe(words[i]) << i;
  __atomic_store_n(&known, bits, __ATOMIC_RELAXED);
  return bits;
}

bool tn_cpu_has(int rank) {
  if (rank == 0) return true;
  return rank > 0 && rank < WORDS && rank <= rank_limit() && (reported_sets() >> rank & 1);
}
