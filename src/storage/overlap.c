/* Whether tensors share bytes.  Two tensors share a byte if an equation with one unknown for each
 * axis has a solution within the extents.  The search goes through the largest strides first and
 * stops where a greatest common divisor or the remaining reach excludes a solution.  The call path
 * and executables ask, and only after ranges of addresses have intersected. */
#include "storage/overlap.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "storage/device_memory.h"

enum {
  TERMS = 2 * TENON_RANK_MAX + 1,
  STEPS = 100000, /* steps of a search after which tensors count as sharing bytes */
};

/* A sum of `stride * n` with 0 <= n <= most, one for each axis. */
typedef struct term_t {
  int64_t stride;
  int64_t most;
} term_t;

typedef struct equation_t {
  term_t terms[TERMS];
  int64_t reach[TERMS + 1]; /* the largest value of the terms from this one on */
  int64_t divisor[TERMS + 1];
  int count;
  int steps;
} equation_t;

static int compare_terms(const void *a, const void *b) {
  const term_t *x = a;
  const term_t *y = b;
  return (x->stride < y->stride) - (x->stride > y->stride);
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void add_term(equation_t *e, int64_t stride, int64_t most) {
  if (most > 0 && stride > 0) e->terms[e->count++] = (term_t){stride, most};
}

static bool has_solution(equation_t *e, int at, int64_t rest) {
  if (rest == 0) return true;
  if (rest < 0 || rest > e->reach[at] || rest % e->divisor[at]) return false;
  if (++e->steps > STEPS) return true;
  const term_t *term = &e->terms[at];
  int64_t beyond = rest - e->reach[at + 1];
  int64_t first = beyond > 0 ? (beyond + term->stride - 1) / term->stride : 0;
  int64_t last = rest / term->stride;
  if (last > term->most) last = term->most;
  for (int64_t n = last; n >= first; n--)
    if (has_solution(e, at + 1, rest - n * term->stride)) return true;
  return false;
}

/* Returns whether the terms can add up to `sum`. */
static bool can_reach(equation_t *e, int64_t sum) {
  qsort(e->terms, (size_t)e->count, sizeof *e->terms, compare_terms);
  int kept = 0;
  for (int i = 0; i < e->count; i++) {
    if (kept && e->terms[kept - 1].stride == e->terms[i].stride)
      e->terms[kept - 1].most += e->terms[i].most;
    else
      e->terms[kept++] = e->terms[i];
  }
  e->count = kept;
  e->reach[kept] = 0;
  e->divisor[kept] = 0;
  for (int i = kept - 1; i >= 0; i--) {
    e->reach[i] = e->reach[i + 1] + e->terms[i].stride * e->terms[i].most;
    e->divisor[i] = common_divisor(e->terms[i].stride, e->divisor[i + 1]);
  }
  e->steps = 0;
  if (sum == 0) return true;
  return kept && has_solution(e, 0, sum);
}

/* Returns the bytes of an element, or 0 if elements share bytes. */
static int64_t size_of_element(const tenon_tensor_t *t) {
  int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes;
  return bits % 8 ? 0 : bits / 8;
}

bool tn_tensors_share(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  char *a_begin, *a_end, *b_begin, *b_end;
  if ((a->keys | b->keys) & TN_KEY(TN_BIT_META) || !tn_tensors_overlap(a, b)) return false;
  int64_t a_size = size_of_element(a);
  int64_t b_size = size_of_element(b);
  if (!a_size || !b_size) return true;
  tn_tensor_span(a, &a_begin, &a_end);
  tn_tensor_span(b, &b_begin, &b_end);
  /* The unknown byte of `b` is counted from the end of `b`, so that all terms have one sign. */
  equation_t e = {.count = 0};
  for (int32_t i = 0; i < a->ndim; i++)
    add_term(&e, llabs(a->strides[i]) * a_size, a->shape[i] - 1);
  for (int32_t i = 0; i < b->ndim; i++)
    add_term(&e, llabs(b->strides[i]) * b_size, b->shape[i] - 1);
  add_term(&e, 1, a_size - 1 + b_size - 1);
  return can_reach(&e, b_end - 1 - a_begin);
}

bool tn_tensor_folds(const tenon_tensor_t *t) {
  term_t axes[TENON_RANK_MAX];
  int count = 0;
  if (tenon_count(t) < 2 || !(t->keys & TN_KEY_STRIDED)) return false;
  for (int32_t i = 0; i < t->ndim; i++) {
    if (t->shape[i] == 1) continue;
    if (t->strides[i] == 0) return true;
    axes[count++] = (term_t){llabs(t->strides[i]), t->shape[i] - 1};
  }
  /* Each stride passes over everything that the smaller ones reach, in most tensors. */
  qsort(axes, (size_t)count, sizeof *axes, compare_terms);
  int64_t reach = 0;
  bool is_nested = true;
  for (int i = count - 1; i >= 0; i--) {
    is_nested = is_nested && axes[i].stride > reach;
    reach += axes[i].stride * axes[i].most;
  }
  /* Otherwise two elements are searched for that differ in axis k, and whose offsets are equal. */
  for (int k = 0; k < count && !is_nested; k++) {
    equation_t e = {.count = 0};
    int64_t sum = -axes[k].stride;
    for (int i = 0; i < count; i++) {
      add_term(&e, axes[i].stride, i == k ? axes[i].most - 1 : 2 * axes[i].most);
      if (i != k) sum += axes[i].stride * axes[i].most;
    }
    if (sum >= 0 && can_reach(&e, sum)) return true;
  }
  return false;
}

bool tn_tensors_coincide(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  size_t size = (size_t)a->ndim * sizeof *a->shape;
  if (a->data != b->data || a->byte_offset != b->byte_offset || a->ndim != b->ndim) return false;
  if (a->dtype.bits * a->dtype.lanes != b->dtype.bits * b->dtype.lanes) return false;
  return !size ||
         (memcmp(a->shape, b->shape, size) == 0 && memcmp(a->strides, b->strides, size) == 0);
}
