/* Calls of built-in operators: a call with the operator's example inputs, or one with random
 * tensors and attributes, with changes. The bytes determine everything. A call that follows the
 * contract gives results of the shapes and dtypes that infer reported; any other call is refused
 * with a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "core/tensor.h"
#include "faults.h"

enum {
  VALUES = 128,
  ITEMS = 4,
  RESULTS = 64,
  ELEMENTS = 4096,
  CHANGES = 6,
};
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const tenon_op_t *const *ops;
static int32_t op_count;

typedef struct bytes_t {
  const unsigned char *at;
  const unsigned char *end;
} bytes_t;

static unsigned take(bytes_t *b, unsigned below) {
  unsigned byte = b->at < b->end ? *b->at++ : 0;
  return below ? byte % below : byte;
}

/* A small number, or one near the limits of the type. */
static int64_t take_number(bytes_t *b) {
  static const int64_t ends[] = {0,         -1,        1,         2,         -2,        3,
                                 INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 1LL << 32, 1LL << 40,
                                 64,        1LL << 62, 65536,     -65536};
  unsigned how = take(b, 4);
  return how == 3 ? ends[take(b, sizeof ends / sizeof *ends)]
                  : (int64_t)take(b, 8) - (how == 2 ? 4 : 0);
}

typedef struct trial_t {
  bytes_t bytes;
  const tenon_op_t *op;
  tenon_op_info_t info;
  tenon_value_t sample[VALUES];
  tenon_value_t values[VALUES]; /* as they were made, and as they are passed */
  tenon_tensor_t *owned[VALUES];
  tenon_tensor_t *items[VALUES][ITEMS];
  int32_t owned_count;
  int64_t ints[VALUES][ITEMS];
  double floats[VALUES][ITEMS];
  tenon_string_t strs[VALUES][ITEMS];
  char text[32];
  bool has_sample;
} trial_t;

static void wrong(const trial_t *t, const char *what) {
  fprintf(stderr, "wrong: %s: %s; last message: %s\n", t->info.name, what, tenon_error());
  for (int32_t i = 0; i < t->info.input_count; i++) {
    const tenon_value_t *v = &t->values[i];
    const tenon_tensor_t *x = v->kind == TENON_KIND_TENSOR ? v->as.tensor : NULL;
    fprintf(stderr, "  input %d: %s", (int)i,
            x         ? tenon_dtype_name(x->dtype)
            : v->kind ? "a list"
                      : "none");
    for (int32_t d = 0; x && d < x->ndim; d++)
      fprintf(stderr, " %lld(%lld)", (long long)x->shape[d], (long long)x->strides[d]);
    fprintf(stderr, "\n");
  }
  for (int32_t i = 0; i < t->info.attr_count; i++) {
    const tenon_value_t *v = &t->values[t->info.input_count + i];
    fprintf(stderr, "  attribute %d: kind %u, count %u: %lld\n", (int)i, (unsigned)v->kind,
            (unsigned)v->count, (long long)v->as.i);
  }
  abort();
}

/* tensors */

static void fill(trial_t *t, tenon_tensor_t *x) {
  bytes_t *b = &t->bytes;
  unsigned how = take(b, 4);
  unsigned seed = take(b, 0);
  int64_t count = tenon_count(x);
  if (tenon_dtype_id(x->dtype) == TENON_STRING) {
    for (int64_t i = 0; i < count; i++)
      (void)tenon_tensor_set_string(x, i, "a string 12.5 \xc3\xbc", (seed + (unsigned)i) % 17);
    return;
  }
  uint64_t each = x->dtype.bits < 8 ? 1 : x->dtype.bits / 8u; /* bytes */
  uint64_t bytes = ((uint64_t)count * x->dtype.bits + 7) / 8;
  unsigned char *at = x->data;
  for (uint64_t i = 0; i < bytes; i++) {
    uint64_t mixed = (seed + i) * 0x9E3779B97F4A7C15u;
    at[i] = how == 0   ? 0
            : how == 1 ? (unsigned char)(mixed >> 56)
            : how == 2 ? (unsigned char)(i % each ? 0 : (mixed >> 60) % 4)
                       : (unsigned char)(mixed >> 63 ? 0xff : 0x7f);
    if (tenon_dtype_id(x->dtype) == TENON_BOOL) at[i] &= 1;
  }
}

static tenon_tensor_t *own(trial_t *t, tenon_tensor_t *x) {
  if (x && t->owned_count < VALUES) return t->owned[t->owned_count++] = x;
  tenon_tensor_release(x);
  return NULL;
}

static tenon_tensor_t *make_of(trial_t *t, tenon_dtype_t dtype, int32_t ndim,
                               const int64_t *shape) {
  tenon_tensor_t *x = NULL;
  int64_t count = 1;
  for (int32_t d = 0; d < ndim; d++)
    count = count * shape[d] > ELEMENTS ? ELEMENTS + 1 : count * shape[d];
  if (count > ELEMENTS || tenon_tensor_create(dtype, ndim, shape, &x) != TENON_OK) return NULL;
  fill(t, x);
  return own(t, x);
}

static tenon_dtype_t take_dtype(trial_t *t) {
  static const uint32_t ids[] = {TENON_F32, TENON_F64,    TENON_I64,  TENON_I32,      TENON_BOOL,
                                 TENON_U8,  TENON_F16,    TENON_BF16, TENON_I8,       TENON_U64,
                                 TENON_C64, TENON_STRING, TENON_I4,   TENON_F8E4M3FN, TENON_U16,
                                 TENON_I16, TENON_C128,   TENON_U32,  TENON_F8E5M2,   TENON_U4};
  return tenon_dtype(ids[take(&t->bytes, sizeof ids / sizeof *ids)]);
}

static tenon_tensor_t *make(trial_t *t) {
  static const int64_t extents[] = {1, 2, 3, 0, 4, 5, 7, 17};
  int64_t shape[TENON_RANK_MAX];
  tenon_dtype_t dtype = take_dtype(t);
  int32_t ndim = (int32_t)take(&t->bytes, 6);
  for (int32_t d = 0; d < ndim; d++)
    shape[d] = extents[take(&t->bytes, 8)];
  return make_of(t, dtype, ndim, shape);
}

/* Views the same memory in another way: backwards, transposed, one element repeated, or every
 * second element. */
static tenon_tensor_t *view_of(trial_t *t, tenon_tensor_t *x) {
  int64_t shape[TENON_RANK_MAX], strides[TENON_RANK_MAX];
  tenon_tensor_t *view = NULL;
  char *data = x->data;
  unsigned how = take(&t->bytes, 4);
  int32_t axis = x->ndim ? (int32_t)take(&t->bytes, (unsigned)x->ndim) : 0;
  if (!x->ndim || x->dtype.bits < 8 || tenon_count(x) == 0) return x;
  for (int32_t d = 0; d < x->ndim; d++) {
    shape[d] = x->shape[d];
    strides[d] = x->strides[d];
  }
  if (how == 0) {
    data += (shape[axis] - 1) * strides[axis] * (x->dtype.bits / 8);
    strides[axis] = -strides[axis];
  } else if (how == 1) {
    int32_t last = x->ndim - 1;
    int64_t extent = shape[axis];
    int64_t stride = strides[axis];
    shape[axis] = shape[last];
    strides[axis] = strides[last];
    shape[last] = extent;
    strides[last] = stride;
  } else if (how == 2) {
    strides[axis] = 0;
  } else {
    shape[axis] = (shape[axis] + 1) / 2;
    strides[axis] *= 2;
  }
  if (tenon_tensor_borrow(data, x->dtype, x->ndim, shape, strides, NULL, NULL, &view) != TENON_OK)
    return x;
  view = own(t, view);
  return view ? view : x;
}

/* arguments */

static void make_input(trial_t *t, int32_t i) {
  tenon_argument_t argument = {.size = sizeof argument};
  tenon_value_t *v = &t->values[i];
  *v = (tenon_value_t){0};
  if (tenon_op_argument(t->op, TENON_ARGUMENT_INPUT, i, &argument) != TENON_OK)
    wrong(t, "an argument is missing");
  if (argument.is_optional && take(&t->bytes, 2)) return;
  if (argument.kind == TENON_KIND_TENSORS) {
    *v = (tenon_value_t){TENON_KIND_TENSORS, take(&t->bytes, ITEMS), {.tensors = t->items[i]}};
    for (uint32_t k = 0; k < v->count; k++)
      if (!(t->items[i][k] = make(t))) v->count = k;
  } else {
    tenon_tensor_t *x = make(t);
    if (x) *v = (tenon_value_t){TENON_KIND_TENSOR, 0, {.tensor = x}};
  }
}

static void make_attr(trial_t *t, int32_t i) {
  static const double ends[] = {0, 1, -1, 0.5, 1e30, -1e300, 1e-45, 3.7};
  tenon_argument_t argument = {.size = sizeof argument};
  int32_t at = t->info.input_count + i;
  tenon_value_t *v = &t->values[at];
  *v = (tenon_value_t){0};
  if (tenon_op_argument(t->op, TENON_ARGUMENT_ATTR, i, &argument) != TENON_OK)
    wrong(t, "an attribute is missing");
  uint32_t kind = take(&t->bytes, 16) ? argument.kind : take(&t->bytes, TENON_KIND_TENSORS + 1);
  uint32_t count = argument.count >= 0 && take(&t->bytes, 8)
                       ? (uint32_t)argument.count % (ITEMS + 1)
                       : take(&t->bytes, ITEMS + 1);
  if (argument.has_default && take(&t->bytes, 3) == 0) return;
  v->kind = kind;
  switch (kind) {
  case TENON_KIND_BOOL:
    v->as.i = take(&t->bytes, 2);
    break;
  case TENON_KIND_INT:
    v->as.i = take_number(&t->bytes);
    break;
  case TENON_KIND_DIM:
    v->as.dim.value = take_number(&t->bytes);
    break;
  case TENON_KIND_CHOICE:
    v->as.i = argument.choice_count ? (int64_t)take(&t->bytes, argument.choice_count)
                                    : take_number(&t->bytes);
    break;
  case TENON_KIND_FLOAT:
    v->as.f = ends[take(&t->bytes, 8)];
    break;
  case TENON_KIND_DTYPE:
    v->as.dtype = take_dtype(t);
    break;
  case TENON_KIND_DEVICE:
    v->as.device = (tenon_device_t){1, 0};
    break;
  case TENON_KIND_STR:
    snprintf(t->text, sizeof t->text, "%.*s", (int)take(&t->bytes, 8), "ij,jk->ik");
    v->as.s = t->text;
    v->count = (uint32_t)strlen(t->text);
    break;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
    for (uint32_t k = 0; k < count && k < ITEMS; k++)
      t->ints[at][k] = take_number(&t->bytes);
    v->count = count < ITEMS ? count : ITEMS;
    v->as.ints = t->ints[at];
    break;
  case TENON_KIND_FLOATS:
    for (uint32_t k = 0; k < count && k < ITEMS; k++)
      t->floats[at][k] = ends[take(&t->bytes, 8)];
    v->count = count < ITEMS ? count : ITEMS;
    v->as.floats = t->floats[at];
    break;
  case TENON_KIND_STRS:
    for (uint32_t k = 0; k < count && k < ITEMS; k++)
      t->strs[at][k] = (tenon_string_t){"a", 1};
    v->count = count < ITEMS ? count : ITEMS;
    v->as.strs = t->strs[at];
    break;
  case TENON_KIND_TENSOR:
    if (!(v->as.tensor = make(t))) v->kind = TENON_KIND_NONE;
    break;
  default:
    v->kind = TENON_KIND_NONE;
  }
}

static void change(trial_t *t) {
  int32_t inputs = t->info.input_count;
  int32_t attrs = t->info.attr_count;
  unsigned how = take(&t->bytes, 9);
  int32_t i = inputs ? (int32_t)take(&t->bytes, (unsigned)inputs) : 0;
  tenon_value_t *v = &t->values[i];
  tenon_tensor_t *x = inputs && v->kind == TENON_KIND_TENSOR ? v->as.tensor : NULL;
  int64_t shape[TENON_RANK_MAX];
  for (int32_t d = 0; x && d < x->ndim; d++)
    shape[d] = x->shape[d];
  if (how == 0 && attrs)
    make_attr(t, (int32_t)take(&t->bytes, (unsigned)attrs));
  else if (how == 1 && inputs)
    make_input(t, i);
  else if (how == 2 && x)
    x = view_of(t, x);
  else if (how == 3 && x)
    x = make_of(t, take_dtype(t), x->ndim, shape);
  else if (how == 4 && x && x->ndim) {
    shape[take(&t->bytes, (unsigned)x->ndim)] = take(&t->bytes, 5);
    x = make_of(t, x->dtype, x->ndim, shape);
  } else if (how == 5 && x && x->data && tn_is_dense(x->ndim, x->shape, x->strides))
    fill(t, x);
  else if (how == 6 && x && t->values[0].kind == TENON_KIND_TENSOR)
    x = t->values[0].as.tensor;
  else if (how == 7 && inputs) {
    *v = (tenon_value_t){0};
    x = NULL;
  } else if (how == 8 && x && x->ndim)
    x = make_of(t, x->dtype, x->ndim - 1, shape);
  else
    return;
  if (how >= 2 && how != 7 && x) v->as.tensor = x;
}

/* the call */

typedef struct metas_t {
  tenon_meta_t metas[VALUES];
  tenon_meta_t items[VALUES][ITEMS];
  tenon_meta_t *given[VALUES];
  tenon_meta_t *lists[VALUES][ITEMS];
  tenon_dim_t dims[VALUES][TENON_RANK_MAX];
  tenon_dim_t strides[VALUES][TENON_RANK_MAX];
  tenon_dim_t item_dims[VALUES][ITEMS][TENON_RANK_MAX];
  tenon_dim_t item_strides[VALUES][ITEMS][TENON_RANK_MAX];
} metas_t;

static void meta_of(const tenon_tensor_t *x, tenon_meta_t *m, tenon_dim_t *dims,
                    tenon_dim_t *strides) {
  *m = (tenon_meta_t){
      .size = sizeof *m, .dtype = x->dtype, .ndim = x->ndim, .device = x->device, .dims = dims};
  m->detail = x->detail;
  m->value = x;
  if (!tn_is_dense(x->ndim, x->shape, x->strides)) m->strides = strides;
  for (int32_t d = 0; d < x->ndim; d++) {
    dims[d].value = x->shape[d];
    strides[d].value = x->strides[d];
  }
}

static tenon_meta_t *const *metas_of(const trial_t *t, metas_t *m) {
  for (int32_t i = 0; i < t->info.input_count; i++) {
    const tenon_value_t *v = &t->values[i];
    m->given[i] = v->kind == TENON_KIND_NONE ? NULL : &m->metas[i];
    if (v->kind == TENON_KIND_TENSOR)
      meta_of(v->as.tensor, &m->metas[i], m->dims[i], m->strides[i]);
    if (v->kind != TENON_KIND_TENSORS) continue;
    m->metas[i] = (tenon_meta_t){
        .size = sizeof *m->metas, .dtype = tenon_dtype(TENON_LIST), .count = v->count};
    m->metas[i].items = m->lists[i];
    for (uint32_t k = 0; k < v->count; k++)
      meta_of(v->as.tensors[k], m->lists[i][k] = &m->items[i][k], m->item_dims[i][k],
              m->item_strides[i][k]);
  }
  return m->given;
}

static void compare(const trial_t *t, const tenon_meta_t *said, const tenon_tensor_t *found) {
  if (tenon_dtype_id(found->dtype) == TENON_LIST)
    return; /* The tests of lists compare its items. */
  if (said->dtype.bits && tenon_dtype_id(said->dtype) != tenon_dtype_id(found->dtype))
    wrong(t, "a result of another dtype than infer says");
  if (said->ndim >= 0 && said->ndim != found->ndim)
    wrong(t, "a result of another rank than infer says");
  for (int32_t d = 0; d < said->ndim; d++) {
    int64_t extent = said->dims[d].value;
    if (extent >= TENON_DIM_LEAST && extent != found->shape[d])
      wrong(t, "a result of another shape than infer says");
  }
}

static void check(const trial_t *t, tenon_status_t status) {
  if (status == TENON_INTERNAL) wrong(t, "an internal error");
  if (status != TENON_OK && !*tenon_error()) wrong(t, "a failure without a message");
}

static void call(trial_t *t) {
  static metas_t room;
  tenon_tensor_t *results[RESULTS] = {NULL};
  const tenon_meta_t *const *said = NULL;
  const tenon_value_t *full = NULL;
  tenon_attrs_t *attrs = NULL;
  tenon_shapes_t *shapes = NULL;
  tenon_argument_t argument = {.size = sizeof argument};
  bool is_said =
      tenon_attrs_create(t->op, &attrs) == TENON_OK && tenon_shapes_create(&shapes) == TENON_OK;
  for (int32_t i = 0;
       is_said && tenon_op_argument(t->op, TENON_ARGUMENT_ATTR, i, &argument) == TENON_OK; i++) {
    const tenon_value_t *v = &t->values[t->info.input_count + i];
    if (v->kind != TENON_KIND_NONE && !argument.is_open)
      is_said = tenon_attrs_set(attrs, argument.name, v) == TENON_OK;
  }
  is_said = is_said && tenon_attrs_values(attrs, &full) == TENON_OK;
  if (is_said) {
    tenon_status_t status = tenon_shapes_infer(shapes, t->op, full, metas_of(t, &room), 0, &said);
    check(t, status);
    is_said = status == TENON_OK;
  }
  tenon_status_t status = tenon_op_call_values(
      t->op, t->values, (uint32_t)(t->info.input_count + t->info.attr_count), results, 0);
  check(t, status);
  for (int32_t o = 0; o < t->info.output_count; o++) {
    if (results[o] && status != TENON_OK) wrong(t, "a result of a call that failed");
    if (results[o] && is_said && said[o]) compare(t, said[o], results[o]);
    tenon_tensor_release(results[o]);
  }
  tenon_shapes_release(shapes);
  tenon_attrs_release(attrs);
}

static bool
is_left_out(const char
                /* Operators outside core:: are parts of those in core::, and trust their callers:
         * docs/devices.md. */
                *name) {
  return strncmp(name, "core::", 6) != 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static trial_t t;
  if (!ops && (tenon_start() != TENON_OK || tenon_ops_list(&ops, &op_count) != TENON_OK)) abort();
  if (size < 3) return 0;
  memset(&t, 0, sizeof t);
  t.bytes = (bytes_t){data + 2, data + size};
  t.info.size = sizeof t.info;
  t.op = ops[(data[0] | data[1] << 8) % op_count];
  tenon_op_info(t.op, &t.info);
  if (is_left_out(t.info.name) || t.info.output_count > RESULTS ||
      t.info.input_count + t.info.attr_count > VALUES)
    return 0;
  tenon_threads_set(1);
  tenon_random_seed(1);
  unsigned how = take(&t.bytes, 8);
  if (how) {
    tenon_sample_t sample = {.size = sizeof sample, .seed = take(&t.bytes, 0)};
    sample.index = take(&t.bytes, (unsigned)tenon_op_sample_count(t.op));
    if (how > 4) sample.dtype = take_dtype(&t);
    t.has_sample = tenon_op_sample(t.op, &sample, t.sample) == TENON_OK;
  }
  memcpy(t.values, t.sample, sizeof t.values);
  for (int32_t i = 0; !t.has_sample && i < t.info.input_count; i++)
    make_input(&t, i);
  for (int32_t i = 0; !t.has_sample && i < t.info.attr_count; i++)
    make_attr(&t, i);
  for (unsigned i = 0, changes = take(&t.bytes, CHANGES); i < changes; i++)
    change(&t);
  fault_limit((int64_t)256 << 20);
  call(&t);
  fault_limit(0);
  while (t.owned_count)
    tenon_tensor_release(t.owned[--t.owned_count]);
  if (t.has_sample) tenon_op_sample_release(t.op, t.sample);
  return 0;
}
