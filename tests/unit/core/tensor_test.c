/* Tensors: creation, borrowed memory, views, lists, strings, references, and DLPack in both
 * directions. */
#include "base/status.h"
#include "core/tensor.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "check.h"
#include "core/dlpack.h"
#include "faults.h"
#include "tensors.h"

static int released;
static void count_release(void *context) { released += *(int *)context; }

/* creation */

TEST("a new tensor is dense and aligned, and the strings of a new string tensor are empty") {
  int64_t shape[3] = {2, 3, 4};
  tenon_tensor_t *t = NULL;
  tenon_tensor_t *s = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 3, shape, &t), TENON_OK);
  CHECK(t->strides[0] == 12 && t->strides[1] == 4 && t->strides[2] == 1 &&
        (uintptr_t)t->data % 64 == 0);
  CHECK(t->device.type == 1 && t->byte_offset == 0 && t->detail == NULL &&
        !(t->keys & TN_KEY_STRIDED));
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_STRING), 1, shape, &s), TENON_OK);
  CHECK(((tenon_string_t *)s->data)[1].size == 0);
  tenon_tensor_release(t);
  tenon_tensor_release(s);
  tenon_tensor_release(NULL);
  tenon_tensor_retain(NULL);
}

TEST("impossible shapes are refused: negative, too large, too many axes, no dtype") {
  static const int64_t negative[2] = {2, -1};
  static const int64_t large[2] = {(int64_t)1 << 40, (int64_t)1 << 40};
  static const int64_t wide[1] = {(int64_t)1 << 61};
  static const int64_t empty[3] = {(int64_t)1 << 20, 0, (int64_t)1 << 20};
  static const int64_t huge[3] = {(int64_t)1 << 40, 0, (int64_t)1 << 40};
  tenon_tensor_t *t = NULL;
  tenon_dtype_t odd = {2, 24, 1};
  tenon_dtype_t lanes = {2, 32, 4};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, negative, &t), TENON_INVALID);
  CHECK_TEXT(tn_error(), "shape [2, -1] of f32: extents must not be negative");
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, large, &t), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F64), 1, wide, &t), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), -1, wide, &t), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 65, wide, &t), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create(odd, 1, wide, &t), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create(lanes, 0, NULL, &t), TENON_INVALID);
  CHECK_TEXT(tn_error(), "dtype (code 2, bits 32, lanes 4) is not one of contract 1");
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_LIST), 1, wide, &t), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 3, huge, &t),
               TENON_INVALID); /* It is refused although it has no elements. */
  CHECK(t == NULL);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 3, empty, &t),
               TENON_OK); /* It has no elements at all. */
  CHECK(tenon_count(t) == 0);
  tenon_tensor_release(t);
}

TEST("borrowed memory is given back once, with the last reference, and never if borrowing failed") {
  int64_t shape[1] = {2};
  int64_t none[1] = {0};
  float data[2] = {1, 2};
  int one = 1;
  tenon_tensor_t *t = NULL;
  tenon_tensor_t *view = NULL;
  released = 0;
  CHECK_STATUS(
      tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 1, shape, NULL, count_release, &one, &t),
      TENON_OK);
  CHECK(t->data == data);
  CHECK_STATUS(tn_tensor_view_of(t, t->dtype, 4, 0, NULL, NULL, &view), TENON_OK);
  tenon_tensor_retain(t);
  tenon_tensor_release(t);
  tenon_tensor_release(t);
  CHECK(released == 0);
  CHECK_TENSOR(view, "f32[] 2");
  tenon_tensor_release(view);
  CHECK(released == 1);
  CHECK_STATUS(
      tenon_tensor_borrow(NULL, tenon_dtype(TENON_F32), 1, shape, NULL, count_release, &one, &t),
      TENON_INVALID);
  CHECK_TEXT(tn_error(), "a tensor of 2 elements needs data: found NULL");
  CHECK_STATUS(
      tenon_tensor_borrow(data, tenon_dtype(TENON_LIST), 1, shape, NULL, count_release, &one, &t),
      TENON_INVALID);
  for (int64_t n = 1; n <= 2; n++) {
    fault_memory(n, false);
    CHECK_STATUS(
        tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 1, shape, NULL, count_release, &one, &t),
        TENON_MEMORY);
    fault_memory(n, false);
    CHECK_STATUS(
        tenon_tensor_borrow(NULL, tenon_dtype(TENON_F32), 1, none, NULL, count_release, &one, &t),
        TENON_MEMORY);
    fault_end();
  }
  CHECK(released == 1);
  CHECK_STATUS(
      tenon_tensor_borrow(NULL, tenon_dtype(TENON_F32), 1, none, NULL, count_release, &one, &t),
      TENON_OK);
  tenon_tensor_release(t);
  CHECK(released == 2);
  CHECK_STATUS(tenon_tensor_borrow(NULL, tenon_dtype(TENON_F32), 1, none, NULL, NULL, NULL, &t),
               TENON_OK);
  tenon_tensor_release(t);
}

TEST("strides decide whether a tensor is row-major or packed") {
  static const struct {
    int64_t shape[3];
    int64_t strides[3];
    bool strided;
    bool packed;
  } cases[] = {
      {{2, 3, 4}, {12, 4, 1}, false, true}, {{2, 3, 4}, {1, 2, 6}, true, true},
      {{2, 3, 4}, {24, 4, 1}, true, false}, {{2, 1, 4}, {4, 99, 1}, false, true},
      {{1, 1, 1}, {7, -7, 0}, false, true}, {{2, 0, 4}, {5, 5, 5}, false, true},
      {{2, 3, 4}, {0, 4, 1}, true, false},  {{2, 3, 4}, {12, 4, -1}, true, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tenon_tensor_t view;
    int64_t shape[3], strides[3];
    float data[100];
    memcpy(shape, cases[i].shape, sizeof shape);
    memcpy(strides, cases[i].strides, sizeof strides);
    CHECK_STATUS(tenon_tensor_view(&view, data, tenon_dtype(TENON_F32), 3, shape, strides, NULL),
                 TENON_OK);
    CHECK(!(view.keys & TN_KEY_STRIDED) == !cases[i].strided &&
          tn_is_packed(&view) == cases[i].packed);
  }
  tenon_tensor_t view;
  int64_t shape[1] = {1};
  CHECK_STATUS(tenon_tensor_view(&view, NULL, tenon_dtype(TENON_F32), 1, shape, NULL, NULL),
               TENON_INVALID);
  CHECK_TEXT(tn_error(), "a dense view needs room for its strides");
}

TEST("a list keeps its items, and refuses items that it cannot keep") {
  tenon_tensor_t *items[2] = {tensor_of("f32[1] 1"), tensor_of("i64[2] 1 2")};
  tenon_tensor_t *list = NULL;
  tenon_tensor_t view;
  tenon_tensor_t *bad[2] = {items[0], &view};
  CHECK_STATUS(tenon_tensor_list(items, 2, &list), TENON_OK);
  tenon_tensor_release(items[0]);
  tenon_tensor_release(items[1]);
  CHECK_TENSOR(list, "{f32[1] 1; i64[2] 1 2}");
  CHECK_STATUS(tenon_tensor_view(&view, NULL, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL),
               TENON_OK);
  bad[0] = tenon_item(list, 0);
  tenon_tensor_t *other = NULL;
  CHECK_STATUS(tenon_tensor_list(bad, 2, &other), TENON_INVALID);
  CHECK_TEXT(tn_error(), "item 1 of the list is a view on a caller's stack");
  bad[1] = NULL;
  CHECK_STATUS(tenon_tensor_list(bad, 2, &other), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_list(bad, -1, &other), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_list(NULL, 0, &other), TENON_OK);
  tenon_tensor_release(list);
  tenon_tensor_release(other);
}

TEST("the strings of a string tensor are set one by one, and replaced strings are freed") {
  int64_t shape[2] = {2, 2};
  tenon_tensor_t *t = NULL;
  tenon_tensor_t *f = tensor_of("f32[1] 1");
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_STRING), 2, shape, &t), TENON_OK);
  for (int i = 0; i < 10; i++)
    CHECK_STATUS(tenon_tensor_set_string(t, i % 4, "a\0b", 3), TENON_OK);
  CHECK(((tenon_string_t *)t->data)[3].size == 3 &&
        memcmp(((tenon_string_t *)t->data)[3].data, "a\0b", 4) == 0);
  CHECK_STATUS(tenon_tensor_set_string(t, 4, "x", 1), TENON_RANGE);
  CHECK_STATUS(tenon_tensor_set_string(t, -1, "x", 1), TENON_RANGE);
  CHECK_STATUS(tenon_tensor_set_string(f, 0, "x", 1), TENON_INVALID);
  fault_memory(1, false);
  CHECK_STATUS(tenon_tensor_set_string(t, 0, "x", 1), TENON_MEMORY);
  fault_end();
  CHECK(((tenon_string_t *)t->data)[0].size == 3);
  tenon_tensor_release(t);
  tenon_tensor_release(f);
}

TEST("dtypes are parsed from their names and printed by them") {
  tenon_dtype_t d;
  CHECK_STATUS(tenon_dtype_parse("bf16", &d), TENON_OK);
  CHECK(tenon_dtype_id(d) == TENON_BF16 && strcmp(tenon_dtype_name(d), "bf16") == 0);
  CHECK_STATUS(tenon_dtype_parse("float32", &d), TENON_INVALID);
  CHECK_TEXT(tn_error(), "unknown dtype 'float32'");
}

/* DLPack */

static int deleted;
static void delete_versioned(struct DLManagedTensorVersioned *self) {
  deleted++;
  free(self);
}
static void delete_legacy(struct DLManagedTensor *self) {
  deleted++;
  free(self);
}

static struct DLManagedTensorVersioned *versioned(tn_dl_tensor_t dl) {
  struct DLManagedTensorVersioned *m = calloc(1, sizeof *m);
  *m = (struct DLManagedTensorVersioned){{1, 1}, NULL, delete_versioned, 0, dl};
  return m;
}

TEST("a DLPack tensor is imported without a copy, and deleted once, with the last reference") {
  float data[8] = {0, 0, 1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {1, 2};
  tn_dl_tensor_t dl = {data, {1, 0}, 2, tenon_dtype(TENON_F32), shape, strides, 8};
  tenon_tensor_t *t = NULL;
  deleted = 0;
  CHECK_STATUS(tenon_tensor_from_dlpack(versioned(dl), &t), TENON_OK);
  CHECK(t->data == data + 2 && t->byte_offset == 0 && t->keys & TN_KEY_STRIDED);
  CHECK_TENSOR(t, "f32[2,3] 1 3 5 2 4 6");
  tenon_tensor_retain(t);
  tenon_tensor_release(t);
  CHECK(deleted == 0);
  tenon_tensor_release(t);
  CHECK(deleted == 1);
  struct DLManagedTensor *legacy = calloc(1, sizeof *legacy);
  dl.strides = NULL;
  *legacy = (struct DLManagedTensor){dl, NULL, delete_legacy};
  CHECK_STATUS(tenon_tensor_from_dlpack_legacy(legacy, &t), TENON_OK);
  CHECK_TENSOR(t, "f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_release(t);
  CHECK(deleted == 2);
  dl.ndim = 0;
  dl.shape = NULL;
  struct DLManagedTensorVersioned *no_deleter = versioned(dl);
  no_deleter->deleter = NULL;
  CHECK_STATUS(tenon_tensor_from_dlpack(no_deleter, &t), TENON_OK);
  CHECK_TENSOR(t, "f32[] 1");
  tenon_tensor_release(t);
  free(no_deleter);
}

TEST("a DLPack tensor without memory is accepted only if it is empty") {
  int64_t shape[2] = {0, 3};
  int64_t full[1] = {2};
  tenon_tensor_t *t = NULL;
  deleted = 0;
  CHECK_STATUS(
      tenon_tensor_from_dlpack(
          versioned((tn_dl_tensor_t){NULL, {1, 0}, 2, tenon_dtype(TENON_I8), shape, NULL, 0}), &t),
      TENON_OK);
  CHECK(t->data != NULL);
  CHECK_TENSOR(t, "i8[0,3]");
  tenon_tensor_release(t);
  CHECK(deleted == 1);
  struct DLManagedTensorVersioned *bad =
      versioned((tn_dl_tensor_t){NULL, {1, 0}, 1, tenon_dtype(TENON_I8), full, NULL, 0});
  CHECK_STATUS(tenon_tensor_from_dlpack(bad, &t), TENON_INVALID);
  CHECK(deleted == 1); /* It stays the caller's. */
  free(bad);
}

TEST("invalid DLPack tensors are refused and stay the caller's") {
  int8_t data[4] = {0};
  int64_t shape[1] = {4};
  int64_t negative[1] = {-4};
  const tn_dl_tensor_t good = {data, {1, 0}, 1, tenon_dtype(TENON_I8), shape, NULL, 0};
  tn_dl_tensor_t bad[7];
  for (int i = 0; i < 7; i++)
    bad[i] = good;
  bad[0].device.type = 2;
  bad[1].dtype.lanes = 4;
  bad[2].dtype.code = 99;
  bad[3].ndim = 65;
  bad[4].shape = NULL;
  bad[5].shape = negative;
  bad[6].dtype = tenon_dtype(TENON_STRING);
  deleted = 0;
  for (int i = 0; i < 7; i++) {
    struct DLManagedTensorVersioned *m = versioned(bad[i]);
    tenon_tensor_t *t = NULL;
    CHECK_STATUS(tenon_tensor_from_dlpack(m, &t), i == 0 ? TENON_NOT_FOUND : TENON_INVALID);
    CHECK(t == NULL);
    free(m);
  }
  struct DLManagedTensorVersioned *newer = versioned(good);
  tenon_tensor_t *t = NULL;
  newer->version.major = 2;
  CHECK_STATUS(tenon_tensor_from_dlpack(newer, &t), TENON_INVALID);
  CHECK_TEXT(tn_error(), "DLPack version 2.1: expected 1.x");
  newer->version.major = 1;
  for (int64_t n = 1; n <= 2; n++) {
    fault_memory(n, false);
    CHECK_STATUS(tenon_tensor_from_dlpack(newer, &t), TENON_MEMORY);
    fault_end();
  }
  CHECK(deleted == 0);
  free(newer);
}

TEST("a tensor is exported without a copy, and lives until its consumer deletes it") {
  tenon_tensor_t *t = tensor_strided("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *back = NULL;
  struct DLManagedTensorVersioned *out = NULL;
  struct DLManagedTensor *legacy = NULL;
  CHECK_STATUS(tenon_tensor_to_dlpack(t, &out), TENON_OK);
  CHECK_STATUS(tenon_tensor_to_dlpack_legacy(t, &legacy), TENON_OK);
  CHECK(out->version.major == 1 && out->flags == 0 && out->dl_tensor.data == t->data &&
        out->dl_tensor.device.type == 1);
  CHECK(out->dl_tensor.ndim == 2 && out->dl_tensor.strides[0] == 1 &&
        out->dl_tensor.strides[1] == 2);
  void *data = t->data;
  tenon_tensor_release(t);
  /* The tensor goes out and comes back. */
  CHECK_STATUS(tenon_tensor_from_dlpack(out, &back), TENON_OK);
  CHECK(back->data == data);
  CHECK_TENSOR(back, "f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_release(back);
  CHECK(((float *)legacy->dl_tensor.data)[1] == 4);
  legacy->deleter(legacy);
}

TEST("strings, lists and views on a caller's stack cannot leave by DLPack") {
  tenon_tensor_t *s = tensor_of("string[1] a");
  tenon_tensor_t *list = tensor_of("{f32[1] 1}");
  tenon_tensor_t view;
  struct DLManagedTensorVersioned *out = NULL;
  struct DLManagedTensor *legacy = NULL;
  float x = 1;
  CHECK_STATUS(tenon_tensor_to_dlpack(s, &out), TENON_INVALID);
  CHECK_TEXT(tn_error(), "a tensor of dtype string cannot leave by DLPack");
  CHECK_STATUS(tenon_tensor_to_dlpack_legacy(list, &legacy), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_view(&view, &x, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_tensor_to_dlpack(&view, &out), TENON_INVALID);
  CHECK_TEXT(tn_error(), "a view on the caller's stack cannot leave");
  CHECK(out == NULL && legacy == NULL);
  tenon_tensor_t *t = tensor_of("f32[0]");
  fault_memory(1, false);
  CHECK_STATUS(tenon_tensor_to_dlpack(t, &out), TENON_MEMORY);
  fault_end();
  CHECK_STATUS(tenon_tensor_to_dlpack(t, &out), TENON_OK);
  out->deleter(out);
  tenon_tensor_release(s);
  tenon_tensor_release(list);
  tenon_tensor_release(t);
}

TEST("a quantised tensor accepts a detail that fits it, and refuses others") {
  tenon_tensor_t *x, *one, *three;
  int64_t shape[] = {2, 3};
  int64_t strides[2];
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_U8), 2, shape, &x), TENON_OK);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 0, NULL, &one), TENON_OK);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape + 1, &three), TENON_OK);
  const tenon_detail_t whole = {.size = sizeof whole, .kind = 1, .axis = -1, .scale = one};
  const tenon_detail_t columns = {
      .size = sizeof columns, .kind = 1, .axis = 1, .scale = three, .zero_point = three};
  CHECK_STATUS(tenon_tensor_detail_set(x, &whole), TENON_OK);
  CHECK(x->detail == &whole && x->keys & TN_KEY_DETAIL);
  CHECK_STATUS(tenon_tensor_detail_set(x, &columns), TENON_OK);
  const struct {
    tenon_detail_t detail;
    const char *why;
  } bad[] = {{{.size = sizeof whole, .kind = 2, .axis = -1, .scale = one}, "kind 2"},
             {{.size = sizeof whole, .kind = 1, .axis = 2, .scale = three}, "along axis 2"},
             {{.size = sizeof whole, .kind = 1, .axis = -2, .scale = one}, "along axis -2"},
             {{.size = sizeof whole, .kind = 1, .axis = -1}, "a quantised tensor needs a scale"},
             {{.size = sizeof whole, .kind = 1, .axis = 0, .scale = three},
              "scale has 3 elements: expected 2"},
             {{.size = sizeof whole, .kind = 1, .axis = 1, .scale = three, .zero_point = one},
              "zero point has 1 elements: expected 3"},
             {{.size = sizeof whole, .kind = 1, .axis = 1, .block = -1, .scale = three},
              "in blocks of -1"},
             {{.size = 0, .kind = 1, .axis = -1, .scale = one}, "detail"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_STATUS(tenon_tensor_detail_set(x, &bad[i].detail), TENON_INVALID);
    CHECK_TEXT(tenon_error(), bad[i].why);
    CHECK(x->detail == &columns);
  }
  CHECK_STATUS(tenon_tensor_detail_set(x, NULL), TENON_OK);
  CHECK(!x->detail && !(x->keys & TN_KEY_DETAIL));
  tenon_tensor_t view;
  CHECK_STATUS(tenon_tensor_view(&view, x->data, x->dtype, 2, shape, NULL, strides), TENON_OK);
  CHECK_STATUS(tenon_tensor_detail_set(&view, &whole), TENON_OK);
  CHECK(view.keys & TN_KEY_DETAIL);
  tenon_tensor_release(x);
  tenon_tensor_release(one);
  tenon_tensor_release(three);
}

TEST("the memory of a tensor lives as long as its views, which share nothing else with it") {
  tenon_tensor_t *x = tensor_of("f32[2,2] 1 2 3 4");
  tenon_tensor_t *view = NULL;
  tenon_tensor_t *next = NULL;
  int64_t shape[1] = {2};
  CHECK_STATUS(tn_tensor_view_of(x, x->dtype, 8, 1, shape, NULL, &view), TENON_OK);
  tenon_tensor_release(x);
  /* The new tensor may lie where x was, but not where the elements of x are. */
  next = tensor_of("f32[2,2] 5 6 7 8");
  CHECK_TENSOR(view, "f32[2] 3 4");
  CHECK_TENSOR(next, "f32[2,2] 5 6 7 8");
  tenon_tensor_retain(view);
  tenon_tensor_release(view);
  CHECK_TENSOR(view, "f32[2] 3 4");
  tenon_tensor_release(view);
  tenon_tensor_release(next);
}

TEST("nothing is left behind") { tn_thread_drop(); }
