/* Calls that are matched by types and shapes alone, compared with the same calls through metas and
 * inference: results, layouts, errors and messages are equal for random tensors, attributes and
 * given results. */
#define TENON_STATIC
#include "check.h"
#include "core/match.h"
#include "core/tensor.h"
#include "operator/op.h"
#include "tensors.h"

#include "operators.h"

/* operators */

static tenon_status_t
/* Fills every result with a number made of its index and the number of inputs. */
fill(tenon_call_t *call) {
  int given = 0;
  for (uint32_t i = 0; i < call->op->input_count; i++)
    given += call->inputs[i] != NULL;
  for (uint32_t o = 0; o < call->op->output_count; o++) {
    const tenon_tensor_t *t = call->outputs[o];
    for (int64_t i = 0, n = t ? tenon_count(t) : 0; i < n; i++)
      memset(tensor_at(t, i), given + (int)o, t->dtype.bits / 8);
  }
  return TENON_OK;
}

static tenon_status_t refuse(tenon_call_t *call) {
  return tenon_fail(call, TENON_RANGE, "not today");
}

#define RUN TENON_KERNEL("cpu strided", fill)
/* clang-format off */
TENON_LIBRARY(match, "1.0.0",
  TENON_OP("same(Tensor a, Tensor b) -> Tensor", TENON_TYPES("a, b: i32|f64; out = a"),
    TENON_SHAPES("a, b, out: [n, c]"), RUN),
  TENON_OP("multiply(Tensor x, Tensor w, Tensor? bias=None) -> Tensor",
    TENON_TYPES("x, w: float; bias = x; out = x"),
    TENON_SHAPES("x: [..., n, k]; w: [..., k, m]; bias: [m]; out: [..., n, m]"), RUN),
  TENON_OP("maybe(Tensor? a, Tensor b) -> (Tensor out, Tensor? extra)",
    TENON_TYPES("a, b: f32|i32; out = b; extra = i64"),
    TENON_SHAPES("a: [n, _]; b: [k, n]; out: [n]; extra: [2, k]"), RUN),
  TENON_OP("stated(Tensor x, *, int n=2, dim? m=None, dtype to=f32) -> Tensor",
    TENON_TYPES("x: any; out = to"), TENON_SHAPES("x: [n, _, 3]; out: [n, m, 3, 3]"), RUN),
  TENON_OP("like(Tensor x, Tensor y) -> (Tensor, Tensor)",
    TENON_TYPES("x: i32|f32; y = ?; out0 = x; out1 = f16"),
    TENON_SHAPES("y: [..., 2]; out0 = x; out1 = y"), RUN),
  TENON_OP("alike(Tensor x, Tensor? y, Tensor z) -> Tensor",
    TENON_TYPES("x: i32|f32; y = x; z = ?; out = x"),
    TENON_SHAPES("y = x; z = x; out = x"), RUN),
  TENON_OP("square(Tensor x, Tensor y) -> Tensor", TENON_TYPES("x: i32|f32; y = x; out = x"),
    TENON_SHAPES("y: [n, n]; x: [3, n]; out: [n]"), RUN),
  TENON_OP("blend(Tensor? a, Tensor b, Tensor? c=None) -> (Tensor, Tensor?)",
    TENON_TYPES("a, b, c: f32|i32; out0, out1 = b"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    RUN),
  TENON_OP("made(*, int n=2) -> Tensor", TENON_TYPES("out = f32"), TENON_SHAPES("out: [n]"), RUN),
  TENON_OP("placed(Tensor x, *, device? where=None) -> Tensor",
    TENON_TYPES("x: any; out = x"), TENON_SHAPES("out = x"), RUN),
  TENON_OP("refuse(Tensor x) -> (Tensor, Tensor)",
    TENON_TYPES("x: any; out0, out1 = x"), TENON_SHAPES("out0, out1: [2]"),
    TENON_KERNEL("cpu", refuse)))
/* clang-format on */

static const struct {
  const char *name;
  int inputs, outputs;
  int32_t ranks[3]; /* the ranks of most tensors that are tried */
} tried[] = {{"match::same", 2, 1, {2, 2}},     {"match::multiply", 3, 1, {3, 2, 1}},
             {"match::maybe", 2, 2, {2, 2}},    {"match::stated", 1, 1, {3}},
             {"match::like", 2, 2, {2, 1}},     {"match::square", 2, 1, {2, 2}},
             {"match::alike", 3, 1, {2, 2, 2}}, {"match::blend", 3, 2, {3, 3, 1}},
             {"match::refuse", 1, 2, {1}}};
enum {
  TRIED = sizeof tried / sizeof *tried,
  ATTRS = 12,
};

static uint64_t seed = 20251121;
static int pick(int count) { /* 0 to count - 1 */
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)count);
}

static tenon_tensor_t *random_tensor(int32_t rank) {
  static const uint32_t ids[] = {TENON_I32, TENON_I32, TENON_I32, TENON_F32,
                                 TENON_F32, TENON_F64, TENON_F16, TENON_BOOL};
  static const int64_t extents[] = {2, 2, 2, 2, 2, 3, 3, 1, 1, 0};
  int64_t shape[8], strides[8], dense[8];
  int64_t stride = 1;
  int32_t ndim = pick(8) ? rank : pick(5);
  tenon_tensor_t *t = NULL;
  bool is_turned = pick(6) == 0;
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = extents[pick(10)];
  for (int32_t i = 0; i < ndim; i++) {
    strides[i] = stride;
    stride *= shape[i] > 0 ? shape[i] : 1;
  }
  tn_strides_dense(ndim, shape, dense);
  uint32_t id = ids[pick(8)];
  void *data = calloc((size_t)stride, tenon_dtype(id).bits / 8);
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(id), ndim, shape, is_turned ? strides : dense,
                                   free, data, &t),
               TENON_OK);
  return t;
}

static bool same_result(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  if (!a || !b) return a == b;
  return tensor_equal(a, b, 0) && a->keys == b->keys &&
         (a->ndim == 0 ||
          memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof *a->strides) == 0);
}

typedef struct trial_t {
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  tenon_tensor_t *inputs[3];
  tenon_tensor_t *outputs[2][2]; /* first those of the matched call, then those of the other */
  int statuses[2];
  char messages[2][600];
} trial_t;

/* Makes the call as it is, then as one of an operator that is not plain. `wanted` -1: into given
 * results. */
static void call_both(trial_t *t, int wanted) {
  tenon_op_t *op = (tenon_op_t *)(uintptr_t)t->op;
  for (int way = 0; way < 2; way++) {
    if (way) op->traits &= ~TN_PLAIN;
    t->statuses[way] =
        wanted < 0 ? tenon_op_call_into(t->op, t->attrs, t->inputs, t->outputs[way])
                   : tenon_op_call(t->op, t->attrs, t->inputs, t->outputs[way], (uint64_t)wanted);
    snprintf(t->messages[way], sizeof t->messages[way], "%s",
             t->statuses[way] == TENON_OK ? "" : tenon_error());
  }
  op->traits |= TN_PLAIN;
}

static bool check_both(const trial_t *t, const char *what) {
  bool same = t->statuses[0] == t->statuses[1] && strcmp(t->messages[0], t->messages[1]) == 0;
  for (int o = 0; o < 2; o++)
    same &= same_result(t->outputs[0][o], t->outputs[1][o]);
  if (CHECK(same)) return true;
  fprintf(stderr, "  %s: %s: %d \"%s\"\n  without a match: %d \"%s\"\n", t->op->name, what,
          t->statuses[0], t->messages[0], t->statuses[1], t->messages[1]);
  return false;
}

static void release_outputs(trial_t *t) {
  for (int i = 0; i < 4; i++) {
    tenon_tensor_release(t->outputs[i / 2][i % 2]);
    t->outputs[i / 2][i % 2] = NULL;
  }
}

static bool matches(const trial_t *t, bool may_create) {
  tn_match_t match;
  return tn_match(t->op->shapes.matcher, &t->op->types, t->attrs ? t->attrs : t->op->defaults,
                  t->inputs, t->outputs[0], may_create, &match);
}

/* Makes results that fit in most cases. */
static void make_given(trial_t *t, int outputs, int kind) {
  tenon_tensor_t *made[2] = {t->outputs[0][0], t->outputs[0][1]};
  tenon_tensor_release(t->outputs[1][0]);
  tenon_tensor_release(t->outputs[1][1]);
  for (int o = 0; o < 2; o++) {
    tenon_tensor_t *given = NULL;
    if (o < outputs && made[o] && !(kind == o))
      CHECK_STATUS(tenon_tensor_copy(made[o], &given), TENON_OK);
    if (o < outputs && kind == o + 2) {
      tenon_tensor_release(given);
      given = random_tensor(made[o] ? made[o]->ndim : 1);
    }
    t->outputs[0][o] = t->outputs[1][o] = NULL;
    for (int way = 0; given && way < 2; way++)
      CHECK_STATUS(tenon_tensor_copy(given, &t->outputs[way][o]), TENON_OK);
    tenon_tensor_release(given);
    tenon_tensor_release(made[o]);
  }
}

TEST("a matched call and an inferred call give the same results and the same errors") {
  CHECK_STATUS(tenon_library_add(tenon_library_match(), NULL, NULL, NULL), TENON_OK);
  tenon_attrs_t *attrs[ATTRS];
  const tenon_value_t *values[ATTRS];
  for (int i = 0; i < ATTRS; i++) {
    CHECK_STATUS(tenon_attrs_create(op_of("match::stated"), &attrs[i]), TENON_OK);
    if (i % 4) CHECK_STATUS(tenon_attrs_int(attrs[i], "m", i % 4 - 1), TENON_OK);
    if (i > 7) CHECK_STATUS(tenon_attrs_int(attrs[i], "n", i - 10), TENON_OK);
    if (i % 3 == 0) CHECK_STATUS(tenon_attrs_text(attrs[i], "to", "i64"), TENON_OK);
    CHECK_STATUS(tenon_attrs_values(attrs[i], &values[i]), TENON_OK);
  }
  for (int k = 0; k < TRIED; k++) {
    int matched = 0;
    int ran = 0;
    int missed = 0;
    bool good = true;
    trial_t t = {.op = op_of(tried[k].name)};
    CHECK(t.op && t.op->shapes.matcher && t.op->traits & TN_PLAIN);
    for (int round = 0; round < 20000 && good; round++) {
      for (int i = 0; i < 3; i++)
        t.inputs[i] = i < tried[k].inputs && pick(12) ? random_tensor(tried[k].ranks[i]) : NULL;
      if (pick(2) && t.inputs[0]) /* Otherwise few of them agree. */
        for (int i = 1; i < 3; i++)
          if (t.inputs[i])
            t.inputs[i]->dtype = t.inputs[i]->dtype.bits >= t.inputs[0]->dtype.bits
                                     ? t.inputs[0]->dtype
                                     : t.inputs[i]->dtype;
      t.attrs = k == 3 && pick(8) ? values[pick(ATTRS)] : NULL;
      bool is_matched = matches(&t, true);
      call_both(&t, pick(4));
      good = check_both(&t, "a call");
      matched += is_matched;
      ran += t.statuses[1] == TENON_OK;
      if (is_matched) good &= CHECK(t.statuses[1] == TENON_OK || k == TRIED - 1);
      missed += t.statuses[1] == TENON_OK && !is_matched;
      for (int kind = 0; kind < 6 && t.outputs[0][0] && good; kind++) {
        make_given(&t, tried[k].outputs, kind);
        is_matched = matches(&t, false);
        call_both(&t, -1);
        good &= check_both(&t, "a call into given results");
        if (is_matched) good &= CHECK(t.statuses[1] == TENON_OK);
        if (kind < 5) {
          release_outputs(&t);
          call_both(&t, 0);
        }
      }
      release_outputs(&t);
      for (int i = 0; i < 3; i++)
        tenon_tensor_release(t.inputs[i]);
    }
    CHECK(matched > 100 || k == TRIED - 1);
    bool is_in_doubt =
        strcmp(tried[k].name, "match::maybe") == 0 || strcmp(tried[k].name, "match::blend") == 0;
    if (!CHECK(missed == 0 ||
               /* This may happen only if an absent input would have bound something. */
               is_in_doubt))
      fprintf(stderr, "  %s: of %d that ran %d were not matched\n", tried[k].name, ran, missed);
  }
  for (int i = 0; i < ATTRS; i++)
    tenon_attrs_release(attrs[i]);
}

TEST("operators that need more than types and shapes are not matched") {
  CHECK(op_of("match::same")->shapes.matcher->traits == 0 &&
        op_of("match::blend")->shapes.matcher->traits == TENON_POINTWISE);
  CHECK(op_of("match::made")->shapes.matcher == NULL &&
        op_of("match::placed")->shapes.matcher == NULL);
  CHECK(op_of("core::concat")->shapes.matcher == NULL);  /* It has a list. */
  CHECK(op_of("core::reshape")->shapes.matcher == NULL); /* It returns a view. */
}

TEST("extents that no tensor has are not matched, whatever tensors the call has") {
  tenon_tensor_t *a = tensor_of("i32[2,2] 1 2 3 4");
  tenon_tensor_t *b = tensor_of("i32[2,2] 1 2 3 4");
  tenon_tensor_t *out = tensor_of("i32[2,2] 0 0 0 0");
  trial_t t = {.op = op_of("match::same"), .inputs = {a, b}};
  t.outputs[0][0] = t.outputs[1][0] = out;
  CHECK(matches(&t, false));
  a->shape[0] = b->shape[0] = out->shape[0] = -1; /* a view that its caller damaged */
  CHECK(!matches(&t, false));
  call_both(&t, -1);
  CHECK(t.statuses[0] == TENON_INVALID && strcmp(t.messages[0], t.messages[1]) == 0);
  CHECK_TEXT(t.messages[0], "extent 0 of result out would be -1");
  a->shape[0] = b->shape[0] = out->shape[0] = 2;
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(out);
}

TEST("nothing is left behind") { tenon_shutdown(); }
