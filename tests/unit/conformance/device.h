/* Checks that a backend works: conform(device) calls the required operators of any backend whose
 * library is loaded, through the public functions only, and compares what they do. Used by tests of
 * this tree and by those of backends elsewhere. Include after check.h, tensors.h and
 * operators.h. */
#ifndef TENON_TESTS_CONFORMANCE_DEVICE_H
#define TENON_TESTS_CONFORMANCE_DEVICE_H

static const tenon_device_t conform_cpu = {1, 0};

/* Makes one call; the caller owns inputs and outputs. The check fails if the status is not the
 * expected one, or if the message does not contain `part`. */
static inline void conform_call(const char *name, const char *attrs_text,
                                tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                                tenon_status_t expected, const char *part) {
  const tenon_op_t *op = op_of(name);
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_status_t status = tenon_op_call(op, attr_values(attrs), inputs, outputs, 0);
  if (!CHECK_STATUS(status, expected))
    fprintf(stderr, "  in %s(%s)\n", name, attrs_text ? attrs_text : "");
  if (part) CHECK_TEXT(tenon_error(), part);
  tenon_attrs_release(attrs);
}

static inline tenon_tensor_t *conform_made(const char *name, const char *attrs_text,
                                           tenon_tensor_t *x) {
  tenon_tensor_t *out[1] = {NULL};
  conform_call(name, attrs_text, &x, out, TENON_OK, NULL);
  return out[0];
}

static inline tenon_tensor_t *conform_on(tenon_device_t device, const char *text) {
  tenon_tensor_t *host = tensor_of(text);
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(host, device, &made), TENON_OK);
  tenon_tensor_release(host);
  return made;
}

/* Checks on which device a tensor is, and its elements. */
static inline void conform_holds(const tenon_tensor_t *t, tenon_device_t device,
                                 const char *expected) {
  tenon_tensor_t *host = NULL;
  if (!CHECK(t != NULL)) return;
  CHECK(t->device.type == device.type && t->device.id == device.id);
  CHECK_STATUS(tenon_tensor_copy_to(t, conform_cpu, &host), TENON_OK);
  if (host) CHECK_TENSOR(host, expected);
  tenon_tensor_release(host);
}

static inline void conform_strides(const tenon_tensor_t *t, const int64_t *expected) {
  for (int32_t i = 0; t && i < t->ndim; i++)
    CHECK(t->strides[i] == expected[i]);
}

/* Formats attributes such as "device=2:0" with this device. */
static inline const char *conform_text(const char *format, tenon_device_t device) {
  static char text[256];
  char name[40];
  snprintf(name, sizeof name, "%d:%d", device.type, device.id);
  snprintf(text, sizeof text, format, name);
  return text;
}

/* empty */

static inline void conform_empty(tenon_device_t device) {
  tenon_tensor_t *t =
      conform_made("core::empty", conform_text("shape=[2, 3, 4, 5]; device='%s'", device), NULL);
  CHECK(t && t->device.type == device.type && t->device.id == device.id && t->ndim == 4);
  conform_strides(t, (int64_t[]){60, 20, 5, 1});
  tenon_tensor_release(t);
  t = conform_made(
      "core::empty",
      conform_text("shape=[2, 3, 4, 5]; dtype=i64; format='channels_last'; device='%s'", device),
      NULL);
  CHECK(t && tenon_dtype_id(t->dtype) == TENON_I64);
  conform_strides(t, (int64_t[]){60, 1, 15, 3});
  tenon_tensor_t *like = conform_made("core::empty_like", "dtype=f32", t);
  CHECK(like && like->device.type == device.type && tenon_dtype_id(like->dtype) == TENON_F32);
  conform_strides(like, (int64_t[]){60, 1, 15, 3});
  tenon_tensor_release(like);
  like = conform_made("core::empty_like", "format='contiguous'", t);
  CHECK(like && tenon_dtype_id(like->dtype) == TENON_I64);
  conform_strides(like, (int64_t[]){60, 20, 5, 1});
  tenon_tensor_release(like);
  tenon_tensor_release(t);
  t = conform_made("core::empty", conform_text("shape=[0, 3]; device='%s'", device), NULL);
  conform_holds(t, device, "f32[0,3]");
  tenon_tensor_release(t);
  tenon_tensor_t *none[1] = {NULL};
  conform_call("core::empty", conform_text("shape=[2, -1]; device='%s'", device), NULL, none,
               TENON_INVALID, "extent 1 of the shape is -1");
  conform_call(
      "core::empty", conform_text("shape=[2, 3]; format='channels_last'; device='%s'", device),
      NULL, none, TENON_INVALID,
      "channels_last needs batch, channel and at least one spatial axis, but the shape has 2 axes");
}

/* The memory of a strided tensor reaches to its last element, gaps included, and is written and
 * read through the strides. */
static inline void conform_empty_strided(tenon_device_t device) {
  tenon_tensor_t *t =
      conform_made("core::empty_strided",
                   conform_text("shape=[2, 3]; strides=[1, 4]; device='%s'", device), NULL);
  tenon_tensor_t *from = tensor_of("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *in[2] = {from, t};
  tenon_tensor_t *none[1] = {NULL};
  conform_strides(t, (int64_t[]){1, 4});
  conform_call("core::copy_from", NULL, in, NULL, TENON_OK, NULL);
  conform_holds(t, device, "f32[2,3] 1 2 3 4 5 6");
  conform_call("core::empty_strided",
               conform_text("shape=[2, 3]; strides=[1]; device='%s'", device), NULL, none,
               TENON_INVALID, "shape has 2 extents but strides 1");
  conform_call("core::empty_strided", conform_text("shape=[2]; strides=[-1]; device='%s'", device),
               NULL, none, TENON_INVALID, "stride 0 is -1");
  tenon_tensor_release(from);
  tenon_tensor_release(t);
}

/* Pinned memory is host memory, whatever the device, and can be copied in both directions. */
static inline void conform_pinned(tenon_device_t device) {
  tenon_tensor_t *pinned =
      conform_made("core::empty_pinned", conform_text("shape=[2, 2]; device='%s'", device), NULL);
  tenon_tensor_t *there = NULL;
  tenon_tensor_t *none[1] = {NULL};
  if (!CHECK(pinned && pinned->device.type == 1)) return;
  for (int i = 0; i < 4; i++)
    ((float *)pinned->data)[i] = (float)i;
  CHECK_STATUS(tenon_tensor_copy_to(pinned, device, &there), TENON_OK);
  conform_holds(there, device, "f32[2,2] 0 1 2 3");
  memset(pinned->data, 0, 16);
  tenon_tensor_t *in[2] = {there, pinned};
  conform_call("core::copy_from", NULL, in, NULL, TENON_OK, NULL);
  CHECK_TENSOR(pinned, "f32[2,2] 0 1 2 3");
  conform_call("core::empty_pinned", conform_text("shape=[-2]; device='%s'", device), NULL, none,
               TENON_INVALID, "extent 0 of the shape is -2");
  tenon_tensor_release(pinned);
  tenon_tensor_release(there);
}

/* views */

/* Views share memory with x: a write through a view is visible in x. */
static inline void conform_views(tenon_device_t device) {
  tenon_tensor_t *x = conform_on(device, "f32[2,6] 1 2 3 4 5 6 7 8 9 10 11 12");
  tenon_tensor_t *t, *columns;
  tenon_tensor_t *none[1] = {NULL};
  t = conform_made("core::view", "shape=[4, -1]", x);
  conform_holds(t, device, "f32[4,3] 1 2 3 4 5 6 7 8 9 10 11 12");
  CHECK(t && t->data == x->data);
  tenon_tensor_release(t);
  columns = conform_made("core::transpose", NULL, x); /* [6, 2] with strides 1 and 6 */
  t = conform_made("core::view", "shape=[2, 3, 1, 2]", columns);
  conform_holds(t, device, "f32[2,3,1,2] 1 7 2 8 3 9 4 10 5 11 6 12");
  CHECK(t && t->data == x->data);
  tenon_tensor_release(t);
  conform_call("core::view", "shape=[12]", &columns, none, TENON_INVALID,
               "x of shape [6, 2] and strides [1, 6] cannot be viewed as [12]: axes 1 to 1 are one "
               "run of memory, and axis 0 of the view would begin inside it and go on elsewhere; "
               "core::reshape copies");
  conform_call("core::view", "shape=[4, 4]", &x, none, TENON_INVALID,
               "[2, 6] cannot be viewed as [4, 4]");
  conform_call("core::view", "shape=[-1, 5]", &x, none, TENON_INVALID,
               "which has another number of elements");
  conform_call("core::view", "shape=[-1, -1]", &x, none, TENON_INVALID, "or -1 for one of them");
  t = conform_made("core::as_strided", "shape=[3, 2]; strides=[2, 1]; offset=5", x);
  conform_holds(t, device, "f32[3,2] 6 7 8 9 10 11");
  tenon_tensor_t *seven = tensor_of("f32[] 70");
  tenon_tensor_t *in[2] = {seven, t};
  conform_call("core::copy_from", NULL, in, NULL, TENON_OK, NULL);
  conform_holds(x, device, "f32[2,6] 1 2 3 4 5 70 70 70 70 70 70 12");
  tenon_tensor_release(t);
  conform_call("core::as_strided", "shape=[3, 2]; strides=[2, 1]; offset=7", &x, none, TENON_RANGE,
               "addresses elements 7 to 12, and x has 0 to 11");
  conform_call("core::as_strided", "shape=[2]; strides=[-1]", &x, none, TENON_RANGE,
               "addresses elements -1 to 0");
  conform_call("core::as_strided", "shape=[4611686018427387904]; strides=[4611686018427387904]", &x,
               none, TENON_RANGE, NULL);
  conform_call("core::as_strided", "shape=[2, 2]; strides=[1]", &x, none, TENON_INVALID,
               "shape has 2 extents but strides 1");
  t = conform_made("core::as_strided", "shape=[0, 9]; strides=[99, 99]; offset=99", x);
  conform_holds(t, device, "f32[0,9]");
  tenon_tensor_release(t);
  t = conform_made("core::reshape_alias", "shape=[3, 4]; strides=[4, 1]", x);
  conform_holds(t, device, "f32[3,4] 1 2 3 4 5 70 70 70 70 70 70 12");
  CHECK(t && t->data == x->data);
  tenon_tensor_release(t);
  conform_call("core::reshape_alias", "shape=[3, 3]; strides=[3, 1]", &x, none, TENON_INVALID,
               "another number of elements");
  tenon_tensor_release(seven);
  tenon_tensor_release(columns);
  tenon_tensor_release(x);
}

/* core::resize_ and core::set_ */

static inline void conform_resize(tenon_device_t device) {
  tenon_tensor_t *x = conform_on(device, "f32[6] 1 2 3 4 5 6");
  tenon_tensor_t *y = conform_made("core::identity", NULL, x);
  void *memory = x->data;
  conform_call("core::resize_", "shape=[2]", &x, NULL, TENON_OK, NULL);
  conform_holds(x, device, "f32[2] 1 2");
  conform_call("core::resize_", "shape=[3, 1, 2]", &x, NULL, TENON_OK,
               /* The new shape fits the old memory and has a higher rank. */
               NULL);
  conform_holds(x, device, "f32[3,1,2] 1 2 3 4 5 6");
  CHECK(x->data == memory);
  conform_call("core::resize_", "shape=[3, 3]", &x, NULL, TENON_OK, NULL);
  CHECK(x->data != memory && y->data == memory);
  tenon_tensor_t *head = conform_made("core::as_strided", "shape=[6]; strides=[1]", x);
  conform_holds(head, device, "f32[6] 1 2 3 4 5 6");
  conform_holds(y, device, "f32[6] 1 2 3 4 5 6");
  tenon_tensor_release(head);
  conform_call("core::resize_", "shape=[0, 5]", &x, NULL, TENON_OK, NULL);
  conform_holds(x, device, "f32[0,5]");
  conform_call("core::resize_", "shape=[2, -3]", &x, NULL, TENON_INVALID,
               "x cannot have shape [2, -3]");
  conform_call("core::resize_", "shape=[4611686018427387904, 8]", &x, NULL, TENON_INVALID,
               "x cannot have shape");
  conform_holds(x, device, "f32[0,5]");
  tenon_tensor_t *end = conform_made("core::as_strided", "shape=[2]; strides=[1]; offset=4",
                                     y); /* The view does not begin at the start of the memory. */
  conform_call("core::resize_", "shape=[4]", &end, NULL, TENON_OK, NULL);
  head = conform_made("core::as_strided", "shape=[2]; strides=[1]", end);
  conform_holds(head, device, "f32[2] 5 6");
  tenon_tensor_release(head);
  tenon_tensor_release(end);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
}

static inline void conform_set(tenon_device_t device) {
  tenon_tensor_t *x = tensor_of("f32[1] 9");
  tenon_tensor_t *source = conform_on(device, "f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *in[2] = {x, source};
  tenon_tensor_t *other = conform_on(device, "i32[1] 1");
  tenon_tensor_t *bad[2] = {x, other};
  conform_call("core::set_.tensor", NULL, in, NULL, TENON_OK,
               NULL); /* x was on the host; from here on it is a view of `source`. */
  conform_holds(x, device, "f32[2,3] 1 2 3 4 5 6");
  CHECK(x->data == source->data);
  conform_call("core::set_.strided", "offset=1; shape=[2, 2]; strides=[1, 3]", in, NULL, TENON_OK,
               NULL);
  conform_holds(x, device, "f32[2,2] 2 5 3 6");
  conform_call("core::set_.strided", "offset=1; shape=[2, 3]; strides=[3, 1]", in, NULL,
               TENON_RANGE, "these elements would lie in bytes 4 to 28 of a storage of 24 bytes");
  conform_call("core::set_.strided", "offset=0; shape=[2]; strides=[-1]", in, NULL, TENON_RANGE,
               "bytes -4 to 4");
  conform_call("core::set_.strided", "offset=-1; shape=[1]; strides=[1]", in, NULL, TENON_INVALID,
               "too far away");
  conform_call("core::set_.strided", "shape=[4611686018427387904]; strides=[4]", in, NULL,
               TENON_INVALID, "too far away");
  conform_call("core::set_.tensor", NULL, bad, NULL, TENON_INVALID,
               "x is f32, source is i32: expected the same dtype");
  /* A failed call changes nothing. */
  conform_holds(x, device, "f32[2,2] 2 5 3 6");
  conform_call("core::set_.none", NULL, &x, NULL, TENON_OK, NULL);
  conform_holds(x, device, "f32[0]");
  conform_holds(source, device, "f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_release(x);
  tenon_tensor_release(source);
  tenon_tensor_release(other);
}

/* copies */

/* Makes a tensor of these numbers in a dtype, as the host's cast does. */
static inline tenon_tensor_t *conform_numbers(uint32_t dtype, const char *text) {
  char to[64];
  tenon_tensor_t *numbers = tensor_of(text);
  tenon_tensor_t *made;
  /* Casts do not make complex numbers. */
  if (dtype == TENON_C64 || dtype == TENON_C128) {
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), numbers->ndim, numbers->shape, &made),
                 TENON_OK);
    for (int64_t i = 0; i < 2 * tenon_count(made); i++)
      if (dtype == TENON_C64)
        ((float *)made->data)[i] = ((float *)numbers->data)[i / 2] + (float)(i % 2);
      else
        ((double *)made->data)[i] = ((float *)numbers->data)[i / 2] + (double)(i % 2);
    tenon_tensor_release(numbers);
    return made;
  }
  snprintf(to, sizeof to, "to=%s", tenon_dtype_name(tenon_dtype(dtype)));
  made = conform_made("core::cast", to, numbers);
  tenon_tensor_release(numbers);
  return made;
}

static const uint32_t conform_dtypes[] = {
    TENON_BOOL, TENON_I8,       TENON_I16,    TENON_I32,  TENON_I64, TENON_U8,  TENON_U16,
    TENON_U32,  TENON_U64,      TENON_F16,    TENON_BF16, TENON_F32, TENON_F64, TENON_C64,
    TENON_C128, TENON_F8E4M3FN, TENON_F8E5M2, TENON_I4,   TENON_U4};
enum { CONFORM_DTYPES = sizeof conform_dtypes / sizeof *conform_dtypes };

static inline int conform_equal(const tenon_tensor_t *a,
                                const tenon_tensor_t *b) { /* Both are dense and on the host. */
  size_t bytes = ((size_t)tenon_count(a) * a->dtype.bits * a->dtype.lanes + 7) / 8;
  return a && b && a->ndim == b->ndim && tenon_dtype_id(a->dtype) == tenon_dtype_id(b->dtype) &&
         tenon_count(a) == tenon_count(b) && memcmp(a->data, b->data, bytes) == 0;
}

/* Copies from one device to the other in every dtype, and with strides on both sides in dtypes of
 * whole bytes. */
static inline void conform_copy_pair(tenon_device_t from, tenon_device_t to) {
  for (int d = 0; d < CONFORM_DTYPES; d++) {
    tenon_tensor_t *x = conform_numbers(conform_dtypes[d], "f32[2,2] 1 0 2 1");
    tenon_tensor_t *a = NULL;
    tenon_tensor_t *b = NULL;
    tenon_tensor_t *back = NULL;
    CHECK_STATUS(tenon_tensor_copy_to(x, from, &a), TENON_OK);
    tenon_tensor_t *y = conform_numbers(conform_dtypes[d], "f32[2,2] 0 0 0 0");
    CHECK_STATUS(tenon_tensor_copy_to(y, to, &b), TENON_OK);
    tenon_tensor_t *in[2] = {a, b};
    conform_call("core::copy_from", NULL, in, NULL, TENON_OK, NULL);
    CHECK_STATUS(tenon_tensor_copy_to(b, conform_cpu, &back), TENON_OK);
    if (!CHECK(conform_equal(back, x))) fprintf(stderr, "  dtype %s\n", tenon_dtype_name(x->dtype));
    tenon_tensor_release(back);
    back = NULL;
    /* Copies columns into rows, over the old elements. */
    if (x->dtype.bits >= 8) {
      tenon_tensor_t *at = conform_made("core::transpose", NULL, a);
      tenon_tensor_t *bt = conform_made("core::transpose", NULL, b);
      tenon_tensor_t *columns[2] = {at, b};
      tenon_tensor_t *rows[2] = {a, bt};
      conform_call("core::copy_from", NULL, columns, NULL, TENON_OK,
                   NULL); /* b is the transpose of a */
      conform_call("core::copy_from", NULL, rows, NULL, TENON_OK,
                   NULL); /* the transpose of b is a again */
      CHECK_STATUS(tenon_tensor_copy_to(bt, conform_cpu, &back), TENON_OK);
      CHECK(conform_equal(back, x));
      tenon_tensor_release(at);
      tenon_tensor_release(bt);
      tenon_tensor_release(back);
    }
    tenon_tensor_release(x);
    tenon_tensor_release(y);
    tenon_tensor_release(a);
    tenon_tensor_release(b);
  }
}

static inline void conform_copy(tenon_device_t device) {
  tenon_device_t second = device.type == 12 ? (tenon_device_t){12, device.id + 1} : device;
  conform_copy_pair(conform_cpu, device);
  conform_copy_pair(device, conform_cpu);
  conform_copy_pair(device, device);
  conform_copy_pair(device, second);
  /* Dtypes that differ, a shape that is broadcast, memory that overlaps, and the gaps between
   * elements. */
  tenon_tensor_t *x = conform_on(device, "f32[2,1] 1.7 -2.7");
  tenon_tensor_t *y = conform_on(device, "i32[2,3] 0 0 0 0 0 0");
  tenon_tensor_t *in[2] = {x, y};
  conform_call("core::copy_from", NULL, in, NULL, TENON_OK, NULL);
  conform_holds(y, device, "i32[2,3] 1 1 1 -2 -2 -2");
  tenon_tensor_t *base = conform_on(device, "f32[6] 1 2 3 4 5 6");
  tenon_tensor_t *a = conform_made("core::as_strided", "shape=[4]; strides=[1]", base);
  tenon_tensor_t *b = conform_made("core::as_strided", "shape=[4]; strides=[1]; offset=2", base);
  tenon_tensor_t *shift[2] = {a, b};
  conform_call("core::copy_from", NULL, shift, NULL, TENON_OK, NULL);
  conform_holds(base, device, "f32[6] 1 2 1 2 3 4");
  tenon_tensor_t *every = conform_made("core::as_strided", "shape=[3]; strides=[2]", base);
  tenon_tensor_t *nine = tensor_of("f64[] 9");
  tenon_tensor_t *fill[2] = {nine, every};
  tenon_tensor_t *wrong[2] = {base, y};
  conform_call("core::copy_from", NULL, fill, NULL, TENON_OK, NULL);
  conform_holds(base, device, "f32[6] 9 2 9 2 9 4");
  conform_call("core::copy_from", NULL, wrong, NULL, TENON_INVALID,
               "x of shape [6] does not broadcast to y of shape [2, 3]");
  tenon_tensor_t *fits[2] = {y, base};
  conform_call("core::copy_from_and_resize", NULL, fits, NULL, TENON_OK, NULL);
  conform_holds(base, device, "f32[2,3] 1 1 1 -2 -2 -2");
  tenon_tensor_t *larger = tensor_of("f32[4,4] 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
  tenon_tensor_t *grows[2] = {larger, base};
  conform_call("core::copy_from_and_resize", NULL, grows, NULL, TENON_OK, NULL);
  conform_holds(base, device, "f32[4,4] 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
  tenon_tensor_t *const all[] = {x, y, base, a, b, every, nine, larger};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    tenon_tensor_release(all[i]);
}

static inline void conform_scalar(tenon_device_t device) {
  tenon_tensor_t *many;
  tenon_tensor_t *none[1] = {NULL};
  for (int d = 0; d < CONFORM_DTYPES; d++) {
    tenon_tensor_t *x = conform_numbers(conform_dtypes[d], "f32[1,1] 3");
    tenon_tensor_t *there = NULL;
    tenon_tensor_t *expected, *out;
    CHECK_STATUS(tenon_tensor_copy_to(x, device, &there), TENON_OK);
    out = conform_made("core::local_scalar", NULL, there);
    expected = conform_numbers(conform_dtypes[d], "f32[] 3");
    CHECK(out && out->device.type == 1);
    if (!CHECK(conform_equal(out, expected)))
      fprintf(stderr, "  dtype %s\n", tenon_dtype_name(x->dtype));
    tenon_tensor_release(x);
    tenon_tensor_release(there);
    tenon_tensor_release(out);
    tenon_tensor_release(expected);
  }
  many = conform_on(device, "f32[2] 1 2");
  conform_call("core::local_scalar", NULL, &many, none, TENON_INVALID,
               "x has an axis of extent 2: expected one element");
  tenon_tensor_release(many);
}

/* An operator that the backend may lack falls back if the backend's library or the program allows
 * it. */
static inline void conform_fallback(tenon_device_t device) {
  tenon_tensor_t *x = conform_on(device, "f64[2,2] 1 4 9 16");
  tenon_tensor_t *out = conform_made("core::sqrt", NULL, x);
  conform_holds(out, device, "f64[2,2] 1 2 3 4");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

static inline void conform(tenon_device_t device) {
  conform_empty(device);
  conform_empty_strided(device);
  conform_pinned(device);
  conform_views(device);
  conform_resize(device);
  conform_set(device);
  conform_copy(device);
  conform_scalar(device);
  conform_fallback(device);
}

#endif
