/* Restores the tensors of failure dumps: any dtype and strides, the original alignment, quantised,
 * sparse. Called by load.c. Files may be hostile, so no number in them is trusted. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "dump/record.h"

#define BYTES_MOST ((int64_t)1 << 40) /* no dumped tensor spans more */

typedef struct layout_t { /* the description of a tensor in call.json */
  tenon_dtype_t dtype;    /* no bits: the dtype of its file */
  int32_t ndim;           /* -1: the rank of its file */
  int64_t shape[TENON_RANK_MAX];
  int64_t strides[TENON_RANK_MAX];
  bool has_strides;
  int64_t misaligned; /* bytes beyond a multiple of TN_ALIGNMENT */
} layout_t;

static tenon_status_t keep_tensor(tenon_recording_t *recording, tenon_tensor_t *tensor) {
  if (!tn_grow((void **)&recording->tensors, &recording->capacity, recording->count,
               sizeof *recording->tensors)) {
    tenon_tensor_release(tensor);
    return tn_no_memory("a failure dump", recording->count);
  }
  recording->tensors[recording->count++] = tensor;
  return TENON_OK;
}

static tenon_status_t read_numbers(const tn_json_t *list, int64_t least, int64_t *out,
                                   int32_t *out_count) {
  if (list->kind != TN_JSON_LIST || list->count > TENON_RANK_MAX)
    return tn_json_fail(list, "expected a list of at most %d integers, found %s", TENON_RANK_MAX,
                        tn_json_kind_name(list->kind));
  for (size_t i = 0; i < list->count; i++)
    if (!tn_json_integer(&list->items[i], &out[i]) || out[i] < least)
      return tn_json_fail(&list->items[i], "expected an integer%s",
                          least == 0 ? " of at least 0" : "");
  *out_count = (int32_t)list->count;
  return TENON_OK;
}

static tenon_status_t read_layout(const tn_json_t *json, layout_t *out) {
  const tn_json_t *dtype = tn_json_find(json, "dtype");
  const tn_json_t *shape = tn_json_find(json, "shape");
  const tn_json_t *strides = tn_json_find(json, "strides");
  const tn_json_t *misaligned = tn_json_find(json, "misaligned");
  int32_t count = 0;
  *out = (layout_t){.ndim = -1};
  if (dtype &&
      (dtype->kind != TN_JSON_TEXT || !tn_dtype_parse(dtype->text, dtype->count, &out->dtype)))
    return tn_json_fail(dtype, "expected the name of a dtype, such as \"f32\"");
  if (shape) TN_TRY(read_numbers(shape, 0, out->shape, &out->ndim));
  if (shape && tn_shape_count(out->ndim, out->shape) < 0)
    return tn_json_fail(shape, "the tensor has more elements than 64 bits can count");
  if (strides) TN_TRY(read_numbers(strides, INT64_MIN, out->strides, &count));
  if (strides && count != out->ndim)
    return tn_json_fail(strides, "expected one stride for each axis of the shape");
  if (misaligned && (!tn_json_integer(misaligned, &out->misaligned) || out->misaligned < 0 ||
                     out->misaligned >= TN_ALIGNMENT))
    return tn_json_fail(misaligned, "expected a number of bytes from 0 to %d", TN_ALIGNMENT - 1);
  out->has_strides = strides != NULL;
  return TENON_OK;
}

/* Packs elements of one byte each into elements of 2, 4 or 6 bits. */
static void pack_elements(const tenon_tensor_t *bytes, tenon_tensor_t *packed) {
  const unsigned char *from = bytes->data;
  unsigned char *to = packed->data;
  uint64_t bits = packed->dtype.bits;
  for (uint64_t i = 0, n = (uint64_t)tenon_count(bytes); i < n; i++)
    for (uint64_t b = 0, at = i * bits; b < bits; b++, at++)
      if (from[i] >> b & 1) to[at / 8] = (unsigned char)(to[at / 8] | 1u << at % 8);
}

/* Reinterprets the file's elements as this dtype. npy has no bf16, for example, so the file has its
 * bits. */
static tenon_status_t as_dtype(const tn_json_t *json, tenon_tensor_t *stored, tenon_dtype_t dtype,
                               tenon_tensor_t **out_tensor) {
  if (!dtype.bits || tn_dtype_same(dtype, stored->dtype)) {
    tenon_tensor_retain(*out_tensor = stored);
    return TENON_OK;
  }
  bool is_text = tn_dtype_is(dtype, TENON_STRING) || tn_dtype_is(stored->dtype, TENON_STRING);
  if (dtype.bits < 8 && tn_dtype_is(stored->dtype, TENON_U8)) {
    uint64_t bytes = 0;
    TN_TRY(tenon_tensor_create(dtype, stored->ndim, stored->shape, out_tensor));
    if (tn_dtype_bytes(dtype, tenon_count(stored), &bytes) && bytes)
      memset((*out_tensor)->data, 0, (size_t)bytes);
    pack_elements(stored, *out_tensor);
    return TENON_OK;
  }
  if (is_text || dtype.bits != stored->dtype.bits)
    return tn_json_fail(json, "dtype %s, but its file has elements of %s", tn_dtype_name(dtype),
                        tn_dtype_name(stored->dtype));
  return tn_tensor_view_of(stored, dtype, 0, stored->ndim, stored->shape, stored->strides,
                           out_tensor);
}

/* Allocates memory for the strides and finds the address of the first element. */
static tenon_status_t allocate_strided(const tn_json_t *json, const layout_t *layout,
                                       tenon_dtype_t dtype, void **out_block, char **out_data) {
  int64_t low = 0;
  int64_t high = 0;
  int64_t size = dtype.bits / 8;
  int64_t bytes, end;
  bool fits = true;
  for (int32_t i = 0; i < layout->ndim && fits; i++) {
    int64_t reach;
    if (layout->shape[i] < 2) continue;
    fits = tn_mul(layout->strides[i], layout->shape[i] - 1, &reach);
    if (fits && reach < 0)
      fits = tn_add(low, reach, &low);
    else if (fits)
      fits = tn_add(high, reach, &high);
  }
  fits = fits && !__builtin_sub_overflow(high, low, &end) && tn_add(end, 1, &end) &&
         tn_mul(end, size, &bytes) && tn_add(bytes, 2 * TN_ALIGNMENT, &bytes) &&
         tn_mul(low, size, &low);
  if (!fits) return tn_json_fail(json, "the strides address more memory than 64 bits can");
  char *block = bytes < BYTES_MOST ? tn_allocate_zero(1, (size_t)bytes) : NULL;
  if (!block) {
    (void)tn_json_fail(json, "out of memory for tensors with such strides");
    return TENON_MEMORY;
  }
  uintptr_t first = (uintptr_t)block + (uintptr_t)-low;
  uintptr_t shift = ((uintptr_t)layout->misaligned - first) % TN_ALIGNMENT;
  *out_block = block;
  *out_data = block - low + shift;
  return TENON_OK;
}

/* Stores elements with the strides of the layout. An axis that has one element in the file and
 * stride 0 is repeated. */
static tenon_status_t spread_elements(const tn_json_t *json, const layout_t *layout,
                                      const tenon_tensor_t *stored, tenon_tensor_t **out_tensor) {
  void *block = NULL;
  char *data = NULL;
  tenon_tensor_t distinct;
  int64_t strides[TENON_RANK_MAX], shape[TENON_RANK_MAX], room[TENON_RANK_MAX];
  for (int32_t i = 0; i < layout->ndim; i++) {
    strides[i] = layout->strides[i];
    shape[i] = stored->shape[i];
  }
  TN_TRY(allocate_strided(json, layout, stored->dtype, &block, &data));
  tenon_status_t status =
      tenon_tensor_view(&distinct, data, stored->dtype, stored->ndim, shape, strides, room);
  if (status == TENON_OK) status = tn_tensor_copy_into(stored, &distinct);
  if (status == TENON_OK)
    status = tenon_tensor_borrow(data, stored->dtype, layout->ndim, layout->shape, layout->strides,
                                 tn_release_memory, block, out_tensor);
  if (status != TENON_OK) tn_release_memory(block);
  return status;
}

static tenon_status_t apply_layout(const tn_json_t *json, layout_t *layout, tenon_tensor_t *stored,
                                   tenon_tensor_t **out_tensor) {
  bool is_special = layout->has_strides || layout->misaligned;
  if (layout->ndim < 0) {
    layout->ndim = stored->ndim;
    if (stored->ndim)
      memcpy(layout->shape, stored->shape, (size_t)stored->ndim * sizeof *layout->shape);
  }
  if (!layout->has_strides) (void)tn_strides_dense(layout->ndim, layout->shape, layout->strides);
  bool fits = layout->ndim == stored->ndim;
  for (int32_t i = 0; fits && i < layout->ndim; i++)
    fits =
        layout->shape[i] == stored->shape[i] || (stored->shape[i] == 1 && layout->strides[i] == 0);
  if (!fits) return tn_json_fail(json, "the shape differs from that of its file");
  bool is_spread = is_special && stored->dtype.bits >= 8 &&
                   !tn_dtype_is(stored->dtype, TENON_STRING) && tenon_count(stored);
  if (is_spread) return spread_elements(json, layout, stored, out_tensor);
  for (int32_t i = 0; i < layout->ndim; i++)
    if (layout->shape[i] != stored->shape[i])
      return tn_json_fail(json, "%s tensors cannot have strides", tn_dtype_name(stored->dtype));
  tenon_tensor_retain(*out_tensor = stored);
  return TENON_OK;
}

static tenon_status_t read_file(const tenon_recording_t *recording, const tn_json_t *file,
                                tenon_tensor_t **out) {
  char path[4200];
  if (file->kind != TN_JSON_TEXT || strchr(file->text, '/') ||
      snprintf(path, sizeof path, "%s/%s", recording->folder, file->text) >= (int)sizeof path)
    return tn_json_fail(file, "expected the name of a file in the same folder");
  return tenon_tensor_load(path, out);
}

static tenon_status_t read_part(tenon_recording_t *recording, const tn_json_t *json,
                                const char *name, bool is_needed, const tenon_tensor_t **out) {
  const tn_json_t *found = tn_json_find(json, name);
  tenon_tensor_t *tensor = NULL;
  if (!found && is_needed) return tn_json_fail(json, "expected a member '%s'", name);
  if (found) TN_TRY(tn_dumped_tensor(recording, found, &tensor));
  if (!tensor && is_needed) return tn_json_fail(found, "the tensor has no elements");
  *out = tensor;
  return TENON_OK;
}

static tenon_status_t read_quantised(tenon_recording_t *recording, const tn_json_t *json,
                                     tenon_tensor_t *tensor) {
  const tn_json_t *axis = tn_json_find(json, "axis");
  const tn_json_t *block = tn_json_find(json, "block");
  int64_t axis_number = -1;
  int64_t block_number = 0;
  tenon_detail_t *detail = tn_arena_allocate(&recording->arena, sizeof *detail);
  if (!detail) return tn_no_memory("a failure dump", sizeof *detail);
  if ((axis && !tn_json_integer(axis, &axis_number)) ||
      (block && !tn_json_integer(block, &block_number)) || axis_number < -1 ||
      axis_number >= TENON_RANK_MAX || block_number < 0 || block_number > INT32_MAX)
    return tn_json_fail(json, "expected integers for axis and block");
  *detail = (tenon_detail_t){sizeof *detail,
                             TENON_DETAIL_QUANTISED,
                             (int32_t)axis_number,
                             (int32_t)block_number,
                             NULL,
                             NULL,
                             NULL,
                             NULL,
                             NULL};
  TN_TRY(read_part(recording, json, "scale", true, &detail->scale));
  TN_TRY(read_part(recording, json, "zero_point", false, &detail->zero_point));
  return tenon_tensor_detail_set(tensor, detail);
}

static tenon_status_t read_sparse(tenon_recording_t *recording, const tn_json_t *json,
                                  const layout_t *layout, uint32_t kind,
                                  tenon_tensor_t **out_tensor) {
  tenon_detail_t detail = {.size = sizeof detail, .kind = kind};
  TN_TRY(read_part(recording, json, "values", true, &detail.values));
  TN_TRY(read_part(recording, json, "indices", true, &detail.indices));
  TN_TRY(read_part(recording, json, "indptr", kind == TENON_DETAIL_CSR, &detail.indptr));
  return tenon_tensor_create_sparse(&detail, layout->ndim, layout->shape, 0, out_tensor);
}

static tenon_status_t read_list(tenon_recording_t *recording, const tn_json_t *items,
                                tenon_tensor_t **out_tensor) {
  if (items->kind != TN_JSON_LIST || items->count > INT32_MAX)
    return tn_json_fail(items, "expected a list of tensors");
  tenon_tensor_t **found = tn_arena_array(&recording->arena, items->count + 1, sizeof *found);
  if (!found) return tn_no_memory("a failure dump", items->count);
  for (size_t i = 0; i < items->count; i++) {
    TN_TRY(tn_dumped_tensor(recording, &items->items[i], &found[i]));
    if (!found[i]) return tn_json_fail(&items->items[i], "a tensor in the list has no elements");
  }
  return tenon_tensor_list(found, (int32_t)items->count, out_tensor);
}

static tenon_status_t read_dense(const tenon_recording_t *recording, const tn_json_t *json,
                                 const tn_json_t *file, layout_t *layout,
                                 tenon_tensor_t **out_tensor) {
  tenon_tensor_t *stored = NULL;
  tenon_tensor_t *typed = NULL;
  TN_TRY(read_file(recording, file, &stored));
  tenon_status_t status = as_dtype(json, stored, layout->dtype, &typed);
  if (status == TENON_OK) status = apply_layout(json, layout, typed, out_tensor);
  tenon_tensor_release(typed);
  tenon_tensor_release(stored);
  return status;
}

tenon_status_t tn_dumped_tensor(tenon_recording_t *recording, const tn_json_t *json,
                                tenon_tensor_t **out_tensor) {
  const tn_json_t *items = tn_json_find(json, "items");
  const tn_json_t *file = tn_json_find(json, "file");
  const tn_json_t *kind = tn_json_find(json, "layout");
  layout_t layout;
  *out_tensor = NULL;
  if (json->kind == TN_JSON_NULL) return TENON_OK;
  if (json->kind != TN_JSON_OBJECT)
    return tn_json_fail(json, "expected a tensor, which is an object, found %s",
                        tn_json_kind_name(json->kind));
  if (items) TN_TRY(read_list(recording, items, out_tensor));
  if (items) return keep_tensor(recording, *out_tensor);
  TN_TRY(read_layout(json, &layout));
  const char *word = kind && kind->kind == TN_JSON_TEXT ? kind->text : "dense";
  bool is_csr = strcmp(word, "csr") == 0;
  bool is_rows = strcmp(word, "row_sparse") == 0;
  if ((is_csr || is_rows) && layout.ndim >= 0) {
    TN_TRY(read_sparse(recording, json, &layout,
                       is_csr ? TENON_DETAIL_CSR : TENON_DETAIL_ROW_SPARSE, out_tensor));
    return keep_tensor(recording, *out_tensor);
  }
  if (!file && tn_json_find(json, "is_missing")) return TENON_OK;
  if (!file) return tn_json_fail(json, "expected a member 'file'");
  TN_TRY(read_dense(recording, json, file, &layout, out_tensor));
  TN_TRY(keep_tensor(recording, *out_tensor));
  return strcmp(word, "quantised") == 0 ? read_quantised(recording, json, *out_tensor) : TENON_OK;
}
