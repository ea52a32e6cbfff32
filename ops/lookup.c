/* Copies by tables (lookup.h). Rows run along the last axis. A stretch of a row whose table counts
 * up by one is copied in one piece. A row with the same source as the row before is copied from
 * that row.
 * Invariant: parts write whole rows; packed dtypes, whose rows may share a byte, are one part. */
#include "lookup.h"
#include "copy.h"
#include <string.h>

typedef struct rows_t {
  const lookup_t *lookup;
  int64_t columns;
  int64_t size;
  int64_t plain;
  int64_t plain_end; /* the stretch of consecutive elements */
  int by_one;        /* strings and packed dtypes */
} rows_t;

static void fill_with_value(char *to, int64_t count, int64_t size, const tenon_tensor_t *value) {
  if (!value) {
    memset(to, 0, (size_t)(count * size));
  } else if (count > 0) { /* fills by copying the part that is already filled */
    memcpy(to, value->data, (size_t)size);
    for (int64_t done = 1; done < count; done *= 2)
      memcpy(to + done * size, to, (size_t)((done * 2 < count ? done : count - done) * size));
  }
}

static void pick_elements(char *to, const char *from, const int64_t *table, int64_t begin,
                          int64_t end, int64_t size, const tenon_tensor_t *value) {
  switch (size) {
#define PICK(type)                                                                                 \
  case sizeof(type): {                                                                             \
    type *y = (type *)(void *)to;                                                                  \
    type other = value ? *(const type *)value->data : (type)0;                                     \
    const type *x = (const type *)(const void *)from;                                              \
    for (int64_t j = begin; j < end; j++)                                                          \
      y[j] = table[j] < 0 ? other : x[table[j]];                                                   \
    return;                                                                                        \
  }
    PICK(uint8_t)
    PICK(uint16_t)
    PICK(uint32_t)
    PICK(uint64_t)
#undef PICK
  default:
    for (int64_t j = begin; j < end; j++) {
      if (table[j] < 0)
        fill_with_value(to + j * size, 1, size, value);
      else
        memcpy(to + j * size, from + table[j] * size, (size_t)size);
    }
  }
}

/* Where the source of a row begins: of all axes up to `last`, at position `row` of them. -1: it
 * takes the value. */
static int64_t source_of(const lookup_t *lookup, int32_t last, int64_t row) {
  int64_t from = 0;
  for (int32_t i = last; i >= 0; i--) {
    int64_t at = lookup->table[i][row % lookup->out->shape[i]];
    if (at < 0) return -1;
    row /= lookup->out->shape[i];
    from += at * lookup->x->strides[i];
  }
  return from;
}

/* Copies a row element by element. */
static tenon_status_t move_row(tenon_call_t *call, const rows_t *p, int64_t from, int64_t to) {
  const lookup_t *lookup = p->lookup;
  const int64_t *table = lookup->table[lookup->out->ndim - 1];
  for (int64_t j = 0; j < p->columns; j++) {
    if (from >= 0 && table[j] >= 0)
      TENON_TRY(core_move_run(call, lookup->out, to + j, lookup->x, from + table[j], 1));
    else if (lookup->value)
      TENON_TRY(core_move_run(call, lookup->out, to + j, lookup->value, 0, 1));
  }
  return TENON_OK;
}

static void copy_row(const rows_t *p, int64_t from, char *to) {
  const lookup_t *lookup = p->lookup;
  const int64_t *table = lookup->table[lookup->out->ndim - 1];
  const char *source = (const char *)lookup->x->data + from * p->size;
  pick_elements(to, source, table, 0, p->plain, p->size, lookup->value);
  if (p->plain < p->plain_end)
    memcpy(to + p->plain * p->size, source + table[p->plain] * p->size,
           (size_t)((p->plain_end - p->plain) * p->size));
  pick_elements(to, source, table, p->plain_end, p->columns, p->size, lookup->value);
}

static tenon_status_t rows_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const rows_t *p = (const rows_t *)argument;
  const lookup_t *lookup = p->lookup;
  const int32_t axis = lookup->out->ndim - 2; /* along which rows follow each other */
  const int64_t height = axis < 0 ? 1 : lookup->out->shape[axis];
  const int64_t step = axis < 0 ? 0 : lookup->x->strides[axis];
  const int64_t only[1] = {0};
  const int64_t *table = axis < 0 ? only : lookup->table[axis];
  const int64_t bytes = p->columns * p->size;
  int64_t line = begin % height;
  int64_t base = source_of(lookup, axis - 1, begin / height);
  int64_t before = -1;
  for (int64_t row = begin; row < end; row++, line++) {
    if (line == height) {
      line = 0;
      base = source_of(lookup, axis - 1, row / height);
    }
    const int64_t from = base < 0 || table[line] < 0 ? -1 : base + table[line] * step;
    if (p->by_one) {
      TENON_TRY(move_row(call, p, from, row * p->columns));
      continue;
    }
    char *to = (char *)lookup->out->data + row * bytes;
    if (from < 0)
      fill_with_value(to, p->columns, p->size, lookup->value);
    else if (from == before)
      memcpy(to, to - bytes, (size_t)bytes);
    else
      copy_row(p, from, to);
    before = from;
  }
  return TENON_OK;
}

tenon_status_t core_lookup_tables(tenon_call_t *call, lookup_t *lookup) {
  const tenon_tensor_t *out = lookup->out;
  int64_t extents = 1;
  int64_t *tables;
  for (int32_t i = 0; i < out->ndim; i++)
    extents += out->shape[i];
  if (!(tables = (int64_t *)call->host->allocate(call, (uint64_t)extents * sizeof *tables)))
    return TENON_MEMORY;
  for (int32_t i = 0; i < out->ndim; tables += out->shape[i], i++)
    lookup->table[i] = tables;
  return TENON_OK;
}

tenon_status_t core_lookup(tenon_call_t *call, lookup_t *lookup) {
  const tenon_tensor_t *x = lookup->x;
  tenon_tensor_t *out = lookup->out;
  int64_t count = tenon_count(out);
  if (count == 0) return TENON_OK;
  if (out->ndim == 0) return core_move_run(call, out, 0, x, 0, 1);
  const int64_t *table = lookup->table[out->ndim - 1];
  rows_t p = {lookup, out->shape[out->ndim - 1], element_size(x), 0, 0, 0};
  p.by_one = tenon_dtype_id(x->dtype) == TENON_STRING || is_packed(x);
  for (int64_t begin = 0, end; begin < p.columns; begin = end) { /* find the longest stretch */
    for (end = begin + 1; end < p.columns && table[begin] >= 0 && table[end] == table[end - 1] + 1;)
      end++;
    if (table[begin] >= 0 && end - begin > p.plain_end - p.plain) {
      p.plain = begin;
      p.plain_end = end;
    }
  }
  if (is_packed(x) && !lookup->value) memset(out->data, 0, (size_t)(count * x->dtype.bits + 7) / 8);
  int64_t rows = count / p.columns;
  int64_t grain = is_packed(x) ? rows : 65536 / (p.columns * p.size) + 1;
  return call->host->parallel(call, rows, grain, rows_part, &p);
}
