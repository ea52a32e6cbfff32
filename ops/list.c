/* Lists of tensors as values of a graph: ONNX's sequences, and its optional values, which are
 * lists of at most one item. A value of dtype LIST holds references to its items, so that no
 * operator here copies their elements. Importers state the dtype and the rank of an item, where the
 * file does, in the attributes `dtype` and `rank`. The kernels are for the CPU: lists stay on the
 * host.
 * Invariant: a list never changes; an operator that inserts or erases makes another one. */
#include <string.h>
#include <tenon/op.h>

#include "axes.h"
#include "composite.h"

/* inference */

static tenon_status_t check_list(tenon_infer_t *infer) {
  const tenon_meta_t *xs = infer->inputs[0];
  if (tenon_dtype_id(xs->dtype) == TENON_LIST) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID, "the first input is one tensor: expected a list");
}

static tenon_status_t infer_made(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  if (!out) return TENON_OK;
  out->dtype = tenon_dtype(TENON_LIST);
  return out_unknown(infer, out, 1);
}

static tenon_status_t infer_changed(tenon_infer_t *infer) {
  TENON_TRY(check_list(infer));
  return infer_made(infer);
}

static tenon_status_t infer_parts(tenon_infer_t *infer) {
  const tenon_dtype_t dtype = infer->inputs[0]->dtype;
  if (tenon_dtype_id(dtype) == TENON_LIST)
    return tenon_fail(infer, TENON_INVALID, "x is a list: expected a tensor");
  if (dtype.bits % 8)
    return tenon_fail(infer, TENON_INVALID, "elements of %d bits have no views", (int)dtype.bits);
  return infer_made(infer);
}

/* The result is an item, of which the attributes say what is known. */
static tenon_status_t infer_item(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  const tenon_value_t *dtype = &infer->attrs[0];
  const int64_t rank = infer->attrs[1].as.i;
  TENON_TRY(check_list(infer));
  if (!out) return TENON_OK;
  if (dtype->kind == TENON_KIND_DTYPE) out->dtype = dtype->as.dtype;
  return out_unknown(infer, out, rank < 0 || rank > TENON_RANK_MAX ? -1 : (int32_t)rank);
}

static tenon_status_t infer_number(tenon_infer_t *infer) {
  TENON_TRY(check_list(infer));
  if (infer->outputs[0]) infer->outputs[0]->ndim = 0;
  return TENON_OK;
}

/* items */

/* The items of a list that is being made. */
typedef struct items_t {
  tenon_tensor_t **at;
  int64_t count;
} items_t;

static tenon_status_t begin_items(tenon_call_t *call, int64_t room, items_t *items) {
  items->count = 0;
  items->at = call->host->allocate(call, (uint64_t)(room + 1) * sizeof *items->at);
  return items->at ? TENON_OK : TENON_MEMORY;
}

static void copy_items(items_t *items, const tenon_tensor_t *list, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    items->at[items->count++] = tenon_item(list, i);
}

/* Gives the items as the result. The host checks that they have one dtype. */
static tenon_status_t assign_list(tenon_call_t *call, const items_t *items) {
  int64_t count = items->count;
  int64_t stride = 1;
  tenon_tensor_t list = {.data = items->at,
                         .device = {1, 0},
                         .ndim = 1,
                         .dtype = tenon_dtype(TENON_LIST),
                         .shape = &count,
                         .strides = &stride};
  return call->host->assign(call, 0, &list);
}

/* Reads a position from 0 to `last`; a negative one counts from the end of the `count` items. */
static tenon_status_t read_position(tenon_call_t *call, uint32_t input, int64_t count, int64_t last,
                                    int64_t otherwise, int64_t *out_position) {
  const tenon_tensor_t *position = call->inputs[input];
  *out_position = otherwise;
  if (!position) return TENON_OK;
  if (tenon_count(position) != 1)
    return tenon_fail(call, TENON_INVALID, "the position has %" PRId64 " elements: expected one",
                      tenon_count(position));
  const int64_t found = tensor_int(position, 0);
  *out_position = found < 0 ? found + count : found;
  if (*out_position >= 0 && *out_position <= last) return TENON_OK;
  return tenon_fail(call, TENON_RANGE,
                    "position %" PRId64 " is out of range for a list of %" PRId64 " items", found,
                    count);
}

/* operators */

static tenon_status_t list_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[0];
  const items_t items = {xs->data, xs->shape[0]};
  return assign_list(call, &items);
}

static tenon_status_t list_at_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[0];
  const int64_t count = xs->shape[0];
  int64_t at = 0;
  TENON_TRY(read_position(call, 1, count, count - 1, 0, &at));
  return call->host->assign(call, 0, tenon_item(xs, at));
}

static tenon_status_t list_insert_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[0];
  const int64_t count = xs->shape[0];
  int64_t at = 0;
  items_t items;
  TENON_TRY(read_position(call, 2, count, count, count, &at));
  TENON_TRY(begin_items(call, count + 1, &items));
  copy_items(&items, xs, 0, at);
  items.at[items.count++] = call->inputs[1];
  copy_items(&items, xs, at, count);
  return assign_list(call, &items);
}

static tenon_status_t list_erase_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[0];
  const int64_t count = xs->shape[0];
  int64_t at = 0;
  items_t items;
  if (!count)
    return tenon_fail(call, TENON_INVALID, "the list is empty: there is no item to erase");
  TENON_TRY(read_position(call, 1, count, count - 1, count - 1, &at));
  TENON_TRY(begin_items(call, count, &items));
  copy_items(&items, xs, 0, at);
  copy_items(&items, xs, at + 1, count);
  return assign_list(call, &items);
}

static tenon_status_t list_length_run(tenon_call_t *call) {
  *(int64_t *)call->outputs[0]->data = call->inputs[0]->shape[0];
  return TENON_OK;
}

enum {
  CONCAT_CONCAT,
  CONCAT_UNSQUEEZE,
};

static tenon_status_t list_concat_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[0];
  const int64_t axis = call->attrs[2].as.i;
  tenon_tensor_t *out = NULL;
  items_t items;
  if (!xs->shape[0])
    return tenon_fail(call, TENON_INVALID, "the list is empty: expected at least one item");
  TENON_TRY(begin_items(call, xs->shape[0], &items));
  copy_items(&items, xs, 0, xs->shape[0]);
  for (int64_t i = 0; i < items.count && call->attrs[3].as.i; i++) {
    tenon_tensor_t *x = items.at[i];
    items.at[i] = NULL;
    TENON_TRY(core_along(call, CONCAT_UNSQUEEZE, x, axis, &items.at[i]));
  }
  TENON_TRY(core_concat(call, CONCAT_CONCAT, axis, items.count, items.at, &out));
  return call->host->assign(call, 0, out);
}

enum {
  SPLIT_SLICE,
  SPLIT_SQUEEZE,
};

/* The extents of the parts: one number for all, with a smaller last part, or one for each. */
typedef struct parts_t {
  const tenon_tensor_t *sizes; /* NULL: 1 for all */
  int64_t count;
  int64_t size;
} parts_t;

static tenon_status_t read_parts(tenon_call_t *call, int64_t extent, parts_t *parts) {
  const tenon_tensor_t *sizes = call->inputs[1];
  int64_t sum = 0;
  *parts = (parts_t){sizes, 0, 1};
  if (sizes && sizes->ndim > 1)
    return tenon_fail(call, TENON_INVALID,
                      "the sizes of the parts have %d axes: expected a scalar or a list",
                      (int)sizes->ndim);
  if (sizes && sizes->ndim == 0) parts->size = tensor_int(sizes, 0);
  if (parts->size < 1)
    return tenon_fail(call, TENON_INVALID, "parts of %" PRId64 " elements: expected at least 1",
                      parts->size);
  parts->count = (extent - 1) / parts->size + (extent > 0);
  if (!sizes || sizes->ndim == 0) return TENON_OK;
  parts->count = sizes->shape[0];
  for (int64_t i = 0; i < parts->count; i++) {
    const int64_t size = tensor_int(sizes, i);
    if (size < 0 || size > extent - sum)
      return tenon_fail(call, TENON_INVALID,
                        "part %" PRId64 " has %" PRId64 " of the %" PRId64
                        " elements that are left: expected 0 to that many",
                        i, size, extent - sum);
    sum += size;
  }
  if (sum == extent) return TENON_OK;
  return tenon_fail(call, TENON_INVALID,
                    "the parts have %" PRId64 " elements in all: expected %" PRId64, sum, extent);
}

static tenon_status_t list_split_run(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  int64_t begin = 0;
  int32_t axis = 0;
  parts_t parts;
  items_t items;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
  TENON_TRY(read_parts(call, x->shape[axis], &parts));
  TENON_TRY(begin_items(call, parts.count, &items));
  for (; items.count < parts.count; items.count++) {
    const int is_listed = parts.sizes && parts.sizes->ndim;
    const int64_t size = is_listed ? tensor_int(parts.sizes, items.count) : parts.size;
    const int64_t end = int_clamp(begin + size, 0, x->shape[axis]);
    tenon_tensor_t *part = NULL;
    TENON_TRY(core_slice(call, SPLIT_SLICE, x, axis, begin, end, &part));
    items.at[items.count] = part;
    if (!parts.sizes && !call->attrs[1].as.i) {
      items.at[items.count] = NULL;
      TENON_TRY(core_along(call, SPLIT_SQUEEZE, part, axis, &items.at[items.count]));
    }
    begin = end;
  }
  return assign_list(call, &items);
}

/* optional values */

static tenon_status_t optional_run(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  const items_t items = {&x, x != NULL};
  return assign_list(call, &items);
}

static tenon_status_t check_optional(tenon_call_t *call) {
  if (call->inputs[0]->shape[0] <= 1) return TENON_OK;
  return tenon_fail(call, TENON_INVALID,
                    "an optional value is a list of at most one item, found one of %" PRId64,
                    call->inputs[0]->shape[0]);
}

static tenon_status_t optional_has_run(tenon_call_t *call) {
  TENON_TRY(check_optional(call));
  *(uint8_t *)call->outputs[0]->data = call->inputs[0]->shape[0] == 1;
  return TENON_OK;
}

static tenon_status_t optional_get_run(tenon_call_t *call) {
  TENON_TRY(check_optional(call));
  if (!call->inputs[0]->shape[0])
    return tenon_fail(call, TENON_INVALID,
                      "the optional value is absent: test it with core::optional_has first");
  return call->host->assign(call, 0, tenon_item(call->inputs[0], 0));
}

#define ITEM "*, dtype? dtype=None, int rank=-1"

/* clang-format off */
TENON_ITEMS(core_list,
  TENON_OP("list(Tensor[] xs) -> Tensor",
    TENON_DOC("Makes a list of tensors, which have one dtype, as one value of dtype list."),
    TENON_TYPES("xs = ?; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_made),
    TENON_KERNEL("cpu strided quantised", list_run)),
  TENON_OP("list_at(Tensor xs, Tensor @host position, " ITEM ") -> Tensor",
    TENON_DOC("Gives an item of a list. A negative position counts from the end.\n"
              "dtype and rank state what is known about the item; they are checked when it is "
              "taken."),
    TENON_TYPES("xs = ?; position: i64|i32; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_item),
    TENON_KERNEL("cpu strided quantised", list_at_run)),
  TENON_OP("list_insert(Tensor xs, Tensor x, Tensor? @host position=None) -> Tensor",
    TENON_DOC("Makes a list with one item more, by default at its end.\n"
              "The items are shared, so that no elements are copied."),
    TENON_TYPES("xs = ?; x = ?; position: i64|i32; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_changed),
    TENON_KERNEL("cpu strided quantised", list_insert_run)),
  TENON_OP("list_erase(Tensor xs, Tensor? @host position=None) -> Tensor",
    TENON_DOC("Makes a list without one of the items, by default the last."),
    TENON_TYPES("xs = ?; position: i64|i32; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_changed),
    TENON_KERNEL("cpu strided quantised", list_erase_run)),
  TENON_OP("list_length(Tensor xs) -> Tensor",
    TENON_DOC("Counts the items of a list."),
    TENON_TYPES("xs = ?; out = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_number),
    TENON_KERNEL("cpu strided quantised", list_length_run)),
  TENON_OP("list_concat(Tensor xs, " ITEM ", int axis, bool new_axis=False) -> Tensor",
    TENON_DOC("Concatenates the items of a list along an axis, or stacks them along a new one."),
    TENON_TYPES("xs = ?; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_item),
    TENON_USES("core::concat, core::unsqueeze"),
    TENON_KERNEL("cpu strided quantised", list_concat_run)),
  TENON_OP("list_split(Tensor x, Tensor? @host sizes=None, *, int axis=0, bool keepdims=True) "
           "-> Tensor",
    TENON_DOC("Splits a tensor along an axis into a list of parts, which share its memory.\n"
              "sizes: the extent of all parts, of which the last may be smaller, or one for each "
              "part.\nWithout it each part has one element, and keepdims tells whether it keeps "
              "the axis."),
    TENON_TYPES("x = ?; sizes: i64|i32; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_parts),
    TENON_USES("core::slice, core::squeeze"),
    TENON_KERNEL("cpu strided", list_split_run)),
  TENON_OP("optional(Tensor? x=None) -> Tensor",
    TENON_DOC("Makes an optional value: a list of x, or without items if x is absent."),
    TENON_TYPES("x = ?; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_made),
    TENON_KERNEL("cpu strided quantised", optional_run)),
  TENON_OP("optional_has(Tensor x) -> Tensor",
    TENON_DOC("Tells whether an optional value, a list of at most one item, is present."),
    TENON_TYPES("x = ?; out = bool"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_number),
    TENON_KERNEL("cpu strided quantised", optional_has_run)),
  TENON_OP("optional_get(Tensor x, " ITEM ") -> Tensor",
    TENON_DOC("Gives the item of an optional value, which is an error if it is absent."),
    TENON_TYPES("x = ?; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(infer_item),
    TENON_KERNEL("cpu strided quantised", optional_get_run)))
/* clang-format on */
