/* The rows that make core operators ONNX's own. Most of them are those of the import, read from
 * right to left; the rows here are for operators that the import builds with a function, or that
 * ONNX has only as a formula. A dot separates a domain from the type. Called by standard_match.c.
 */
#include "import/onnx/standard_table.h"

#include <string.h>

#include "import/onnx/lowering_table.h"

enum { NEWEST_SET = 23 }; /* the newest operator set that an exported model may need */

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"Max(a, b) = max(a, b)", 13, NULL},
  {"Min(a, b) = min(a, b)", 13, NULL},
  {"Not(Equal(a, b)) = not_equal(a, b)", 13, NULL},
  {"BitShift(a, b, direction='LEFT') = shift_left(a, b)", 11, NULL},
  {"BitShift(a, b, direction='RIGHT') = shift_right(a, b)", 11, NULL},
  {"Reciprocal(Sqrt(x)) = rsqrt(x)", 13, NULL},
  {"Mul(x, Sigmoid(x)) = silu(x, alpha=1.0)", 13, NULL},
  {"Sub(1:x, Erf(x)) = erfc(x)", 14, NULL},
  {"Identity(x) = contiguous(x)", 16, NULL},
  {"Identity(x) = identity(x)", 16, NULL},
  {"SequenceConstruct(*xs) = list(xs)", 11, NULL},
  {"SequenceAt(xs, at) = list_at(xs, at, dtype=#, rank=#)", 11, NULL},
  {"SequenceInsert(xs, x, at?) = list_insert(xs, x, at)", 11, NULL},
  {"SequenceErase(xs, at?) = list_erase(xs, at)", 11, NULL},
  {"SequenceLength(xs) = list_length(xs)", 11, NULL},
  {"ConcatFromSequence(xs) = "
   "list_concat(xs, axis=axis, new_axis=new_axis, dtype=#, rank=#)", 11, NULL},
  {"SplitToSequence(x, split?) = list_split(x, split, axis=axis?0, keepdims=keepdims?1)", 11, NULL},
  {"Optional(x) = optional(x)", 15, NULL},
  {"OptionalHasElement(x) = optional_has(x)", 15, NULL},
  {"OptionalGetElement(x) = optional_get(x, dtype=#, rank=#)", 15, NULL},
  {"MatMul(a, Transpose(b, perm=swap:b)) = matmul(a, b, transpose_b=True)", 13, NULL},
  {"MatMul(Transpose(a, perm=swap:a), b) = matmul(a, b, transpose_a=True)", 13, NULL},
  {"MatMul(Transpose(a, perm=swap:a), Transpose(b, perm=swap:b)) = "
   "matmul(a, b, transpose_a=True, transpose_b=True)", 13, NULL},
  {"Add(MatMul(a, b), bias) = matmul(a, b, bias)", 14, NULL},
  {"BatchNormalization(x, scale, bias, mean, var) = "
   "batch_norm(x, scale, bias, mean, var, epsilon=epsilon?1e-5)", 15, NULL},
  {"ConstantOfShape(shape) = constant_of_shape(shape, value=value)", 20, NULL},
  {"STFT(signal, step, window?, length?) = stft(signal, step, window, length, onesided=onesided)",
   17, NULL},
  {"com.microsoft.MatMulNBits(a, b, scales, zero_points?, _, bias?, -packed_sizes) = "
   "matmul_nbits(a, b, scales, zero_points, bias, bits=bits?0, block_size=block_size?0)", 1, NULL},
};
/* clang-format on */

TN_LOWERINGS(tn_standard_rows, "");

/* Operators that newer operator sets no longer have. */
static const char *const retired[] = {"Upsample(", "Scatter("};

static bool is_retired(const tn_lowering_t *row) {
  for (size_t i = 0; i < sizeof retired / sizeof *retired; i++)
    if (strncmp(row->text, retired[i], strlen(retired[i])) == 0) return true;
  return false;
}

/* Whether the right side of a row is one call of this operator. */
static bool is_row_of(const tn_lowering_t *row, const char *op) {
  const char *right = strstr(row->text, ") = ");
  size_t size = strlen(op);
  if (!right || row->lower || row->since > NEWEST_SET || is_retired(row)) return false;
  right += 4;
  if (strncmp(right, op, size) != 0 || right[size] != '(') return false;
  return !strchr(right + size + 1, '(') && !strchr(right, ';');
}

/* Whether a newer row for the same ONNX operator applies to all sets that the export uses. */
static bool is_replaced(const tn_lowerings_t *rows, const tn_lowering_t *row) {
  size_t size = strcspn(row->text, "(") + 1;
  for (size_t i = 0; i < rows->count; i++)
    if (strncmp(rows->items[i].text, row->text, size) == 0 && rows->items[i].since > row->since &&
        rows->items[i].since <= NEWEST_SET)
      return true;
  return false;
}

bool tn_standard_rows_of(const char *op, bool (*see)(void *context, const tn_lowering_t *row),
                         void *context) {
  for (size_t k = 0; k < tn_standard_rows.count; k++)
    if (is_row_of(&lowerings[k], op) && see(context, &lowerings[k])) return true;
  const tn_lowerings_t *rows;
  for (size_t i = 0; (rows = tn_lowerings_at(i)); i++)
    for (size_t k = 0; !*rows->domain && k < rows->count; k++)
      if (is_row_of(&rows->items[k], op) && !is_replaced(rows, &rows->items[k]) &&
          see(context, &rows->items[k]))
        return true;
  return false;
}
