/* Calls saved in folders: reading gives back what was written, whatever the tensors and attributes
 * are, and an invalid dump is refused with the place of the error. */
#include <stdlib.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "check.h"
#include "tensors.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "faults.h"
#include "sparse.h"

static tenon_status_t nothing(tenon_call_t *call) { return call->op ? TENON_OK : TENON_INTERNAL; }

#define SCHEMA                                                                                     \
  "record::all(Tensor(a!) x, Tensor? y, Tensor[] z, *, int i=3, float f=1.5, bool b=False, str "   \
  "s='', "                                                                                         \
  "str['one', 'two'] c='one', int? none=None, int[] is=[], float[] fs=[], str[] ss=[], dtype "     \
  "d=f32, device v='cpu', "                                                                        \
  "tensor? t=None, graph? g=None, str[] **rest) -> Tensor(a!)"

static const tenon_item_t items[] = {
    TENON_OP(SCHEMA, TENON_TYPES("x, y, z, out = ?"), TENON_SHAPES("out = x"),
             TENON_KERNEL("cpu sparse quantised strided", nothing)),
    {0}};

static const tenon_op_t *all(void) {
  static tenon_registration_t *registration;
  const tenon_op_t *op = NULL;
  if (!registration) CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &registration), TENON_OK);
  CHECK_STATUS(tenon_op_find("record::all", &op), TENON_OK);
  return op;
}

static char folder[4096];
static const char *at(const char *name) {
  static char path[4200];
  if (!*folder) CHECK_STATUS(tn_folder_make(folder, sizeof folder), TENON_OK);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}
__attribute__((destructor)) static void clean(void) {
  if (*folder) tn_folder_remove(folder);
}

/* Returns the first input as it is read back; the caller releases both objects. */
static tenon_tensor_t *again(tenon_tensor_t *x, tenon_recording_t **out_recording) {
  tenon_tensor_t *inputs[] = {x, NULL, NULL};
  tenon_recording_info_t call = {.size = sizeof call, .inputs = inputs};
  tenon_recording_info_t info = {.size = sizeof info};
  *out_recording = NULL;
  const char *path = at("one");
  CHECK_STATUS(tenon_recording_save(path, all(), NULL, &call), TENON_OK);
  CHECK_STATUS(tenon_recording_load(path, out_recording), TENON_OK);
  tn_folder_remove(path);
  if (!*out_recording) return NULL;
  tenon_recording_info(*out_recording, &info);
  CHECK(info.input_count == 3 && !info.inputs[1] && !info.outputs);
  return info.inputs[0];
}

TEST("a tensor of each dtype is read back with the same bits") {
  const uint32_t dtypes[] = {TENON_BOOL,   TENON_I8,     TENON_U16, TENON_I64,
                             TENON_F16,    TENON_BF16,   TENON_F64, TENON_C128,
                             TENON_F8E5M2, TENON_F8E8M0, TENON_I4,  TENON_F6E2M3};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    tenon_tensor_t *x = NULL;
    tenon_recording_t *recording;
    uint64_t bytes = 0;
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtypes[i]), 2, (int64_t[]){3, 4}, &x), TENON_OK);
    CHECK(tn_dtype_bytes(x->dtype, 12, &bytes));
    for (uint64_t b = 0; b < bytes; b++)
      ((unsigned char *)x->data)[b] =
          (unsigned char)(dtypes[i] == TENON_BOOL ? b & 1 : b * 37 + 11);
    tenon_tensor_t *y = again(x, &recording);
    CHECK(y && tensor_has(y, dtypes[i]) && y->ndim == 2 && y->shape[0] == 3 && y->shape[1] == 4 &&
          memcmp(x->data, y->data, (size_t)bytes) == 0);
    tenon_recording_release(recording);
    tenon_tensor_release(x);
  }
}

TEST("string tensors, and tensors without axes or elements, are read back") {
  const char *const texts[] = {"string[2] one 'two words'", "f32[] 7", "f32[0,3]", "string[0]"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tenon_tensor_t *x = tensor_of(texts[i]);
    tenon_recording_t *recording;
    tenon_tensor_t *y = again(x, &recording);
    CHECK_TENSOR(y, texts[i]);
    tenon_recording_release(recording);
    tenon_tensor_release(x);
  }
}

static float numbers[64];

static void check_strides(const int64_t *shape, const int64_t *strides, int64_t first) {
  tenon_tensor_t x;
  int64_t room[2];
  int64_t own[2] = {strides[0], strides[1]};
  int64_t extents[2] = {shape[0], shape[1]};
  tenon_recording_t *recording;
  for (int i = 0; i < 64; i++)
    numbers[i] = (float)i;
  CHECK_STATUS(
      tenon_tensor_view(&x, numbers + first, tenon_dtype(TENON_F32), 2, extents, own, room),
      TENON_OK);
  tenon_tensor_t *y = again(&x, &recording);
  bool is_same = y && y->ndim == 2 && (uintptr_t)y->data % 64 == (uintptr_t)x.data % 64;
  for (int32_t d = 0; is_same && d < 2; d++)
    is_same =
        y->shape[d] == shape[d] && (y->strides[d] == strides[d] || tn_is_dense(2, shape, strides));
  for (int64_t i = 0; is_same && i < shape[0] * shape[1] && i < 100; i++)
    is_same = tensor_float(y, i) == tensor_float(&x, i);
  CHECK(is_same);
  tenon_recording_release(recording);
}

TEST("strides are read back: transposed, backwards, repeated, with gaps, and unaligned addresses") {
  check_strides((int64_t[]){3, 4}, (int64_t[]){4, 1}, 0);
  check_strides((int64_t[]){3, 4}, (int64_t[]){4, 1}, 3);
  check_strides((int64_t[]){3, 4}, (int64_t[]){1, 3}, 1);
  check_strides((int64_t[]){3, 4}, (int64_t[]){-4, -1}, 20);
  check_strides((int64_t[]){3, 4}, (int64_t[]){0, 2}, 5);
  check_strides((int64_t[]){3, 4}, (int64_t[]){12, -3}, 30);
  /* The memory is that of one number. */
  check_strides((int64_t[]){1 << 16, 1 << 17}, (int64_t[]){0, 0}, 7);
}

TEST("quantised and sparse tensors are read back with their parts, and lists with their items") {
  tenon_recording_t *recording;
  tenon_tensor_t *x = tensor_of("i8[2,2] 1 2 3 4");
  tenon_tensor_t *scale = tensor_of("f32[2] 0.5 0.25");
  tenon_tensor_t *zero = tensor_of("i8[2] 1 0");
  tenon_detail_t detail = {.size = sizeof detail,
                           .kind = TENON_DETAIL_QUANTISED,
                           .axis = 1,
                           .scale = scale,
                           .zero_point = zero};
  CHECK_STATUS(tenon_tensor_detail_set(x, &detail), TENON_OK);
  tenon_tensor_t *y = again(x, &recording);
  CHECK(y && y->detail && y->detail->axis == 1);
  if (y && y->detail) {
    CHECK_TENSOR(y->detail->scale, "f32[2] 0.5 0.25");
    CHECK_TENSOR(y->detail->zero_point, "i8[2] 1 0");
  }
  tenon_recording_release(recording);
  tenon_tensor_release(x);
  tenon_tensor_release(scale);
  tenon_tensor_release(zero);
  x = matrix();
  y = again(x, &recording);
  CHECK_SPARSE(y, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  tenon_recording_release(recording);
  tenon_tensor_release(x);
  x = rows();
  y = again(x, &recording);
  CHECK_SPARSE(y, rows_shape, "f32[2,2] 1 2 3 4", "i64[2] 1 3", NULL);
  tenon_recording_release(recording);
  tenon_tensor_release(x);
  x = tensor_of("{f32[1] 1; i64[2] 1 2}");
  y = again(x, &recording);
  CHECK_TENSOR(y, "{f32[1] 1; i64[2] 1 2}");
  tenon_recording_release(recording);
  tenon_tensor_release(x);
}

TEST("all of a call is read back: attributes of every kind, status, texts, numbers, and which "
     "inputs are one tensor") {
  const tenon_op_t *op = all();
  const char *const texts[][2] = {
      {"i", "-9223372036854775808"}, {"f", "0.1"},           {"b", "True"},
      {"s", "'it\\'s \\\\ \\n'"},    {"c", "'two'"},         {"is", "[1, -2]"},
      {"fs", "[inf, -0.0, nan]"},    {"ss", "['a, b', '']"}, {"d", "bf16"}};
  tenon_attrs_t *attrs = NULL;
  tenon_attrs_t *read = NULL;
  const tenon_value_t *values = NULL;
  const tenon_value_t *found = NULL;
  tenon_tensor_t *t = tensor_of("bf16[2] 1 2");
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *out = tensor_of("f32[2] 3 4");
  tenon_value_t value = {.kind = TENON_KIND_TENSOR, .as = {.tensor = t}};
  tenon_recording_t *recording = NULL;
  CHECK_STATUS(tenon_attrs_create(op, &attrs), TENON_OK);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    CHECK_STATUS(tenon_attrs_parse(attrs, texts[i][0], texts[i][1]), TENON_OK);
  CHECK_STATUS(tenon_attrs_set(attrs, "t", &value), TENON_OK);
  CHECK_STATUS(tenon_attrs_text(attrs, "other", "a \"text\""), TENON_OK);
  CHECK_STATUS(tenon_attrs_values(attrs, &values), TENON_OK);
  tenon_tensor_t *inputs[] = {x, x, NULL};
  tenon_tensor_t *written[] = {out, NULL, NULL};
  tenon_tensor_t *outputs[] = {out};
  tenon_recording_info_t call = {.size = sizeof call,
                                 .status = TENON_RANGE,
                                 .error = "too \"far\"",
                                 .node = "node é",
                                 .kernel = "cpu",
                                 .inputs = inputs,
                                 .written = written,
                                 .outputs = outputs,
                                 .is_random = 1,
                                 .seed = UINT64_MAX,
                                 .offset = UINT64_MAX - 1,
                                 .state = 5};
  const char *path = at("all");
  CHECK_STATUS(tenon_recording_save(path, op, values, &call), TENON_OK);
  CHECK_STATUS(tenon_recording_save(path, op, values, &call), TENON_EXISTS);
  CHECK_STATUS(tenon_recording_load(path, &recording), TENON_OK);
  tn_folder_remove(path);
  tenon_recording_info_t info = {.size = sizeof info};
  if (!recording) return;
  tenon_recording_info(recording, &info);
  CHECK_TEXT(info.op, "record::all");
  CHECK(info.status == TENON_RANGE && !strcmp(info.error, "too \"far\"") &&
        !strcmp(info.node, "node é"));
  CHECK(info.is_random && info.seed == UINT64_MAX && info.offset == UINT64_MAX - 1 &&
        info.state == 5);
  CHECK(info.threads > 0 && !strcmp(info.version, tenon_version()) && !strcmp(info.kernel, "cpu") &&
        !info.device);
  CHECK(info.inputs[0] == info.inputs[1] && !info.inputs[2] && info.output_count == 1);
  CHECK_TENSOR(info.outputs[0], "f32[2] 3 4");
  CHECK_TENSOR(info.written[0], "f32[2] 3 4");
  CHECK_STATUS(tenon_recording_attrs(recording, op, &read), TENON_OK);
  if (read) CHECK_STATUS(tenon_attrs_values(read, &found), TENON_OK);
  CHECK(found && found[0].as.i == INT64_MIN && found[1].as.f == 0.1 && found[2].as.i == 1 &&
        found[4].as.i == 1);
  CHECK(found && !strcmp(found[3].as.s, "it's \\ \n") && found[5].kind == TENON_KIND_NONE);
  CHECK(found && found[6].count == 2 && found[6].as.ints[1] == -2 &&
        found[7].as.floats[2] != found[7].as.floats[2]);
  CHECK(found && found[8].count == 2 && !strcmp(found[8].as.strs[0].data, "a, b"));
  CHECK(found && tenon_dtype_id(found[9].as.dtype) == TENON_BF16 &&
        found[12].kind == TENON_KIND_NONE);
  if (found) CHECK_TENSOR(found[11].as.tensor, "bf16[2] 1 2");
  CHECK(found && found[13].count == 1 && !strcmp(found[13].as.strs[0].data, "other=a \"text\""));
  tenon_attrs_release(read);
  tenon_attrs_release(attrs);
  tenon_recording_release(recording);
  tenon_tensor_release(t);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

TEST("when any allocation fails, nothing is left behind") {
  const tenon_op_t *op = all();
  tenon_tensor_t *x = matrix();
  tenon_tensor_t *list = tensor_of("{f32[1] 1; i64[2] 1 2}");
  int64_t strides[2] = {1, 2};
  int64_t shape[2] = {2, 2};
  int64_t room[2];
  tenon_tensor_t view;
  CHECK_STATUS(tenon_tensor_view(&view, numbers, tenon_dtype(TENON_F32), 2, shape, strides, room),
               TENON_OK);
  tenon_tensor_t *inputs[] = {x, &view, list};
  tenon_recording_info_t call = {.size = sizeof call, .inputs = inputs};
  const char *path = at("failing");
  bool is_done = false;
  for (int64_t n = 1; n < 2000 && !is_done; n++) {
    fault_memory(n, false);
    tenon_status_t status = tenon_recording_save(path, op, NULL, &call);
    is_done = fault_count(FAULT_MEMORY) < n;
    fault_end();
    CHECK(status == TENON_OK || (status == TENON_MEMORY && !tn_file_is_folder(path)));
    if (!is_done) tn_folder_remove(path);
  }
  CHECK(is_done);
  is_done = false;
  for (int64_t n = 1; n < 2000 && !is_done; n++) {
    tenon_recording_t *recording = NULL;
    tenon_attrs_t *attrs = NULL;
    fault_memory(n, false);
    tenon_status_t status = tenon_recording_load(path, &recording);
    if (status == TENON_OK) status = tenon_recording_attrs(recording, op, &attrs);
    is_done = fault_count(FAULT_MEMORY) < n;
    fault_end();
    if (status != TENON_OK) CHECK_STATUS(status, TENON_MEMORY);
    CHECK(!attrs == (status != TENON_OK));
    tenon_attrs_release(attrs);
    tenon_recording_release(recording);
  }
  CHECK(is_done);
  tn_folder_remove(path);
  tenon_tensor_release(x);
  tenon_tensor_release(list);
}

TEST("an invalid failure dump is refused with the place in its file") {
  const char *const bad[][2] = {
      {"{", "line 1, column 2: expected a member name in double quotes"},
      {"[]", "line 1, column 1: expected an object"},
      {"{}", "expected a member 'operator'"},
      {"{\"operator\": 1}",
       "line 1, column 14: member 'operator': expected a text, found a number"},
      {"{\"operator\": \"a::b\", \"format\": 2}", "format 2, but this Tenon reads formats up to 1"},
      {"{\"operator\": \"a::b\", \"status\": \"fine\"}", "'fine' is not the name of a status"},
      {"{\"operator\": \"a::b\", \"inputs\": [1]}",
       "expected a tensor, which is an object, found a number"},
      {"{\"operator\": \"a::b\", \"inputs\": [{}]}", "expected a member 'file'"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"../x.npy\"}]}",
       "a file in the same folder"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"none.npy\"}]}", "none.npy"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"same_as\": 0}]}",
       "expected the index of an earlier tensor"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"x.npy\", \"dtype\": \"f33\"}]}",
       "expected the name of a dtype"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"x.npy\", \"dtype\": \"f64\"}]}",
       "its file has elements of f32"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"x.npy\", \"shape\": [3]}]}",
       "the shape differs from that of its file"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"x.npy\", \"shape\": [2], \"strides\": "
       "[1, 1]}]}",
       "expected one stride for each axis"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"x.npy\", \"shape\": [2], \"strides\": "
       "[9223372036854775807]}]}",
       "the strides address more memory than 64 bits can"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"x.npy\", \"shape\": [2], \"strides\": "
       "[1152921504606846976]}]}",
       "out of memory for tensors with such strides"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"x.npy\", \"misaligned\": 64}]}",
       "expected a number of bytes from 0 to 63"},
      {"{\"operator\": \"a::b\", \"inputs\": [{\"file\": \"x.npy\", \"layout\": \"quantised\"}]}",
       "a member 'scale'"}};
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_recording_t *recording = NULL;
  char path[4200];
  snprintf(path, sizeof path, "%s", at("call.json"));
  CHECK_STATUS(tenon_recording_load(folder, &recording), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_tensor_save(x, at("x.npy")), TENON_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_STATUS(tn_file_replace(path, bad[i][0], strlen(bad[i][0]), 0600), TENON_OK);
    CHECK(tenon_recording_load(folder, &recording) != TENON_OK && !recording);
    CHECK_TEXT(tn_error(), bad[i][1]);
  }
  tenon_tensor_release(x);
}
