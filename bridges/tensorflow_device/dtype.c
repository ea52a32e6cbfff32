/* The dtypes of TensorFlow and those of Tenon. */
#include "run.h"

static const struct {
  int tf;
  uint32_t tenon;
} dtypes[] = {
    {TF_FLOAT, TENON_F32},
    {TF_DOUBLE, TENON_F64},
    {TF_HALF, TENON_F16},
    {TF_BFLOAT16, TENON_BF16},
    {TF_INT64, TENON_I64},
    {TF_INT32, TENON_I32},
    {TF_INT16, TENON_I16},
    {TF_INT8, TENON_I8},
    {TF_UINT8, TENON_U8},
    {TF_UINT16, TENON_U16},
    {TF_UINT32, TENON_U32},
    {TF_UINT64, TENON_U64},
    {TF_BOOL, TENON_BOOL},
    {TF_COMPLEX64, TENON_C64},
    {TF_COMPLEX128, TENON_C128},
    {TF_FLOAT8_E5M2, TENON_F8E5M2},
    {TF_FLOAT8_E4M3FN, TENON_F8E4M3FN},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

bool dtype_from_tf(int tf_dtype, tenon_dtype_t *out_dtype) {
  for (int32_t i = 0; i < DTYPES; i++)
    if (dtypes[i].tf == tf_dtype) {
      *out_dtype = tenon_dtype(dtypes[i].tenon);
      return true;
    }
  return false;
}

int dtype_to_tf(tenon_dtype_t dtype) {
  for (int32_t i = 0; i < DTYPES; i++)
    if (dtypes[i].tenon == tenon_dtype_id(dtype)) return dtypes[i].tf;
  return 0;
}
