/* Lowers custom calls: those that mean nothing for the values, LAPACK's functions that JAX calls on
 * the CPU, and operators of loaded libraries. */
#include <stdio.h>
#include <string.h>

#include "lower/arguments.h"
#include "lower/custom.h"
#include "lower/expression.h"
#include "lower/linear.h"
#include "lower/own_call.h"

/* calls that give their operands */

static void call_same(hlo_lower_t *lower) {
  if (lower->op->operand_count < lower->op->result_count)
    hlo_wrong(lower, "expected as many operands as results");
  for (int32_t i = 0; i < lower->op->result_count && !hlo_stopped(lower); i++)
    hlo_give_bound(lower, i, *hlo_operand(lower, i));
}

/* Assertions about shapes have no result. What they check is checked by the operators that run. */
static void call_nothing(hlo_lower_t *lower) {
  if (lower->op->result_count) hlo_wrong(lower, "expected no results");
}

/* LAPACK */

/* Reads a letter from the attributes of the call, such as uplo = 76, which is L. */
static char read_letter(hlo_lower_t *lower, const char *name) {
  const hlo_attr_t *config = hlo_attr(lower, "mhlo.backend_config", "backend_config");
  const hlo_attr_t *attr = config ? hlo_attr_find(config, name) : NULL;
  if (attr && attr->kind == HLO_ATTR_INT) return (char)attr->integer;
  hlo_wrong(lower, "expected the attribute %s of the call", name);
  return 0;
}

/* Gives 0 as the status of each matrix: the values show whether a matrix has factors. */
static void give_success(hlo_lower_t *lower, int32_t index) {
  const hlo_type_t *type = hlo_result_type(lower, index);
  tenon_edge_t zero = hlo_run(lower, NULL, 0, "0:i32");
  if (!hlo_type_is_static(type)) hlo_missing(lower, "matrices of unknown extents");
  if (!hlo_stopped(lower)) hlo_give(lower, index, hlo_expand(lower, zero, type->dims, type->ndim));
}

static void call_factor(hlo_lower_t *lower) {
  bool is_lower = read_letter(lower, "uplo") == 'L';
  hlo_give(lower, 0, hlo_cholesky(lower, hlo_edge(lower, 0), is_lower));
  give_success(lower, 1);
}

static void call_lu(hlo_lower_t *lower) {
  tenon_edge_t pivots = EDGE_NONE;
  tenon_edge_t factors = hlo_lu(lower, hlo_edge(lower, 0), &pivots);
  hlo_give(lower, 0, factors);
  hlo_give(lower, 1, pivots);
  give_success(lower, 2);
}

static void call_solve(hlo_lower_t *lower) {
  const hlo_solve_t solve = {.is_left = read_letter(lower, "side") == 'L',
                             .is_lower = read_letter(lower, "uplo") == 'L',
                             .is_unit = read_letter(lower, "diag") == 'U',
                             .is_transposed = read_letter(lower, "trans_x") != 'N'};
  tenon_edge_t a = hlo_edge(lower, 0);
  hlo_give(lower, 0, hlo_triangular_solve(lower, a, hlo_edge(lower, 1), &solve));
}

/* targets */

static const struct {
  const char *target;
  void (*lower)(hlo_lower_t *lower);
} targets[] = {
    {"Sharding", call_same},
    {"SPMDFullToShardShape", call_same},
    {"SPMDShardToFullShape", call_same},
    {"LayoutConstraint", call_same},
    {"annotate_device_placement", call_same},
    {"shape_assertion", call_nothing},
    {"lapack_sgetrf_ffi", call_lu},
    {"lapack_dgetrf_ffi", call_lu},
    {"lapack_spotrf_ffi", call_factor},
    {"lapack_dpotrf_ffi", call_factor},
    {"lapack_strsm_ffi", call_solve},
    {"lapack_dtrsm_ffi", call_solve},
};

/* Writes the name of the operator for a target: ns::name, also for ns.name. */
static void operator_name(const char *target, char *out, size_t room) {
  const char *dot = strchr(target, '.');
  if (strstr(target, "::") || !dot)
    snprintf(out, room, "%.180s", target);
  else
    snprintf(out, room, "%.*s::%.90s", (int)(dot - target < 90 ? dot - target : 90), target,
             dot + 1);
}

static void lower_custom_call(hlo_lower_t *lower) {
  char name[200];
  const char *target = hlo_attr_word(lower, "callee", "call_target_name", "");
  const hlo_attr_t *config = hlo_attr(lower, "mhlo.backend_config", "backend_config");
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (strcmp(targets[i].target, target) == 0) {
      targets[i].lower(lower);
      return;
    }
  if (hlo_is_own_call(target)) {
    hlo_lower_own_call(lower, target);
    return;
  }
  operator_name(target, name, sizeof name);
  if (config && config->kind != HLO_ATTR_DICT) config = NULL;
  if (!strstr(name, "::") || strncmp(name, "core::", 6) == 0 ||
      !hlo_lower_operator(lower, name, config))
    hlo_missing(lower, "the target %.100s, which is no operator of a loaded library", target);
}

static const hlo_row_t rows[] = {
    {"stablehlo.custom_call", NULL, NULL, NULL, lower_custom_call, 0, NULL},
};

HLO_ROWS(hlo_rows_call);
