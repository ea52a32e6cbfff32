/* Element types, sizes and layouts of PJRT in terms of Tenon's. */
#include <stdio.h>

#include "plugin.h"

#define DTYPE(id)                                                                                  \
  { (uint8_t)(id), (uint8_t)((id) >> 8), (uint16_t)((id) >> 16) }
/* Indexed by PJRT's type. Those without bits have no counterpart. */
static const tenon_dtype_t dtypes[] = {
    [PJRT_PRED] = DTYPE(TENON_BOOL),
    [PJRT_S8] = DTYPE(TENON_I8),
    [PJRT_S16] = DTYPE(TENON_I16),
    [PJRT_S32] = DTYPE(TENON_I32),
    [PJRT_S64] = DTYPE(TENON_I64),
    [PJRT_U8] = DTYPE(TENON_U8),
    [PJRT_U16] = DTYPE(TENON_U16),
    [PJRT_U32] = DTYPE(TENON_U32),
    [PJRT_U64] = DTYPE(TENON_U64),
    [PJRT_F16] = DTYPE(TENON_F16),
    [PJRT_F32] = DTYPE(TENON_F32),
    [PJRT_F64] = DTYPE(TENON_F64),
    [PJRT_BF16] = DTYPE(TENON_BF16),
    [PJRT_C64] = DTYPE(TENON_C64),
    [PJRT_C128] = DTYPE(TENON_C128),
    [PJRT_F8E5M2] = DTYPE(TENON_F8E5M2),
    [PJRT_F8E4M3FN] = DTYPE(TENON_F8E4M3FN),
    [PJRT_F8E4M3B11FNUZ] = DTYPE(TENON_F8E4M3B11FNUZ),
    [PJRT_F8E5M2FNUZ] = DTYPE(TENON_F8E5M2FNUZ),
    [PJRT_F8E4M3FNUZ] = DTYPE(TENON_F8E4M3FNUZ),
    [PJRT_F8E4M3] = DTYPE(TENON_F8E4M3),
    [PJRT_F8E3M4] = DTYPE(TENON_F8E3M4),
    [PJRT_F8E8M0] = DTYPE(TENON_F8E8M0),
};
enum { TYPE_COUNT = sizeof dtypes / sizeof *dtypes };

tenon_status_t dtype_of(int32_t type, tenon_dtype_t *out_dtype) {
  char text[160];
  if (type >= 0 && type < TYPE_COUNT && dtypes[type].bits) {
    *out_dtype = dtypes[type];
    return TENON_OK;
  }
  snprintf(text, sizeof text,
           "element type %d of PJRT is not supported: expected booleans, integers of 8 to 64 bits, "
           "or floating-point numbers of 8 to 128 bits",
           (int)type);
  return tenon_error_set(TENON_UNIMPLEMENTED, text);
}

int32_t element_type_of(tenon_dtype_t dtype) {
  for (int32_t type = 0; type < TYPE_COUNT; type++) {
    const tenon_dtype_t known = dtypes[type];
    if (known.bits && known.code == dtype.code && known.bits == dtype.bits && dtype.lanes <= 1)
      return type;
  }
  return 0;
}

int64_t array_bytes(tenon_dtype_t dtype, int32_t ndim, const int64_t *dims) {
  const int64_t most = INT64_C(1) << 62;
  int64_t size = dtype.bits / 8;
  bool is_empty = false;
  for (int32_t i = 0; i < ndim; i++) {
    if (dims[i] < 0) return -1;
    is_empty |= dims[i] == 0;
  }
  for (int32_t i = 0; i < ndim && !is_empty; i++) {
    if (size > most / dims[i]) return -1;
    size *= dims[i];
  }
  return is_empty ? 0 : size;
}

static bool is_row_major(const pjrt_layout_t *layout, int32_t ndim) {
  if (layout->type != PJRT_LAYOUT_TILED || layout->as.tiled.tile_count > 0) return false;
  if (layout->as.tiled.rank != (size_t)ndim) return false;
  for (int32_t i = 0; i < ndim; i++)
    if (layout->as.tiled.minor_to_major[i] != ndim - 1 - i) return false;
  return true;
}

tenon_status_t check_layout(const pjrt_layout_t *layout, int32_t ndim) {
  /* The size of a layout is not looked at, because XLA leaves it unset. */
  if (!layout || is_row_major(layout, ndim)) return TENON_OK;
  return tenon_error_set(TENON_UNIMPLEMENTED,
                         "the layout of a buffer is not supported: expected rows one after another "
                         "without tiles, which is the layout if none is stated");
}
