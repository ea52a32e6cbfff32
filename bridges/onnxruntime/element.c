/* The numbers of ONNX Runtime's element types. From 24 on they differ from those of ONNX files. */
#include "element.h"

#include <tenon/tenon.h>

static const uint32_t dtypes[ORT_ELEMENT_COUNT] = {0,
                                                   TENON_F32,
                                                   TENON_U8,
                                                   TENON_I8,
                                                   TENON_U16,
                                                   TENON_I16,
                                                   TENON_I32,
                                                   TENON_I64,
                                                   TENON_STRING,
                                                   TENON_BOOL,
                                                   TENON_F16,
                                                   TENON_F64,
                                                   TENON_U32,
                                                   TENON_U64,
                                                   TENON_C64,
                                                   TENON_C128,
                                                   TENON_BF16,
                                                   TENON_F8E4M3FN,
                                                   TENON_F8E4M3FNUZ,
                                                   TENON_F8E5M2,
                                                   TENON_F8E5M2FNUZ,
                                                   TENON_U4,
                                                   TENON_I4,
                                                   TENON_F4E2M1,
                                                   TENON_U2,
                                                   TENON_I2,
                                                   TENON_F8E8M0};

ort_element_t element_of(tenon_dtype_t dtype) {
  const uint32_t id = tenon_dtype_id(dtype);
  for (int i = 1; i < ORT_ELEMENT_COUNT; i++)
    if (dtypes[i] == id) return (ort_element_t)i;
  return ORT_ELEMENT_UNDEFINED;
}

bool element_dtype(ort_element_t element, tenon_dtype_t *out_dtype) {
  if ((int)element <= 0 || (int)element >= ORT_ELEMENT_COUNT) return false;
  *out_dtype = tenon_dtype(dtypes[element]);
  return true;
}

const char *element_name(ort_element_t element) {
  tenon_dtype_t dtype;
  return element_dtype(element, &dtype) ? tenon_dtype_name(dtype) : "any";
}
