/* Creates the tensors of constants. */
#include "common/constant.h"

#include <string.h>

/* Converts a tensor with core::cast. */
static tenon_status_t cast_tensor(tenon_tensor_t *from, tenon_dtype_t dtype,
                                  tenon_tensor_t **out_tensor) {
  const tenon_op_t *cast = NULL;
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values = NULL;
  tenon_value_t to = {TENON_KIND_DTYPE, 0, {0}};
  to.as.dtype = dtype;
  tenon_status_t status = tenon_op_find("core::cast", &cast);
  if (status == TENON_OK) status = tenon_attrs_create(cast, &attrs);
  if (status == TENON_OK) status = tenon_attrs_set(attrs, "to", &to);
  if (status == TENON_OK) status = tenon_attrs_values(attrs, &values);
  if (status == TENON_OK) status = tenon_op_call(cast, values, &from, out_tensor, 0);
  tenon_attrs_release(attrs);
  return status;
}

tenon_status_t constant_scalar(tenon_dtype_t dtype, double value, tenon_tensor_t **out_tensor) {
  tenon_tensor_t *wide = NULL;
  *out_tensor = NULL;
  tenon_status_t status = tenon_tensor_create(tenon_dtype(TENON_F64), 0, NULL, &wide);
  if (status != TENON_OK) return status;
  memcpy(wide->data, &value, sizeof value);
  if (tenon_dtype_id(dtype) == TENON_F64) {
    *out_tensor = wide;
    return TENON_OK;
  }
  status = cast_tensor(wide, dtype, out_tensor);
  tenon_tensor_release(wide);
  return status;
}

tenon_status_t constant_integers(const int64_t *values, size_t count, tenon_tensor_t **out_tensor) {
  const int64_t extent = (int64_t)count;
  *out_tensor = NULL;
  const tenon_status_t status = tenon_tensor_create(tenon_dtype(TENON_I64), 1, &extent, out_tensor);
  if (status == TENON_OK && count) memcpy((*out_tensor)->data, values, count * sizeof *values);
  return status;
}
