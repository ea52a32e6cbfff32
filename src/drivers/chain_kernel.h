/* The body of chains, for vectors of CHAIN_BYTES bytes, CHAIN_BLOCK of which are a block. The
 * including file defines both, and CHAIN_NAME(name), CHAIN_TARGET (an attribute of functions),
 * CHAIN_SQRT (the square roots of a vector), CHAIN_MAX and CHAIN_MIN (of two vectors: a if it is
 * NaN, or else a > b ? a : b and a < b ? a : b), and where there are links of f16 CHAIN_WIDEN and
 * CHAIN_NARROW (vectors of f16 to those of f32, and back; the latter gets no NaN but 0x7fc00000 of
 * either sign). It may define CHAIN_FROM_BYTES, CHAIN_TO_BYTES, CHAIN_FROM_HALVES and
 * CHAIN_TO_HALVES (vectors of unsigned integers to those of 32 bits, and back) where the compiler
 * has no good instructions for them, and CHAIN_HAS_OTHER if there are registers for two blocks. The
 * function runs whole blocks from element `at` on, and returns the number of the element behind the
 * last one. */

#define VECTOR(size) __attribute__((vector_size(size), aligned((size) / LANES), may_alias))
#define LANES (CHAIN_BYTES / 4)
typedef float CHAIN_NAME(vector) VECTOR(CHAIN_BYTES);
typedef int32_t CHAIN_NAME(mask) VECTOR(CHAIN_BYTES);
typedef uint32_t CHAIN_NAME(words) VECTOR(CHAIN_BYTES);
typedef uint16_t CHAIN_NAME(halves) VECTOR(CHAIN_BYTES / 2);
typedef uint8_t CHAIN_NAME(bytes) VECTOR(CHAIN_BYTES / 4);

#ifndef CHAIN_FROM_BYTES
#define CHAIN_FROM_BYTES(a) __builtin_convertvector(a, M)
#define CHAIN_TO_BYTES(a) __builtin_convertvector(a, B)
#define CHAIN_FROM_HALVES(a) __builtin_convertvector(a, U)
#define CHAIN_TO_HALVES(a) __builtin_convertvector(a, H)
#endif
#define V CHAIN_NAME(vector)
#define M CHAIN_NAME(mask)
#define U CHAIN_NAME(words)
#define H CHAIN_NAME(halves)
#define B CHAIN_NAME(bytes)
#define EACH _Pragma("GCC unroll 8") for (int k = 0; k < CHAIN_BLOCK; k++)
/* Vector k of the run of a link, whose elements have type T. */
#define RUN_OF(vector, T, link, k)                                                                 \
  (((const vector *)(const void *)((const T *)(link)->run + from))[k])
/* Vector k of the results in memory. */
#define PUT_OF(vector, T, out, k) (((vector *)(void *)((T *)(out) + from))[k])
#define AHEAD (3072 / CHAIN_BYTES) /* vectors */
#define RUN(link, k) RUN_OF(V, float, link, k)
#define MASK(link, k) (CHAIN_FROM_BYTES(RUN_OF(B, uint8_t, link, k)) != 0)
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
  FORM(name##_ITSELF, block[k], block[k], expression)                                              \
  FORM(name##_OTHER, block[k], other[k], expression)                                               \
  FORM(OTHER_##name, other[k], block[k], expression)

CHAIN_TARGET static inline V CHAIN_NAME(from_bf16)(H h) { return (V)(CHAIN_FROM_HALVES(h) << 16); }

/* Rounds to the nearest, and to even between two; a NaN keeps what the format has of it. */
CHAIN_TARGET static inline U CHAIN_NAME(to_bf16)(V a) {
  const U u = (U)a;
  const U rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  const U nan = u >> 16 | 64;
  const U is_nan = (U)(a != a);
  return (is_nan & nan) | (~is_nan & rounded);
}

/* Clamps to [0, 1]. */
CHAIN_TARGET static inline V CHAIN_NAME(unit)(V a) {
  const V most = CHOOSE((M)(a > 1), (V){0} + 1, a);
  return (V)(~(M)(a < 0) & (M)most);
}

CHAIN_TARGET static inline V CHAIN_NAME(hard_swish)(V a) {
  const V sixth = a * (float)(1 / 6.0);
  const V shifted = sixth + 0.5f;
  return a * CHAIN_NAME(unit)(shifted);
}

#ifdef CHAIN_WIDEN
CHAIN_TARGET static inline H CHAIN_NAME(to_f16)(V a) {
  const M nan = ((M)a & INT32_MIN) | 0x7fc00000;
  const V same = CHOOSE((M)(a != a), (V)nan, a);
  return CHAIN_NARROW(same);
}
#endif

CHAIN_TARGET static int64_t CHAIN_NAME(run)(const tn_link_t *links, int32_t count, int64_t at,
                                            int64_t length) {
  const V one = (V){0} + 1;
#ifdef CHAIN_HAS_OTHER
  V other[CHAIN_BLOCK];
#else
  V room[CHAIN_BLOCK];
  V *other = room;
  __asm__("" : "+r"(other)); /* in memory, which leaves the registers to the block */
#endif
  for (; at + LANES * CHAIN_BLOCK <= length; at += LANES * CHAIN_BLOCK) {
    V block[CHAIN_BLOCK];
    for (const tn_link_t *link = links; link < links + count; link++) {
      const V number = link->number - (V){0}; /* keeps the sign of 0 */
      int64_t from = at;
      __asm__("" : "+r"(from)); /* the compiler shall not keep an address for each operand */
      switch (link->code) {
      case TN_LINK_NONE:
        break;
      case TN_LINK_LOAD:
        EACH block[k] = RUN(link, k);
        break;
      case TN_LINK_LOAD_AHEAD:
        EACH {
          block[k] = RUN(link, k);
          if (CHAIN_BYTES == 64) __builtin_prefetch(&RUN(link, k + AHEAD));
        }
        break;
      case TN_LINK_LOAD_NUMBER:
        EACH block[k] = number;
        break;
      case TN_LINK_LOAD_BOOL:
        EACH block[k] = (V)(MASK(link, k) & (M)one);
        break;
      case TN_LINK_FETCH_BOOL:
        EACH other[k] = (V)MASK(link, k);
        break;
      case TN_LINK_STORE_BOOL:
        EACH {
          other[k] = block[k];
          if (link->narrow) PUT_OF(B, uint8_t, link->narrow, k) = CHAIN_TO_BYTES((M)block[k] & 1);
        }
        break;
      case TN_LINK_SAVE:
        EACH other[k] = block[k];
        break;
      case TN_LINK_SWAP:
        EACH {
          const V a = block[k];
          block[k] = other[k];
          other[k] = a;
        }
        break;
      case TN_LINK_LOAD_BF16:
        EACH block[k] = CHAIN_NAME(from_bf16)(RUN_OF(H, uint16_t, link, k));
        break;
      case TN_LINK_FETCH_BF16:
        EACH other[k] = CHAIN_NAME(from_bf16)(RUN_OF(H, uint16_t, link, k));
        break;
      case TN_LINK_ROUND_BF16:
        EACH {
          const U half = CHAIN_NAME(to_bf16)(block[k]);
          block[k] = (V)(half << 16);
          if (link->narrow) PUT_OF(H, uint16_t, link->narrow, k) = CHAIN_TO_HALVES(half);
        }
        break;
#ifdef CHAIN_WIDEN
      case TN_LINK_LOAD_F16:
        EACH block[k] = CHAIN_WIDEN(RUN_OF(H, uint16_t, link, k));
        break;
      case TN_LINK_FETCH_F16:
        EACH other[k] = CHAIN_WIDEN(RUN_OF(H, uint16_t, link, k));
        break;
      case TN_LINK_ROUND_F16:
        EACH {
          const H half = CHAIN_NAME(to_f16)(block[k]);
          block[k] = CHAIN_WIDEN(half);
          if (link->narrow) PUT_OF(H, uint16_t, link->narrow, k) = half;
        }
        break;
#endif
        ONE(ABS, (V)((M)a & INT32_MAX))
        ONE(HARD_SWISH, CHAIN_NAME(hard_swish)(a))
        ONE(LEAKY_RELU, CHOOSE((M)(a < 0), number * a, a))
        ONE(NEG, -a)
        ONE(RECIPROCAL, 1 / a)
        ONE(RELU, (V)(~(M)(a < 0) & (M)a))
        ONE(RSQRT, 1 / CHAIN_SQRT(a))
        ONE(SQRT, CHAIN_SQRT(a))
        ONE(UNIT, CHAIN_NAME(unit)(a))
        TWO(ADD, a + b)
        TWO(DIV, a / b)
        TWO(EQUAL, (V)(a == b))
        TWO(GREATER, (V)(a > b))
        TWO(GREATER_EQUAL, (V)(a >= b))
        TWO(LESS, (V)(a < b))
        TWO(LESS_EQUAL, (V)(a <= b))
        TWO(MAX, CHAIN_MAX(a, b))
        TWO(MIN, CHAIN_MIN(a, b))
        TWO(MUL, a * b)
        TWO(NOT_EQUAL, (V)(a != b))
        TWO(SUB, a - b)
        TWO(WHERE, CHOOSE((M)other[k], a, b))
      default:
        __builtin_unreachable();
      }
      void *out = link->out;
      if (out) EACH PUT_OF(V, float, out, k) = block[k];
    }
  }
  return at;
}

#undef VECTOR
#undef LANES
#undef V
#undef M
#undef U
#undef H
#undef B
#undef EACH
#undef RUN_OF
#undef PUT_OF
#undef RUN
#undef AHEAD
#undef MASK
#undef CHOOSE
#undef ONE
#undef FORM
#undef TWO
#undef CHAIN_NAME
#undef CHAIN_TARGET
#undef CHAIN_BYTES
#undef CHAIN_BLOCK
#undef CHAIN_SQRT
#undef CHAIN_MAX
#undef CHAIN_MIN
#undef CHAIN_HAS_OTHER
#undef CHAIN_WIDEN
#undef CHAIN_NARROW
#undef CHAIN_FROM_BYTES
#undef CHAIN_TO_BYTES
#undef CHAIN_FROM_HALVES
#undef CHAIN_TO_HALVES
