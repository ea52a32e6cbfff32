/* Instruction sets of x86, read by CPUID. For wide registers XGETBV must also say that the
 * operating system saves them. */
#include <cpuid.h>
#include <string.h>

#include "base/cpu_probe.h"

typedef struct leaf_t {
  unsigned a;
  unsigned b;
  unsigned c;
  unsigned d;
} leaf_t;

static leaf_t read_leaf(unsigned number, unsigned part) {
  leaf_t l = {0, 0, 0, 0};
  if (!__get_cpuid_count(number, part, &l.a, &l.b, &l.c, &l.d)) l = (leaf_t){0, 0, 0, 0};
  return l;
}

static unsigned long long saved_register_mask(void) {
  unsigned low, high;
  if (!(read_leaf(1, 0).c >> 27 & 1)) return 0; /* OSXSAVE */
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (unsigned long long)high << 32 | low;
}

static bool has_all_bits(unsigned word, unsigned bits) { return (word & bits) == bits; }

bool tn_cpu_probe(const char *word) {
  leaf_t one = read_leaf(1, 0);
  leaf_t seven = read_leaf(7, 0);
  leaf_t more = read_leaf(7, 1);
  unsigned long long saved = saved_register_mask();
  bool avx2 = (saved & 6) == 6 && has_all_bits(one.c, 1u << 28 | 1u << 12 | 1u << 29) &&
              has_all_bits(seven.b, 1u << 5);
  bool avx512 = avx2 && (saved & 0xe6) == 0xe6 &&
                has_all_bits(seven.b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31);
  if (strcmp(word, "avx2") == 0) return avx2;
  if (strcmp(word, "avx512") == 0) return avx512;
  if (strcmp(word, "avx512vnni") == 0) return avx512 && has_all_bits(seven.c, 1u << 11);
  if (strcmp(word, "avx512bf16") == 0) return avx512 && has_all_bits(more.a, 1u << 5);
  if (strcmp(word, "amx") == 0)
    return avx512 && (saved >> 17 & 3) == 3 && has_all_bits(seven.d, 1u << 24 | 1u << 22);
  return false;
}
