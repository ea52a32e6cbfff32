/* Drafts of random graphs: nodes with the dtype, the shape and the bounds of each value, from which
 * the same graph is built as often as needed: as it is, in double precision, and in part. Include
 * after operators.h. */
#ifndef TENON_TESTS_RANDOM_DRAFT_H
#define TENON_TESTS_RANDOM_DRAFT_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum {
  RANK_MOST = 5,
  DRAFT_VALUES = 700,
  DRAFT_NODES = 500,
  OPERANDS_MOST = 6,
  ITEMS_MOST = 6, /* of an operand that is a list */
  RESULTS_MOST = 4,
  ELEMENTS_MOST = 30000, /* of a value */
};

/* An extent: n and m times the lengths that runs choose, and a number. */
typedef struct extent_t {
  int32_t n;
  int32_t m;
  int32_t plus;
} extent_t;

typedef struct lengths_t {
  int32_t n;
  int32_t m;
} lengths_t;

typedef struct value_t {
  uint32_t dtype;
  int32_t rank;
  extent_t shape[RANK_MOST];
  double most;   /* No element is larger. */
  bool is_exact; /* has the same elements in each precision */
  bool keeps;    /* has its dtype in double precision, too */
  bool is_read;  /* by a node */
  int32_t node;  /* which makes it; -1: an input or a constant */
  tenon_tensor_t *constant;
} value_t;

typedef struct items_t {
  int32_t count;
  int32_t values[ITEMS_MOST];
} items_t;

typedef struct draft_t draft_t;

typedef struct part_t {
  const char *op;
  char attrs[160];
  uint32_t to; /* the attribute `to`; 0: none */
  bool keeps;  /* computes with its own dtypes in double precision, too */
  bool is_cut; /* Its results are inputs of the graph. */
  int32_t operand_count;
  items_t operands[OPERANDS_MOST];
  int32_t result_count;
  int32_t results[RESULTS_MOST];
  const char *body_names[2];
  draft_t *bodies[2];
} part_t;

struct draft_t {
  uint64_t seed;
  uint64_t at;
  uint32_t dtype;   /* of most floats */
  bool is_body;     /* Inputs are those of a node of the graph around. */
  bool is_dynamic;  /* The lengths are not known when the graph is compiled. */
  bool is_nameless; /* and neither which of them are equal */
  lengths_t most;   /* the greatest lengths */
  int32_t value_count;
  int32_t node_count;
  int32_t output_count;
  int32_t outputs[16];
  value_t values[DRAFT_VALUES];
  part_t nodes[DRAFT_NODES];
};

/* Numbers */

static uint32_t pick(draft_t *d, uint32_t count) { return tenon_random(d->seed, d->at++) % count; }

static bool chance(draft_t *d, uint32_t percent) { return pick(d, 100) < percent; }

static double pick_number(draft_t *d, double low, double high) {
  return low + (high - low) * (double)tenon_random(d->seed, d->at++) / 4294967296.0;
}

/* Extents */

static extent_t fixed(int32_t extent) { return (extent_t){0, 0, extent}; }

static int64_t length_of(extent_t e, lengths_t lengths) {
  return (int64_t)e.n * lengths.n + (int64_t)e.m * lengths.m + e.plus;
}

static bool is_fixed(extent_t e) { return e.n == 0 && e.m == 0; }

static bool same_extent(extent_t a, extent_t b) {
  return a.n == b.n && a.m == b.m && a.plus == b.plus;
}

static bool is_one(extent_t e) { return is_fixed(e) && e.plus == 1; }

static bool same_shape(const value_t *a, const value_t *b) {
  bool is_same = a->rank == b->rank;
  for (int32_t i = 0; is_same && i < a->rank; i++)
    is_same = same_extent(a->shape[i], b->shape[i]);
  return is_same;
}

static int64_t count_of(const value_t *v, lengths_t lengths) {
  int64_t count = 1;
  for (int32_t i = 0; i < v->rank; i++)
    count *= length_of(v->shape[i], lengths);
  return count;
}

/* Dtypes */

static bool is_float(uint32_t dtype) {
  return dtype == TENON_F16 || dtype == TENON_BF16 || dtype == TENON_F32 || dtype == TENON_F64;
}

static uint32_t widen(uint32_t dtype) { return is_float(dtype) ? TENON_F64 : dtype; }

/* Values and nodes */

static int32_t add_value(draft_t *d, value_t value) {
  if (d->value_count == DRAFT_VALUES) {
    CHECK(!"a draft has too many values");
    abort();
  }
  d->values[d->value_count] = value;
  return d->value_count++;
}

static int32_t add_input(draft_t *d, uint32_t dtype, int32_t rank, const extent_t *shape,
                         double most) {
  value_t value = {.dtype = dtype, .rank = rank, .most = most, .is_exact = true, .node = -1};
  for (int32_t i = 0; i < rank; i++)
    value.shape[i] = shape[i];
  return add_value(d, value);
}

static part_t *add_part(draft_t *d, const char *op) {
  if (d->node_count == DRAFT_NODES) {
    CHECK(!"a draft has too many nodes");
    abort();
  }
  part_t *part = &d->nodes[d->node_count++];
  memset(part, 0, sizeof *part);
  part->op = op;
  return part;
}

static void read_value(draft_t *d, part_t *part, int32_t value) {
  items_t *items = &part->operands[part->operand_count++];
  items->count = value >= 0;
  items->values[0] = value;
  if (value >= 0) d->values[value].is_read = true;
}

static void read_list(draft_t *d, part_t *part, const int32_t *values, int32_t count) {
  items_t *items = &part->operands[part->operand_count++];
  items->count = count;
  for (int32_t i = 0; i < count; i++) {
    items->values[i] = values[i];
    d->values[values[i]].is_read = true;
  }
}

/* Adds a result of the last node. */
static int32_t add_result(draft_t *d, value_t value) {
  part_t *part = &d->nodes[d->node_count - 1];
  value.node = d->node_count - 1;
  value.keeps = part->keeps;
  value.is_read = false;
  value.constant = NULL;
  part->results[part->result_count++] = add_value(d, value);
  return d->value_count - 1;
}

/* Tensors */

/* Converts a tensor to another dtype, by the operator of the runtime. */
static tenon_tensor_t *converted(tenon_tensor_t *t, uint32_t dtype) {
  tenon_tensor_t *out = NULL;
  char text[32];
  const tenon_op_t *op = op_of("core::cast");
  if (tensor_has(t, dtype)) {
    tenon_tensor_retain(t);
    return t;
  }
  snprintf(text, sizeof text, "to=%s", tenon_dtype_name(tenon_dtype(dtype)));
  tenon_attrs_t *attrs = attrs_of(op, text);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), &t, &out, 0), TENON_OK);
  tenon_attrs_release(attrs);
  return out;
}

static void store(tenon_tensor_t *t, int64_t i, double number) {
  char *at = (char *)t->data + i * (t->dtype.bits / 8);
  const float f = (float)number;
  const int64_t whole = (int64_t)number;
  if (tensor_has(t, TENON_F32))
    memcpy(at, &f, sizeof f);
  else if (tensor_has(t, TENON_F64))
    memcpy(at, &number, sizeof number);
  else
    memcpy(at, &whole, t->dtype.bits / 8);
}

static tenon_tensor_t *make_tensor(uint32_t dtype, int32_t rank, const int64_t *shape) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), rank, shape, &t), TENON_OK);
  if (!t) abort();
  return t;
}

/* The dtype in which tensors are filled before they become f16 or bf16. */
static uint32_t filled_as(uint32_t dtype) {
  return dtype == TENON_F16 || dtype == TENON_BF16 ? TENON_F32 : dtype;
}

/* Converts a tensor, and releases it. */
static tenon_tensor_t *finish_tensor(tenon_tensor_t *t, uint32_t dtype) {
  tenon_tensor_t *out = converted(t, dtype);
  tenon_tensor_release(t);
  return out;
}

/* Constants */

/* Adds a constant of known shape; `numbers` NULL: random ones between low and high. */
static int32_t add_constant(draft_t *d, uint32_t dtype, int32_t rank, const int64_t *shape,
                            const double *numbers, double low, double high) {
  value_t value = {.dtype = dtype, .rank = rank, .is_exact = true, .node = -1};
  tenon_tensor_t *t = make_tensor(filled_as(dtype), rank, shape);
  for (int32_t i = 0; i < rank; i++)
    value.shape[i] = fixed((int32_t)shape[i]);
  for (int64_t i = 0; i < tenon_count(t); i++) {
    const double number = numbers ? numbers[i] : pick_number(d, low, high);
    store(t, i, number);
    value.most = fmax(value.most, fabs(number));
  }
  value.constant = finish_tensor(t, dtype);
  return add_value(d, value);
}

static int32_t add_scalar(draft_t *d, uint32_t dtype, double number) {
  return add_constant(d, dtype, 0, NULL, &number, 0, 0);
}

/* Adds a constant list of integers. */
static int32_t add_list(draft_t *d, int32_t count, const int32_t *numbers) {
  const int64_t shape[1] = {count};
  double doubles[16];
  for (int32_t i = 0; i < count; i++)
    doubles[i] = numbers[i];
  return add_constant(d, TENON_I64, 1, shape, doubles, 0, 0);
}

static void release_draft(draft_t *d) {
  for (int32_t i = 0; i < d->value_count; i++)
    tenon_tensor_release(d->values[i].constant);
  for (int32_t i = 0; i < d->node_count; i++)
    for (int k = 0; k < 2; k++)
      if (d->nodes[i].bodies[k]) release_draft(d->nodes[i].bodies[k]);
  free(d);
}

static draft_t *create_draft(uint64_t seed) {
  draft_t *d = malloc(sizeof *d);
  if (!d) abort();
  memset(d, 0, offsetof(draft_t, values));
  d->seed = seed;
  return d;
}

#endif
