/* Calls every operator of a namespace with results that overlap inputs, results that overlap one
 * another, and written inputs that overlap other inputs.  Each call must give what a call on copies
 * gives, or be refused by a message that names both arguments.
 *
 * Usage: overlap LIBRARY|"" NAMESPACE.  Prints "wrong: ..." for each defect, and totals at last. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { MOST = 64, RANK = 64, ROOM = 1 << 20 };

static int right, wrong, refused, operators, skipped;

/* A call whose tensors can be replaced. */
typedef struct example_t {
  const tenon_op_t *op;
  tenon_op_info_t info;
  tenon_argument_t inputs[MOST];
  tenon_argument_t outputs[MOST];
  tenon_value_t values[2 * MOST];
  tenon_tensor_t *in[MOST];
  tenon_tensor_t *plain[MOST];   /* results of a call on copies */
  tenon_tensor_t *written[MOST]; /* written inputs after this call */
} example_t;

static int64_t size_of(const tenon_tensor_t *t) { return t->dtype.bits * t->dtype.lanes / 8; }

static int is_simple(const tenon_tensor_t *t) {
  return t && t->dtype.code < 200 && t->dtype.bits >= 8 &&
         t->dtype.bits * t->dtype.lanes % 8 == 0 && !t->detail && tenon_count(t) > 0 &&
         tenon_count(t) * size_of(t) < ROOM / 8;
}

static double number_of(const void *p, tenon_dtype_t dtype) {
  if (tenon_dtype_id(dtype) == TENON_F32) return *(const float *)p;
  if (tenon_dtype_id(dtype) == TENON_F64) return *(const double *)p;
  return NAN;
}

/* Walks over the elements of a tensor in row-major order. */
static const char *element(const tenon_tensor_t *t, int64_t index) {
  int64_t offset = 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    offset += index % t->shape[d] * t->strides[d];
    index /= t->shape[d];
  }
  return (const char *)t->data + t->byte_offset + offset * size_of(t);
}

/* Kernels may round differently for other strides, so floats are compared with a tolerance that is
 * far below the difference of two elements. */
static int same_values(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  if (tenon_dtype_id(a->dtype) != tenon_dtype_id(b->dtype) || a->ndim != b->ndim) return 0;
  for (int64_t i = 0; i < tenon_count(a); i++) {
    const char *p = element(a, i);
    const char *q = element(b, i);
    if (memcmp(p, q, (size_t)size_of(a)) == 0) continue;
    double x = number_of(p, a->dtype);
    double y = number_of(q, b->dtype);
    if (x != x && y != y) continue;
    if (!(fabs(x - y) <= 1e-4 * (1 + fabs(x)))) return 0;
  }
  return 1;
}

/* Returns whether two tensors share a byte. */
static int share_bytes(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  for (int64_t i = 0; i < tenon_count(a); i++)
    for (int64_t k = 0; k < tenon_count(b); k++)
      if (element(a, i) < element(b, k) + size_of(b) && element(b, k) < element(a, i) + size_of(a))
        return 1;
  return 0;
}

static void load(const char *from, tenon_tensor_t *to) {
  for (int64_t i = 0; i < tenon_count(to); i++)
    memcpy((char *)(uintptr_t)element(to, i), from + i * size_of(to), (size_t)size_of(to));
}

static tenon_tensor_t *copy_of(const tenon_tensor_t *t) {
  tenon_tensor_t *copy = NULL;
  if (tenon_tensor_copy(t, &copy) != TENON_OK) exit(2);
  return copy;
}

/* Makes a tensor of the shape of `like` over some memory, in one of several layouts. */
enum { DENSE, REVERSED, SPREAD, SHUFFLED, LAYOUTS };
static const char *const layouts[] = {"dense", "reversed", "spread", "with its axes in reverse"};
static int place(tenon_tensor_t *t, int64_t *strides, char *memory, const tenon_tensor_t *like,
                 int layout) {
  int64_t next = layout == SPREAD ? 2 : 1;
  int64_t offset = 0;
  if (layout != DENSE && !like->ndim) return 0;
  for (int32_t k = 0; k < like->ndim; k++) {
    int32_t d = layout == SHUFFLED ? k : like->ndim - 1 - k;
    strides[d] = next;
    next *= like->shape[d];
  }
  for (int32_t d = 0; d < like->ndim && layout == REVERSED; d++) {
    offset += (like->shape[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  return tenon_tensor_view(t, memory + offset * size_of(like), like->dtype, like->ndim, like->shape,
                           strides, NULL) == TENON_OK;
}

static int names_both(const char *text, const char *a, const char *b) {
  return strstr(text, a) && strstr(text, b) && strstr(text, "overlap");
}

static void report(const example_t *e, tenon_status_t status, int is_right, const char *a,
                   const char *b, const char *how, int64_t shift) {
  if (status == TENON_OK ? is_right : names_both(tenon_error(), a, b)) {
    right += status == TENON_OK;
    refused += status != TENON_OK;
    return;
  }
  /* Operators that exchange a tensor's memory take no view on a caller's stack, overlap or not. */
  if (status != TENON_OK && strstr(tenon_error(), "is a view on a caller's stack")) return;
  wrong++;
  printf("wrong: %s: %s over %s, %s, shifted by %lld: %s\n", e->info.name, a, b, how,
         (long long)shift, status == TENON_OK ? "other values" : tenon_error());
}

static const tenon_value_t *attrs_of(const example_t *e) {
  return e->info.attr_count ? e->values + e->info.input_count : NULL;
}

static tenon_status_t call(const example_t *e, tenon_tensor_t *const *in, tenon_tensor_t **out) {
  tenon_random_seed(7);
  return tenon_op_call_into(e->op, attrs_of(e), in, out);
}

/* Calls with copies of everything; the given results are new. */
static tenon_status_t call_apart(const example_t *e, tenon_tensor_t *const *in,
                                 tenon_tensor_t **out_copies, tenon_tensor_t **out) {
  for (int32_t i = 0; i < e->info.input_count; i++) {
    out_copies[i] = in[i] && is_simple(in[i]) ? copy_of(in[i]) : in[i];
    if (in[i] && out_copies[i] == in[i]) tenon_tensor_retain(in[i]);
  }
  tenon_random_seed(7);
  return tenon_op_call(e->op, attrs_of(e), out_copies, out, 0);
}

static void release_all(tenon_tensor_t **tensors, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static int64_t shifts_of(const tenon_tensor_t *t, int k) {
  int64_t row = t->ndim ? t->shape[t->ndim - 1] : 1;
  const int64_t shifts[] = {0, 1, -1, row, -row, tenon_count(t) / 2};
  return shifts[k] * size_of(t);
}
enum { SHIFTS = 6 };

/* A result lies in the memory of an input. */
static void try_result(const example_t *e, int32_t o, int32_t i, int layout, int k) {
  static char memory[ROOM];
  tenon_tensor_t x, y;
  int64_t x_strides[RANK], y_strides[RANK];
  tenon_tensor_t *in[MOST], *out[MOST] = {NULL};
  const tenon_tensor_t *from = e->in[i];
  int64_t shift = shifts_of(e->plain[o], k);
  if (shift % size_of(from) || shift % size_of(e->plain[o])) return;
  memset(memory, 0, sizeof memory);
  if (!place(&x, x_strides, memory + ROOM / 2, from, DENSE)) return;
  if (!place(&y, y_strides, memory + ROOM / 2 + shift, e->plain[o], layout)) return;
  load(from->data, &x);
  for (int32_t n = 0; n < e->info.input_count; n++) {
    in[n] = n == i ? &x : e->in[n];
    if (e->inputs[n].is_written && e->in[n] && n != i) in[n] = copy_of(e->in[n]);
  }
  for (int32_t n = 0; n < e->info.output_count; n++) {
    if (n == o)
      out[n] = &y;
    else if (e->outputs[n].is_written)
      for (int32_t w = 0; w < e->info.input_count; w++)
        out[n] = e->inputs[w].mark == e->outputs[n].mark ? in[w] : out[n];
    else if (e->plain[n])
      out[n] = copy_of(e->plain[n]);
  }
  tenon_status_t status = call(e, in, out);
  report(e, status, same_values(&y, e->plain[o]), e->outputs[o].name, e->inputs[i].name,
         layouts[layout], shift);
  for (int32_t n = 0; n < e->info.output_count; n++)
    if (n != o && !e->outputs[n].is_written) tenon_tensor_release(out[n]);
  for (int32_t n = 0; n < e->info.input_count; n++)
    if (in[n] != e->in[n] && n != i) tenon_tensor_release(in[n]);
}

/* Two results overlap. */
static void try_results(const example_t *e, int32_t o, int32_t p, int layout, int k) {
  static char memory[ROOM];
  tenon_tensor_t y, z;
  int64_t y_strides[RANK], z_strides[RANK];
  tenon_tensor_t *in[MOST], *out[MOST] = {NULL};
  int64_t shift = shifts_of(e->plain[o], k);
  if (shift % size_of(e->plain[p])) return;
  if (!place(&y, y_strides, memory + ROOM / 2, e->plain[o], layout) ||
      !place(&z, z_strides, memory + ROOM / 2 + shift, e->plain[p], layout))
    return;
  for (int32_t n = 0; n < e->info.input_count; n++)
    in[n] = e->inputs[n].is_written && e->in[n] ? copy_of(e->in[n]) : e->in[n];
  for (int32_t n = 0; n < e->info.output_count; n++) {
    if (n == o || n == p)
      out[n] = n == o ? &y : &z;
    else if (!e->outputs[n].is_written && e->plain[n])
      out[n] = copy_of(e->plain[n]);
  }
  tenon_status_t status = call(e, in, out);
  int is_shared = share_bytes(&y, &z);
  int is_right = status == TENON_OK && !is_shared && same_values(&y, e->plain[o]) &&
                 same_values(&z, e->plain[p]);
  if (status != TENON_OK && !is_shared && strstr(tenon_error(), "overlap")) status = TENON_OK;
  report(e, status, is_right, e->outputs[o].name, e->outputs[p].name, layouts[layout], shift);
  for (int32_t n = 0; n < e->info.output_count; n++)
    if (n != o && n != p) tenon_tensor_release(out[n]);
  for (int32_t n = 0; n < e->info.input_count; n++)
    if (in[n] != e->in[n]) tenon_tensor_release(in[n]);
}

/* A written input overlaps another input. */
static void try_written(const example_t *e, int32_t w, int32_t i, int layout, int k) {
  static char memory[ROOM];
  tenon_tensor_t x, y;
  int64_t x_strides[RANK], y_strides[RANK];
  tenon_tensor_t *in[MOST], *out[MOST] = {NULL}, *copies[MOST], *plain[MOST] = {NULL};
  int64_t shift = shifts_of(e->in[w], k);
  if (shift % size_of(e->in[i])) return;
  memset(memory, 0, sizeof memory);
  if (!place(&x, x_strides, memory + ROOM / 2, e->in[w], DENSE) ||
      !place(&y, y_strides, memory + ROOM / 2 + shift, e->in[i], layout))
    return;
  load(e->in[i]->data, &y);
  load(e->in[w]->data, &x);
  for (int32_t n = 0; n < e->info.input_count; n++) {
    in[n] = e->in[n];
    if (n == w || n == i) in[n] = n == w ? &x : &y;
  }
  tenon_status_t expected = call_apart(e, in, copies, plain);
  for (int32_t n = 0; n < e->info.input_count; n++)
    if (e->inputs[n].is_written && n != w && n != i && in[n]) in[n] = copy_of(e->in[n]);
  tenon_random_seed(7);
  tenon_status_t status = tenon_op_call(e->op, attrs_of(e), in, out, 0);
  if (expected == TENON_OK) {
    int is_right = status == TENON_OK && same_values(copies[w], &x);
    for (int32_t o = 0; o < e->info.output_count && is_right; o++)
      if (is_simple(plain[o]) && !e->outputs[o].is_written)
        is_right = same_values(plain[o], out[o]);
    /* Two written inputs that share a byte must be refused, and others must not. */
    int is_shared = share_bytes(&x, &y);
    if (e->inputs[i].is_written) is_right = is_right && !is_shared && same_values(copies[i], &y);
    if (status != TENON_OK && !is_shared && strstr(tenon_error(), "overlap")) status = TENON_OK;
    report(e, status, is_right, e->inputs[w].name, e->inputs[i].name, layouts[layout], shift);
  }
  release_all(out, e->info.output_count);
  release_all(plain, e->info.output_count);
  release_all(copies, e->info.input_count);
  for (int32_t n = 0; n < e->info.input_count; n++)
    if (n != w && n != i && in[n] != e->in[n]) tenon_tensor_release(in[n]);
}

/* A written input with other strides than row-major is taken, and gets the same values. */
static void try_strides(const example_t *e, int32_t w, int layout) {
  static char memory[ROOM];
  tenon_tensor_t x;
  int64_t strides[RANK];
  tenon_tensor_t *in[MOST], *out[MOST] = {NULL};
  if (!place(&x, strides, memory + ROOM / 2, e->in[w], layout)) return;
  load(e->in[w]->data, &x);
  for (int32_t n = 0; n < e->info.input_count; n++)
    in[n] = n != w && e->inputs[n].is_written && e->in[n] ? copy_of(e->in[n]) : e->in[n];
  in[w] = &x;
  tenon_random_seed(7);
  tenon_status_t status = tenon_op_call(e->op, attrs_of(e), in, out, 0);
  report(e, status, e->written[w] && same_values(e->written[w], &x), e->inputs[w].name, "itself",
         layouts[layout], 0);
  release_all(out, e->info.output_count);
  for (int32_t n = 0; n < e->info.input_count; n++)
    if (n != w && in[n] != e->in[n]) tenon_tensor_release(in[n]);
}

static void try_example(const example_t *e) {
  for (int32_t o = 0; o < e->info.output_count; o++) {
    if (!is_simple(e->plain[o]) || e->outputs[o].is_written) continue;
    for (int32_t i = 0; i < e->info.input_count; i++)
      for (int layout = 0; layout < LAYOUTS && is_simple(e->in[i]); layout++)
        for (int k = 0; k < SHIFTS; k++)
          try_result(e, o, i, layout, k);
    for (int32_t p = 0; p < o; p++)
      for (int layout = 0; layout < LAYOUTS && is_simple(e->plain[p]); layout++)
        for (int k = 0; k < SHIFTS && !e->outputs[p].is_written; k++)
          try_results(e, o, p, layout, k);
  }
  for (int32_t w = 0; w < e->info.input_count; w++) {
    if (!e->inputs[w].is_written || !is_simple(e->in[w])) continue;
    for (int layout = REVERSED; layout < LAYOUTS; layout++)
      try_strides(e, w, layout);
    for (int32_t i = 0; i < e->info.input_count; i++)
      for (int layout = 0; layout < LAYOUTS && i != w && is_simple(e->in[i]); layout++)
        for (int k = 0; k < SHIFTS; k++)
          try_written(e, w, i, layout, k);
  }
}

static void describe(example_t *e) {
  e->info.size = sizeof e->info;
  tenon_op_info(e->op, &e->info);
  for (int32_t i = 0; i < e->info.input_count; i++) {
    e->inputs[i].size = sizeof e->inputs[i];
    tenon_op_argument(e->op, TENON_ARGUMENT_INPUT, i, &e->inputs[i]);
  }
  for (int32_t o = 0; o < e->info.output_count; o++) {
    e->outputs[o].size = sizeof e->outputs[o];
    tenon_op_argument(e->op, TENON_ARGUMENT_OUTPUT, o, &e->outputs[o]);
  }
}

/* Turns the lists of tensors into tensors of dtype LIST. */
static int take_inputs(example_t *e) {
  for (int32_t i = 0; i < e->info.input_count; i++) {
    tenon_value_t *v = &e->values[i];
    e->in[i] = NULL;
    if (v->kind == TENON_KIND_TENSORS) {
      if (tenon_tensor_list(v->as.tensors, (int32_t)v->count, &e->in[i]) != TENON_OK) return 0;
    } else if (v->kind == TENON_KIND_TENSOR) {
      e->in[i] = v->as.tensor;
      tenon_tensor_retain(e->in[i]);
    }
  }
  return 1;
}

static int try_index(example_t *e, int32_t index) {
  tenon_sample_t options = {.size = sizeof options, .index = (uint32_t)index, .seed = 3};
  memset(e->values, 0, sizeof e->values);
  if (tenon_op_sample(e->op, &options, e->values) != TENON_OK) return 0;
  int good = 0;
  memset(e->plain, 0, sizeof e->plain);
  if (take_inputs(e) && call_apart(e, e->in, e->written, e->plain) == TENON_OK) {
    try_example(e);
    good = 1;
  }
  release_all(e->plain, e->info.output_count);
  release_all(e->written, e->info.input_count);
  release_all(e->in, e->info.input_count);
  tenon_op_sample_release(e->op, e->values);
  return good;
}

int main(int count, char **arguments) {
  const tenon_op_t *const *ops;
  int32_t op_count;
  const char *space = count > 2 ? arguments[2] : "core";
  if (tenon_start() != TENON_OK) return 2;
  if (count > 1 && *arguments[1] && tenon_library_load(arguments[1], 0, NULL) != TENON_OK) {
    printf("%s\n", tenon_error());
    return 2;
  }
  if (tenon_ops_list(&ops, &op_count) != TENON_OK) return 2;
  for (int32_t n = 0; n < op_count; n++) {
    static example_t e;
    memset(&e, 0, sizeof e);
    e.op = ops[n];
    describe(&e);
    size_t length = strlen(space);
    if (strncmp(e.info.name, space, length) != 0 || e.info.name[length] != ':') continue;
    if (strcmp(e.info.name, "core::empty_like") == 0) continue; /* its values are undefined */
    if (count > 3 && strcmp(e.info.name + length + 2, arguments[3]) != 0) continue;
    int any = 0;
    for (int32_t i = 0; i < tenon_op_sample_count(e.op); i++)
      any |= try_index(&e, i);
    operators += any;
    skipped += !any;
  }
  tenon_ops_release(ops);
  printf("%d operators, %d without an example, %d calls right, %d refused, %d wrong\n", operators,
         skipped, right, refused, wrong);
  return wrong ? 1 : 0;
}
