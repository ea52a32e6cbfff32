/* Conversions between the narrow floats and f32 and f64: every bit pattern both ways, every
 * boundary between two patterns, and checksums of whole tables from NumPy and ml_dtypes. */
#include "core/convert.h"

#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "core/dtype.h"
#include "floats.h"

enum { MOST = 65536 };

static uint32_t pattern_count(const float_kind_t *kind) {
  return 1u << (kind->exponent_bits + kind->mantissa_bits + (kind->style != FLOAT_SCALE));
}

static tenon_dtype_t dtype_of(const float_kind_t *kind) { return tenon_dtype(kind->id); }

static void put(const float_kind_t *kind, void *array, uint32_t i, uint32_t bits) {
  if (dtype_of(kind).bits == 8)
    ((uint8_t *)array)[i] = (uint8_t)bits;
  else
    ((uint16_t *)array)[i] = (uint16_t)bits;
}

static uint32_t get(const float_kind_t *kind, const void *array, uint32_t i) {
  return dtype_of(kind).bits == 8 ? ((const uint8_t *)array)[i] : ((const uint16_t *)array)[i];
}

static uint32_t narrow_f32(const float_kind_t *kind, float x) {
  uint16_t out[1] = {0};
  tn_convert(&x, tenon_dtype(TENON_F32), out, dtype_of(kind), 1);
  return get(kind, out, 0);
}

static uint32_t narrow_f64(const float_kind_t *kind, double x) {
  uint16_t out[1] = {0};
  tn_convert(&x, tenon_dtype(TENON_F64), out, dtype_of(kind), 1);
  return get(kind, out, 0);
}

static int same_double(double a, double b) {
  return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

static void say(const float_kind_t *kind, uint32_t bits, const char *what) {
  char text[96];
  snprintf(text, sizeof text, "%s, pattern 0x%x: %s", tn_dtype_name(dtype_of(kind)), bits, what);
  check_report(0, __FILE__, __LINE__, text, NULL);
}

TEST("every bit pattern widens to the number that it stands for, and narrows back to itself") {
  static uint16_t narrow[MOST];
  static float wide[MOST];
  static double wider[MOST];
  for (int k = 0; k < FLOAT_KINDS; k++) {
    const float_kind_t *kind = &float_kinds[k];
    uint32_t count = pattern_count(kind);
    uint32_t mistakes = 0;
    for (uint32_t i = 0; i < count; i++)
      put(kind, narrow, i, i);
    tn_convert(narrow, dtype_of(kind), wide, tenon_dtype(TENON_F32), count);
    tn_convert(narrow, dtype_of(kind), wider, tenon_dtype(TENON_F64), count);
    for (uint32_t i = 0; i < count && mistakes < 5; i++) {
      double expected = float_decode(kind, i);
      if (!same_double((double)wide[i], expected)) {
        say(kind, i, "widened to f32");
        mistakes++;
      }
      if (!same_double(wider[i], expected)) {
        say(kind, i, "widened to f64");
        mistakes++;
      }
      if (isnan(expected)) {
        if (!isnan(float_decode(kind, narrow_f32(kind, wide[i])))) {
          say(kind, i, "NaN lost");
          mistakes++;
        }
        if (!isnan(float_decode(kind, narrow_f64(kind, wider[i])))) {
          say(kind, i, "NaN lost");
          mistakes++;
        }
      } else if (!isinf(expected) || kind->style == FLOAT_IEEE) {
        if (narrow_f32(kind, wide[i]) != i) {
          say(kind, i, "there and back by f32");
          mistakes++;
        }
        if (narrow_f64(kind, wider[i]) != i) {
          say(kind, i, "there and back by f64");
          mistakes++;
        }
      }
    }
  }
}

TEST("a number between two patterns goes to the nearer one, and halfway between them to the even "
     "one") {
  for (int k = 0; k < FLOAT_KINDS; k++) {
    const float_kind_t *kind = &float_kinds[k];
    uint32_t sign = pattern_count(kind) / 2;
    uint32_t mistakes = 0;
    bool has_sign = kind->style != FLOAT_SCALE;
    for (uint32_t a = 0; a + 1 < (has_sign ? sign : 2 * sign) && mistakes < 5; a++) {
      double low = float_decode(kind, a);
      double high = float_decode(kind, a + 1);
      double middle = low / 2 + high / 2;
      if (isnan(high) || isinf(high)) break;
      uint32_t even = !has_sign || a & 1 ? a + 1 : a; /* f8e8m0 rounds halves up. */
      for (int negative = 0; negative <= has_sign; negative++) {
        double s = negative ? -1 : 1;
        uint32_t bit = negative ? sign : 0;
        uint32_t zero = kind->style == FLOAT_FNUZ ? 0 : bit;
        uint32_t to_low = a ? a | bit : zero;
        uint32_t to_even = even ? even | bit : zero;
        uint32_t to_high = (a + 1) | bit;
        if (narrow_f64(kind, s * middle) != to_even) {
          say(kind, a, "f64 in the middle");
          mistakes++;
        }
        if (narrow_f64(kind, s * nextafter(middle, 0)) != to_low) {
          say(kind, a, "f64 below the middle");
          mistakes++;
        }
        if (narrow_f64(kind, s * nextafter(middle, high)) != to_high) {
          say(kind, a, "f64 above the middle");
          mistakes++;
        }
        float f = (float)(s * middle);
        float up = (float)(s * high);
        /* The smallest numbers of bf16 have no middle in f32. */
        if ((double)f != s * middle) continue;
        if (narrow_f32(kind, f) != to_even) {
          say(kind, a, "f32 in the middle");
          mistakes++;
        }
        if (narrow_f32(kind, nextafterf(f, 0)) != to_low) {
          say(kind, a, "f32 below the middle");
          mistakes++;
        }
        if (narrow_f32(kind, nextafterf(f, up)) != to_high) {
          say(kind, a, "f32 above the middle");
          mistakes++;
        }
      }
    }
  }
}

TEST("a number that is too large becomes infinite, or the largest number if there is no infinity") {
  for (int k = 0; k < FLOAT_KINDS; k++) {
    const float_kind_t *kind = &float_kinds[k];
    double largest = 0;
    for (uint32_t i = 0; i < pattern_count(kind); i++) {
      double x = float_decode(kind, i);
      if (!isnan(x) && !isinf(x) && x > largest) largest = x;
    }
    double expected = kind->style == FLOAT_IEEE ? (double)INFINITY : largest;
    static const double tests[] = {1e39, 1.7e308, (double)INFINITY};
    for (int i = 0; i < 3; i++) {
      CHECK(float_decode(kind, narrow_f64(kind, tests[i])) == expected);
      CHECK(float_decode(kind, narrow_f32(kind, INFINITY)) == expected);
      if (kind->style != FLOAT_SCALE)
        CHECK(float_decode(kind, narrow_f64(kind, -tests[i])) == -expected);
    }
    CHECK(float_decode(kind, narrow_f64(kind, largest)) == largest);
  }
}

/* Checksums (FNV-1a) of tables made by NumPy 2 with ml_dtypes 0.6. `widened`: all patterns as f32.
 * `narrowed`: the f32 numbers with the bits 65537 n, for n from 0 to 65535, as the narrow dtype.
 * Numbers are clipped to the range of the dtype. For f8e8m0 they are magnitudes from 2^-126 on,
 * since ml_dtypes does not round smaller ones to nearest. All NaN count as one pattern. */
static const struct {
  uint32_t id;
  uint64_t widened;
  uint64_t narrowed;
} sums[] = {
    {TENON_F16, 0x1f87f165810ea7c5u, 0x0455c3dbb9d4f072u},
    {TENON_BF16, 0xcf8e09175d8f5ba5u, 0xc082f041a5ac6329u},
    {TENON_F8E3M4, 0xf47936f19e549625u, 0x4e9a7ef1087b2125u},
    {TENON_F8E4M3, 0x225eaf4799a27e65u, 0x501574bba6888025u},
    {TENON_F8E5M2, 0x6c1e56b6fb09c905u, 0x594bd230f261ef25u},
    {TENON_F8E4M3FN, 0xdad1d9c50f749ca5u, 0x692e070894c2d2c5u},
    {TENON_F8E4M3FNUZ, 0xf51851cb11c63018u, 0x0af94dc083c06c95u},
    {TENON_F8E4M3B11FNUZ, 0xd90d7a600530d158u, 0x48835c9bc884e295u},
    {TENON_F8E5M2FNUZ, 0x94ae6fc493d49818u, 0xb0cbfc36d1e63c05u},
    {TENON_F8E8M0, 0x6d2c8b41c3f0e5a5u, 0x8fae66f58c54b7a5u},
};

static uint64_t add_bytes(uint64_t sum, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i++)
    sum = (sum ^ (value >> 8 * i & 255)) * 1099511628211u;
  return sum;
}

TEST("conversions give the tables that NumPy gives") {
  static uint16_t narrow[MOST];
  static float wide[MOST];
  for (size_t s = 0; s < sizeof sums / sizeof *sums; s++) {
    const float_kind_t *kind = float_kind(tenon_dtype(sums[s].id));
    uint32_t count = pattern_count(kind);
    int bytes = dtype_of(kind).bits / 8;
    uint64_t sum = 14695981039346656037u;
    for (uint32_t i = 0; i < count; i++)
      put(kind, narrow, i, i);
    tn_convert(narrow, dtype_of(kind), wide, tenon_dtype(TENON_F32), count);
    for (uint32_t i = 0; i < count; i++) {
      uint32_t bits;
      memcpy(&bits, &wide[i], sizeof bits);
      sum = add_bytes(sum, isnan(wide[i]) ? 0x7fc00000 : bits, 4);
    }
    if (!CHECK(sum == sums[s].widened)) fprintf(stderr, "  %s\n", tn_dtype_name(dtype_of(kind)));
    for (uint32_t i = 0; i < MOST; i++) {
      uint32_t bits = i * 65537;
      memcpy(&wide[i], &bits, sizeof bits);
      if (kind->style == FLOAT_SCALE && fabsf(wide[i]) < 0x1p-126f) wide[i] = 0x1p-126f;
    }
    tn_convert(wide, tenon_dtype(TENON_F32), narrow, dtype_of(kind), MOST);
    sum = 14695981039346656037u;
    for (uint32_t i = 0; i < MOST; i++) {
      uint32_t bits = get(kind, narrow, i);
      sum = add_bytes(sum, isnan(float_decode(kind, bits)) ? 0xffff : bits, bytes);
    }
    if (!CHECK(sum == sums[s].narrowed)) fprintf(stderr, "  %s\n", tn_dtype_name(dtype_of(kind)));
  }
}

TEST("an array converts to the bits that its elements convert to one by one") {
  enum { COUNT = 4099 };
  static float wide[COUNT], widened[COUNT];
  static uint16_t narrow[COUNT];
  tenon_dtype_t f16 = tenon_dtype(TENON_F16);
  tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  uint64_t state = 5;
  uint32_t mistakes = 0;
  for (int round = 0; round < 100; round++) {
    for (int i = 0; i < COUNT; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      uint32_t bits = (uint32_t)(state >> 32);
      /* Every fourth number is infinite or a NaN, and half of the others are near those of f16. */
      if (i % 4 == 0) bits |= 0x7f800000u;
      if (i % 8 == 2) bits &= 0x807fffffu;
      if (i % 4 == 1 || i % 4 == 2) bits = (bits & 0x8fffffffu) | 0x30000000u;
      memcpy(&wide[i], &bits, sizeof bits);
    }
    tn_convert(wide, f32, narrow, f16, COUNT);
    tn_convert(narrow, f16, widened, f32, COUNT);
    for (int i = 0; i < COUNT; i++) {
      uint16_t one;
      float back;
      tn_convert(&wide[i], f32, &one, f16, 1);
      tn_convert(&one, f16, &back, f32, 1);
      mistakes += one != narrow[i] || memcmp(&back, &widened[i], sizeof back) != 0;
    }
    for (int i = 0; i < COUNT; i++)
      narrow[i] = (uint16_t)(round * COUNT + i); /* signalling NaNs too */
    tn_convert(narrow, f16, widened, f32, COUNT);
    for (int i = 0; i < COUNT; i++) {
      float one;
      tn_convert(&narrow[i], f16, &one, f32, 1);
      mistakes += memcmp(&one, &widened[i], sizeof one) != 0;
    }
  }
  CHECK(mistakes == 0);
}

TEST("f64 narrows to f32 as C does, and a type never widens to a narrower one") {
  double x[3] = {1 + 0x1p-24 + 0x1p-50, 1e300, -0.0};
  float y[3];
  tn_convert(x, tenon_dtype(TENON_F64), y, tenon_dtype(TENON_F32), 3);
  CHECK(y[0] == 1 + 0x1p-23f && isinf(y[1]) && y[2] == 0 && signbit(y[2]));
  CHECK(tn_widens(tenon_dtype(TENON_F16), tenon_dtype(TENON_F32)) &&
        tn_widens(tenon_dtype(TENON_F32), tenon_dtype(TENON_F64)));
  CHECK(!tn_widens(tenon_dtype(TENON_F64), tenon_dtype(TENON_F32)) &&
        !tn_widens(tenon_dtype(TENON_F16), tenon_dtype(TENON_BF16)));
  CHECK(!tn_widens(tenon_dtype(TENON_F16), tenon_dtype(TENON_F16)) &&
        !tn_widens(tenon_dtype(TENON_I8), tenon_dtype(TENON_F32)));
}
