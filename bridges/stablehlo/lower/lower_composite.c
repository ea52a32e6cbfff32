/* Lowers composites. Each has a name, attributes, and a function that computes it. JAX writes
 * operations of CHLO in this form when it exports a program; those that the reader has itself are
 * lowered directly, because the functions have many more operations. Called through table.c. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/lower.h"
#include "lower/region.h"

typedef struct known_composite_t {
  const char *name;
  const char *attr; /* The only attribute that the lowering reads; NULL: none. */
} known_composite_t;

enum { KNOWN_VERSION = 1 };
static const known_composite_t known[] = {
    {"chlo.acos", NULL},    {"chlo.acosh", NULL}, {"chlo.asin", NULL}, {"chlo.asinh", NULL},
    {"chlo.atan", NULL},    {"chlo.atanh", NULL}, {"chlo.cosh", NULL}, {"chlo.erf", NULL},
    {"chlo.erf_inv", NULL}, {"chlo.sinh", NULL},  {"chlo.tan", NULL},  {"chlo.top_k", "k"},
};

static const known_composite_t *find_composite(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) return &known[i];
  return NULL;
}

/* Whether the operation has the attribute of the composite and no other. */
static bool has_known_attrs(const known_composite_t *composite, const hlo_attr_t *attrs) {
  const int32_t count = attrs && attrs->kind == HLO_ATTR_DICT ? attrs->count : 0;
  if (!composite->attr) return count == 0;
  return count == 1 && hlo_attr_find(attrs, composite->attr);
}

/* Whether all operands and results are real floats of types that core's functions have. */
static bool has_plain_types(const hlo_op_t *op) {
  for (int32_t i = 0; i < op->operand_count; i++) {
    const hlo_type_t *type = op->operands[i]->type;
    if (type->kind != HLO_TENSOR || !hlo_is_float(type->dtype) || type->dtype.bits < 16)
      return false;
  }
  return op->operand_count == 1;
}

/* Lowers the operation that the composite stands for. Returns false if it must be computed by its
 * function. */
static bool lower_directly(hlo_lower_t *lower) {
  const hlo_attr_t *version = hlo_attr_find(&lower->op->attrs, "version");
  const hlo_attr_t *attrs = hlo_attr_find(&lower->op->attrs, "composite_attributes");
  const known_composite_t *composite = find_composite(hlo_attr_word(lower, "name", "callee", ""));
  if (!composite || !version || version->kind != HLO_ATTR_INT || version->integer != KNOWN_VERSION)
    return false;
  if (!has_known_attrs(composite, attrs) || !has_plain_types(lower->op)) return false;
  hlo_op_t op = *lower->op;
  op.name = composite->name;
  op.attrs = attrs ? *attrs : (hlo_attr_t){.kind = HLO_ATTR_DICT, .at = op.at};
  op.next = NULL;
  hlo_lower_one(lower, &op);
  return true;
}

static void lower_composite(hlo_lower_t *lower) {
  const char *name = hlo_attr_word(lower, "decomposition", NULL, "");
  if (!*name) hlo_wrong(lower, "expected a decomposition");
  if (hlo_stopped(lower) || lower_directly(lower)) return;
  hlo_inline_function(lower, name);
}

static const hlo_row_t rows[] = {
    {"stablehlo.composite", NULL, NULL, NULL, lower_composite, HLO_ELEMENTWISE, NULL},
};

HLO_ROWS(hlo_rows_composite);
