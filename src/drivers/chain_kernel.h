/* The body of chains, for vectors of CHAIN_BYTES bytes, CHAIN_BLOCK of which are a block. The
 * including file defines both, and CHAIN_NAME(name), CHAIN_TARGET (an attribute of functions),
 * CHAIN_SQRT (the square roots of a vector), CHAIN_GREATER and CHAIN_LESS (a > b ? a : b and
 * a < b ? a : b of two vectors). The function runs whole blocks from element `at` on, and returns
 * the number of the element behind the last one. */

typedef float CHAIN_NAME(vector) __attribute__((vector_size(CHAIN_BYTES), aligned(4), may_alias));
typedef int32_t CHAIN_NAME(mask) __attribute__((vector_size(CHAIN_BYTES), aligned(4), may_alias));

#define V CHAIN_NAME(vector)
#define M CHAIN_NAME(mask)
#define LANES (CHAIN_BYTES / 4)
#define EACH _Pragma("GCC unroll 8") for (int k = 0; k < CHAIN_BLOCK; k++)
#define RUN(link, k) (*(const V *)(const void *)((link)->run + at + LANES * (k)))
#define CHOOSE(test, a, b) ((V)(((test) & (M)(a)) | (~(test) & (M)(b))))
#define ONE(name, expression)                                                                      \
  case TN_LINK_##name:                                                                             \
    EACH {                                                                                         \
      const V a = block[k];                                                                        \
      block[k] = expression;                                                                       \
    }                                                                                              \
    break;
#define FORM(code, left, right, expression)                                                        \
  case TN_LINK_##code:                                                                             \
    EACH {                                                                                         \
      const V a = left;                                                                            \
      const V b = right;                                                                           \
      block[k] = expression;                                                                       \
    }                                                                                              \
    break;
#define TWO(name, expression)                                                                      \
  FORM(name, block[k], RUN(link, k), expression)                                                   \
  FORM(RUN_##name, RUN(link, k), block[k], expression)                                             \
  FORM(name##_NUMBER, block[k], number, expression)                                                \
  FORM(NUMBER_##name, number, block[k], expression)                                                \
  FORM(name##_ITSELF, block[k], block[k], expression)

CHAIN_TARGET static int64_t CHAIN_NAME(run)(const tn_link_t *links, int32_t count, int64_t at,
                                            int64_t length) {
  for (; at + LANES * CHAIN_BLOCK <= length; at += LANES * CHAIN_BLOCK) {
    V block[CHAIN_BLOCK];
    for (const tn_link_t *link = links; link < links + count; link++) {
      const V number = link->number - (V){0}; /* keeps the sign of 0 */
      switch (link->code) {
      case TN_LINK_LOAD:
        EACH block[k] = RUN(link, k);
        break;
        ONE(ABS, (V)((M)a & INT32_MAX))
        ONE(NEG, -a)
        ONE(RECIPROCAL, 1 / a)
        ONE(RELU, (V)(~(M)(a < 0) & (M)a))
        ONE(RSQRT, 1 / CHAIN_SQRT(a))
        ONE(SQRT, CHAIN_SQRT(a))
        TWO(ADD, a + b)
        TWO(DIV, a / b)
        TWO(MAX, CHOOSE((M)(a != a), a, CHAIN_GREATER(a, b)))
        TWO(MIN, CHOOSE((M)(a != a), a, CHAIN_LESS(a, b)))
        TWO(MUL, a * b)
        TWO(SUB, a - b)
      default:
        __builtin_unreachable();
      }
      if (link->out) EACH *(V *)(void *)(link->out + at + LANES * k) = block[k];
    }
  }
  return at;
}

#undef V
#undef M
#undef LANES
#undef EACH
#undef RUN
#undef CHOOSE
#undef ONE
#undef FORM
#undef TWO
#undef CHAIN_NAME
#undef CHAIN_TARGET
#undef CHAIN_BYTES
#undef CHAIN_BLOCK
#undef CHAIN_SQRT
#undef CHAIN_GREATER
#undef CHAIN_LESS
