/* einsum: Einstein summation over any number of operands, with ellipses and repeated labels.
 * Operands are contracted from left to right: each pair becomes one batched matrix product that
 * sums over the labels that are not needed later.
 * Invariant: the axis of a label is kept exactly as long as a later operand or the result has that
 * label. */
#include "einsum.h"
#include "axes.h"
#include "dense.h"
#include "gemm.h"
#include <ctype.h>
#include <string.h>
#include <tenon/check.h>

/* parsing */

static uint64_t label_bit(int label) { return einsum_bit(label); }

uint64_t core_einsum_labels(const einsum_term_t *term) {
  uint64_t set = 0;
  for (int32_t i = 0; i < term->count; i++)
    set |= label_bit(term->labels[i]);
  return set;
}

/* Reads one term, up to ',' or '-' or the end. `dots` is the number of axes for which "..." stands.
 * Returns a description of the error, or NULL. */
static const char *term_read(const char **text, int32_t dots, einsum_term_t *out,
                             int *out_has_dots) {
  const char *p = *text;
  out->count = 0;
  *out_has_dots = 0;
  for (; *p && *p != ',' && *p != '-'; p++) {
    if (*p == ' ') continue;
    if (out->count + (*p == '.' ? dots : 1) > TENON_RANK_MAX) return "a term has too many labels";
    if (isalpha((unsigned char)*p)) {
      out->labels[out->count++] =
          (uint8_t)(islower((unsigned char)*p) ? *p - 'a' : *p - 'A' + EINSUM_LETTERS / 2);
    } else if (!strncmp(p, "...", 3)) {
      if (*out_has_dots) return "a term has two ellipses";
      *out_has_dots = 1;
      for (int32_t i = dots; i-- > 0;)
        out->labels[out->count++] = (uint8_t)(EINSUM_LETTERS + i);
      p += 2;
    } else {
      return "expected letters, commas, an ellipsis and one arrow";
    }
  }
  *text = p;
  return 0;
}

const char *core_einsum_read(const char *text, int32_t operands, const int32_t *ranks,
                             einsum_t *out) {
  int has_dots = 0;
  const char *p = text;
  const char *wrong = 0;
  out->operands = operands;
  out->dots = 0;
  if (operands > EINSUM_OPERANDS) return "einsum has more than 64 operands";
  for (int32_t i = 0; i < operands; i++) {
    einsum_term_t bare;
    const char *again = p;
    if ((wrong = term_read(&again, 0, &bare, &has_dots))) return wrong;
    int32_t dots = ranks[i] - bare.count;
    if (has_dots ? dots < 0 || dots > EINSUM_DOTS : dots != 0)
      return "a term does not have one label for each axis of its operand";
    if ((wrong = term_read(&p, dots, &out->terms[i], &has_dots))) return wrong;
    if (dots > out->dots) out->dots = dots;
    if (i + 1 < operands && *p++ != ',') return "there are fewer terms than operands";
  }
  if (*p == ',') return "there are more terms than operands";
  if (*p) {
    if (p[1] != '>') return "expected the arrow ->";
    p += 2;
    if ((wrong = term_read(&p, out->dots, &out->out, &has_dots))) return wrong;
    if (*p) return "unexpected characters after the result's term";
  } else { /* the ellipsis, then the letters that occur once, capitals first */
    int seen[EINSUM_LETTERS] = {0};
    for (int32_t i = 0; i < operands; i++)
      for (int32_t j = 0; j < out->terms[i].count; j++)
        if (out->terms[i].labels[j] < EINSUM_LETTERS) seen[out->terms[i].labels[j]]++;
    out->out.count = 0;
    for (int32_t i = out->dots; i-- > 0;)
      out->out.labels[out->out.count++] = (uint8_t)(EINSUM_LETTERS + i);
    for (int i = 0; i < EINSUM_LETTERS; i++) {
      int label = (i + EINSUM_LETTERS / 2) % EINSUM_LETTERS;
      if (seen[label] == 1) out->out.labels[out->out.count++] = (uint8_t)label;
    }
  }
  uint64_t known = 0;
  uint64_t used = 0;
  for (int32_t i = 0; i < operands; i++)
    known |= core_einsum_labels(&out->terms[i]);
  for (int32_t i = 0; i < out->out.count; i++) {
    if (used & label_bit(out->out.labels[i])) return "the result names a label twice";
    if (!(known & label_bit(out->out.labels[i])))
      return "the result has a label that no operand has";
    used |= label_bit(out->out.labels[i]);
  }
  return 0;
}

/* shapes */

static tenon_status_t einsum_infer(tenon_infer_t *infer) {
  const tenon_meta_t *list = infer->inputs[0];
  const char *text = infer->attrs[0].as.s;
  tenon_meta_t *out = infer->outputs[0];
  einsum_t equation;
  int32_t ranks[EINSUM_OPERANDS] = {0};
  tenon_dim_t extents[64];
  uint64_t seen = 0;
  if (list->count < 1) return tenon_fail(infer, TENON_INVALID, "einsum has no operands");
  for (uint32_t i = 0; i < list->count && i < EINSUM_OPERANDS; i++)
    ranks[i] = list->items[i]->ndim;
  const char *wrong = core_einsum_read(text, (int32_t)list->count, ranks, &equation);
  if (wrong)
    return tenon_fail(infer, TENON_INVALID, "equation '%s' for %u operands: %s", text, list->count,
                      wrong);
  for (int32_t i = 0; i < equation.operands; i++)
    for (int32_t j = 0; j < equation.terms[i].count; j++) {
      int label = equation.terms[i].labels[j];
      tenon_dim_t extent = list->items[i]->dims[j];
      int wide = seen & label_bit(label) && !dim_is(extents[label], 1) && !dim_is(extent, 1);
      if (wide && dim_differ(extents[label], extent))
        return tenon_fail(infer, TENON_INVALID,
                          "equation '%s': axis %d of operand %d has extent %" PRId64
                          ", but its label has %" PRId64 " elsewhere",
                          text, j, i, extent.value, extents[label].value);
      extents[label] = seen & label_bit(label)
                           ? tenon_dim(infer, TENON_DIM_BROADCAST, extents[label], extent)
                           : extent;
      seen |= label_bit(label);
    }
  out->ndim = equation.out.count;
  for (int32_t i = 0; i < out->ndim; i++)
    out->dims[i] = extents[equation.out.labels[i]];
  return TENON_OK;
}

/* pairs */

typedef struct side_t { /* an operand, with one stride for each of its labels */
  char *data;
  uint64_t labels;
  int64_t strides[64];
} side_t;

/* axes of a product: kept ones that both have, those of a, those of b, summed ones */
typedef struct groups_t {
  int32_t count;
  uint8_t labels[64];
} groups_t;

typedef struct pair_t {
  const side_t *sides[2];
  const int64_t *extents;
  groups_t batch;
  int64_t size;
  int64_t c_batch;
  char *c;
} pair_t;

static groups_t label_groups(uint64_t labels) {
  groups_t out = {0};
  for (int label = 0; label < 64; label++)
    if (labels & label_bit(label)) out.labels[out.count++] = (uint8_t)label;
  return out;
}

static int64_t group_size(const groups_t *g, const int64_t *extents) {
  int64_t n = 1;
  for (int32_t i = 0; i < g->count; i++)
    n *= extents[g->labels[i]];
  return n;
}

/* Can the axes of a group be addressed as one axis of this operand? Gives its stride. */
static int group_linear(const side_t *side, const groups_t *g, const int64_t *extents,
                        int64_t *out_stride) {
  int64_t next = 0;
  int started = 0;
  *out_stride = 0;
  for (int32_t i = g->count - 1; i >= 0; i--) {
    int label = g->labels[i];
    if (extents[label] == 1) continue;
    if (!started)
      *out_stride = side->strides[label];
    else if (side->strides[label] != next)
      return 0;
    next = side->strides[label] * extents[label];
    started = 1;
  }
  return 1;
}

/* Makes a dense copy with the axes in the order of three groups. */
static tenon_status_t side_copy(tenon_call_t *call, tenon_dtype_t dtype, side_t *side,
                                const groups_t *const groups[3], const int64_t *extents,
                                const tenon_tensor_t *of) {
  int64_t shape[64], strides[64];
  int32_t rank = 0;
  for (int g = 0; g < 3; g++)
    for (int32_t i = 0; i < groups[g]->count; i++) {
      shape[rank] = extents[groups[g]->labels[i]];
      strides[rank++] = side->strides[groups[g]->labels[i]];
    }
  tenon_tensor_t *view = call->host->view(
      call, of, (side->data - (char *)of->data) / (dtype.bits / 8), rank, shape, strides);
  tenon_tensor_t *copy = view ? core_dense(call, view, dtype) : 0;
  if (!copy) return TENON_MEMORY;
  side->data = (char *)copy->data;
  rank = 0;
  for (int g = 0; g < 3; g++)
    for (int32_t i = 0; i < groups[g]->count; i++)
      side->strides[groups[g]->labels[i]] = copy->strides[rank++];
  return TENON_OK;
}

static void pair_place(const void *context, int64_t index, product_t *product) {
  const pair_t *pair = (const pair_t *)context;
  int64_t offsets[2] = {0, 0};
  int64_t rest = index;
  for (int32_t i = pair->batch.count - 1; i >= 0; i--) {
    int label = pair->batch.labels[i];
    for (int s = 0; s < 2; s++)
      offsets[s] += rest % pair->extents[label] * pair->sides[s]->strides[label];
    rest /= pair->extents[label];
  }
  product->a.data = pair->sides[0]->data + offsets[0] * pair->size;
  product->b.data = pair->sides[1]->data + offsets[1] * pair->size;
  product->c = pair->c + index * pair->c_batch * pair->size;
}

/* Sets a side to a tensor whose axes are the labels of three groups. */
static void side_set(side_t *side, const tenon_tensor_t *t, const groups_t *const groups[3],
                     uint64_t labels) {
  int32_t axis = 0;
  memset(side->strides, 0, sizeof side->strides);
  side->labels = labels;
  side->data = (char *)t->data;
  for (int g = 0; g < 3; g++)
    for (int32_t i = 0; i < groups[g]->count; i++)
      side->strides[groups[g]->labels[i]] = t->strides[axis++];
}

/* Replaces a by the product of a and b, summed over the labels that are not in `keep`. a_of and
 * b_of are the tensors that own the memory. */
static tenon_status_t contract_pair(tenon_call_t *call, tenon_dtype_t dtype, side_t *a, side_t *b,
                                    uint64_t keep, const int64_t *extents, tenon_tensor_t **a_of,
                                    const tenon_tensor_t *b_of) {
  uint64_t both = a->labels & b->labels;
  uint64_t all = a->labels | b->labels;
  groups_t batch = label_groups(both & keep);
  groups_t rows = label_groups(a->labels & ~b->labels & keep);
  groups_t columns = label_groups(b->labels & ~a->labels & keep);
  groups_t inner = label_groups(all & ~keep);
  const groups_t *a_groups[3] = {&batch, &rows, &inner};
  const groups_t *b_groups[3] = {&batch, &columns, &inner};
  int64_t row = 0;
  int64_t column = 0;
  int64_t a_inner = 0;
  int64_t b_inner = 0;
  int64_t shape[64];
  if (!group_linear(a, &rows, extents, &row) || !group_linear(a, &inner, extents, &a_inner)) {
    TENON_TRY(side_copy(call, dtype, a, a_groups, extents, *a_of));
    group_linear(a, &rows, extents, &row);
    group_linear(a, &inner, extents, &a_inner);
  }
  if (!group_linear(b, &columns, extents, &column) || !group_linear(b, &inner, extents, &b_inner)) {
    TENON_TRY(side_copy(call, dtype, b, b_groups, extents, b_of));
    group_linear(b, &columns, extents, &column);
    group_linear(b, &inner, extents, &b_inner);
  }
  const groups_t *c_groups[3] = {&batch, &rows, &columns};
  int32_t rank = 0;
  for (int g = 0; g < 3; g++)
    for (int32_t i = 0; i < c_groups[g]->count; i++)
      shape[rank++] = extents[c_groups[g]->labels[i]];
  tenon_tensor_t *c = call->host->temporary(call, dtype, rank, shape);
  if (!c) return TENON_MEMORY;
  int64_t m = group_size(&rows, extents);
  int64_t n = group_size(&columns, extents);
  pair_t pair = {{a, b}, extents, batch, dtype.bits / 8, m * n, (char *)c->data};
  products_t products = {.product = {m,
                                     n,
                                     group_size(&inner, extents),
                                     {.vector = row, .element = a_inner},
                                     {.vector = column, .element = b_inner},
                                     0,
                                     n,
                                     1,
                                     0,
                                     0},
                         .dtype = dtype,
                         .count = group_size(&batch, extents),
                         .place = pair_place,
                         .context = &pair,
                         .fast = 1};
  TENON_TRY(core_products(call, &products));
  side_set(a, c, c_groups, all & keep);
  *a_of = c;
  return TENON_OK;
}

/* the kernel */

/* The labels of an operand with their strides. Repeated labels become a diagonal; axes that only
 * broadcast are left out. */
static side_t side_of(const tenon_tensor_t *x, const einsum_term_t *term, const int64_t *extents) {
  side_t side = {.data = (char *)x->data};
  for (int32_t i = 0; i < term->count; i++) {
    int label = term->labels[i];
    if (x->shape[i] == 1 && extents[label] != 1) continue;
    side.strides[label] =
        (side.labels & label_bit(label) ? side.strides[label] : 0) + x->strides[i];
    side.labels |= label_bit(label);
  }
  return side;
}

static tenon_status_t einsum_run(tenon_call_t *call) {
  const tenon_tensor_t *list = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  tenon_tensor_t *operands[EINSUM_OPERANDS];
  const tenon_dtype_t dtype = core_gemm_dtype(out->dtype);
  einsum_t equation;
  int32_t ranks[EINSUM_OPERANDS];
  int32_t count = (int32_t)list->shape[0];
  int64_t extents[64];
  if (count > EINSUM_OPERANDS)
    return tenon_fail(call, TENON_INVALID, "einsum has more than 64 operands");
  for (int32_t i = 0; i < count; i++)
    ranks[i] = tenon_item(list, i)->ndim;
  const char *wrong = core_einsum_read(call->attrs[0].as.s, count, ranks, &equation);
  if (wrong) return tenon_fail(call, TENON_INVALID, "%s", wrong);
  for (int i = 0; i < 64; i++)
    extents[i] = 1;
  for (int32_t i = 0; i < count; i++) {
    operands[i] = core_as(call, tenon_item(list, i), dtype);
    if (!operands[i]) return TENON_MEMORY;
    for (int32_t j = 0; j < ranks[i]; j++)
      if (operands[i]->shape[j] != 1) extents[equation.terms[i].labels[j]] = operands[i]->shape[j];
  }
  if (tenon_count(out) == 0) return TENON_OK;
  tenon_tensor_t *one = call->host->temporary(call, dtype, 0, 0);
  tenon_tensor_t *of = operands[0];
  if (!one) return TENON_MEMORY;
  if (core_is(one, TENON_F32))
    *(float *)one->data = 1;
  else if (core_is(one, TENON_F64))
    *(double *)one->data = 1;
  else if (dtype.bits == 64)
    *(int64_t *)one->data = 1;
  else
    *(int32_t *)one->data = 1;
  side_t a = side_of(operands[0], &equation.terms[0], extents);
  side_t unit = {.data = (char *)one->data};
  for (int32_t i = 1; i < count; i++) {
    uint64_t keep = core_einsum_labels(&equation.out);
    side_t b = side_of(operands[i], &equation.terms[i], extents);
    for (int32_t later = i + 1; later < count; later++)
      keep |= core_einsum_labels(&equation.terms[later]);
    if (a.labels & ~(keep | b.labels)) /* labels that only one operand has are summed first */
      TENON_TRY(contract_pair(call, dtype, &a, &unit, keep | b.labels, extents, &of, one));
    if (b.labels & ~(keep | a.labels))
      TENON_TRY(contract_pair(call, dtype, &b, &unit, keep | a.labels, extents, &operands[i], one));
    TENON_TRY(contract_pair(call, dtype, &a, &b, keep, extents, &of, operands[i]));
  }
  if (a.labels & ~core_einsum_labels(&equation.out))
    TENON_TRY(contract_pair(call, dtype, &a, &unit, core_einsum_labels(&equation.out), extents, &of,
                            one));
  int64_t strides[TENON_RANK_MAX];
  for (int32_t i = 0; i < out->ndim; i++)
    strides[i] =
        a.labels & label_bit(equation.out.labels[i]) ? a.strides[equation.out.labels[i]] : 0;
  tenon_tensor_t *view = call->host->view(call, of, (a.data - (char *)of->data) / (dtype.bits / 8),
                                          out->ndim, out->shape, strides);
  return view ? core_settle(call, out, view) : TENON_MEMORY;
}

/* clang-format off */
TENON_ITEMS(core_einsum,
  TENON_OP("einsum(Tensor[] xs, *, str equation) -> Tensor",
    TENON_DOC("Einstein summation: 'bij,bjk->bik' is a batched matrix product.\n"
              "Labels that are missing in the result are summed over; "
              "'...' stands for axes that broadcast; "
              "without an arrow the result has the labels that occur once, in alphabetical order."),
    TENON_SAMPLES("xs: ([n, k], [k, m]), equation = 'ij,jk->ik'; xs: ([n, n]), equation = 'ii->i'"),
    TENON_TYPES("xs: number; out = xs"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(einsum_infer),
    TENON_GRADIENT("xs: core::einsum_backward(grad, xs, equation=equation)"),
    TENON_KERNEL("cpu strided", einsum_run)))
/* clang-format on */
