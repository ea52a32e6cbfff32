/* The table of dtypes; see dtype.h. */
#include "dtype.h"

#include <stdio.h>

typedef struct row_t {
  int code;
  uint32_t id; /* TENON_... */
  const char *word;
} row_t;

static const row_t rows[] = {
    {TF_FLOAT, TENON_F32, "float"},
    {TF_DOUBLE, TENON_F64, "double"},
    {TF_INT32, TENON_I32, "int32"},
    {TF_UINT8, TENON_U8, "uint8"},
    {TF_INT16, TENON_I16, "int16"},
    {TF_INT8, TENON_I8, "int8"},
    {TF_STRING, TENON_STRING, "string"},
    {TF_COMPLEX64, TENON_C64, "complex64"},
    {TF_INT64, TENON_I64, "int64"},
    {TF_BOOL, TENON_BOOL, "bool"},
    {TF_BFLOAT16, TENON_BF16, "bfloat16"},
    {TF_UINT16, TENON_U16, "uint16"},
    {TF_COMPLEX128, TENON_C128, "complex128"},
    {TF_HALF, TENON_F16, "half"},
    {TF_UINT32, TENON_U32, "uint32"},
    {TF_UINT64, TENON_U64, "uint64"},
    {TF_FLOAT8_E5M2, TENON_F8E5M2, "float8_e5m2"},
    {TF_FLOAT8_E4M3FN, TENON_F8E4M3FN, "float8_e4m3fn"},
    {TF_FLOAT8_E4M3FNUZ, TENON_F8E4M3FNUZ, "float8_e4m3fnuz"},
    {TF_FLOAT8_E4M3B11FNUZ, TENON_F8E4M3B11FNUZ, "float8_e4m3b11fnuz"},
    {TF_FLOAT8_E5M2FNUZ, TENON_F8E5M2FNUZ, "float8_e5m2fnuz"},
};

static const row_t *find_code(int code) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].code == code) return &rows[i];
  return NULL;
}

bool tf_dtype_from(int code, tenon_dtype_t *out_dtype) {
  const row_t *row = find_code(code);
  if (row) *out_dtype = tenon_dtype(row->id);
  return row != NULL;
}

int tf_dtype_to(tenon_dtype_t dtype) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].id == tenon_dtype_id(dtype)) return rows[i].code;
  return 0;
}

const char *dtype_word(int code) {
  const row_t *row = find_code(code);
  return row ? row->word : NULL;
}

const char *dtype_name(int code) {
  static const char *const others[] = {
      [TF_QINT8] = "qint8",     [TF_QUINT8] = "quint8",   [TF_QINT32] = "qint32",
      [TF_QINT16] = "qint16",   [TF_QUINT16] = "quint16", [TF_RESOURCE] = "resource",
      [TF_VARIANT] = "variant", [TF_INT4] = "int4",       [TF_UINT4] = "uint4",
      [TF_INT2] = "int2",       [TF_UINT2] = "uint2",     [TF_FLOAT4_E2M1FN] = "float4_e2m1fn"};
  const char *word = dtype_word(code);
  if (word) return word;
  const size_t count = sizeof others / sizeof *others;
  if (code > 0 && (size_t)code < count && others[code]) return others[code];
  return "a dtype that Tenon does not know";
}
