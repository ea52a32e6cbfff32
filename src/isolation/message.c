/* Metas in messages, and the full name of an operator. */
#include "isolation/message.h"

#include <stdio.h>
#include <string.h>

void tn_operator_name(const char *text, const char *library, char out_name[TN_NAME_SIZE]) {
  static const char blank[] = " \t\r\n";
  char *to = out_name;
  text += strspn(text, blank);
  const size_t size = strcspn(text, "(");
  const bool is_full = memchr(text, ':', size) != NULL;
  if (!is_full) to += snprintf(out_name, TN_NAME_SIZE / 2, "%.300s::", library);
  for (size_t i = 0; i < size && to < out_name + TN_NAME_SIZE - 1; i++)
    if (!strchr(blank, text[i])) *to++ = text[i];
  *to = 0;
}

enum {
  META_ABSENT,
  META_PLAIN,
  META_LIST,
};

void tn_put_meta(tn_wire_t *wire, const tenon_meta_t *meta, bool is_result) {
  if (!meta) {
    tn_put(wire, META_ABSENT);
    return;
  }
  tn_put(wire, meta->items ? META_LIST : META_PLAIN);
  tn_put(wire, meta->items ? meta->count : 0);
  tn_put(wire, tenon_dtype_id(meta->dtype));
  tn_put(wire, (uint64_t)(int64_t)meta->ndim);
  tn_put(wire, meta->alias);
  tn_put(wire, (uint64_t)meta->offset.value);
  tn_put(wire, meta->layout);
  if (meta->items) {
    for (uint32_t i = 0; i < meta->count; i++)
      tn_put_meta(wire, meta->items[i], is_result);
    return;
  }
  const uint64_t rank = meta->ndim > 0 ? (uint64_t)meta->ndim : 0;
  /* Strides that are not set are uninitialised memory. */
  const bool has_strides = meta->strides && (!is_result || meta->strided);
  tn_put(wire, meta->strided | (uint64_t)has_strides << 1);
  tn_put_numbers(wire, meta->dims, rank);
  if (has_strides) tn_put_numbers(wire, meta->strides, rank);
  tn_put(wire, meta->value_count);
  tn_put_numbers(wire, meta->values, meta->value_count);
}

int64_t tn_peek_meta_items(const tn_wire_t *wire) {
  tn_wire_t peek = *wire;
  return tn_get(&peek) == META_LIST ? tn_get_between(&peek, 0, 1 << 20) : -1;
}

static void get_dims(tn_wire_t *wire, tenon_dim_t *dims, uint64_t count,
                     const tn_dim_check_t *check) {
  const void *bytes = tn_get_numbers(wire, count);
  if (!bytes || !count) return;
  memcpy(dims, bytes, count * sizeof *dims);
  for (uint64_t i = 0; check && i < count; i++)
    if (!tenon_is_known(dims[i]) && !check->is_mine(check->context, dims[i])) {
      dims[i].value = 0;
      wire->failed = true;
    }
}

bool tn_get_meta(tn_wire_t *wire, tenon_meta_t *meta, bool is_result, const tn_dim_check_t *check) {
  const uint64_t kind = tn_get(wire);
  if (wire->failed || kind == META_ABSENT) return false;
  const int64_t count = tn_get_between(wire, 0, 1 << 20);
  if (!meta || (kind == META_LIST) != (meta->items != NULL) ||
      (meta->items && count != meta->count)) {
    wire->failed = true;
    return false;
  }
  meta->dtype = tenon_dtype((uint32_t)tn_get(wire));
  meta->ndim = (int32_t)tn_get_between(wire, -1, TENON_RANK_MAX);
  meta->alias = (uint32_t)tn_get_between(wire, 0, 64);
  meta->offset.value = (int64_t)tn_get(wire);
  meta->layout = (uint32_t)tn_get_between(wire, 0, 255);
  if (check && !tenon_is_known(meta->offset) && !check->is_mine(check->context, meta->offset))
    wire->failed = true;
  if (meta->items) {
    for (int64_t i = 0; i < count && !wire->failed; i++)
      if (!tn_get_meta(wire, meta->items[i], is_result, check)) wire->failed = true;
    return !wire->failed;
  }
  const uint64_t rank = meta->ndim > 0 ? (uint64_t)meta->ndim : 0;
  const uint64_t strided = tn_get(wire);
  get_dims(wire, meta->dims, rank, check);
  meta->strided = strided & 1;
  if (strided & 2)
    get_dims(wire, meta->strides, rank, check);
  else if (!is_result)
    meta->strides = NULL;
  meta->value_count = (uint32_t)tn_get_between(wire, 0, TENON_RANK_MAX);
  get_dims(wire, meta->values, meta->value_count, check);
  return !wire->failed;
}
