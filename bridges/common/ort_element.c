/* The numbers of ONNX Runtime's element types. From 24 on they differ from those of ONNX files. The
 * names are here because an exported library cannot ask libtenon before it is open. */
#include "common/ort_element.h"

static const struct {
  uint32_t dtype;
  const char *name;
} elements[ORT_ELEMENT_COUNT] = {
    {0, "any"},
    {TENON_F32, "f32"},
    {TENON_U8, "u8"},
    {TENON_I8, "i8"},
    {TENON_U16, "u16"},
    {TENON_I16, "i16"},
    {TENON_I32, "i32"},
    {TENON_I64, "i64"},
    {TENON_STRING, "string"},
    {TENON_BOOL, "bool"},
    {TENON_F16, "f16"},
    {TENON_F64, "f64"},
    {TENON_U32, "u32"},
    {TENON_U64, "u64"},
    {TENON_C64, "c64"},
    {TENON_C128, "c128"},
    {TENON_BF16, "bf16"},
    {TENON_F8E4M3FN, "f8e4m3fn"},
    {TENON_F8E4M3FNUZ, "f8e4m3fnuz"},
    {TENON_F8E5M2, "f8e5m2"},
    {TENON_F8E5M2FNUZ, "f8e5m2fnuz"},
    {TENON_U4, "u4"},
    {TENON_I4, "i4"},
    {TENON_F4E2M1, "f4e2m1"},
    {TENON_U2, "u2"},
    {TENON_I2, "i2"},
    {TENON_F8E8M0, "f8e8m0"},
};

ort_element_t element_of(tenon_dtype_t dtype) {
  const uint32_t id = tenon_dtype_id(dtype);
  for (int i = 1; i < ORT_ELEMENT_COUNT; i++)
    if (elements[i].dtype == id) return (ort_element_t)i;
  return ORT_ELEMENT_UNDEFINED;
}

bool element_dtype(ort_element_t element, tenon_dtype_t *out_dtype) {
  if ((int)element <= 0 || (int)element >= ORT_ELEMENT_COUNT) return false;
  *out_dtype = tenon_dtype(elements[element].dtype);
  return true;
}

const char *element_name(ort_element_t element) {
  const bool is_known = (int)element > 0 && (int)element < ORT_ELEMENT_COUNT;
  return elements[is_known ? element : 0].name;
}
