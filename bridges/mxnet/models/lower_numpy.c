/* Lowers operators of MXNet's NumPy interface (mx.np) that differ from the others: comparisons
 * return bools, and scalars may be floats where the tensor has integers. */
#include <string.h>

#include "attribute.h"
#include "lowering.h"

static void lower_scalar_op(lower_t *lower) {
  static const char *const names[][2] = {{"rsubtract", "sub(b, a)"},
                                         {"subtract", "sub(a, b)"},
                                         {"add", "add(a, b)"},
                                         {"rtrue_divide", "div(b, a)"},
                                         {"true_divide", "div(a, b)"},
                                         {"multiply", "mul(a, b)"},
                                         {"rpower", "pow(b, a)"},
                                         {"power", "pow(a, b)"},
                                         {"maximum", "max(a, b)"},
                                         {"minimum", "min(a, b)"},
                                         {"rmod", "mod(b, a)"},
                                         {"mod", "mod(a, b)"},
                                         {"not_equal", "not_equal(a, b)"},
                                         {"equal", "equal(a, b)"},
                                         {"greater_equal", "greater_equal(a, b)"},
                                         {"less_equal", "less_equal(a, b)"},
                                         {"greater", "greater(a, b)"},
                                         {"less", "less(a, b)"}};
  const size_t count = sizeof names / sizeof *names;
  const char *own = lower->node->op + strlen("_npi_");
  const char *text = NULL;
  size_t size = strlen(own) - strlen("_scalar");
  for (size_t i = 0; i < count; i++)
    if (strlen(names[i][0]) == size && memcmp(own, names[i][0], size) == 0) text = names[i][1];
  bool is_int = attr_bool(lower, "is_int", true);
  double value = attr_float(lower, "scalar", 0);
  tenon_edge_t x = lower->inputs[0];
  if (!lower_is_float(lower, x) && (!is_int || strstr(own, "true_divide")))
    x = lower_run(lower, EDGES(x), "cast(a, to='f32')");
  lower_give(lower, lower_run(lower, EDGES(x, lower_scalar(lower, lower_dtype(lower, x), value)),
                              "%s", text ? text : "identity(a)"));
}

/* Multiplies vectors and matrices along the last axis of a and the last but one axis of b. */
static void lower_dot(lower_t *lower) {
  int32_t rank = lower_rank(lower, lower->inputs[1]);
  int32_t other = lower_rank_of(lower, lower->inputs[0]);
  if (rank > 2) lower_missing(lower, "a second operand of more than two axes");
  lower_give(lower, lower_run(lower, lower->inputs, 2,
                              rank == 0 || other == 0 ? "mul(a, b)" : "matmul(a, b)"));
}

/* clang-format off: a table with one lowering in each entry */
/* clang-format off */
static const lowering_t lowerings[] = {
  {"_npi_add_scalar|_npi_subtract_scalar|_npi_rsubtract_scalar|_npi_multiply_scalar|_npi_true_divide_scalar|"
   "_npi_rtrue_divide_scalar|_npi_power_scalar|_npi_rpower_scalar|_npi_mod_scalar|_npi_rmod_scalar|_npi_maximum_scalar|"
   "_npi_minimum_scalar|_npi_equal_scalar|_npi_not_equal_scalar|_npi_greater_scalar|_npi_greater_equal_scalar|"
   "_npi_less_scalar|_npi_less_equal_scalar(x)", lower_scalar_op},
  {"_np_dot(a, b)", lower_dot},
  {"_npi_einsum(*xs, -optimize) = einsum(xs, equation=subscripts)", NULL},
  {"_npi_equal(a, b) = equal(a, b)", NULL},
  {"_npi_not_equal(a, b) = not_equal(a, b)", NULL},
  {"_npi_greater(a, b) = greater(a, b)", NULL},
  {"_npi_greater_equal(a, b) = greater_equal(a, b)", NULL},
  {"_npi_less(a, b) = less(a, b)", NULL},
  {"_npi_less_equal(a, b) = less_equal(a, b)", NULL},
  {"_npi_logical_not(x) = equal(x, 0:x)", NULL},
};
/* clang-format on */

LOWERINGS(lowerings_numpy);
