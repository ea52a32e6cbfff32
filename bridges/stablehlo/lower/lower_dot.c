/* Lowers dot_general and dot to core::matmul: batch axes come first, the contracted axes are
 * joined, and the free axes of each side are joined where there is not exactly one. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"

#define RAGGED "ragged_dot_dimension_numbers"

typedef struct side_t { /* One operand of a product. */
  const hlo_type_t *type;
  int64_t batch[HLO_INTS_MAX];
  int64_t contracted[HLO_INTS_MAX];
  int64_t free[HLO_INTS_MAX];
  int32_t batch_count;
  int32_t contracted_count;
  int32_t free_count;
} side_t;

/* reading */

/* Returns the field of dot_dimension_numbers; NULL: it does not exist. */
static const hlo_attr_t *product_field(hlo_lower_t *lower, const char *field) {
  const hlo_attr_t *numbers = hlo_attr(lower, "dot_dimension_numbers", RAGGED);
  return numbers ? hlo_attr_find(numbers, field) : NULL;
}

/* Reads the axes [..] x [..] of both sides, or the two attributes of the generic form. */
static void read_pair(hlo_lower_t *lower, const char *name, const char *const fields[2],
                      int64_t *out[2], int32_t *out_counts[2]) {
  const hlo_attr_t *pair = hlo_attr(lower, name, NULL);
  for (int i = 0; i < 2; i++) {
    const hlo_attr_t *axes = product_field(lower, fields[i]);
    if (pair && pair->kind == HLO_ATTR_LIST && pair->count == 2) axes = &pair->items[i];
    int32_t count = hlo_ints_of(lower, axes, out[i]);
    *out_counts[i] = count < 0 ? 0 : count;
  }
}

/* Checks the axes of an operand that is multiplied as a value of a type, and lists the free ones.
 */
static void check_side(hlo_lower_t *lower, side_t *side, const hlo_type_t *type) {
  int64_t all[2 * HLO_INTS_MAX];
  int32_t count = 0;
  side->type = type;
  for (int32_t i = 0; i < side->batch_count; i++)
    all[count++] = side->batch[i];
  for (int32_t i = 0; i < side->contracted_count; i++)
    all[count++] = side->contracted[i];
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++)
    if (all[i] < 0 || all[i] >= type->ndim || hlo_contains(all, i, all[i]))
      hlo_wrong(lower, "axis %lld does not exist or occurs twice", (long long)all[i]);
  for (int64_t i = 0; i < type->ndim; i++)
    if (!hlo_contains(all, count, i)) side->free[side->free_count++] = i;
}

static void read_sides(hlo_lower_t *lower, side_t *a, side_t *b) {
  static const char *const batch[] = {"lhs_batching_dimensions", "rhs_batching_dimensions"};
  static const char *const contracted[] = {"lhs_contracting_dimensions",
                                           "rhs_contracting_dimensions"};
  read_pair(lower, "batching_dims", batch, (int64_t *[]){a->batch, b->batch},
            (int32_t *[]){&a->batch_count, &b->batch_count});
  read_pair(lower, "contracting_dims", contracted, (int64_t *[]){a->contracted, b->contracted},
            (int32_t *[]){&a->contracted_count, &b->contracted_count});
  if (a->batch_count != b->batch_count || a->contracted_count != b->contracted_count)
    hlo_wrong(lower, "the operands have different numbers of batch or contracted axes");
}

/* lowering */

/* Returns the product of the extents of some axes; -1: one is unknown. */
static int64_t extent_of(const hlo_type_t *type, const int64_t *axes, int32_t count) {
  int64_t product = 1;
  for (int32_t i = 0; i < count; i++) {
    if (type->dims[axes[i]] < 0) return -1;
    product *= type->dims[axes[i]];
  }
  return product;
}

static bool are_consecutive(const int64_t *axes, int32_t count) {
  for (int32_t i = 1; i < count; i++)
    if (axes[i] != axes[i - 1] + 1) return false;
  return true;
}

/* Joins the free and the contracted axes where they are, and then transposes the result, so that an
 * operand in row-major order is not copied. The extents are known, and both groups consecutive. */
static tenon_edge_t join_axes(hlo_lower_t *lower, tenon_edge_t x, const side_t *side,
                              const int64_t *groups[2], const int32_t counts[2]) {
  const hlo_type_t *type = side->type;
  int64_t dims[TENON_RANK_MAX + 2];
  int64_t perm[TENON_RANK_MAX + 2];
  int32_t count = 0;
  for (int64_t axis = 0; axis < type->ndim; axis++) {
    for (int32_t k = 0; k < side->batch_count; k++)
      if (side->batch[k] == axis) {
        perm[k] = count;
        dims[count++] = type->dims[axis];
      }
    for (int32_t g = 0; g < 2; g++)
      if (counts[g] && groups[g][0] == axis) {
        perm[side->batch_count + g] = count;
        dims[count++] = extent_of(type, groups[g], counts[g]);
      }
  }
  for (int32_t g = 0; g < 2; g++)
    if (!counts[g]) {
      perm[side->batch_count + g] = count;
      dims[count++] = 1;
    }
  tenon_edge_t shape = hlo_ints(lower, dims, count);
  x = hlo_run(lower, EDGES(x, shape), "reshape(a, b, allow_zero=True)");
  return hlo_transpose(lower, x, perm, count);
}

/* Brings an operand into the form [batch..., rows, columns], where the contracted axes are the
 * columns of the left side and the rows of the right side. */
static tenon_edge_t arrange_side(hlo_lower_t *lower, tenon_edge_t x, const side_t *side,
                                 bool is_left) {
  const hlo_type_t *type = side->type;
  int64_t perm[TENON_RANK_MAX];
  int64_t dims[TENON_RANK_MAX + 2];
  int32_t count = 0;
  const int64_t *first = is_left ? side->free : side->contracted;
  const int64_t *second = is_left ? side->contracted : side->free;
  int32_t first_count = is_left ? side->free_count : side->contracted_count;
  int32_t second_count = is_left ? side->contracted_count : side->free_count;
  if ((first_count != 1 || second_count != 1) && hlo_type_is_static(type) &&
      side->batch_count + 2 <= TENON_RANK_MAX && are_consecutive(first, first_count) &&
      are_consecutive(second, second_count))
    return join_axes(lower, x, side, (const int64_t *[]){first, second},
                     (const int32_t[]){first_count, second_count});
  for (int32_t i = 0; i < side->batch_count; i++) {
    dims[count] = type->dims[side->batch[i]];
    perm[count++] = side->batch[i];
  }
  dims[side->batch_count] = extent_of(type, first, first_count);
  dims[side->batch_count + 1] = extent_of(type, second, second_count);
  for (int32_t i = 0; i < first_count; i++)
    perm[count++] = first[i];
  for (int32_t i = 0; i < second_count; i++)
    perm[count++] = second[i];
  x = hlo_transpose(lower, x, perm, count);
  if (first_count == 1 && second_count == 1) return x;
  int32_t unknown = 0;
  for (int32_t i = 0; i < side->batch_count + 2; i++)
    unknown += dims[i] < 0;
  /* Batch axes keep their places, so reshape() can copy their extents. */
  for (int32_t i = 0; i < side->batch_count && unknown > 1; i++)
    if (dims[i] < 0) {
      dims[i] = 0;
      unknown--;
    }
  if (unknown > 1) hlo_missing(lower, "products with more than one unknown extent to be joined");
  if (side->batch_count + 2 > TENON_RANK_MAX) hlo_missing(lower, "products of so many axes");
  if (hlo_stopped(lower)) return EDGE_NONE;
  tenon_edge_t shape = hlo_ints(lower, dims, side->batch_count + 2);
  return hlo_run(lower, EDGES(x, shape), "reshape(a, b, allow_zero=%s)",
                 unknown || !hlo_type_is_static(type) ? "False" : "True");
}

/* Whether core::matmul takes the free axes of the left side as they are: they and the contracted
 * axis are in order, and the right side is a matrix. */
static bool is_stack_by_matrix(const side_t *a, const side_t *b) {
  return !a->batch_count && a->contracted_count == 1 && a->contracted[0] == a->free_count &&
         a->free_count > 1 && b->free_count == 1;
}

/* Splits the joined free axes of the product again. */
static tenon_edge_t restore_axes(hlo_lower_t *lower, tenon_edge_t product, const side_t *a,
                                 const side_t *b) {
  const hlo_type_t *type = hlo_result_type(lower, 0);
  int64_t dims[TENON_RANK_MAX];
  int32_t unknown = 0;
  if (a->free_count == 1 && b->free_count == 1) return product;
  for (int32_t i = 0; i < type->ndim; i++) {
    dims[i] = type->dims[i];
    if (dims[i] < 0 && i < a->batch_count)
      dims[i] = 0;
    else
      unknown += dims[i] < 0;
  }
  if (unknown > 1) hlo_missing(lower, "products with more than one unknown extent to be joined");
  if (type->ndim != a->batch_count + a->free_count + b->free_count)
    hlo_wrong(lower, "the result has another number of axes than its operands give");
  if (hlo_stopped(lower)) return EDGE_NONE;
  tenon_edge_t shape = hlo_ints(lower, dims, type->ndim);
  return hlo_run(lower, EDGES(product, shape), "reshape(a, b, allow_zero=%s)",
                 hlo_type_is_static(type) ? "True" : "False");
}

/* Multiplies two real parts. The operands are computed in the dtype of the result, or in a wider
 * one that core::matmul has. */
static tenon_edge_t multiply(hlo_lower_t *lower, tenon_edge_t x, tenon_edge_t y, const side_t *a,
                             const side_t *b) {
  tenon_dtype_t dtype = hlo_part_dtype(hlo_result_type(lower, 0)->dtype);
  tenon_dtype_t kept = dtype;
  bool is_narrow_float = dtype.bits == 8 && dtype.code >= 7;
  if (hlo_is_bool(dtype)) dtype = tenon_dtype(TENON_I32);
  if (is_narrow_float) dtype = tenon_dtype(TENON_F32);
  x = hlo_cast(lower, x, dtype);
  y = arrange_side(lower, hlo_cast(lower, y, dtype), b, false);
  if (is_stack_by_matrix(a, b))
    return hlo_cast(lower, hlo_run(lower, EDGES(x, y), "matmul(a, b)"), kept);
  x = arrange_side(lower, x, a, true);
  tenon_edge_t product = hlo_run(lower, EDGES(x, y), "matmul(a, b)");
  return hlo_cast(lower, restore_axes(lower, product, a, b), kept);
}

static void lower_product(hlo_lower_t *lower, const side_t *a, const side_t *b) {
  hlo_bound_t x = *hlo_operand(lower, 0);
  hlo_bound_t y = *hlo_operand(lower, 1);
  if (hlo_stopped(lower)) return;
  tenon_edge_t real = multiply(lower, x.edge, y.edge, a, b);
  if (x.imaginary == EDGE_NONE && y.imaginary == EDGE_NONE) {
    hlo_give(lower, 0, real);
    return;
  }
  if (x.imaginary == EDGE_NONE || y.imaginary == EDGE_NONE)
    hlo_wrong(lower, "only one operand is complex");
  tenon_edge_t both = multiply(lower, x.imaginary, y.imaginary, a, b);
  tenon_edge_t left = multiply(lower, x.imaginary, y.edge, a, b);
  tenon_edge_t right = multiply(lower, x.edge, y.imaginary, a, b);
  hlo_give_bound(lower, 0,
                 hlo_complex(hlo_run(lower, EDGES(real, both), "sub(a, b)"),
                             hlo_run(lower, EDGES(left, right), "add(a, b)")));
}

static void lower_dot_general(hlo_lower_t *lower) {
  side_t *sides = hlo_lower_take(lower, 2, sizeof *sides);
  if (!sides) return;
  read_sides(lower, &sides[0], &sides[1]);
  check_side(lower, &sides[0], hlo_operand_type(lower, 0));
  check_side(lower, &sides[1], hlo_operand_type(lower, 1));
  lower_product(lower, &sides[0], &sides[1]);
}

/* The older product of vectors and matrices. */
static void lower_dot(hlo_lower_t *lower) {
  side_t *sides = hlo_lower_take(lower, 2, sizeof *sides);
  if (!sides) return;
  sides[0].contracted_count = sides[1].contracted_count = 1;
  sides[0].contracted[0] = hlo_operand_type(lower, 0)->ndim - 1;
  check_side(lower, &sides[0], hlo_operand_type(lower, 0));
  check_side(lower, &sides[1], hlo_operand_type(lower, 1));
  lower_product(lower, &sides[0], &sides[1]);
}

/* ragged products */

/* Repeats the left side for each group, on a new first axis, with 0 outside the group's part of the
 * ragged axis. */
static tenon_edge_t separate_groups(hlo_lower_t *lower, int64_t groups, int32_t ragged) {
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  int64_t dims[TENON_RANK_MAX + 1] = {groups};
  tenon_edge_t sizes = hlo_cast(lower, hlo_edge(lower, 2), tenon_dtype(TENON_I64));
  tenon_edge_t ends = hlo_run(lower, EDGES(sizes), "cum_sum(a, 0:i64)");
  for (int32_t i = 0; i < type->ndim; i++)
    dims[i + 1] = 1;
  ends = hlo_reshape(lower, ends, dims, type->ndim + 1);
  sizes = hlo_reshape(lower, sizes, dims, type->ndim + 1);
  tenon_edge_t rows = hlo_iota(lower, type->dims[ragged], ragged, type->ndim);
  return hlo_run(lower, EDGES(hlo_edge(lower, 0), sizes, ends, rows),
                 "where(and(less(d, c), greater_equal(d, sub(c, b))), unsqueeze(a, [0]), 0:a)");
}

/* Reads the only axis of a field of the ragged dimension numbers. */
static int32_t only_axis(hlo_lower_t *lower, const char *field, const hlo_type_t *type) {
  int64_t axes[HLO_INTS_MAX] = {0};
  int32_t count = hlo_ints_of(lower, product_field(lower, field), axes);
  if (count != 1) hlo_missing(lower, "dimension numbers without one axis as %s", field);
  if (axes[0] < 0 || axes[0] >= type->ndim) hlo_wrong(lower, "%s: the axis does not exist", field);
  return hlo_stopped(lower) ? 0 : (int32_t)axes[0];
}

/* Adds the axis of groups: the first one of the left side, and one of the right side. Both are
 * contracted, since all parts but one are 0. */
static void contract_groups(side_t *a, side_t *b, int32_t group) {
  for (int32_t i = 0; i < a->batch_count; i++)
    a->batch[i]++;
  for (int32_t i = 0; i < a->contracted_count; i++)
    a->contracted[i]++;
  memmove(a->contracted + 1, a->contracted, (size_t)a->contracted_count * sizeof *a->contracted);
  memmove(b->contracted + 1, b->contracted, (size_t)b->contracted_count * sizeof *b->contracted);
  a->contracted[0] = 0;
  b->contracted[0] = group;
  a->contracted_count++;
  b->contracted_count++;
}

/* Rows of the left side belong to groups, each of which has a matrix of its own on the right side.
 */
static void lower_ragged_dot(hlo_lower_t *lower) {
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  side_t *sides = hlo_lower_take(lower, 2, sizeof *sides);
  hlo_type_t *left = hlo_lower_take(lower, 1, sizeof *left);
  int64_t *dims = hlo_lower_take(lower, (size_t)type->ndim + 1, sizeof *dims);
  if (!sides || !left || !dims) return;
  read_sides(lower, &sides[0], &sides[1]);
  int32_t ragged = only_axis(lower, "lhs_ragged_dimensions", type);
  int32_t group = only_axis(lower, "rhs_group_dimensions", hlo_operand_type(lower, 1));
  const hlo_type_t *sizes = hlo_operand_type(lower, 2);
  check_side(lower, &sides[0], type);
  if (hlo_stopped(lower)) return;
  if (!hlo_contains(sides[0].free, sides[0].free_count, ragged))
    hlo_missing(lower, "a ragged axis that is contracted or a batch");
  if (sizes->ndim != 1) hlo_missing(lower, "sizes of groups for each batch");
  if (sizes->ndim == 1 && sizes->dims[0] != hlo_operand_type(lower, 1)->dims[group])
    hlo_wrong(lower, "expected a size for each group");
  if (!hlo_type_is_static(type) || !hlo_type_is_static(sizes))
    hlo_missing(lower, "operands of unknown extents");
  if (type->ndim >= TENON_RANK_MAX) hlo_missing(lower, "operands of so many axes");
  if (hlo_stopped(lower)) return;
  dims[0] = sizes->dims[0];
  memcpy(dims + 1, type->dims, (size_t)type->ndim * sizeof *dims);
  *left = *type;
  left->dims = dims;
  left->ndim++;
  sides[0].free_count = 0;
  contract_groups(&sides[0], &sides[1], group);
  check_side(lower, &sides[0], left);
  check_side(lower, &sides[1], hlo_operand_type(lower, 1));
  tenon_edge_t x = separate_groups(lower, dims[0], ragged);
  hlo_give(lower, 0, multiply(lower, x, hlo_edge(lower, 1), &sides[0], &sides[1]));
}

static const hlo_row_t rows[] = {
    {"chlo.ragged_dot", NULL, NULL, NULL, lower_ragged_dot, 0, NULL},
    {"stablehlo.dot", NULL, NULL, NULL, lower_dot, 0, NULL},
    {"stablehlo.dot_general", NULL, NULL, NULL, lower_dot_general, 0, NULL},
};

HLO_ROWS(hlo_rows_dot);
