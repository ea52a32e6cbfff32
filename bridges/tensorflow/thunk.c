/* Functions without a context: the n-th functions belong to the n-th operator. Each has about 20
 * bytes of code. */
#include <string.h>

#include "operator.h"

static const operator_t *operators[OPERATORS_MOST];
static unsigned used; /* atomic */

/* clang-format off: one digit of the number is added in each line */
/* clang-format off */
#define THUNK(n)                                                                                   \
  static void *create_##n(tf_construction_t *c) { return kernel_create(operators[0x##n], c); }     \
  static void shape_##n(tf_inference_t *i, tf_status_t *s) { infer_shapes(operators[0x##n], i, s); }
#define PAIR(n) {create_##n, shape_##n},
#define X16(X, n)                                                                                  \
  X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9) X(n##a) X(n##b)  \
      X(n##c) X(n##d) X(n##e) X(n##f)
#define X256(X, n)                                                                                 \
  X16(X, n##0) X16(X, n##1) X16(X, n##2) X16(X, n##3) X16(X, n##4) X16(X, n##5) X16(X, n##6)       \
      X16(X, n##7) X16(X, n##8) X16(X, n##9) X16(X, n##a) X16(X, n##b) X16(X, n##c) X16(X, n##d)   \
      X16(X, n##e) X16(X, n##f)
#define X4096(X)                                                                                   \
  X256(X, 0) X256(X, 1) X256(X, 2) X256(X, 3) X256(X, 4) X256(X, 5) X256(X, 6) X256(X, 7)          \
      X256(X, 8) X256(X, 9) X256(X, a) X256(X, b) X256(X, c) X256(X, d) X256(X, e) X256(X, f)
X4096(THUNK)
static const thunk_t thunks[] = {X4096(PAIR)};
/* clang-format on */
_Static_assert(sizeof thunks / sizeof *thunks == OPERATORS_MOST, "a pair for each operator");

bool thunk_new(const operator_t *self, thunk_t *out_thunk) {
  const unsigned at = __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
  if (at >= OPERATORS_MOST) return false;
  operators[at] = self;
  *out_thunk = thunks[at];
  return true;
}

bool thunk_has(const char *own) {
  const unsigned count = __atomic_load_n(&used, __ATOMIC_RELAXED);
  for (unsigned i = 0; i < count && i < OPERATORS_MOST; i++)
    if (operators[i] && strcmp(operators[i]->own, own) == 0) return true;
  return false;
}
