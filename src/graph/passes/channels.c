/* Folds constant scales and shifts of channels into the convolutions and matrix products before or
 * after them: batch_norm, and products and sums with constants. A sum of convolutions of the same
 * value becomes one convolution, of which a scaled value is a case: its kernel has one element. A
 * mean over all positions becomes a pool.
 * Networks that are trained with several branches and run with one (RepVGG, MobileOne) shrink by
 * this. Called by the compiler after offloading, for graphs without gradients.
 * Invariant: only weights of f32 that are constants are changed, each time into a new constant. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/pass.h"
#include "graph/passes/rules.h"
#include "operator/names.h"

enum {
  MOST_OPERANDS = 8,
  SPATIAL = TENON_RANK_MAX,
  DEEPEST = 8, /* of sums whose terms are scaled */
};

/* y = scale * x + shift for each channel of axis 1. */
typedef struct affine_t {
  const tn_node_t *node;
  uint32_t side; /* the operand that is the constant, if the node is no normalisation */
  tenon_edge_t x;
  int64_t channels;
  double *scale;
  double *shift;
} affine_t;

/* A convolution or product with constant weights, and where it has its outputs' channels. */
typedef struct product_t {
  tn_node_t *node;
  const tenon_tensor_t *w;
  const tenon_tensor_t *bias; /* NULL: none */
  int64_t channels;           /* of the result */
  int64_t inner;              /* elements of the weights that follow one another in a channel */
} product_t;

/* Constants */

/* A constant of f32 without gaps; NULL: the edge is something else. */
static const tenon_tensor_t *weights_of(const tn_rewrite_t *r, tenon_edge_t edge) {
  const tenon_tensor_t *t = edge >= 0 ? r->graph->edges[edge].constant : NULL;
  bool is = t && tn_dtype_is(t->dtype, TENON_F32) && !(t->keys & TN_KEY_STRIDED);
  return is ? t : NULL;
}

/* A vector of one number for each channel; NULL: the edge is something else. */
static const float *vector_of(const tn_rewrite_t *r, tenon_edge_t edge, int64_t channels) {
  const tenon_tensor_t *t = weights_of(r, edge);
  return t && t->ndim == 1 && t->shape[0] == channels ? t->data : NULL;
}

static double *new_numbers(int64_t count, double value) {
  double *numbers = tn_scratch((size_t)count * sizeof *numbers + 1);
  for (int64_t i = 0; numbers && i < count; i++)
    numbers[i] = value;
  return numbers;
}

/* A new tensor of f32 with a shape of the caller's. */
static tenon_status_t new_weights(int32_t ndim, const int64_t *shape, tenon_tensor_t **out) {
  return tenon_tensor_create(tenon_dtype(TENON_F32), ndim, shape, out);
}

/* Makes the tensor a constant of the graph, and releases it. */
static tenon_status_t hand_over(tn_rewrite_t *r, tenon_tensor_t *tensor, tenon_edge_t *out) {
  tenon_status_t status = tn_rewrite_constant(r, tensor, out);
  tenon_tensor_release(tensor);
  return status;
}

/* Makes a vector a constant of the graph; -1 if all of it is 0. */
static tenon_status_t add_vector(tn_rewrite_t *r, const double *values, int64_t count,
                                 tenon_edge_t *out) {
  bool is_zero = true;
  tenon_tensor_t *tensor;
  *out = -1;
  for (int64_t i = 0; i < count; i++)
    is_zero &= values[i] == 0;
  if (is_zero) return TENON_OK;
  TN_TRY(new_weights(1, &count, &tensor));
  for (int64_t i = 0; i < count; i++)
    ((float *)tensor->data)[i] = (float)values[i];
  return hand_over(r, tensor, out);
}

/* Scales and shifts */

/* The number of channels of a value; 0: it is unknown. */
static int64_t channels_of(const tn_rewrite_t *r, tenon_edge_t edge) {
  const tn_edge_t *x = &r->graph->edges[edge];
  if (x->ndim < 2) return 0;
  tenon_dim_t extent = tn_extents_resolve(r->graph->extents, x->dims[1]);
  return tenon_is_known(extent) && extent.value > 0 ? extent.value : 0;
}

/* The numbers of a constant that has one for each channel of x, or one for all (*out_step is then
 * 0); NULL: it has others. */
static const float *factors_of(const tn_rewrite_t *r, tenon_edge_t edge, tenon_edge_t x,
                               int64_t channels, int64_t *out_step) {
  const tenon_tensor_t *t = weights_of(r, edge);
  const int32_t skipped = t ? r->graph->edges[x].ndim - t->ndim : -1;
  if (skipped < 0) return NULL;
  *out_step = tenon_count(t) != 1;
  for (int32_t d = 0; *out_step && d < t->ndim; d++)
    if (t->shape[d] != (d + skipped == 1 ? channels : 1)) return NULL;
  return t->data;
}

static bool read_batch_norm(const tn_rewrite_t *r, const tn_node_t *node, affine_t *out) {
  const float *v[4];
  const int32_t epsilon = tn_attr(node, "epsilon");
  for (uint32_t i = 0; i < 4; i++) {
    v[i] = vector_of(r, tn_operand(node, 1 + i), out->channels);
    if (!v[i]) return false;
  }
  for (int64_t c = 0; c < out->channels; c++) {
    out->scale[c] = v[0][c] / sqrt((double)v[3][c] + node->attrs[epsilon].as.f);
    out->shift[c] = v[1][c] - v[2][c] * out->scale[c];
  }
  return true;
}

/* Reads a product, quotient, sum or difference of x and a constant. `side` is the constant's. */
static bool read_arithmetic(const tn_rewrite_t *r, const tn_node_t *node, uint32_t side,
                            affine_t *out) {
  int64_t step;
  const float *v = factors_of(r, tn_operand(node, side), out->x, out->channels, &step);
  const bool is_product = tn_node_is(node, "core::mul");
  const bool is_quotient = tn_node_is(node, "core::div");
  const bool is_difference = tn_node_is(node, "core::sub");
  if (!v || (side == 0 && is_quotient)) return false;
  for (int64_t c = 0; c < out->channels; c++) {
    const double value = v[c * step];
    if (is_product) {
      out->scale[c] = value;
    } else if (is_quotient) {
      out->scale[c] = 1 / value;
    } else {
      out->scale[c] = is_difference && side == 0 ? -1 : 1;
      out->shift[c] = is_difference && side == 1 ? -value : value;
    }
  }
  return true;
}

static bool is_arithmetic(const tn_node_t *node) {
  static const char *const names[] = {"core::mul", "core::div", "core::add", "core::sub"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tn_node_is(node, names[i])) return true;
  return false;
}

/* Whether the node may scale and shift the channels of a value by constants. Sets all but the
 * numbers, which are many: read them once the node is known to be folded. */
static bool find_affine(const tn_rewrite_t *r, const tn_node_t *node, affine_t *out) {
  const bool is_norm = tn_node_is(node, "core::batch_norm");
  if ((!is_norm && !is_arithmetic(node)) || node->group) return false;
  uint32_t side = weights_of(r, tn_operand(node, 0)) ? 0 : 1;
  *out = (affine_t){.node = node, .side = side, .x = tn_operand(node, is_norm ? 0 : 1 - side)};
  if (out->x < 0 || r->graph->edges[out->x].constant ||
      !tn_same_shape(r, out->x, node->outputs[0]) ||
      !tn_dtype_is(r->graph->edges[out->x].dtype, TENON_F32))
    return false;
  out->channels = channels_of(r, out->x);
  return out->channels > 0;
}

/* Reads the numbers into scratch memory. Returns false if they are not all finite constants. */
static bool read_affine(const tn_rewrite_t *r, affine_t *a) {
  const bool is_norm = tn_node_is(a->node, "core::batch_norm");
  a->scale = new_numbers(a->channels, 1);
  a->shift = new_numbers(a->channels, 0);
  if (!a->scale || !a->shift) return false;
  if (!(is_norm ? read_batch_norm(r, a->node, a) : read_arithmetic(r, a->node, a->side, a)))
    return false;
  for (int64_t c = 0; c < a->channels; c++)
    if (!isfinite(a->scale[c]) || !isfinite(a->shift[c])) return false;
  return true;
}

/* Products and convolutions */

static bool has_int(const tn_node_t *node, const char *attr, int64_t value) {
  const int32_t at = tn_attr(node, attr);
  return at < 0 || node->attrs[at].as.i == value;
}

/* Whether the node computes w x + bias and nothing else: no activation, no residual, no factors. */
static bool is_plain_product(const tn_node_t *node) {
  if (!tn_node_is(node, "core::gemm"))
    return has_int(node, "activation", 0) && tn_operand(node, 3) < 0;
  const int32_t alpha = tn_attr(node, "alpha");
  const int32_t beta = tn_attr(node, "beta");
  return node->attrs[alpha].as.f == 1 && node->attrs[beta].as.f == 1;
}

/* Finds the product whose result the edge is, if its weights and bias can change. */
static bool find_product(const tn_rewrite_t *r, tenon_edge_t edge, product_t *out) {
  const char *const names[] = {"core::conv", "core::matmul", "core::gemm"};
  *out = (product_t){.node = NULL};
  for (size_t i = 0; i < sizeof names / sizeof *names && !out->node; i++)
    out->node = tn_maker(r, edge, names[i]);
  const tn_node_t *node = out->node;
  if (!node || node->group || node->op->input_count > MOST_OPERANDS || !is_plain_product(node))
    return false;
  out->w = weights_of(r, tn_operand(node, 1));
  out->bias = weights_of(r, tn_operand(node, 2));
  const bool is_conv = tn_node_is(node, "core::conv");
  if (!out->w || (!is_conv && (out->w->ndim != 2 || r->graph->edges[edge].ndim != 2))) return false;
  const bool is_by_row =
      is_conv || !(has_int(node, "transpose_b", 0) && has_int(node, "trans_b", 0));
  out->channels = out->w->shape[is_by_row ? 0 : 1];
  if (out->channels < 1 || out->channels != channels_of(r, edge)) return false;
  out->inner = is_by_row ? tenon_count(out->w) / out->channels : 1;
  if (tn_operand(node, 2) < 0) return true;
  return out->bias && out->bias->ndim > 0 && tenon_count(out->bias) == out->channels &&
         out->bias->shape[out->bias->ndim - 1] == out->channels;
}

/* Gives a product other weights and another bias. */
static tenon_status_t set_weights(tn_rewrite_t *r, tn_node_t *node, tenon_edge_t w,
                                  tenon_edge_t bias) {
  tenon_edge_t operands[MOST_OPERANDS];
  for (uint32_t i = 0; i < node->op->input_count; i++)
    operands[i] = tn_operand(node, i);
  operands[1] = w;
  operands[2] = bias;
  return tn_node_become(r, node, node->op, node->attrs, operands);
}

/* The biases of a product in scratch memory; NULL: there is no memory. */
static double *biases_of(const product_t *p) {
  double *biases = new_numbers(p->channels, 0);
  const float *from = p->bias ? p->bias->data : NULL;
  for (int64_t c = 0; biases && from && c < p->channels; c++)
    biases[c] = from[c];
  return biases;
}

/* Scale and shift after a product */

/* Whether the edge is read by `reader` only, and is a product or a sum of such. */
static bool can_scale(const tn_rewrite_t *r, tenon_edge_t edge, const tn_node_t *reader,
                      int32_t depth) {
  product_t p;
  if (tn_only_user(r, edge) != reader) return false;
  if (find_product(r, edge, &p)) return true;
  const tn_node_t *sum = tn_maker(r, edge, "core::add");
  if (!sum || sum->group || depth == DEEPEST) return false;
  for (uint32_t i = 0; i < 2; i++) {
    tenon_edge_t term = tn_operand(sum, i);
    if (term < 0 || !tn_same_shape(r, term, edge) || !can_scale(r, term, sum, depth + 1))
      return false;
  }
  return true;
}

/* Scales the channels of a value for which can_scale holds, and adds `shift` unless it is NULL. */
static tenon_status_t scale_product(tn_rewrite_t *r, tenon_edge_t edge, const double *scale,
                                    const double *shift) {
  product_t p;
  tenon_tensor_t *w;
  tenon_edge_t new_w, new_bias;
  if (!find_product(r, edge, &p)) {
    const tn_node_t *sum = &r->graph->nodes[r->graph->edges[edge].producer];
    TN_TRY(scale_product(r, tn_operand(sum, 0), scale, shift));
    return scale_product(r, tn_operand(sum, 1), scale, NULL);
  }
  double *biases = biases_of(&p);
  bool is_scaled = false;
  if (!biases) return tn_no_memory("folding", 0);
  for (int64_t c = 0; c < p.channels; c++) {
    biases[c] = biases[c] * scale[c] + (shift ? shift[c] : 0);
    is_scaled |= scale[c] != 1;
  }
  new_w = tn_operand(p.node, 1);
  if (is_scaled) {
    TN_TRY(new_weights(p.w->ndim, p.w->shape, &w));
    const float *from = p.w->data;
    for (int64_t i = 0; i < tenon_count(w); i++)
      ((float *)w->data)[i] = (float)(from[i] * scale[i / p.inner % p.channels]);
    TN_TRY(hand_over(r, w, &new_w));
  }
  TN_TRY(add_vector(r, biases, p.channels, &new_bias));
  return set_weights(r, p.node, new_w, new_bias);
}

static tenon_status_t fold_backwards(tn_rewrite_t *r, tn_node_t *node, affine_t *a) {
  if (!can_scale(r, a->x, node, 0) || !read_affine(r, a)) return TENON_OK;
  TN_TRY(scale_product(r, a->x, a->scale, a->shift));
  tn_redirect(r, node->outputs[0], a->x);
  tn_node_remove(r, node);
  return TENON_OK;
}

/* Scale and shift before a convolution */

static int64_t int_at(const tn_node_t *node, const char *attr, int32_t index, int64_t otherwise) {
  const int32_t at = tn_attr(node, attr);
  const bool is_given = at >= 0 && (uint32_t)index < node->attrs[at].count;
  return is_given ? node->attrs[at].as.ints[index] : otherwise;
}

/* Whether a convolution reads no padding, whose zeros are neither scaled nor shifted. */
static bool is_unpadded(const tn_node_t *conv, int32_t spatial) {
  enum { EXPLICIT, SAME_UPPER, SAME_LOWER, VALID };
  for (int32_t i = 0; i < 2 * spatial; i++)
    if (int_at(conv, "pads", i, 0) != 0) return false;
  return has_int(conv, "auto_pad", EXPLICIT) || has_int(conv, "auto_pad", VALID);
}

static tenon_status_t fold_forwards(tn_rewrite_t *r, tn_node_t *node, affine_t *a) {
  product_t p;
  tenon_tensor_t *w;
  tenon_edge_t new_w, new_bias;
  const tn_node_t *reader = tn_only_user(r, node->outputs[0]);
  if (!tn_node_is(reader, "core::conv") || tn_operand(reader, 0) != node->outputs[0] ||
      !find_product(r, reader->outputs[0], &p) || !read_affine(r, a))
    return TENON_OK;
  bool is_shifted = false;
  for (int64_t c = 0; c < a->channels; c++)
    is_shifted |= a->shift[c] != 0;
  if (is_shifted && !is_unpadded(p.node, p.w->ndim - 2)) return TENON_OK;
  const int64_t depth = p.w->shape[1];
  const int64_t group_channels = p.channels * depth / a->channels; /* outputs of a group */
  const int64_t taps = p.inner / depth;
  double *biases = biases_of(&p);
  if (!biases) return tn_no_memory("folding", 0);
  TN_TRY(new_weights(p.w->ndim, p.w->shape, &w));
  const float *from = p.w->data;
  for (int64_t i = 0; i < tenon_count(w); i++) {
    const int64_t output = i / p.inner;
    const int64_t input = output / group_channels * depth + i / taps % depth;
    ((float *)w->data)[i] = (float)(from[i] * a->scale[input]);
    biases[output] += from[i] * a->shift[input];
  }
  TN_TRY(hand_over(r, w, &new_w));
  TN_TRY(add_vector(r, biases, p.channels, &new_bias));
  TN_TRY(set_weights(r, p.node, new_w, new_bias));
  tn_redirect(r, node->outputs[0], a->x);
  tn_node_remove(r, node);
  return TENON_OK;
}

/* Sums of convolutions of the same value */

/* A term of a sum: a convolution, or a value that is scaled and shifted. */
typedef struct term_t {
  tenon_edge_t x;
  tn_node_t *node;   /* NULL: the term is the value itself */
  product_t product; /* .node NULL: the term is no convolution */
  affine_t affine;
} term_t;

/* Finds what the term of a sum computes. `sum` must be its only reader, unless it is a value. The
 * numbers of a value that is scaled are not read. */
static void find_term(const tn_rewrite_t *r, tenon_edge_t edge, const tn_node_t *sum, term_t *out) {
  *out = (term_t){.x = edge};
  if (tn_only_user(r, edge) != sum) return;
  if (find_product(r, edge, &out->product) && tn_node_is(out->product.node, "core::conv") &&
      has_int(out->product.node, "auto_pad", 0)) {
    out->node = out->product.node;
    out->x = tn_operand(out->node, 0);
    return;
  }
  out->product.node = NULL;
  const int32_t producer = r->graph->edges[edge].producer;
  if (producer < 0 || !find_affine(r, &r->graph->nodes[producer], &out->affine)) return;
  out->node = &r->graph->nodes[producer];
  out->x = out->affine.x;
}

/* Finds where the kernel of `small` lies in the kernel of `big`; a value has one element at the
 * place where nothing is padded. False: it does not lie in it. */
static bool find_offset(const product_t *big, const product_t *small, int64_t *out_offset) {
  const int32_t spatial = big->w->ndim - 2;
  const bool is_value = !small->node;
  if (!is_value && (small->w->ndim != big->w->ndim || small->w->shape[1] != big->w->shape[1]))
    return false; /* of the same rank, the same channels and the same number of groups */
  for (int32_t i = 0; i < spatial; i++) {
    const int64_t step = int_at(big->node, "dilations", i, 1);
    const int64_t extent = is_value ? 1 : small->w->shape[2 + i];
    const int64_t pad = is_value ? 0 : int_at(small->node, "pads", i, 0);
    const int64_t stride = is_value ? 1 : int_at(small->node, "strides", i, 1);
    const int64_t before = int_at(big->node, "pads", i, 0) - pad;
    if (stride != int_at(big->node, "strides", i, 1) || before < 0 || before % step != 0 ||
        before / step + extent > big->w->shape[2 + i] ||
        (extent > 1 && int_at(small->node, "dilations", i, 1) != step))
      return false;
    out_offset[i] = before / step;
  }
  return true;
}

/* Adds a kernel to a larger one at an offset. `rows` is the number of kernels of both. */
static void merge_kernel(float *to, const int64_t *to_shape, const float *from,
                         const int64_t *from_shape, const int64_t *offset, int32_t spatial,
                         int64_t rows) {
  int64_t to_size = 1, from_size = 1;
  for (int32_t d = 0; d < spatial; d++) {
    to_size *= to_shape[d];
    from_size *= from_shape[d];
  }
  for (int64_t i = 0; i < rows * from_size; i++) {
    int64_t rest = i % from_size;
    int64_t at = 0;
    int64_t stride = 1;
    for (int32_t d = spatial - 1; d >= 0; d--) {
      at += (rest % from_shape[d] + offset[d]) * stride;
      rest /= from_shape[d];
      stride *= to_shape[d];
    }
    to[i / from_size * to_size + at] += from[i];
  }
}

/* Adds the scales of a value to the kernels that lead from each channel to the same. */
static void merge_value(float *to, const product_t *big, const affine_t *a, const int64_t *offset) {
  const int32_t spatial = big->w->ndim - 2;
  const int64_t depth = big->w->shape[1];
  const int64_t taps = big->inner / depth;
  int64_t at = 0;
  for (int32_t d = 0; d < spatial; d++)
    at = at * big->w->shape[2 + d] + offset[d];
  for (int64_t c = 0; c < big->channels; c++)
    to[c * big->inner + c % depth * taps + at] += (float)(a->scale ? a->scale[c] : 1);
}

/* Turns `sum` into one convolution that computes both terms. */
static tenon_status_t become_convolution(tn_rewrite_t *r, tn_node_t *sum, const term_t *big,
                                         const term_t *small, const int64_t *offset) {
  const product_t *p = &big->product;
  const product_t *q = &small->product;
  tenon_tensor_t *w;
  tenon_edge_t operands[MOST_OPERANDS] = {big->x, -1, -1, -1};
  double *biases = biases_of(p);
  const double *others = q->node ? biases_of(q) : small->affine.shift;
  if (!biases || (q->node && !others)) return tn_no_memory("folding", 0);
  for (int64_t c = 0; others && c < p->channels; c++)
    biases[c] += others[c];
  TN_TRY(new_weights(p->w->ndim, p->w->shape, &w));
  memcpy(w->data, p->w->data, (size_t)tenon_count(w) * sizeof(float));
  if (q->node)
    merge_kernel(w->data, &w->shape[2], q->w->data, &q->w->shape[2], offset, w->ndim - 2,
                 p->channels * w->shape[1]);
  else
    merge_value(w->data, p, &small->affine, offset);
  TN_TRY(hand_over(r, w, &operands[1]));
  TN_TRY(add_vector(r, biases, p->channels, &operands[2]));
  for (uint32_t i = 3; i < big->node->op->input_count; i++)
    operands[i] = -1;
  TN_TRY(tn_node_become(r, sum, big->node->op, big->node->attrs, operands));
  sum->name = big->node->name;
  tn_node_remove(r, big->node);
  if (small->node) tn_node_remove(r, small->node);
  return TENON_OK;
}

/* Turns `sum` into a convolution if the terms, of which it or `reader` is the only reader, are
 * convolutions of the same value, and one kernel lies in the other. */
static tenon_status_t merge_terms(tn_rewrite_t *r, tn_node_t *sum, tenon_edge_t left,
                                  tenon_edge_t right, const tn_node_t *reader, bool *out_done) {
  term_t terms[2];
  int64_t offset[SPATIAL];
  *out_done = false;
  if (left < 0 || right < 0 || left == right || !tn_same_shape(r, left, right)) return TENON_OK;
  find_term(r, left, sum, &terms[0]);
  find_term(r, right, reader, &terms[1]);
  for (int i = 0; i < 2 && !*out_done; i++) {
    const term_t *big = &terms[i];
    term_t *small = &terms[1 - i];
    if (!big->product.node || big->x != small->x ||
        (!small->product.node && !tn_same_shape(r, small->x, left)) ||
        !find_offset(&big->product, &small->product, offset) ||
        (small->node && !small->product.node && !read_affine(r, &small->affine)))
      continue;
    *out_done = true;
    TN_TRY(become_convolution(r, sum, big, small, offset));
  }
  return TENON_OK;
}

/* Makes `sum` the sum of two other values. */
static tenon_status_t set_terms(tn_rewrite_t *r, tn_node_t *sum, tenon_edge_t a, tenon_edge_t b) {
  const tenon_edge_t operands[] = {a, b};
  return tn_node_become(r, sum, sum->op, sum->attrs, operands);
}

/* Merges the terms of a sum, or one of them with a term of the sum that is the other. */
static tenon_status_t merge_sum(tn_rewrite_t *r, tn_node_t *sum) {
  bool is_done;
  TN_TRY(merge_terms(r, sum, tn_operand(sum, 0), tn_operand(sum, 1), sum, &is_done));
  for (uint32_t i = 0; i < 4 && !is_done; i++) {
    tenon_edge_t inner_edge = tn_operand(sum, i / 2);
    tenon_edge_t other = tn_operand(sum, 1 - i / 2);
    tn_node_t *inner = tn_maker(r, inner_edge, "core::add");
    if (!inner || inner->group || other < 0 || tn_only_user(r, inner_edge) != sum) continue;
    tenon_edge_t term = tn_operand(inner, i % 2);
    tenon_edge_t rest = tn_operand(inner, 1 - i % 2);
    if (term < 0 || rest < 0 || !tn_same_shape(r, rest, inner_edge)) continue;
    TN_TRY(merge_terms(r, inner, term, other, sum, &is_done));
    if (is_done) TN_TRY(set_terms(r, sum, inner_edge, rest));
  }
  return TENON_OK;
}

/* Means of channels */

/* Makes a mean over all positions of each channel a pool, which reads x in the layout that
 * convolutions write. */
static tenon_status_t pool_mean(tn_rewrite_t *r, tn_node_t *mean) {
  const tenon_op_t *op = tn_registry_find("core::global_average_pool");
  const tenon_edge_t x = tn_operand(mean, 0);
  const tn_edge_t *from = &r->graph->edges[x];
  const tn_edge_t *to = &r->graph->edges[mean->outputs[0]];
  if (!op || from->ndim < 4 || to->ndim != from->ndim || !tn_dtype_is(from->dtype, TENON_F32))
    return TENON_OK;
  for (int32_t d = 0; d < to->ndim; d++) {
    const int64_t extent = tn_extents_resolve(r->graph->extents, to->dims[d]).value;
    if (extent != (d < 2 ? tn_extents_resolve(r->graph->extents, from->dims[d]).value : 1))
      return TENON_OK;
  }
  return tn_node_become(r, mean, op, NULL, &x);
}

/* The rules */

static tenon_status_t fold_before(tn_rewrite_t *r, tn_node_t *node) {
  affine_t a;
  return find_affine(r, node, &a) ? fold_backwards(r, node, &a) : TENON_OK;
}

static tenon_status_t fold_after(tn_rewrite_t *r, tn_node_t *node) {
  affine_t a;
  return find_affine(r, node, &a) ? fold_forwards(r, node, &a) : TENON_OK;
}

const tn_rewrite_rule_t tn_rules_channels[] = {
    {"mean_as_pool: reduce_mean(x, positions) -> global_average_pool(x)",
     "It is over all positions of each channel of images, of f32.",
     {"core::reduce_mean"},
     pool_mean},
    {"scale_after_product: batch_norm(conv(x, w, b)) -> conv(x, w, b)",
     "Likewise for products, sums and differences with a constant for each channel.",
     {NULL},
     fold_before},
    {"scale_before_product: conv(batch_norm(x), w, b) -> conv(x, w, b)",
     "Likewise for products, sums and differences with a constant for each channel; a shift needs "
     "a convolution without padding.",
     {NULL},
     fold_after},
    {"parallel_convolutions: add(conv(x, v, a), conv(x, w, b)) -> conv(x, w, b)",
     "One kernel lies in the other, or one term is x itself.",
     {"core::add"},
     merge_sum},
    {NULL, NULL, {NULL}, NULL}};
