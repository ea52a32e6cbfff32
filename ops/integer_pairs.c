/* Operands of integer products as pairs of i16 that are adjacent along k, which one instruction
 * multiplies and adds (integer.h). */
#include "dense.h"
#include "integer.h"

enum { BLOCK = 256 };

/* Writes `count` numbers of one row of x, from `first` on, minus their zero points. */
static void subtract_zeros(const operand8_t *o, int64_t row, int64_t first, int64_t count,
                           int16_t *out) {
  int32_t rank = o->x->ndim;
  int64_t width = rank ? o->x->shape[rank - 1] : 1;
  int64_t step = rank ? o->zero.strides[rank - 1] : 0;
  int64_t offset = 0;
  int64_t at = row * width + first;
  if (core_is(o->x, TENON_I8))
    for (int64_t e = 0; e < count; e++)
      out[e] = ((const int8_t *)o->x->data)[at + e];
  else
    for (int64_t e = 0; e < count; e++)
      out[e] = ((const uint8_t *)o->x->data)[at + e];
  if (!o->zero.data) return;
  core_row_offsets(rank, o->x->shape, row, &o->zero, 1, &offset);
  offset += first * step;
  if (o->zero_is_signed)
    for (int64_t e = 0; e < count; e++)
      out[e] = (int16_t)(out[e] - ((const int8_t *)o->zero.data)[offset + e * step]);
  else
    for (int64_t e = 0; e < count; e++)
      out[e] = (int16_t)(out[e] - ((const uint8_t *)o->zero.data)[offset + e * step]);
}

int64_t core_pair_rows(const operand8_t *operand, int64_t *width, int64_t *shape) {
  int32_t rank = operand->x->ndim;
  int32_t axis = rank - 1 - operand->is_right; /* k */
  int64_t rows = 1;
  for (int32_t i = 0; i < rank; i++) {
    shape[i] = operand->x->shape[i];
    if (i == axis) shape[i] = (shape[i] + 1) / 2;
    if (i < rank - 1) rows *= shape[i];
  }
  *width = rank ? shape[rank - 1] : 1;
  return rows;
}

static void write_left(const operand8_t *o, int64_t row, uint32_t *pairs) {
  int64_t k = o->x->shape[o->x->ndim - 1];
  int16_t numbers[2 * BLOCK];
  for (int64_t at = 0; at < k; at += 2 * BLOCK) {
    int64_t some = k - at < 2 * BLOCK ? k - at : 2 * BLOCK;
    subtract_zeros(o, row, at, some, numbers);
    if (some % 2) numbers[some] = 0;
    for (int64_t e = 0; e < (some + 1) / 2; e++)
      pairs[at / 2 + e] = (uint16_t)numbers[2 * e] | (uint32_t)(uint16_t)numbers[2 * e + 1] << 16;
  }
}

/* `row` counts pairs of rows; the last one of a matrix may lack its second row. */
static void write_right(const operand8_t *o, int64_t row, uint32_t *pairs) {
  const int64_t *shape = o->x->shape + o->x->ndim - 2;
  int64_t each = (shape[0] + 1) / 2;
  int64_t first = row / each * shape[0] + row % each * 2;
  int both = row % each * 2 + 1 < shape[0];
  int16_t low[BLOCK];
  int16_t high[BLOCK] = {0};
  for (int64_t at = 0; at < shape[1]; at += BLOCK) {
    int64_t some = shape[1] - at < BLOCK ? shape[1] - at : BLOCK;
    subtract_zeros(o, first, at, some, low);
    if (both) subtract_zeros(o, first + 1, at, some, high);
    for (int64_t e = 0; e < some; e++)
      pairs[at + e] = (uint16_t)low[e] | (uint32_t)(uint16_t)high[e] << 16;
  }
}

void core_pairs_write(const operand8_t *operand, int64_t begin, int64_t end, uint32_t *pairs) {
  int64_t width;
  int64_t shape[TENON_RANK_MAX];
  core_pair_rows(operand, &width, shape);
  for (int64_t row = begin; row < end; row++) {
    if (operand->is_right)
      write_right(operand, row, pairs + row * width);
    else
      write_left(operand, row, pairs + row * width);
  }
}
