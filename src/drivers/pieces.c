/* Passes operands of loops piece by piece, see pieces.h. */
#include "drivers/pieces.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "core/transpose.h"

/* tiles */

static void copy_strided(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                         int64_t size, int64_t count) {
  if (from_stride == size && to_stride == size) {
    memcpy(to, from, (size_t)(count * size));
    return;
  }
#define EACH(type)                                                                                 \
  {                                                                                                \
    type v;                                                                                        \
    if (from_stride == 0 && to_stride == (int64_t)sizeof v) {                                      \
      memcpy(&v, from, sizeof v);                                                                  \
      type *all = (type *)(void *)to;                                                              \
      for (int64_t i = 0; i < count; i++)                                                          \
        all[i] = v;                                                                                \
    } else {                                                                                       \
      for (int64_t i = 0; i < count; i++)                                                          \
        memcpy(to + i * to_stride, from + i * from_stride, sizeof v);                              \
    }                                                                                              \
  }
  switch (size) {
  case 1:
    EACH(uint8_t) break;
  case 2:
    EACH(uint16_t) break;
  case 4:
    EACH(uint32_t) break;
  case 8:
    EACH(uint64_t) break;
  default:
    for (int64_t i = 0; i < count; i++)
      memcpy(to + i * to_stride, from + i * from_stride, (size_t)size);
  }
#undef EACH
}

/* Copies the operand's elements of the current piece. */
static void load_piece(const tn_loop_operand_t *o, int64_t count, char *block) {
  if (o->repeats == 1) {
    memcpy(block, o->data, (size_t)(count * o->size));
    return;
  }
  const int64_t run = o->repeats;
  for (int64_t at = 0; at < count; at += run)
    copy_strided(o->data + at / run * o->size, 0, block + at * o->size, o->size, o->size, run);
}

/* Whether the last two axes are a plane whose columns are adjacent in the operand's memory. */
static bool is_transposed(const tn_drive_t *d, const tn_loop_operand_t *o) {
  const int32_t last = d->it->ndim - 1;
  const bool has_word = o->size <= 8 && (o->size & (o->size - 1)) == 0;
  return has_word && last > 0 && o->strides[last - 1] == o->size && o->strides[last] != o->size &&
         o->strides[last] != 0;
}

/* How many of the next `count` elements are whole rows of a plane that are moved together: rows of
 * a transposed plane, or short ones; 0: they are moved row by row. */
static int64_t count_plane_rows(const tn_drive_t *d, const tn_loop_operand_t *o,
                                const int64_t *index, int64_t count) {
  enum { LEAST = 4, SHORT = 512 /* bytes */ };
  const int32_t last = d->it->ndim - 1;
  if (last == 0 || index[last] != 0) return 0;
  if (is_transposed(d, o) ? d->inner < LEAST : d->inner * o->size > SHORT) return 0;
  const int64_t left = d->it->shape[last - 1] - index[last - 1];
  const int64_t rows = count / d->inner < left ? count / d->inner : left;
  return rows >= LEAST ? rows : 0;
}

/* Copies short rows. A call of memcpy() for each of them would take longer than the copy. */
static void copy_short_rows(const char *from, int64_t from_row, int64_t from_stride, char *to,
                            int64_t to_row, int64_t to_stride, int64_t size, int64_t length,
                            int64_t rows) {
#define EACH(type)                                                                                 \
  for (int64_t r = 0; r < rows; r++, from += from_row, to += to_row) {                             \
    type value;                                                                                    \
    memcpy(&value, from, sizeof value);                                                            \
    for (int64_t i = 0; i < length; i++) {                                                         \
      if (from_stride) memcpy(&value, from + i * (int64_t)sizeof value, sizeof value);             \
      memcpy(to + i * (int64_t)sizeof value, &value, sizeof value);                                \
    }                                                                                              \
  }
  const bool is_simple = (from_stride == size || from_stride == 0) && to_stride == size;
  if (is_simple && size == 4) {
    EACH(uint32_t)
  } else if (is_simple && size == 2) {
    EACH(uint16_t)
  } else {
    for (int64_t r = 0; r < rows; r++)
      copy_strided(from + r * from_row, from_stride, to + r * to_row, to_stride, size, length);
  }
#undef EACH
}

/* Copies rows of a plane, or `run` elements of a row if `rows` is 0. */
static void move_run(const tn_drive_t *d, const tn_loop_operand_t *o, char *memory, char *block,
                     int64_t rows, int64_t run, bool to_memory) {
  const int32_t last = d->it->ndim - 1;
  const int64_t column = o->strides[last];
  const int64_t row = d->inner * o->size;
  if (rows && is_transposed(d, o)) {
    if (to_memory)
      tn_transpose_plane(o->size, block, row, memory, column, d->inner, rows);
    else
      tn_transpose_plane(o->size, memory, column, block, row, rows, d->inner);
  } else if (rows) {
    const int64_t step = o->strides[last - 1];
    if (to_memory)
      copy_short_rows(block, row, o->size, memory, step, column, o->size, d->inner, rows);
    else
      copy_short_rows(memory, step, column, block, row, o->size, o->size, d->inner, rows);
  } else if (to_memory) {
    copy_strided(block, o->size, memory, column, o->size, run);
  } else {
    copy_strided(memory, column, block, o->size, o->size, run);
  }
}

/* Copies elements [first, first + count) of the iteration between an operand's memory and a dense
 * block of the operand's own dtype. */
static void move_elements(const tn_drive_t *d, const tn_loop_operand_t *o, int64_t first,
                          int64_t count, char *block, bool to_memory) {
  if (o->is_piece && to_memory) {
    memcpy(o->data, block, (size_t)(count * o->size));
    return;
  }
  if (o->is_piece) {
    load_piece(o, count, block);
    return;
  }
  int64_t index[TENON_RANK_MAX];
  int64_t rest = first;
  int64_t offset = 0;
  for (int32_t i = d->it->ndim - 1; i >= 0; i--) {
    index[i] = rest % d->it->shape[i];
    rest /= d->it->shape[i];
    offset += index[i] * o->strides[i];
  }
  int32_t last = d->it->ndim - 1;
  while (count > 0) {
    const int64_t rows = count_plane_rows(d, o, index, count);
    int64_t run = rows ? rows * d->inner : d->inner - index[last];
    if (run > count) run = count;
    move_run(d, o, o->data + offset, block, rows, run, to_memory);
    block += run * o->size;
    count -= run;
    if (rows) {
      index[last - 1] += rows - 1;
      offset += (rows - 1) * o->strides[last - 1];
      run = d->inner;
    }
    index[last] += run;
    offset += run * o->strides[last];
    for (int32_t i = last; i > 0 && index[i] == d->it->shape[i]; i--) {
      offset += o->strides[i - 1] - o->strides[i] * d->it->shape[i];
      index[i] = 0;
      index[i - 1]++;
    }
  }
}

void tn_operand_load(const tn_drive_t *d, const tn_loop_operand_t *o, int64_t first, int64_t count,
                     char *tile, char *spare) {
  char *block = o->converts ? spare : tile;
  move_elements(d, o, first, count, block, false);
  if (o->converts) tn_convert(block, o->dtype, tile, o->loop_dtype, count);
}

void tn_operand_store(const tn_drive_t *d, const tn_loop_operand_t *o, int64_t first, int64_t count,
                      char *tile, char *spare) {
  char *block = tile;
  if (o->converts) tn_convert(tile, o->loop_dtype, block = spare, o->dtype, count);
  move_elements(d, o, first, count, block, true);
}

/* operands */

/* Sets up the operands of the loop from those of the iterator, and decides which of them are passed
 * as they lie in memory. A loop must not write where it reads. */
static void set_operands(tn_drive_t *d, const tn_kernel_t *kernel) {
  const tenon_iterator_t *it = d->it;
  int32_t last = it->ndim - 1;
  for (uint32_t i = 0; i < it->count; i++) {
    const tenon_tensor_t *t = it->tensors[i];
    tn_loop_operand_t *o = &d->operands[i];
    *o = (tn_loop_operand_t){.loop_dtype = kernel->loop.words.dtypes[i], .strides = it->strides[i]};
    o->loop_size = o->loop_dtype.bits * o->loop_dtype.lanes / 8;
    o->size = o->loop_size;
    o->is_output = i >= it->op->input_count;
    if (!t) continue;
    o->data = (char *)t->data + it->offsets[i];
    o->dtype = t->dtype;
    o->size = t->dtype.bits * t->dtype.lanes / 8;
    o->converts = !tn_dtype_same(o->dtype, o->loop_dtype);
    o->is_scalar = !o->is_output && it->end > 1;
    for (int32_t k = 0; k <= last; k++)
      o->is_scalar &= it->strides[i][k] == 0;
    o->packs = o->converts || it->strides[i][last] != o->size;
    for (uint32_t k = it->op->input_count; k < it->count && !o->packs && !o->is_output; k++)
      if (it->tensors[k] && t->data == it->tensors[k]->data) o->packs = true;
  }
}

tenon_status_t tn_drive_begin(tenon_call_t *call, const tn_kernel_t *kernel,
                              const tenon_iterator_t *it, tn_drive_t *d) {
  *d = (tn_drive_t){call,
                    kernel,
                    it,
                    it->end,
                    it->shape[it->ndim - 1],
                    tn_scratch(it->count * sizeof *d->operands)};
  if (!d->operands) return tn_no_memory("a loop", it->count * sizeof *d->operands);
  set_operands(d, kernel);
  return TENON_OK;
}

bool tn_drive_flatten(tn_drive_t *d) {
  bool any_packs = false;
  for (uint32_t i = 0; i < d->it->count; i++) {
    tn_loop_operand_t *o = &d->operands[i];
    int64_t need = o->size;
    for (int32_t k = d->it->ndim - 1; k >= 0 && o->data && !o->packs; k--) {
      if (o->strides[k] != need) o->packs = true;
      need *= d->it->shape[k];
    }
    any_packs |= o->packs;
  }
  return any_packs;
}

/* bands */

enum { LINE = 64, BAND_BYTES = 4 << 20 };

static bool may_have_bands(const tn_drive_t *d, const tn_loop_operand_t *o) {
  if (!o->data || !o->packs || o->is_output || o->is_piece || o->is_scalar) return false;
  return is_transposed(d, o) && d->it->shape[d->it->ndim - 2] > 1 && d->inner <= BAND_BYTES / LINE;
}

/* Whether pieces of this operand come from bands. Pieces with many rows copy them themselves. */
static bool has_bands(const tn_drive_t *d, const tn_loop_operand_t *o, int64_t most) {
  return may_have_bands(d, o) && d->inner * (LINE / o->size) > most;
}

int64_t tn_drive_bands(const tn_drive_t *d, int64_t most) {
  enum { MOST = 8, USUAL = 4 };
  int64_t elements = 0;
  for (uint32_t i = 0; i < d->it->count; i++) {
    const tn_loop_operand_t *o = &d->operands[i];
    if (!may_have_bands(d, o)) continue;
    if (elements < 1) elements = 1;
    if (has_bands(d, o, most) && d->inner * (LINE / o->size) > elements)
      elements = d->inner * (LINE / o->size);
  }
  for (int64_t bands = 1; bands <= MOST && elements > 1; bands++)
    if (bands * elements % most == 0) return bands * elements / most;
  return (USUAL * elements + most - 1) / most;
}

static tenon_status_t make_bands(tn_pieces_t *p) {
  const tn_drive_t *d = p->drive;
  const uint32_t n = d->it->count;
  for (uint32_t i = 0; i < n; i++) {
    const tn_loop_operand_t *o = &d->operands[i];
    if (!has_bands(d, o, p->most)) continue;
    if (!p->bands) {
      p->bands = tn_scratch(n * sizeof *p->bands);
      if (!p->bands) return tn_no_memory("a loop", n * sizeof *p->bands);
      memset(p->bands, 0, n * sizeof *p->bands);
    }
    p->bands[i].rows = LINE / o->size;
    p->bands[i].memory = tn_scratch((size_t)(d->inner * LINE));
    if (!p->bands[i].memory) return tn_no_memory("a loop", (size_t)(d->inner * LINE));
  }
  return TENON_OK;
}

/* Copies the rows around an element to the band: those that share cache lines with its row, as far
 * as the pass has them. */
static void load_band(const tn_pieces_t *p, const tn_loop_operand_t *o, int64_t at,
                      tn_band_t *band) {
  const tn_drive_t *d = p->drive;
  const int32_t last = d->it->ndim - 1;
  const int64_t plane = d->it->shape[last - 1];
  const int64_t row = at / d->inner;
  const int64_t top = row - row % plane; /* of the plane */
  int64_t begin = top + row % plane / band->rows * band->rows;
  int64_t end = begin + band->rows < top + plane ? begin + band->rows : top + plane;
  if (begin < p->begin / d->inner) begin = p->begin / d->inner;
  if (end > (p->end - 1) / d->inner + 1) end = (p->end - 1) / d->inner + 1;
  int64_t offset = (begin - top) * o->strides[last - 1];
  int64_t rest = top / plane;
  for (int32_t i = last - 2; i >= 0; i--) {
    offset += rest % d->it->shape[i] * o->strides[i];
    rest /= d->it->shape[i];
  }
  tn_transpose_plane(o->size, o->data + offset, o->strides[last], band->memory, d->inner * o->size,
                     end - begin, d->inner);
  band->begin = begin * d->inner;
  band->end = end * d->inner;
}

/* Returns elements [first, first + count) of the operand: where its band has them, if one band has
 * them all, or in the tile. */
static void *load_from_bands(const tn_pieces_t *p, uint32_t i, int64_t first, int64_t count) {
  const tn_loop_operand_t *o = &p->drive->operands[i];
  tn_band_t *band = &p->bands[i];
  char *tile = p->tiles[i];
  char *block = o->converts ? p->spare : tile;
  for (int64_t at = first, end = first + count; at < end;) {
    if (at < band->begin || at >= band->end) load_band(p, o, at, band);
    const int64_t run = (end < band->end ? end : band->end) - at;
    char *from = band->memory + (at - band->begin) * o->size;
    if (run == count && !o->converts) return from;
    memcpy(block + (at - first) * o->size, from, (size_t)(run * o->size));
    at += run;
  }
  if (o->converts) tn_convert(block, o->dtype, tile, o->loop_dtype, count);
  return tile;
}

/* pieces */

/* The bytes of an operand's tile. */
static int64_t tile_bytes(const tn_loop_operand_t *o, int64_t most) {
  return (most * o->loop_size + 63) & ~(int64_t)63;
}

/* Fills the tile of an input whose elements are the same in every piece: it is a scalar, or it
 * moves along its last axes only, whose elements divide a piece. Returns whether it is one. */
static bool fill_once(const tn_pieces_t *p, const tn_loop_operand_t *o, int64_t begin, int64_t end,
                      char *tile) {
  const tn_drive_t *d = p->drive;
  const int64_t count = end - begin < p->most ? end - begin : p->most;
  int32_t first = 0;
  int64_t period = 1;
  if (o->is_output || o->is_piece) return false;
  if (o->is_scalar) {
    tn_operand_load(d, o, 0, 1, tile, p->spare);
    copy_strided(tile, 0, tile, o->loop_size, o->loop_size, count);
    return true;
  }
  while (first < d->it->ndim && o->strides[first] == 0)
    first++;
  for (int32_t k = first; k < d->it->ndim && period <= p->most; k++)
    period *= d->it->shape[k];
  /* What moves along all axes may be made by a loop of the same pass. */
  if (first == 0 || period > p->most || p->most % period != 0) return false;
  tn_operand_load(d, o, begin, count, tile, p->spare);
  return true;
}

tenon_status_t tn_pieces_begin(const tn_drive_t *d, int64_t begin, int64_t end, int64_t most,
                               tn_pieces_t *p) {
  uint32_t n = d->it->count;
  int64_t tile_size = 0;
  bool converts = false;
  for (uint32_t i = 0; i < n; i++) {
    const tn_loop_operand_t *o = &d->operands[i];
    if (!o->data || !o->packs) continue;
    tile_size += tile_bytes(o, most);
    converts |= o->converts;
  }
  *p = (tn_pieces_t){
      .drive = d, .begin = begin, .end = end, .most = most, .has_tiles = tile_size > 0};
  p->data = tn_scratch(
      n * (sizeof *p->data + sizeof *p->strides + sizeof *p->tiles + 2 * sizeof *p->is_filled) +
      64);
  char *tiles = tile_size ? tn_scratch((size_t)tile_size) : NULL;
  p->spare = converts ? tn_scratch((size_t)most * 16) : NULL;
  if (!p->data || (tile_size && !tiles) || (converts && !p->spare))
    return tn_no_memory("a loop", (size_t)tile_size);
  p->strides = (int64_t *)(void *)(p->data + n);
  p->tiles = (char **)(void *)(p->strides + n);
  p->is_filled = (bool *)(void *)(p->tiles + n);
  p->is_tried = p->is_filled + n;
  for (uint32_t i = 0; i < n; i++) {
    const tn_loop_operand_t *o = &d->operands[i];
    p->strides[i] = o->loop_size;
    p->data[i] = NULL;
    p->tiles[i] = NULL;
    p->is_filled[i] = p->is_tried[i] = false;
    if (!o->data || !o->packs) continue;
    p->data[i] = p->tiles[i] = tiles;
    tiles += tile_bytes(o, most);
  }
  p->loop = tn_loop_argument(d->call, d->kernel, p->data, p->strides);
  return make_bands(p);
}

/* Whether the tile of an input has the elements of each piece. It is filled with the first piece,
 * because a member of the same region may make what it holds. */
static bool is_filled(tn_pieces_t *p, uint32_t i) {
  if (!p->is_tried[i])
    p->is_filled[i] = fill_once(p, &p->drive->operands[i], p->begin, p->end, p->tiles[i]);
  p->is_tried[i] = true;
  return p->is_filled[i];
}

void tn_pieces_load(tn_pieces_t *p, int64_t first, int64_t count) {
  const tn_drive_t *d = p->drive;
  for (uint32_t i = 0; i < d->it->count; i++) {
    const tn_loop_operand_t *o = &d->operands[i];
    if (!o->data) continue;
    if (!o->packs)
      p->data[i] = o->is_piece ? o->data : o->data + first * o->size;
    else if (o->is_output || is_filled(p, i))
      continue;
    else if (p->bands && p->bands[i].memory)
      p->data[i] = load_from_bands(p, i, first, count);
    else
      tn_operand_load(d, o, first, count, p->tiles[i], p->spare);
  }
}

tenon_status_t tn_pieces_run(tn_pieces_t *p, int64_t first, int64_t count) {
  const tn_drive_t *d = p->drive;
  tn_pieces_load(p, first, count);
  p->loop.count = count;
  p->loop.first = (uint64_t)first;
  TN_TRY(d->kernel->loop.function(&p->loop));
  for (uint32_t i = 0; i < d->it->count; i++)
    if (d->operands[i].data && d->operands[i].packs && d->operands[i].is_output)
      tn_operand_store(d, &d->operands[i], first, count, p->tiles[i], p->spare);
  return TENON_OK;
}
