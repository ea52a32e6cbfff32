/* Gradients of einsum. The gradient of an operand is an einsum of dy and the other operands,
 * broadcast over labels that only this operand has. It is a composite, so that it has gradients
 * itself; the gradient formula in einsum.c calls it.
 * Invariant: in the equation of a gradient every label occurs once per term; diagonals are restored
 * afterwards. */
#include "axes.h"
#include "composite.h"
#include "einsum.h"
#include <string.h>
#include <tenon/check.h>

enum {
  EINSUM,
  RESHAPE,
  EXPAND,
  WHERE,
};

typedef struct backward_t {
  tenon_call_t *call;
  einsum_t equation;
  int64_t extents[64];
  char letters[64]; /* letter of each label in texts; 0: none yet */
  int letter_count;
} backward_t;

static tenon_status_t backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *xs = infer->inputs[1];
  TENON_TRY(infer->host->list(infer, 0, xs->count));
  for (uint32_t i = 0; i < xs->count; i++)
    out_like(infer->outputs[0]->items[i], xs->items[i]);
  return TENON_OK;
}

/* Appends a term to a text. Returns 0 if the 52 letters do not suffice. */
static int write_term(backward_t *b, const uint8_t *labels, int32_t count, char *text,
                      size_t size) {
  static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  size_t used = strlen(text);
  for (int32_t i = 0; i < count; i++) {
    char *letter = &b->letters[labels[i]];
    if (!*letter) {
      if (b->letter_count == EINSUM_LETTERS) return 0;
      *letter = all[b->letter_count++];
    }
    if (used + 2 > size) return 0;
    text[used++] = *letter;
    text[used] = 0;
  }
  return 1;
}

/* Gives a mask that is true where axes of x with the same label have the same index. *out is NULL
 * if no label is repeated. */
static tenon_status_t diagonal_mask(backward_t *b, const tenon_tensor_t *x,
                                    const einsum_term_t *term, tenon_tensor_t **out) {
  int64_t shape[TENON_RANK_MAX];
  int64_t index[TENON_RANK_MAX] = {0};
  int repeated = 0;
  *out = NULL;
  for (int32_t i = 0; i < x->ndim; i++) {
    shape[i] = 1;
    for (int32_t j = 0; j < x->ndim; j++)
      if (i != j && term->labels[i] == term->labels[j] && x->shape[i] == x->shape[j]) {
        shape[i] = x->shape[i];
        repeated = 1;
      }
  }
  if (!repeated) return TENON_OK;
  if (!(*out = b->call->host->temporary(b->call, tenon_dtype(TENON_BOOL), x->ndim, shape)))
    return TENON_MEMORY;
  for (int64_t n = 0, count = tenon_count(*out); n < count; n++) {
    int64_t first[64];
    int same = 1;
    for (int label = 0; label < 64; label++)
      first[label] = -1;
    for (int32_t i = 0; i < x->ndim; i++) {
      if (shape[i] == 1) continue;
      int64_t *at = &first[term->labels[i]];
      if (*at < 0) *at = index[i];
      same &= *at == index[i];
    }
    ((uint8_t *)(*out)->data)[n] = (uint8_t)same;
    for (int32_t i = x->ndim - 1; i >= 0 && ++index[i] == shape[i]; i--)
      index[i] = 0;
  }
  return TENON_OK;
}

static tenon_status_t call_einsum(tenon_call_t *call, const char *text, tenon_tensor_t **operands,
                                  int64_t count, tenon_tensor_t **out) {
  int64_t stride = 1;
  tenon_tensor_t list = {.data = operands,
                         .device = {1, 0},
                         .ndim = 1,
                         .dtype = tenon_dtype(TENON_LIST),
                         .shape = &count,
                         .strides = &stride};
  for (int64_t i = 0; i < count; i++)
    list.keys |= operands[i]->keys;
  tenon_value_t equation = {TENON_KIND_STR, (uint32_t)strlen(text), {.s = text}};
  return INVOKE(call, EINSUM, &equation, out, &list);
}

static tenon_status_t operand_gradient(backward_t *b, int32_t which, tenon_tensor_t **out) {
  tenon_call_t *call = b->call;
  const einsum_t *e = &b->equation;
  const einsum_term_t *term = &e->terms[which];
  tenon_tensor_t *x = tenon_item(call->inputs[1], which);
  tenon_tensor_t *operands[EINSUM_OPERANDS], *t, *to, *mask;
  char text[EINSUM_OPERANDS * (TENON_RANK_MAX + 1)] = "";
  uint64_t given = core_einsum_labels(&e->out);
  uint64_t used = 0;
  uint8_t labels[TENON_RANK_MAX];
  int64_t shape[TENON_RANK_MAX];
  int32_t count = 0;
  int32_t n = 0;
  int fits = write_term(b, e->out.labels, e->out.count, text, sizeof text);
  operands[n++] = call->inputs[0];
  for (int32_t i = 0; i < e->operands && fits; i++) {
    if (i == which) continue;
    given |= core_einsum_labels(&e->terms[i]);
    strcat(text, ",");
    fits = write_term(b, e->terms[i].labels, e->terms[i].count, text, sizeof text - 1);
    operands[n++] = tenon_item(call->inputs[1], i);
  }
  /* An axis of extent 1 that was broadcast is summed over. */
  for (int32_t i = 0; i < x->ndim; i++) {
    int label = term->labels[i];
    int takes = given & einsum_bit(label) && !(used & einsum_bit(label)) &&
                x->shape[i] == b->extents[label];
    shape[i] = takes ? x->shape[i] : 1;
    if (takes) {
      labels[count++] = (uint8_t)label;
      used |= einsum_bit(label);
    }
  }
  if (fits) strcat(text, "->");
  if (!fits || !write_term(b, labels, count, text, sizeof text - 2))
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "the gradient of einsum supports at most %d labels", (int)EINSUM_LETTERS);
  TENON_TRY(call_einsum(call, text, operands, n, &t));
  /* Other operands may have extent 1 where this operand does not. */
  for (int32_t i = 0, at = 0; i < x->ndim; i++)
    if (at < count && labels[at] == term->labels[i] && shape[i] == x->shape[i] &&
        x->shape[i] == b->extents[labels[at]])
      shape[i] = t->shape[at++];
  TENON_TRY(core_reshape(call, RESHAPE, t, x->ndim, shape, &t));
  if (!(to = core_ints(call, x->ndim, x->shape))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, EXPAND, NULL, &t, t, to));
  TENON_TRY(diagonal_mask(b, x, term, &mask));
  *out = t;
  if (!mask) return TENON_OK;
  tenon_tensor_t *zero = core_number(call, t->dtype, 0);
  return zero ? INVOKE(call, WHERE, NULL, out, mask, t, zero) : TENON_MEMORY;
}

static tenon_status_t backward_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[1];
  tenon_tensor_t *items[EINSUM_OPERANDS];
  backward_t b = {.call = call};
  int32_t ranks[EINSUM_OPERANDS];
  int32_t count = (int32_t)xs->shape[0];
  if (count > EINSUM_OPERANDS)
    return tenon_fail(call, TENON_INVALID, "einsum has more than 64 operands");
  for (int32_t i = 0; i < count; i++)
    ranks[i] = tenon_item(xs, i)->ndim;
  const char *wrong = core_einsum_read(call->attrs[0].as.s, count, ranks, &b.equation);
  if (wrong) return tenon_fail(call, TENON_INVALID, "%s", wrong);
  for (int i = 0; i < 64; i++)
    b.extents[i] = 1;
  for (int32_t i = 0; i < count; i++)
    for (int32_t j = 0; j < ranks[i]; j++)
      if (tenon_item(xs, i)->shape[j] != 1)
        b.extents[b.equation.terms[i].labels[j]] = tenon_item(xs, i)->shape[j];
  for (int32_t i = 0; i < count; i++)
    TENON_TRY(operand_gradient(&b, i, &items[i]));
  tenon_tensor_t list = *call->outputs[0];
  list.data = items;
  for (int32_t i = 0; i < count; i++)
    list.keys |= items[i]->keys;
  return call->host->assign(call, 0, &list);
}

/* clang-format off */
TENON_ITEMS(core_einsum_backward,
  TENON_OP("einsum_backward(Tensor dy, Tensor[] xs, *, str equation) -> Tensor[]",
    TENON_DOC("The gradients of einsum, with the shapes of xs."),
    TENON_SAMPLES("dy: [n, m], xs: ([n, k], [k, m]), equation = 'ij,jk->ik'"),
    TENON_TYPES("dy: float; xs = dy; out = dy"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(backward_infer),
    TENON_USES("core::einsum, core::reshape, core::expand, core::where"),
    TENON_COMPOSITE(backward_run)))
/* clang-format on */
