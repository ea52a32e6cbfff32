/* attention of random shapes, masks and layouts, compared with sums of doubles, on every
 * instruction set that the processor has. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  ROUNDS = 150,
  KEYS_MOST = 200,
};
enum mask_kind {
  NO_MASK,
  ADDED,
  OF_BOOLS,
};

static uint64_t seed = 2718;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct attention_case_t {
  int64_t batch, heads, kv_heads, queries, keys, depth, width;
  int64_t mask_rows; /* 1 or `queries` */
  enum mask_kind mask_kind;
  bool is_causal;
  bool is_flat; /* heads are part of the last axis */
  bool has_lengths;
  bool wants_scores; /* as a result; they are then computed in whole rows */
  double softcap;
  uint32_t dtype;
} attention_case_t;

static attention_case_t random_case(void) {
  static const int64_t queries[] = {1, 3, 4, 15, 16, 17, 31, 33, 63, 64, 65, 130};
  static const int64_t keys[] = {1, 5, 6, 7, 47, 48, 49, 95, 96, 97, 130};
  static const int64_t sizes[] = {1, 7, 8, 9, 16, 20, 24, 32, 40, 64};
  attention_case_t c = {.batch = 1 + pick(2), .kv_heads = 1 + pick(2)};
  c.heads = c.kv_heads * (1 + pick(2));
  c.queries = queries[pick(sizeof queries / sizeof *queries)];
  c.keys = keys[pick(sizeof keys / sizeof *keys)];
  c.depth = sizes[pick(sizeof sizes / sizeof *sizes)];
  c.width = pick(20) == 0 ? 700 : sizes[pick(sizeof sizes / sizeof *sizes)];
  c.mask_kind = (enum mask_kind)pick(3);
  c.mask_rows = pick(2) ? 1 : c.queries;
  c.is_causal = pick(3) == 0;
  c.is_flat = pick(2) == 0;
  c.has_lengths = pick(4) == 0;
  c.wants_scores = pick(4) == 0;
  c.softcap = pick(4) == 0 ? 2 : 0;
  c.dtype = pick(3) == 0 ? TENON_F64 : TENON_F32;
  return c;
}

static tenon_tensor_t *random_tensor(uint32_t dtype, int32_t ndim, const int64_t *shape) {
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), ndim, shape, &x), TENON_OK);
  for (int64_t i = 0; i < tenon_count(x); i++) {
    double value = (double)(pick(2001) - 1000) / 500;
    if (dtype == TENON_BOOL)
      ((uint8_t *)x->data)[i] = pick(4) != 0;
    else if (dtype == TENON_F64)
      ((double *)x->data)[i] = value;
    else
      ((float *)x->data)[i] = (float)value;
  }
  return x;
}

static tenon_tensor_t *random_heads(const attention_case_t *c, int64_t heads, int64_t length,
                                    int64_t size) {
  const int64_t flat[] = {c->batch, length, heads * size};
  const int64_t apart[] = {c->batch, heads, length, size};
  return c->is_flat ? random_tensor(c->dtype, 3, flat) : random_tensor(c->dtype, 4, apart);
}

static double head_element(const attention_case_t *c, const tenon_tensor_t *x, int64_t heads,
                           int64_t length, int64_t size, const int64_t at[4]) {
  int64_t index = ((at[0] * heads + at[1]) * length + at[2]) * size + at[3];
  if (c->is_flat) index = ((at[0] * length + at[2]) * heads + at[1]) * size + at[3];
  return tensor_float(x, index);
}

/* Hides some scores of a mask whose values are added: single ones, and all of the first keys. */
static void hide_keys(tenon_tensor_t *mask, int64_t keys) {
  bool hides_first = pick(2) == 0;
  for (int64_t i = 0; i < tenon_count(mask); i++) {
    bool is_hidden = pick(6) == 0 || (hides_first && i % keys < 60 && keys > 60);
    if (!is_hidden) continue;
    if (tensor_has(mask, TENON_BOOL))
      ((uint8_t *)mask->data)[i] = 0;
    else if (tensor_has(mask, TENON_F64))
      ((double *)mask->data)[i] = -INFINITY;
    else
      ((float *)mask->data)[i] = -INFINITY;
  }
}

typedef struct operands_t {
  tenon_tensor_t *inputs[7]; /* q, k, v, mask, past key, past value, lengths */
} operands_t;

static operands_t random_operands(const attention_case_t *c) {
  operands_t o = {{random_heads(c, c->heads, c->queries, c->depth),
                   random_heads(c, c->kv_heads, c->keys, c->depth),
                   random_heads(c, c->kv_heads, c->keys, c->width)}};
  const int64_t mask[] = {c->batch, 1, c->mask_rows, c->keys};
  if (c->mask_kind != NO_MASK) {
    uint32_t dtype = c->mask_kind == OF_BOOLS ? TENON_BOOL : c->dtype;
    o.inputs[3] = random_tensor(dtype, 4, mask);
    hide_keys(o.inputs[3], c->keys);
  }
  if (c->has_lengths) {
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_I64), 1, &c->batch, &o.inputs[6]), TENON_OK);
    for (int64_t b = 0; b < c->batch; b++)
      ((int64_t *)o.inputs[6]->data)[b] = 1 + pick(c->keys);
  }
  return o;
}

/* A masked score; -INFINITY: hidden. */
static double score_of(const attention_case_t *c, const operands_t *o, int64_t b, int64_t h,
                       int64_t query, int64_t key) {
  const int64_t kv = h / (c->heads / c->kv_heads);
  const tenon_tensor_t *mask = o->inputs[3];
  double sum = 0;
  for (int64_t e = 0; e < c->depth; e++)
    sum +=
        head_element(c, o->inputs[0], c->heads, c->queries, c->depth, (int64_t[]){b, h, query, e}) *
        head_element(c, o->inputs[1], c->kv_heads, c->keys, c->depth, (int64_t[]){b, kv, key, e});
  sum /= sqrt((double)c->depth);
  if (c->softcap > 0) sum = c->softcap * tanh(sum / c->softcap);
  if (c->is_causal && key > query) return -INFINITY;
  if (o->inputs[6] && key >= tensor_int(o->inputs[6], b)) return -INFINITY;
  if (!mask) return sum;
  int64_t row = c->mask_rows == 1 ? 0 : query;
  int64_t at = (b * c->mask_rows + row) * c->keys + key;
  if (c->mask_kind == OF_BOOLS) return ((const uint8_t *)mask->data)[at] ? sum : -INFINITY;
  return sum + tensor_float(mask, at);
}

/* Computes one row of the result; NaN if all keys are hidden. */
static void compute_row(const attention_case_t *c, const operands_t *o, int64_t b, int64_t h,
                        int64_t query, double *row) {
  const int64_t kv = h / (c->heads / c->kv_heads);
  double scores[KEYS_MOST];
  double most = -INFINITY;
  double total = 0;
  for (int64_t key = 0; key < c->keys; key++) {
    scores[key] = score_of(c, o, b, h, query, key);
    most = fmax(most, scores[key]);
  }
  for (int64_t key = 0; key < c->keys; key++) {
    scores[key] = exp(scores[key] - most);
    total += scores[key];
  }
  for (int64_t e = 0; e < c->width; e++) {
    row[e] = 0;
    for (int64_t key = 0; key < c->keys; key++)
      row[e] +=
          scores[key] / total *
          head_element(c, o->inputs[2], c->kv_heads, c->keys, c->width, (int64_t[]){b, kv, key, e});
  }
}

static bool is_near(const attention_case_t *c, double found, double expected) {
  if (isnan(expected)) return isnan(found);
  return fabs(found - expected) <= (c->dtype == TENON_F64 ? 1e-13 : 2e-6) * (1 + fabs(expected));
}

/* Compares the rows of one head with the expected ones; returns the number of wrong elements. */
static int compare_head(const attention_case_t *c, const operands_t *o, const tenon_tensor_t *out,
                        int64_t b, int64_t h) {
  static double row[1024];
  int mistakes = 0;
  for (int64_t query = 0; query < c->queries; query++) {
    compute_row(c, o, b, h, query, row);
    for (int64_t e = 0; e < c->width; e++) {
      double found =
          head_element(c, out, c->heads, c->queries, c->width, (int64_t[]){b, h, query, e});
      mistakes += !is_near(c, found, row[e]);
    }
  }
  return mistakes;
}

static void compare_case(const attention_case_t *c) {
  char text[200];
  const tenon_op_t *op = op_of("core::attention");
  snprintf(text, sizeof text, "is_causal=%s; softcap=%g; q_num_heads=%d; kv_num_heads=%d",
           c->is_causal ? "True" : "False", c->softcap, c->is_flat ? (int)c->heads : 0,
           c->is_flat ? (int)c->kv_heads : 0);
  tenon_attrs_t *attrs = attrs_of(op, text);
  operands_t o = random_operands(c);
  tenon_tensor_t *outputs[4] = {NULL};
  int mistakes = 0;
  const uint64_t wanted = c->wants_scores ? 9 : 1;
  if (CHECK_STATUS(tenon_op_call(op, attr_values(attrs), o.inputs, outputs, wanted), TENON_OK))
    for (int64_t b = 0; b < c->batch; b++)
      for (int64_t h = 0; h < c->heads; h++)
        mistakes += compare_head(c, &o, outputs[0], b, h);
  if (!CHECK(mistakes == 0))
    fprintf(stderr,
            "  %d wrong: %s; %d queries, %d keys, sizes %d and %d, mask %d of %d rows, lengths %d, "
            "f%d\n",
            mistakes, text, (int)c->queries, (int)c->keys, (int)c->depth, (int)c->width,
            (int)c->mask_kind, (int)c->mask_rows, c->has_lengths, c->dtype == TENON_F64 ? 64 : 32);
  for (size_t i = 0; i < sizeof o.inputs / sizeof *o.inputs; i++)
    tenon_tensor_release(o.inputs[i]);
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
    tenon_tensor_release(outputs[i]);
  tenon_attrs_release(attrs);
}

TEST("attention equals sums of doubles on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      for (int round = 0; round < ROUNDS; round++) {
        const attention_case_t c = random_case();
        compare_case(&c);
      }
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

TEST("nothing is left behind") { tenon_shutdown(); }
