/* Weights of products with u8, as the steps that a kernel multiplies one after another
 * (integer_tile.h). Called when a node is prepared, and by convolutions whose weights are no
 * constants.
 * Invariant: the steps of a quad add up to its weights minus their zero point, which may need more
 * than 8 bits, and no sum of products of a step, or of two that are multiplied together, is beyond
 * what a kernel can hold. */
#include "integer.h"
#include <stdlib.h>
#include <string.h>

enum {
  QUAD = 4,
  MOVED = -1,     /* the quad of a step that was moved */
  AHEAD = 16,     /* steps among which one step is looked for that another is multiplied with */
  MOST_STEPS = 4, /* of a quad: 510, the most of two neighbours, is less than four times 128 */
};

static int32_t clamp(int32_t value, int32_t least, int32_t most) {
  int32_t low = value < least ? least : value;
  return low > most ? most : low;
}

static int32_t positive(int32_t value) { return value > 0 ? value : 0; }

/* Takes from a quad what one step can multiply. `pair_most`: see integer_tiles_t. */
static uint32_t take_step(int32_t *quad, int32_t pair_most) {
  uint32_t step = 0;
  for (int i = 0; i < QUAD; i += 2) {
    int32_t first = clamp(quad[i], -128, 127);
    int32_t above = clamp(pair_most - positive(first), 0, 127);
    int32_t below = clamp(pair_most - positive(-first), 0, 128);
    int32_t second = clamp(quad[i + 1], -below, above);
    quad[i] -= first;
    quad[i + 1] -= second;
    step |= ((uint32_t)(uint8_t)first | (uint32_t)(uint8_t)second << 8) << (8 * i);
  }
  return step;
}

/* The same for a quad of channels under one tap. */
static int32_t read_channels(const integer_matrix_t *m, int64_t index, int64_t at, int32_t zero,
                             int32_t *quad) {
  const int64_t channels = m->inner / m->taps;
  int32_t sum = 0;
  for (int64_t i = 0; i < QUAD; i++) {
    const int64_t channel = at / m->taps * QUAD + i;
    const int64_t offset = index * m->step + channel * m->taps + at % m->taps;
    quad[i] = 0;
    if (channel >= channels) continue;
    quad[i] = (m->is_signed ? ((const int8_t *)m->data)[offset] : m->data[offset]) - zero;
    sum += quad[i];
  }
  return sum;
}

/* Reads a quad of one row or column minus its zero point. Returns the sum of the quad. */
static int32_t read_quad(const integer_matrix_t *m, int64_t index, int64_t at, int32_t *quad) {
  int32_t zero = 0;
  int32_t sum = 0;
  const int64_t zero_at = index * m->zero_step;
  const int64_t row = m->row ? m->row : m->inner;
  const int64_t quads = (row + QUAD - 1) / QUAD;
  const int64_t first = at % quads * QUAD; /* in the row */
  if (m->zeros) zero = m->is_signed ? ((const int8_t *)m->zeros)[zero_at] : m->zeros[zero_at];
  if (m->taps) return read_channels(m, index, at, zero, quad);
  for (int64_t i = 0; i < QUAD; i++) {
    int64_t offset = index * m->step + (at / quads * row + first + i) * m->inner_step;
    quad[i] = 0;
    if (first + i >= row) continue;
    quad[i] = (m->is_signed ? ((const int8_t *)m->data)[offset] : m->data[offset]) - zero;
    sum += quad[i];
  }
  return sum;
}

typedef struct tile_room_t {
  int32_t *quads;
  uint32_t *weights;
  int64_t count;
} tile_room_t;

/* Writes the steps of one quad of the tile whose rows or columns are [first, end). */
static void write_steps(const integer_matrix_t *m, int64_t first, int64_t end, int64_t at,
                        const integer_weights_t *weights, tile_room_t *room) {
  const int32_t pair_most = core_integer_tiles_of_isa()->pair_most;
  int32_t rest[TILE_COLUMNS_MOST][QUAD] = {{0}};
  int32_t remains = 0;
  for (int64_t i = first; i < end; i++) {
    weights->sums[i] += read_quad(m, i, at, rest[i - first]);
    for (int k = 0; k < QUAD; k++)
      remains |= rest[i - first][k];
  }
  while (remains) {
    uint32_t *to = room->weights + room->count * weights->width;
    remains = 0;
    for (int64_t i = 0; i < weights->width; i++) {
      to[i] = take_step(rest[i], pair_most);
      for (int k = 0; k < QUAD; k++)
        remains |= rest[i][k];
    }
    room->quads[room->count++] = (int32_t)at;
  }
}

static void *room_for(int64_t count, size_t size) {
  return aligned_alloc(64, ((size_t)count * size + 64) / 64 * 64);
}

/* Whether sums of four products, two neighbours in each step, do not exceed 16 bits. */
static int fit_together(const uint32_t *a, const uint32_t *b, int64_t width, int32_t pair_most) {
  for (int64_t i = 0; i < width; i++)
    for (int shift = 0; shift < 32; shift += 16) {
      const int8_t numbers[] = {(int8_t)(a[i] >> shift), (int8_t)(a[i] >> (shift + 8)),
                                (int8_t)(b[i] >> shift), (int8_t)(b[i] >> (shift + 8))};
      int32_t above = 0;
      int32_t below = 0;
      for (int k = 0; k < 4; k++) {
        above += positive(numbers[k]);
        below += positive(-numbers[k]);
      }
      if (above > pair_most || below > pair_most) return 0;
    }
  return 1;
}

/* Moves a step of the room to the end of the steps. */
static void move_step(tile_room_t *room, int64_t at, int64_t width, integer_steps_t *out) {
  out->quads[out->count] = room->quads[at];
  memcpy(out->weights + out->count * width, room->weights + at * width,
         (size_t)width * sizeof *out->weights);
  out->count++;
  room->quads[at] = MOVED;
}

/* Copies the steps of a tile to memory of their own, those first that are multiplied together.
 * Returns 0 if there is none. */
static int keep_steps(tile_room_t *room, int64_t width, integer_steps_t *out) {
  const int32_t pair_most = core_integer_tiles_of_isa()->pair_most;
  out->quads = (int32_t *)room_for(room->count, sizeof *out->quads);
  out->weights = (uint32_t *)room_for(room->count * width, sizeof *out->weights);
  if (!out->quads || !out->weights) return 0;
  for (int64_t i = 0; pair_most < PAIR_ANY && i < room->count; i++)
    for (int64_t j = i + 1; j < room->count && j <= i + AHEAD && room->quads[i] != MOVED; j++) {
      if (room->quads[j] == MOVED ||
          !fit_together(room->weights + i * width, room->weights + j * width, width, pair_most))
        continue;
      move_step(room, i, width, out);
      move_step(room, j, width, out);
      out->doubles++;
    }
  for (int64_t i = 0; i < room->count; i++)
    if (room->quads[i] != MOVED) move_step(room, i, width, out);
  return 1;
}

static int write_tiles(const integer_matrix_t *m, int64_t matrices, integer_weights_t *weights,
                       tile_room_t *room) {
  integer_steps_t *steps = weights->steps;
  for (int64_t begin = 0; begin < matrices * m->count; begin += m->count)
    for (int64_t i = 0; i < m->count; i += weights->width) {
      int64_t rows = m->count - i < weights->width ? m->count - i : weights->width;
      room->count = 0;
      for (int64_t quad = 0; quad < weights->depth; quad++)
        write_steps(m, begin + i, begin + i + rows, quad, weights, room);
      if (!keep_steps(room, weights->width, steps++)) return 0;
    }
  return 1;
}

/* Moves the steps of all tiles to memory without gaps, so that those of the next tile can be
 * fetched while one is multiplied. Nothing changes if there is no memory. */
static void join_tiles(integer_weights_t *weights) {
  int64_t count = 0;
  for (int64_t t = 0; t < weights->tiles; t++)
    count += weights->steps[t].count;
  uint32_t *numbers = (uint32_t *)room_for(count * weights->width, sizeof *numbers);
  int32_t *quads = (int32_t *)room_for(count, sizeof *quads);
  if (!numbers || !quads) {
    free(numbers);
    free(quads);
    return;
  }
  weights->joined[0] = numbers;
  weights->joined[1] = quads;
  for (int64_t t = 0; t < weights->tiles; t++) {
    integer_steps_t *steps = &weights->steps[t];
    const size_t size = (size_t)steps->count * sizeof *numbers;
    memcpy(numbers, steps->weights, size * (size_t)weights->width);
    memcpy(quads, steps->quads, size);
    free(steps->weights);
    free(steps->quads);
    steps->weights = numbers;
    steps->quads = quads;
    numbers += steps->count * weights->width;
    quads += steps->count;
  }
}

void core_integer_weights_release(integer_weights_t *weights) {
  if (!weights) return;
  free(weights->joined[0]);
  free(weights->joined[1]);
  for (int64_t t = 0; weights->steps && !weights->joined[0] && t < weights->tiles; t++) {
    free(weights->steps[t].quads);
    free(weights->steps[t].weights);
  }
  free(weights->steps);
  free(weights->sums);
  free(weights);
}

integer_weights_t *core_integer_weights_create(const integer_matrix_t *m, int64_t matrices,
                                               int64_t width) {
  integer_weights_t *weights = (integer_weights_t *)calloc(1, sizeof *weights);
  if (!weights) return NULL;
  const int64_t tiles = (m->count + width - 1) / width;
  weights->width = width;
  weights->row = m->row;
  weights->depth = (m->inner + QUAD - 1) / QUAD;
  if (m->row) weights->depth = m->inner / m->row * ((m->row + QUAD - 1) / QUAD);
  if (m->taps) weights->depth = (m->inner / m->taps + QUAD - 1) / QUAD * m->taps;
  weights->tiles = matrices * tiles;
  weights->steps = (integer_steps_t *)calloc((size_t)weights->tiles + 1, sizeof *weights->steps);
  weights->sums = (int32_t *)calloc((size_t)(matrices * m->count) + 1, sizeof *weights->sums);
  const int64_t most = MOST_STEPS * weights->depth;
  tile_room_t room = {(int32_t *)room_for(most, sizeof *room.quads),
                      (uint32_t *)room_for(most * width, sizeof *room.weights), 0};
  int is_complete = weights->steps && weights->sums && room.quads && room.weights &&
                    write_tiles(m, matrices, weights, &room);
  free(room.quads);
  free(room.weights);
  if (is_complete) {
    join_tiles(weights);
    return weights;
  }
  core_integer_weights_release(weights);
  return NULL;
}
