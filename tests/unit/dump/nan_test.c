/* NaN and infinities: for every bit pattern of the small dtypes according to the tests' own
 * decoder, and in any layout. */
#include "dump/nan.h"

#include <math.h>
#include <tenon/tenon.h>

#include "check.h"
#include "tensors.h"

#include "core/tensor.h"

static tn_nonfinite_t look(uint32_t dtype, uint64_t bits) {
  tenon_tensor_t t;
  int64_t shape[1] = {1};
  int64_t room[1];
  CHECK_STATUS(tenon_tensor_view(&t, &bits, tenon_dtype(dtype), 1, shape, NULL, room), TENON_OK);
  return tn_nonfinite_count(&t);
}

TEST("every bit pattern of the small float dtypes is counted as NaN or infinite if it is") {
  const uint32_t dtypes[] = {TENON_F16,        TENON_BF16,   TENON_F8E5M2,     TENON_F8E4M3FN,
                             TENON_F8E4M3,     TENON_F8E3M4, TENON_F8E4M3FNUZ, TENON_F8E4M3B11FNUZ,
                             TENON_F8E5M2FNUZ, TENON_F8E8M0};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    const float_kind_t *kind = float_kind(tenon_dtype(dtypes[d]));
    int64_t wrong = 0;
    int64_t all = (int64_t)1 << tenon_dtype(dtypes[d]).bits;
    for (int64_t bits = 0; kind && bits < all; bits++) {
      double number = float_decode(kind, (uint32_t)bits);
      tn_nonfinite_t found = look(dtypes[d], (uint64_t)bits);
      wrong += (found.nans == 1) != !!isnan(number) || (found.infinities == 1) != !!isinf(number);
    }
    CHECK(kind && wrong == 0);
  }
}

TEST("NaN and infinities are found in f32, f64 and complex elements") {
  const double numbers[] = {0,        -0.0,      1e-310,      1,           -1e300,
                            INFINITY, -INFINITY, (double)NAN, -(double)NAN};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    double d[2] = {1, numbers[i]};
    float f[2] = {1, (float)numbers[i]};
    uint64_t bits, pair;
    memcpy(&bits, &d[1], 8);
    memcpy(&pair, f, 8);
    tn_nonfinite_t of_f64 = look(TENON_F64, bits);
    tn_nonfinite_t of_c64 = look(TENON_C64, pair);
    tn_nonfinite_t of_f32 = look(TENON_F32, pair >> 32);
    bool is_nan = isnan(numbers[i]);
    bool is_infinite = isinf(numbers[i]);
    bool overflows = isinf(f[1]);
    CHECK(of_f64.nans == is_nan && of_f64.infinities == is_infinite);
    CHECK(of_f32.nans == is_nan && of_f32.infinities == overflows);
    CHECK(of_c64.nans == is_nan && of_c64.infinities == overflows);
  }
}

TEST(
    "the first NaN or infinity is given by its position in row-major order, whatever the strides") {
  float numbers[12] = {0, 1, NAN, 3, 4, INFINITY, 6, 7, NAN, 9, 10, 11};
  tenon_tensor_t t;
  int64_t shape[2] = {4, 3};
  int64_t strides[2] = {1, 4};
  int64_t backwards[1] = {-1};
  int64_t line[1] = {12};
  CHECK_STATUS(tenon_tensor_view(&t, numbers, tenon_dtype(TENON_F32), 2, shape, strides, NULL),
               TENON_OK);
  tn_nonfinite_t found = tn_nonfinite_count(&t); /* rows: 0 4 8; 1 5 9; 2 6 10; 3 7 11 */
  CHECK(found.nans == 2 && found.first_nan == 2 && found.infinities == 1 &&
        found.first_infinity == 4);
  tn_text_t text = {0};
  tn_nonfinite_position(&t, found.first_infinity, &text);
  CHECK_TEXT(tn_text_get(&text), "[1, 1]");
  tn_text_clear(&text);
  CHECK_STATUS(
      tenon_tensor_view(&t, numbers + 11, tenon_dtype(TENON_F32), 1, line, backwards, NULL),
      TENON_OK);
  found = tn_nonfinite_count(&t);
  CHECK(found.nans == 2 && found.first_nan == 3 && found.first_infinity == 6);
}

TEST("dtypes without NaN and infinities, and empty tensors, contain none") {
  tenon_tensor_t *const all[] = {tensor_of("i64[2] -1 -1"), tensor_of("bool[2] 1 1"),
                                 tensor_of("string[1] nan"), tensor_of("f32[0]"),
                                 tensor_of("u8[3] 255 255 255")};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    tn_nonfinite_t found = tn_nonfinite_count(all[i]);
    CHECK(found.nans == 0 && found.infinities == 0);
    tenon_tensor_release(all[i]);
  }
  CHECK(tn_nonfinite_count(NULL).nans == 0);
}
