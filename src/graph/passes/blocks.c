/* Rules for blocks of which parts are operators already: norms of channels, whose scale and shift
 * exporters write as a product and a sum, and rotary embeddings.
 * Invariant: a block is replaced only if no other node reads its large intermediate results. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "graph/passes/rules.h"
#include "operator/names.h"

enum {
  OPERANDS_MOST = 8,
  ATTRS_MOST = 8,
};

static tenon_dim_t extent_at(const tn_rewrite_t *r, tenon_edge_t edge, int32_t axis) {
  return tn_extents_resolve(r->graph->extents, r->graph->edges[edge].dims[axis]);
}

/* Whether an extent, which may be a symbol, is known to be twice another one. */
static bool is_twice(tenon_dim_t whole, tenon_dim_t half) {
  return whole.value > 0 && half.value == whole.value / 2 && whole.value % 2 == 0;
}

static int32_t rank_of(const tn_rewrite_t *r, tenon_edge_t edge) {
  return edge >= 0 ? r->graph->edges[edge].ndim : -1;
}

/* A dense constant; NULL: the edge is something else. */
static const tenon_tensor_t *constant_of(const tn_rewrite_t *r, tenon_edge_t edge) {
  const tenon_tensor_t *t = edge >= 0 ? r->graph->edges[edge].constant : NULL;
  return t && !(t->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL)) ? t : NULL;
}

/* Turns the node into one of another operator. Attributes that are not set have their defaults. */
static tenon_status_t become(tn_rewrite_t *r, tn_node_t *node, const tenon_op_t *op,
                             const tenon_value_t *attrs, const tenon_edge_t *operands) {
  TN_TRY(tn_graph_use_op(r->graph, op));
  return tn_node_become(r, node, op, attrs, operands);
}

/* Norms of channels */

typedef struct channels_t {
  tenon_edge_t x;
  int64_t count;
  int64_t groups;
  double epsilon;
  tenon_edge_t scale; /* constants that have one number for each channel; -1: none */
  tenon_edge_t bias;
  tn_node_t *end; /* the node whose result is scaled and shifted */
} channels_t;

/* Whether the edge is a constant that has one number for each channel of x. */
static bool is_per_channel(const tn_rewrite_t *r, tenon_edge_t edge, const channels_t *c) {
  const tenon_tensor_t *t = constant_of(r, edge);
  const int32_t skip = t ? rank_of(r, c->x) - t->ndim : -1;
  if (skip < 0 || skip > 1 || !tn_dtype_same(t->dtype, r->graph->edges[c->x].dtype)) return false;
  for (int32_t d = 0; d < t->ndim; d++)
    if (t->shape[d] != (d + skip == 1 ? c->count : 1)) return false;
  return true;
}

/* Follows the only reader of the end if it is `op` and its other operand has one number for each
 * channel; -1: it is something else. */
static tenon_edge_t take_factor(const tn_rewrite_t *r, const char *op, channels_t *c) {
  const tenon_edge_t y = c->end->outputs[0];
  tn_node_t *next = tn_only_user(r, y);
  if (!tn_node_is(next, op)) return -1;
  const tenon_edge_t other = tn_operand(next, 0) == y ? tn_operand(next, 1) : tn_operand(next, 0);
  if (!is_per_channel(r, other, c) || !tn_same_shape(r, y, next->outputs[0])) return -1;
  c->end = next;
  return other;
}

static void take_factors(const tn_rewrite_t *r, channels_t *c) {
  c->scale = take_factor(r, "core::mul", c);
  c->bias = take_factor(r, "core::add", c);
}

/* Adds the numbers of a constant as a vector; -1 stays -1. */
static tenon_status_t add_vector(tn_rewrite_t *r, tenon_edge_t edge, tenon_edge_t *out_edge) {
  uint64_t size;
  tenon_tensor_t *vector;
  const tenon_tensor_t *t = constant_of(r, edge);
  *out_edge = -1;
  if (!t) return TENON_OK;
  const int64_t count = tenon_count(t);
  TN_TRY(tenon_tensor_create(t->dtype, 1, &count, &vector));
  if (tn_dtype_bytes(t->dtype, count, &size)) memcpy(vector->data, t->data, (size_t)size);
  const tenon_status_t status = tn_rewrite_constant(r, vector, out_edge);
  tenon_tensor_release(vector);
  return status;
}

/* Turns the end into a norm of channels, of groups of them if `groups` is not 0. */
static tenon_status_t replace_channels(tn_rewrite_t *r, const channels_t *c) {
  tenon_value_t attrs[ATTRS_MOST];
  const tenon_op_t *op = tn_registry_find(c->groups ? "core::group_norm" : "core::instance_norm");
  if (!op || op->schema.attr_count > ATTRS_MOST || op->input_count != 3) return TENON_OK;
  tenon_edge_t operands[3] = {c->x};
  TN_TRY(add_vector(r, c->scale, &operands[1]));
  TN_TRY(add_vector(r, c->bias, &operands[2]));
  memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  attrs[tn_schema_attr(&op->schema, "epsilon", 7)].as.f = c->epsilon;
  if (c->groups)
    attrs[tn_schema_attr(&op->schema, "groups", 6)] =
        (tenon_value_t){TENON_KIND_INT, 0, {.i = c->groups}};
  return become(r, c->end, op, attrs, operands);
}

/* Whether the edge is absent, or a constant of f32 all of whose numbers are this one. */
static bool is_all(const tn_rewrite_t *r, tenon_edge_t edge, float number) {
  const tenon_tensor_t *t = constant_of(r, edge);
  if (edge < 0) return true;
  if (!t || !tn_dtype_is(t->dtype, TENON_F32)) return false;
  for (int64_t i = 0; i < tenon_count(t); i++)
    if (((const float *)t->data)[i] != number) return false;
  return true;
}

/* Whether the node gives each channel (axes 0 and 1) mean 0 and deviation 1, and does no more. */
static bool is_plain_norm(const tn_rewrite_t *r, const tn_node_t *node, double *out_epsilon) {
  const bool is_layer = tn_node_is(node, "core::layer_norm");
  if (!is_layer && !tn_node_is(node, "core::instance_norm")) return false;
  const int32_t rank = rank_of(r, tn_operand(node, 0));
  if (rank < 3 || !is_all(r, tn_operand(node, 1), 1) || !is_all(r, tn_operand(node, 2), 0))
    return false;
  const int64_t axis = is_layer ? node->attrs[tn_attr(node, "axis")].as.i : 2;
  *out_epsilon = node->attrs[tn_attr(node, "epsilon")].as.f;
  return axis == 2 || axis == 2 - rank;
}

/* Finds x, of whose channels groups are made before the norm and undone after it. */
static bool find_groups(const tn_rewrite_t *r, tn_node_t *after, channels_t *c) {
  const tenon_edge_t normed = tn_operand(after, 0);
  const int32_t producer = normed >= 0 ? r->graph->edges[normed].producer : -1;
  const tn_node_t *norm = producer >= 0 ? &r->graph->nodes[producer] : NULL;
  if (!norm || r->uses[normed] != 1 || !is_plain_norm(r, norm, &c->epsilon)) return false;
  const tenon_edge_t grouped = tn_operand(norm, 0);
  const tn_node_t *before = tn_maker(r, grouped, "core::reshape");
  if (!before || r->uses[grouped] != 1) return false;
  c->x = tn_operand(before, 0);
  c->end = after;
  if (rank_of(r, c->x) < 3 || !tn_same_shape(r, c->x, after->outputs[0]) ||
      extent_at(r, c->x, 0).value != extent_at(r, grouped, 0).value)
    return false;
  c->count = extent_at(r, c->x, 1).value;
  c->groups = extent_at(r, grouped, 1).value;
  return c->count > 0 && c->groups > 0 && c->count % c->groups == 0;
}

static tenon_status_t replace_group_norm(tn_rewrite_t *r, tn_node_t *reshape) {
  channels_t c;
  if (!find_groups(r, reshape, &c)) return TENON_OK;
  take_factors(r, &c);
  return replace_channels(r, &c);
}

static tenon_status_t replace_instance_norm(tn_rewrite_t *r, tn_node_t *norm) {
  channels_t c = {.x = tn_operand(norm, 0), .end = norm};
  if (!is_plain_norm(r, norm, &c.epsilon) || r->uses[norm->outputs[0]] != 1) return TENON_OK;
  c.count = extent_at(r, c.x, 1).value;
  take_factors(r, &c);
  return c.scale >= 0 ? replace_channels(r, &c) : TENON_OK;
}

/* Rotary embeddings */

enum { RANK = 4 };

typedef struct rotary_t {
  tenon_edge_t x;   /* [batch, heads, length, size] */
  tenon_edge_t cos; /* of each position and element */
  tenon_edge_t sin;
  int64_t size;
  bool is_interleaved; /* pairs are neighbours, not an element of each half */
  bool is_halved;      /* cos and sin are of each pair */
} rotary_t;

/* Reads a constant list of one number; false: it is something else. */
static bool read_one(const tn_rewrite_t *r, tenon_edge_t edge, int64_t *out_number) {
  const tenon_tensor_t *t = constant_of(r, edge);
  if (!t || !tn_dtype_is(t->dtype, TENON_I64) || tenon_count(t) != 1) return false;
  *out_number = *(const int64_t *)t->data;
  return true;
}

/* A part of the last axis of x. */
typedef struct part_t {
  tenon_edge_t x; /* -1: the edge is no part */
  bool is_second;
  bool is_interleaved; /* every other element; otherwise a half */
} part_t;

/* Finds of whose last axis the edge is a half, or every other element. */
static part_t find_part(const tn_rewrite_t *r, tenon_edge_t edge) {
  int64_t start, axis;
  int64_t step = 1;
  part_t part = {.x = -1};
  const int32_t rank = rank_of(r, edge);
  const tn_node_t *split = tn_maker(r, edge, "core::split");
  const tn_node_t *slice = tn_maker(r, edge, "core::slice");
  const tn_node_t *node = split ? split : slice;
  const tenon_edge_t x = node ? tn_operand(node, 0) : -1;
  if (rank < 1 || rank_of(r, x) != rank) return part;
  const int64_t size = extent_at(r, x, rank - 1).value;
  if (!is_twice(extent_at(r, x, rank - 1), extent_at(r, edge, rank - 1))) return part;
  if (split) {
    axis = split->attrs[tn_attr(split, "axis")].as.i;
    part.is_second = split->output_count == 2 && split->outputs[1] == edge;
    if (split->output_count == 2 && (axis == -1 || axis == rank - 1)) part.x = x;
    return part;
  }
  if (!read_one(r, tn_operand(slice, 1), &start) || !read_one(r, tn_operand(slice, 3), &axis) ||
      (tn_operand(slice, 4) >= 0 && !read_one(r, tn_operand(slice, 4), &step)) ||
      (axis != -1 && axis != rank - 1) || (step != 1 && step != 2))
    return part;
  if (start < 0) start += size;
  part.is_interleaved = step == 2;
  part.is_second = start > 0;
  const int64_t second = step == 2 ? 1 : size / 2;
  if (start == 0 || start == second) part.x = x;
  return part;
}

/* The two edges that are joined along a new or the present last axis: as halves, or as neighbours
 * if the edge is a reshape of them. False: there are none. */
static bool find_joined(const tn_rewrite_t *r, tenon_edge_t edge, tenon_edge_t *out_edges,
                        bool *out_interleaved) {
  const tn_node_t *reshape = tn_maker(r, edge, "core::reshape");
  const int32_t rank = rank_of(r, edge);
  *out_interleaved = reshape != NULL;
  if (rank < 1) return false;
  const tenon_edge_t stacked = reshape ? tn_operand(reshape, 0) : edge;
  const int32_t axes = reshape ? rank + 1 : rank;
  const tn_node_t *concat = tn_maker(r, stacked, "core::concat");
  if (!concat || concat->operands[0].count != 2 || rank_of(r, stacked) != axes ||
      (reshape && r->uses[stacked] != 1))
    return false;
  const int64_t axis = concat->attrs[tn_attr(concat, "axis")].as.i;
  for (int32_t i = 0; i < 2; i++)
    out_edges[i] = concat->operands[0].edges[i];
  if (axis != -1 && axis != axes - 1) return false;
  for (int32_t i = 0; i < 2 && reshape; i++) {
    const tn_node_t *apart = tn_maker(r, out_edges[i], "core::unsqueeze");
    if (!apart || extent_at(r, out_edges[i], rank).value != 1) return false;
    out_edges[i] = tn_operand(apart, 0);
    for (int32_t d = 0; d + 1 < rank; d++)
      if (extent_at(r, out_edges[i], d).value != extent_at(r, edge, d).value) return false;
  }
  return is_twice(extent_at(r, edge, rank - 1), extent_at(r, out_edges[0], rank - 1));
}

/* The edge x of whose pairs the elements are exchanged, the second ones with the other sign; -1: it
 * is none. */
static tenon_edge_t turned_of(const tn_rewrite_t *r, tenon_edge_t edge, bool *out_interleaved) {
  tenon_edge_t parts[2];
  if (edge < 0 || r->uses[edge] != 1 || !find_joined(r, edge, parts, out_interleaved)) return -1;
  const tn_node_t *neg = tn_maker(r, parts[0], "core::neg");
  if (!neg || r->uses[parts[0]] != 1) return -1;
  const part_t second = find_part(r, tn_operand(neg, 0));
  const part_t first = find_part(r, parts[1]);
  const bool is_pair = second.is_second && !first.is_second && first.x == second.x &&
                       first.is_interleaved == *out_interleaved &&
                       second.is_interleaved == *out_interleaved;
  return is_pair ? first.x : -1;
}

/* Whether the halves of each row of a constant are equal, or each two neighbours. */
static bool has_equal_pairs(const tenon_tensor_t *t, bool is_interleaved) {
  enum { MOST = 1 << 22 }; /* bytes that are looked at */
  uint64_t size;
  const int64_t length = t->ndim ? t->shape[t->ndim - 1] : 0;
  if (length < 2 || length % 2 || !tn_dtype_bytes(t->dtype, tenon_count(t), &size) || size > MOST)
    return false;
  const int64_t pairs = is_interleaved ? length / 2 : 1;
  const size_t half = (size_t)size / (size_t)(tenon_count(t) / length) / 2 / (size_t)pairs;
  for (const char *at = t->data; at < (const char *)t->data + size; at += 2 * half)
    if (memcmp(at, at + half, half) != 0) return false;
  return true;
}

/* The operand whose pairs along the last axis are equal if those of the node's result are; -1: that
 * is not known. */
static tenon_edge_t same_pairs(const tn_rewrite_t *r, const tn_node_t *node, tenon_edge_t edge) {
  static const char *const kept[] = {"core::cos",       "core::sin",     "core::cast",
                                     "core::unsqueeze", "core::squeeze", "core::expand",
                                     "core::gather",    "core::mul"};
  const size_t count = sizeof kept / sizeof *kept;
  tenon_edge_t x = tn_operand(node, 0);
  double factor;
  size_t i = 0;
  while (i < count && !tn_node_is(node, kept[i]))
    i++;
  if (i == count) return -1;
  if (tn_node_is(node, "core::mul")) {
    const bool is_first = tn_scalar(r, x, &factor);
    if (!is_first && !tn_scalar(r, tn_operand(node, 1), &factor)) return -1;
    if (is_first) x = tn_operand(node, 1);
  }
  const int32_t rank = rank_of(r, x);
  if (tn_node_is(node, "core::gather")) {
    const int64_t axis = node->attrs[tn_attr(node, "axis")].as.i;
    if (rank < 2 || axis == -1 || axis == rank - 1) return -1;
  }
  return rank > 0 && extent_at(r, x, rank - 1).value > 1 &&
                 extent_at(r, x, rank - 1).value == extent_at(r, edge, rank_of(r, edge) - 1).value
             ? x
             : -1;
}

/* Whether the edge repeats each element of another one along the last axis. */
static bool is_repeated(const tn_rewrite_t *r, tenon_edge_t edge) {
  const tn_node_t *reshape = tn_maker(r, edge, "core::reshape");
  const int32_t rank = rank_of(r, edge);
  const tn_node_t *wide = reshape ? tn_maker(r, tn_operand(reshape, 0), "core::expand") : NULL;
  if (!wide || rank_of(r, wide->outputs[0]) != rank + 1 ||
      rank_of(r, tn_operand(wide, 0)) != rank + 1)
    return false;
  return extent_at(r, tn_operand(wide, 0), rank).value == 1 &&
         extent_at(r, wide->outputs[0], rank).value == 2 &&
         is_twice(extent_at(r, edge, rank - 1), extent_at(r, wide->outputs[0], rank - 1));
}

/* Whether the elements of each pair along the last axis of the edge are equal. */
static bool is_doubled(const tn_rewrite_t *r, tenon_edge_t edge, bool is_interleaved) {
  enum { STEPS = 16 };
  tenon_edge_t parts[2];
  bool is_stacked;
  for (int step = 0; step < STEPS && rank_of(r, edge) > 0; step++) {
    const tenon_tensor_t *t = constant_of(r, edge);
    if (t) return has_equal_pairs(t, is_interleaved);
    const int32_t producer = r->graph->edges[edge].producer;
    const tn_node_t *node = producer >= 0 ? &r->graph->nodes[producer] : NULL;
    if (!node || !node->op) return false;
    if (is_interleaved && is_repeated(r, edge)) return true;
    if (find_joined(r, edge, parts, &is_stacked))
      return parts[0] == parts[1] && is_stacked == is_interleaved;
    edge = same_pairs(r, node, edge);
    if (edge < 0) return false;
  }
  return false;
}

/* Whether the edge has a row for each position of x, which all heads share. */
static bool fits_positions(const tn_rewrite_t *r, tenon_edge_t edge, const rotary_t *rotary) {
  const int32_t rank = rank_of(r, edge);
  const int64_t batch = extent_at(r, rotary->x, 0).value;
  const int64_t size = rotary->is_halved ? rotary->size / 2 : rotary->size;
  if (rank < 2 || rank > RANK || extent_at(r, edge, rank - 1).value != size ||
      extent_at(r, edge, rank - 2).value != extent_at(r, rotary->x, 2).value)
    return false;
  if (rank > 2 && extent_at(r, edge, rank - 3).value != 1) return false;
  const int64_t own = rank == RANK ? extent_at(r, edge, 0).value : 1;
  return own == batch || (own == 1 && batch > 0);
}

/* Finds x * cos + turned(x) * sin. */
static bool find_sum(const tn_rewrite_t *r, const tn_node_t *sum, rotary_t *out) {
  for (uint32_t i = 0; i < 2; i++) {
    const tenon_edge_t plain = tn_operand(sum, i);
    const tenon_edge_t turned = tn_operand(sum, 1 - i);
    const tn_node_t *first = tn_maker(r, plain, "core::mul");
    const tn_node_t *second = tn_maker(r, turned, "core::mul");
    if (!first || !second || r->uses[plain] != 1 || r->uses[turned] != 1) return false;
    for (uint32_t k = 0; k < 4; k++) {
      const tenon_edge_t pairs = tn_operand(second, k % 2);
      out->x = tn_operand(first, k / 2);
      out->cos = tn_operand(first, 1 - k / 2);
      out->sin = tn_operand(second, 1 - k % 2);
      if (rank_of(r, out->x) == RANK && turned_of(r, pairs, &out->is_interleaved) == out->x)
        return true;
    }
  }
  return false;
}

/* A part of x times a factor. */
typedef struct term_t {
  part_t part;
  tenon_edge_t factor;
} term_t;

/* Reads the two terms of a sum or difference that nothing else reads. */
static bool read_terms(const tn_rewrite_t *r, tenon_edge_t edge, const char *op, term_t *out) {
  const tn_node_t *sum = tn_maker(r, edge, op);
  if (!sum || r->uses[edge] != 1) return false;
  for (uint32_t i = 0; i < 2; i++) {
    const tn_node_t *mul = tn_maker(r, tn_operand(sum, i), "core::mul");
    if (!mul || r->uses[tn_operand(sum, i)] != 1) return false;
    out[i] = (term_t){find_part(r, tn_operand(mul, 0)), tn_operand(mul, 1)};
    if (out[i].part.x < 0) out[i] = (term_t){find_part(r, tn_operand(mul, 1)), tn_operand(mul, 0)};
    if (out[i].part.x < 0) return false;
  }
  return true;
}

/* Finds first * cos - second * sin, joined with second * cos + first * sin. */
static bool find_pairs(const tn_rewrite_t *r, const tn_node_t *last, rotary_t *out) {
  tenon_edge_t parts[2];
  term_t minus[2], plus[2];
  if (!find_joined(r, last->outputs[0], parts, &out->is_interleaved) ||
      !read_terms(r, parts[0], "core::sub", minus) || !read_terms(r, parts[1], "core::add", plus))
    return false;
  const term_t *seconds = &plus[!plus[0].part.is_second];
  const term_t *firsts = &plus[plus[0].part.is_second];
  const term_t *all[] = {&minus[0], &minus[1], seconds, firsts};
  *out =
      (rotary_t){minus[0].part.x, minus[0].factor, minus[1].factor, 0, out->is_interleaved, true};
  for (int i = 0; i < 4; i++)
    if (all[i]->part.x != out->x || all[i]->part.is_interleaved != out->is_interleaved ||
        all[i]->part.is_second != (i == 1 || i == 2) ||
        all[i]->factor != (i % 2 ? out->sin : out->cos))
      return false;
  return rank_of(r, out->x) == RANK;
}

/* Finds what the node is the end of. */
static bool find_rotary(const tn_rewrite_t *r, const tn_node_t *last, rotary_t *out) {
  *out = (rotary_t){.x = -1};
  return tn_node_is(last, "core::add") ? find_sum(r, last, out) : find_pairs(r, last, out);
}

/* Inserts a node of a built-in operator that also reads a constant list of numbers. */
static tenon_status_t insert_moved(tn_rewrite_t *r, int32_t at, const char *name, tenon_edge_t x,
                                   const int64_t *numbers, int64_t count, tenon_edge_t *out_edge) {
  int32_t index;
  tenon_tensor_t *list;
  tenon_edge_t edges[] = {x, -1};
  const tenon_op_t *op = tn_registry_find(name);
  if (!op || op->schema.attr_count > ATTRS_MOST)
    return tn_fail(TENON_NOT_FOUND, "no operator '%s'", name);
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_I64), 1, &count, &list));
  memcpy(list->data, numbers, (size_t)count * sizeof *numbers);
  const tenon_status_t status = tn_rewrite_constant(r, list, &edges[1]);
  tenon_tensor_release(list);
  TN_TRY(status);
  tenon_operand_t operands[OPERANDS_MOST] = {{1, &edges[0]}, {1, &edges[1]}};
  const tn_insertion_t what = {r->graph->nodes[at].name, op, op->defaults, operands, 1};
  TN_TRY(tn_rewrite_insert(r, at, &what, &index));
  *out_edge = r->graph->nodes[index].outputs[0];
  return TENON_OK;
}

/* Inserts a node that makes the first element of each pair. */
static tenon_status_t take_firsts(tn_rewrite_t *r, int32_t at, const rotary_t *rotary,
                                  tenon_edge_t *edge) {
  enum { LISTS = 4 }; /* starts, ends, axes, steps */
  int32_t index;
  const int64_t end = rotary->is_interleaved ? rotary->size : rotary->size / 2;
  const int64_t numbers[] = {0, end, rank_of(r, *edge) - 1, rotary->is_interleaved ? 2 : 1};
  const tenon_op_t *op = tn_registry_find("core::slice");
  const int64_t length[] = {1};
  tenon_edge_t edges[1 + LISTS] = {*edge};
  tenon_operand_t operands[OPERANDS_MOST] = {{1, &edges[0]}};
  if (!op) return tn_fail(TENON_NOT_FOUND, "no operator 'core::slice'");
  for (uint32_t i = 1; i <= LISTS; i++) {
    tenon_tensor_t *number;
    TN_TRY(tenon_tensor_create(tenon_dtype(TENON_I64), 1, length, &number));
    *(int64_t *)number->data = numbers[i - 1];
    const tenon_status_t status = tn_rewrite_constant(r, number, &edges[i]);
    tenon_tensor_release(number);
    TN_TRY(status);
    operands[i] = (tenon_operand_t){1, &edges[i]};
  }
  const tn_insertion_t what = {r->graph->nodes[at].name, op, op->defaults, operands, 1};
  TN_TRY(tn_rewrite_insert(r, at, &what, &index));
  *edge = r->graph->nodes[index].outputs[0];
  return TENON_OK;
}

/* Inserts nodes that make the rows [batch, length, size / 2]. */
static tenon_status_t make_rows(tn_rewrite_t *r, int32_t at, const rotary_t *rotary,
                                tenon_edge_t *edge) {
  static const int64_t zero = 0;
  static const int64_t one = 1;
  const int32_t rank = rank_of(r, *edge);
  const int64_t batch = extent_at(r, rotary->x, 0).value;
  const int64_t wide[] = {batch, 1, 1};
  if (!rotary->is_halved) TN_TRY(take_firsts(r, at, rotary, edge));
  if (rank == 2) TN_TRY(insert_moved(r, at, "core::unsqueeze", *edge, &zero, 1, edge));
  if (rank == RANK) TN_TRY(insert_moved(r, at, "core::squeeze", *edge, &one, 1, edge));
  if (extent_at(r, *edge, 0).value == batch) return TENON_OK;
  return insert_moved(r, at, "core::expand", *edge, wide, 3, edge);
}

static tenon_status_t replace_rotary(tn_rewrite_t *r, tn_node_t *last) {
  rotary_t rotary;
  tenon_value_t attrs[ATTRS_MOST];
  const int32_t at = (int32_t)(last - r->graph->nodes);
  const tenon_op_t *op = tn_registry_find("core::rotary_embedding");
  if (!op || op->input_count > OPERANDS_MOST || op->schema.attr_count > ATTRS_MOST ||
      !find_rotary(r, last, &rotary))
    return TENON_OK;
  const tenon_dtype_t dtype = r->graph->edges[rotary.x].dtype;
  rotary.size = extent_at(r, rotary.x, RANK - 1).value;
  if ((!tn_dtype_is(dtype, TENON_F32) && !tn_dtype_is(dtype, TENON_F64)) ||
      !tn_same_shape(r, rotary.x, last->outputs[0]) || !fits_positions(r, rotary.cos, &rotary) ||
      !fits_positions(r, rotary.sin, &rotary))
    return TENON_OK;
  if (!rotary.is_halved && (!is_doubled(r, rotary.cos, rotary.is_interleaved) ||
                            !is_doubled(r, rotary.sin, rotary.is_interleaved)))
    return TENON_OK;
  TN_TRY(make_rows(r, at, &rotary, &rotary.cos));
  TN_TRY(make_rows(r, at, &rotary, &rotary.sin));
  tenon_edge_t operands[OPERANDS_MOST] = {rotary.x, rotary.cos, rotary.sin};
  for (uint32_t i = 3; i < op->input_count; i++)
    operands[i] = -1;
  memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  attrs[tn_schema_attr(&op->schema, "interleaved", 11)].as.i = rotary.is_interleaved;
  return become(r, &r->graph->nodes[at], op, attrs, operands);
}

const tn_rewrite_rule_t tn_rules_blocks[] = {
    {"layer_norm_of_rms: rms_norm(sub(x, reduce_mean(x, [-1])), scale?, epsilon=e) -> "
     "layer_norm(x, scale?, epsilon=e)",
     NULL,
     {NULL},
     NULL},
    {"layer_norm_biased: add(layer_norm(x, scale, epsilon=e), bias) -> "
     "layer_norm(x, scale, bias, epsilon=e)",
     NULL,
     {NULL},
     NULL},
    {"group_norm: add(mul(reshape(instance_norm(reshape(x))), scale), bias) -> "
     "group_norm(x, scale, bias)",
     "The first reshape makes groups of channels, and the second one undoes it. Scale and bias are "
     "constants with one number for each channel, or absent; the norm may be a layer_norm.",
     {"core::reshape"},
     replace_group_norm},
    {"instance_norm: add(mul(layer_norm(x, axis=2), scale), bias) -> instance_norm(x, scale, bias)",
     "Scale and bias are constants with one number for each channel; the bias may be absent.",
     {"core::layer_norm"},
     replace_instance_norm},
    {"rotary: add(mul(x, cos), mul(concat(neg(second), first), sin)) -> "
     "rotary_embedding(x, cos, sin)",
     "x has four axes, and first and second are the halves of its last one, or every other "
     "element; a concat or stack of first * cos - second * sin and second * cos + first * sin is "
     "the same. cos and sin are those of the pairs, or repeat them, as constants or by a concat, "
     "stack or expand.",
     {"core::add", "core::concat", "core::reshape"},
     replace_rotary},
    {NULL, NULL, {NULL}, NULL}};
