/* The n-th kernel calls the n-th function; see thunk.h. */
#include "thunk.h"

#include "call.h"

static const function_t *functions[FUNCTIONS_MOST]; /* atomic; NULL: free */

/* clang-format off: one digit of the number is added in each line */
/* clang-format off */
#define THUNK(n)                                                                                   \
  static tenon_status_t thunk_##n(tenon_call_t *call) {                                            \
    return function_call(functions[0x##n], call);                                                  \
  }
#define NAME(n) thunk_##n,
#define X16(X, n)                                                                                  \
  X(n##0)                                                                                          \
  X(n##1)                                                                                          \
  X(n##2)                                                                                          \
  X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9) X(n##a) X(n##b) X(n##c) X(n##d) X(n##e)  \
      X(n##f)
#define X256(X, n)                                                                                 \
  X16(X, n##0)                                                                                     \
  X16(X, n##1)                                                                                     \
  X16(X, n##2)                                                                                     \
  X16(X, n##3) X16(X, n##4) X16(X, n##5) X16(X, n##6) X16(X, n##7) X16(X, n##8) X16(X, n##9)       \
      X16(X, n##a) X16(X, n##b) X16(X, n##c) X16(X, n##d) X16(X, n##e) X16(X, n##f)
#define X4096(X)                                                                                   \
  X256(X, 0)                                                                                       \
  X256(X, 1)                                                                                       \
  X256(X, 2)                                                                                       \
  X256(X, 3) X256(X, 4) X256(X, 5) X256(X, 6) X256(X, 7) X256(X, 8) X256(X, 9) X256(X, a)          \
      X256(X, b) X256(X, c) X256(X, d) X256(X, e) X256(X, f)
X4096(THUNK)
static const tenon_run_fn thunks[] = {X4096(NAME)};
/* clang-format on */
_Static_assert(sizeof thunks / sizeof *thunks == FUNCTIONS_MOST, "one kernel for each function");

tenon_run_fn thunk_take(const function_t *function) {
  for (int i = 0; i < FUNCTIONS_MOST; i++) {
    const function_t *none = NULL;
    if (__atomic_compare_exchange_n(&functions[i], &none, function, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      return thunks[i];
  }
  return NULL;
}

void thunk_release(const function_t *function) {
  for (int i = 0; i < FUNCTIONS_MOST; i++)
    if (__atomic_load_n(&functions[i], __ATOMIC_RELAXED) == function)
      __atomic_store_n(&functions[i], NULL, __ATOMIC_RELEASE);
}
