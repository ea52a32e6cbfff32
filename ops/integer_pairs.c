/* Operands of integer products as pairs of i16 that are adjacent along k, which one instruction
 * multiplies and adds (integer.h). */
#include "dense.h"
#include "integer.h"
#include <string.h>

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

/* The zero point of a row whose elements share one. */
static int32_t row_zero(const operand8_t *o, int64_t row) {
  int64_t offset = 0;
  if (!o->zero.data) return 0;
  core_row_offsets(o->x->ndim, o->x->shape, row, &o->zero, 1, &offset);
  return o->zero_is_signed ? ((const int8_t *)o->zero.data)[offset]
                           : ((const uint8_t *)o->zero.data)[offset];
}

static void write_left(const operand8_t *o, int64_t row, uint32_t *pairs) {
  int64_t k = o->x->shape[o->x->ndim - 1];
  if (!o->zero.data || !o->zero.strides[o->x->ndim - 1]) {
    int16_t *out = (int16_t *)(void *)pairs;
    core_integer_tiles_of_isa()->widen((const uint8_t *)o->x->data + row * k, 1,
                                       core_is(o->x, TENON_I8), row_zero(o, row), k, out);
    if (k % 2) out[k] = 0;
    return;
  }
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

/* One pair of rows of `columns` numbers, beginning at x, for a zero point that all share. */
static void write_panel_rows(const panels_t *p, const uint8_t *x, int64_t pair, uint32_t *panels) {
  const integer_tiles_t *kernels = core_integer_tiles_of_isa();
  int16_t low[2 * BLOCK], high[2 * BLOCK];
  for (int64_t at = 0; at < p->columns; at += 2 * BLOCK) {
    int64_t some = p->columns - at < 2 * BLOCK ? p->columns - at : 2 * BLOCK;
    int64_t count = (some - 1) / kernels->columns + 1;
    memset(low + some, 0, (size_t)(count * kernels->columns - some) * sizeof *low);
    memset(high, 0, sizeof high);
    kernels->widen(x + at, 1, p->is_signed, p->zero, some, low);
    if (2 * pair + 1 < p->rows)
      kernels->widen(x + p->columns + at, 1, p->is_signed, p->zero, some, high);
    kernels->pair(low, high, count, panels + at * p->depth + pair * kernels->columns,
                  p->depth * kernels->columns);
  }
}

void core_panels_write(const panels_t *p, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; row++) {
    int64_t matrix = row / p->depth;
    int64_t pair = row % p->depth;
    const uint8_t *x = p->x + (matrix * p->rows + 2 * pair) * p->columns;
    write_panel_rows(p, x, pair, p->panels + matrix * p->size);
  }
}

void core_pair_row_write(const operand8_t *operand, int64_t row, uint32_t *pairs) {
  if (operand->is_right)
    write_right(operand, row, pairs);
  else
    write_left(operand, row, pairs);
}

void core_pairs_write(const operand8_t *operand, int64_t begin, int64_t end, uint32_t *pairs) {
  int64_t width;
  int64_t shape[TENON_RANK_MAX];
  core_pair_rows(operand, &width, shape);
  for (int64_t row = begin; row < end; row++)
    core_pair_row_write(operand, row, pairs + row * width);
}
