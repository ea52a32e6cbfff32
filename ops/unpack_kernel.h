/* Unpacks the integers of one packed dtype. simd/quantise.c includes this once per dtype with BITS
 * (the size of a number), IS_SIGNED (0 or 1) and NAME(x) defined. */

/* Converts n numbers from number `first` on to f32, whole bytes at a time if `first` begins a
 * byte. */
static void NAME(unpack)(const uint8_t *x, int64_t first, int64_t n, float *restrict to) {
  enum {
    EACH = 8 / BITS,
    HALF = 1 << (BITS - 1),
  };
  int64_t i = 0;
  for (const uint8_t *from = x + first / EACH; first % EACH == 0 && i + EACH <= n;
       i += EACH, from++)
    for (int k = 0; k < EACH; k++) {
      int32_t code = *from >> (k * BITS) & (2 * HALF - 1);
      to[i + k] = (float)(IS_SIGNED ? (code ^ HALF) - HALF : code);
    }
  for (; i < n; i++) {
    int32_t code = (int32_t)PACKED(x, first + i, BITS);
    to[i] = (float)(IS_SIGNED ? (code ^ HALF) - HALF : code);
  }
}
#undef BITS
#undef IS_SIGNED
#undef NAME
