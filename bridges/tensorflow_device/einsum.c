/* Einstein summation of one or two tensors, as transposes, sums and one product of matrices. Other
 * equations go to core::einsum, which may run on the CPU. */
#include <string.h>

#include "function.h"

enum { LABELS_MOST = PLAN_LIST_MOST };

/* The labels of a tensor, one for each axis. Axes of "..." have the labels '0', '1', ... */
typedef struct labels_t {
  char text[LABELS_MOST + 1];
  int32_t count;
} labels_t;

/* The labels of a product: [batch, left, common] times [batch, common, right]. */
typedef struct product_t {
  labels_t batch;
  labels_t left;
  labels_t right;
  labels_t common;
} product_t;

static bool has_label(const labels_t *labels, char label) {
  return label && strchr(labels->text, label) != NULL;
}

static int32_t find_label(const labels_t *labels, char label) {
  return (int32_t)(strchr(labels->text, label) - labels->text);
}

/* Adds a label. Returns false if it is there already, or if there is no room. */
static bool add_label(labels_t *labels, char label) {
  if (has_label(labels, label) || labels->count == LABELS_MOST) return false;
  labels->text[labels->count++] = label;
  labels->text[labels->count] = 0;
  return true;
}

/* Reads the labels of one term. `rank` is that of its tensor; `dots` is the number of axes of "..."
 * for the result (rank -1). Returns false for what is not supported. */
static bool read_labels(const char **at, int32_t rank, int32_t dots, labels_t *out) {
  const size_t size = strcspn(*at, ",-");
  const char *end = *at + size;
  int32_t letters = 0;
  *out = (labels_t){.count = 0};
  for (const char *c = *at; c < end; c++)
    letters += *c != '.' && *c != ' ';
  for (const char *c = *at; c < end; c++) {
    if (*c == ' ') continue;
    if (*c != '.') {
      if (!add_label(out, *c)) return false;
      continue;
    }
    const int32_t axes = rank < 0 ? dots : rank - letters;
    for (int32_t i = 0; i < axes; i++)
      if (axes > 9 || !add_label(out, (char)('0' + i))) return false;
    c += 2;
  }
  *at = end;
  return rank < 0 || out->count == rank;
}

/* The extents of labels that two tensors share must be equal; "..." may broadcast otherwise. */
static bool has_equal_extents(const labels_t *a, const tenon_tensor_t *x, const labels_t *b,
                              const tenon_tensor_t *y) {
  for (int32_t i = 0; i < a->count; i++)
    if (has_label(b, a->text[i]) && x->shape[i] != y->shape[find_label(b, a->text[i])])
      return false;
  return true;
}

/* Sums over the axes whose labels are in neither of two terms. */
static tenon_status_t sum_others(frame_t *frame, labels_t *labels, const labels_t *kept,
                                 const labels_t *other, value_t *x) {
  value_t axes = {.kind = VALUE_INTS};
  labels_t rest = {.count = 0};
  tenon_tensor_t *host = NULL;
  for (int32_t i = 0; i < labels->count; i++) {
    if (has_label(kept, labels->text[i]) || has_label(other, labels->text[i]))
      (void)add_label(&rest, labels->text[i]);
    else
      axes.ints[axes.count++] = i;
  }
  *labels = rest;
  if (axes.count == 0) return TENON_OK;
  const tenon_status_t status = frame_host_ints(frame, &axes, &host);
  if (status != TENON_OK) return status;
  const tenon_value_t values[] = {
      tensor_value(x->tensor), tensor_value(host), {.kind = TENON_KIND_BOOL, .as.i = 0}};
  return frame_call(frame, "core::reduce_sum", values, 3, x);
}

/* Brings the axes of a tensor into the order of other labels. */
static tenon_status_t arrange_labels(frame_t *frame, const labels_t *labels, const labels_t *order,
                                     value_t *x) {
  int64_t perm[LABELS_MOST];
  if (!strcmp(labels->text, order->text)) return TENON_OK;
  for (int32_t i = 0; i < order->count; i++)
    perm[i] = find_label(labels, order->text[i]);
  return transposed(frame, x->tensor, perm, x);
}

/* ---- products -------------------------------------------------------------------------------- */

static void sort_labels(const labels_t *a, const labels_t *b, const labels_t *result,
                        product_t *out) {
  *out = (product_t){.batch.count = 0};
  for (int32_t i = 0; i < a->count; i++) {
    const char label = a->text[i];
    if (has_label(b, label))
      (void)add_label(has_label(result, label) ? &out->batch : &out->common, label);
    else
      (void)add_label(&out->left, label);
  }
  for (int32_t i = 0; i < b->count; i++)
    if (!has_label(a, b->text[i])) (void)add_label(&out->right, b->text[i]);
}

static void append_labels(labels_t *to, const labels_t *from) {
  for (int32_t i = 0; i < from->count; i++)
    (void)add_label(to, from->text[i]);
}

static int64_t extent_of(const labels_t *part, const labels_t *labels, const tenon_tensor_t *x) {
  int64_t product = 1;
  for (int32_t i = 0; i < part->count; i++)
    product *= x->shape[find_label(labels, part->text[i])];
  return product;
}

/* Makes a tensor a stack of matrices [first, second, third]. */
static tenon_status_t make_matrices(frame_t *frame, const labels_t *labels, const labels_t *first,
                                    const labels_t *second, const labels_t *third, value_t *x) {
  labels_t order = *first;
  const int64_t shape[] = {extent_of(first, labels, x->tensor),
                           extent_of(second, labels, x->tensor),
                           extent_of(third, labels, x->tensor)};
  append_labels(&order, second);
  append_labels(&order, third);
  const tenon_status_t status = arrange_labels(frame, labels, &order, x);
  return status == TENON_OK ? reshaped(frame, x->tensor, shape, 3, x) : status;
}

static tenon_status_t multiply_terms(frame_t *frame, const labels_t *a, const labels_t *b,
                                     const labels_t *result, value_t x, value_t y, value_t *out) {
  product_t parts;
  int64_t shape[LABELS_MOST];
  sort_labels(a, b, result, &parts);
  labels_t made = parts.batch;
  append_labels(&made, &parts.left);
  append_labels(&made, &parts.right);
  for (int32_t i = 0; i < made.count; i++)
    shape[i] = has_label(a, made.text[i]) ? x.tensor->shape[find_label(a, made.text[i])]
                                          : y.tensor->shape[find_label(b, made.text[i])];
  tenon_status_t status = make_matrices(frame, a, &parts.batch, &parts.left, &parts.common, &x);
  if (status == TENON_OK)
    status = make_matrices(frame, b, &parts.batch, &parts.common, &parts.right, &y);
  if (status != TENON_OK) return status;
  const tenon_value_t values[] = {tensor_value(x.tensor), tensor_value(y.tensor)};
  status = frame_call(frame, "core::matmul", values, 2, out);
  if (status == TENON_OK) status = reshaped(frame, out->tensor, shape, made.count, out);
  return status == TENON_OK ? arrange_labels(frame, &made, result, out) : status;
}

static tenon_status_t call_einsum(frame_t *frame, const value_t *list, const char *equation,
                                  value_t *out) {
  const tenon_value_t values[] = {
      {.kind = TENON_KIND_TENSORS, .count = (uint32_t)list->count, .as.tensors = list->tensors},
      {.kind = TENON_KIND_STR, .count = (uint32_t)strlen(equation), .as.s = equation}};
  return frame_call(frame, "core::einsum", values, 2, out);
}

/* Reads the terms of an equation. Returns false for what this file does not support. */
static bool read_equation(const char *equation, const value_t *list, labels_t *terms,
                          labels_t *result) {
  int32_t dots = 0;
  const char *at = equation;
  if (list->count > 2) return false;
  for (int32_t i = 0; i < list->count; i++) {
    const int32_t rank = list->tensors[i]->ndim;
    if (!read_labels(&at, rank, 0, &terms[i])) return false;
    for (char digit = '0'; has_label(&terms[i], digit); digit++)
      if (digit - '0' + 1 > dots) dots = digit - '0' + 1;
    if (i + 1 < list->count && *at++ != ',') return false;
  }
  if (strncmp(at, "->", 2) != 0) return false;
  at += 2;
  if (!read_labels(&at, -1, dots, result) || *at) return false;
  for (int32_t i = 0; i < result->count; i++)
    if (!has_label(&terms[0], result->text[i]) &&
        (list->count < 2 || !has_label(&terms[1], result->text[i])))
      return false;
  return list->count < 2 ||
         has_equal_extents(&terms[0], list->tensors[0], &terms[1], list->tensors[1]);
}

/* einsum(inputs, equation) */
tenon_status_t function_einsum(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const value_t *list = &operands[0];
  const labels_t nothing = {.count = 0};
  labels_t terms[2];
  labels_t result;
  value_t factors[2];
  tenon_status_t status = TENON_OK;
  (void)count;
  if (!read_equation(operands[1].text, list, terms, &result))
    return call_einsum(frame, list, operands[1].text, out);
  for (int32_t i = 0; i < list->count && status == TENON_OK; i++) {
    factors[i] = (value_t){.kind = VALUE_TENSOR, .tensor = list->tensors[i]};
    const labels_t *other = list->count == 2 ? &terms[1 - i] : &nothing;
    status = sum_others(frame, &terms[i], &result, other, &factors[i]);
  }
  if (status != TENON_OK) return status;
  if (list->count == 2)
    return multiply_terms(frame, &terms[0], &terms[1], &result, factors[0], factors[1], out);
  *out = factors[0];
  return arrange_labels(frame, &terms[0], &result, out);
}
