/* Damage to files, selected by numbers, so that a test can repeat it: cuts, flipped bits, and
 * changes after which the file is still a well-formed protobuf message (fields dropped, doubled or
 * swapped, numbers and names replaced, lengths corrected). The fault tests and the fuzzers use it.
 * Invariant: the result never exceeds the capacity that the caller states. */
#ifndef TENON_TESTS_DAMAGE_H
#define TENON_TESTS_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct damage_t {
  uint64_t state;
  unsigned char *data;
  size_t size;
  size_t capacity;
} damage_t;

static inline uint64_t damage_random(damage_t *d, uint64_t below) { /* splitmix64 */
  uint64_t z = d->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return below ? z % below : z;
}

/* messages */

enum {
  DAMAGE_DEPTH = 24,
  DAMAGE_FIELDS = 4096,
};

typedef struct
    /* [begin, end): tag, length and content; [content, end): the content. */
    damage_field_t {
  size_t begin;
  size_t content;
  size_t end;
  uint32_t number;
  uint32_t kind;
  int32_t parent; /* the enclosing field, or -1 */
} damage_field_t;

typedef struct damage_fields_t {
  damage_field_t items[DAMAGE_FIELDS];
  int32_t count;
} damage_fields_t;

static inline bool damage_varint(const damage_t *d, size_t *at, size_t end, uint64_t *out) {
  *out = 0;
  for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
    unsigned char byte = d->data[(*at)++];
    *out |= shift < 64 ? (uint64_t)(byte & 127) << shift : 0;
    if (byte < 128) return true;
  }
  return false;
}

/* Collects the fields of [begin, end), and those of the messages in them. Returns false if it is
 * not a message. */
static inline bool damage_read(const damage_t *d, size_t begin, size_t end, int32_t parent,
                               int depth, damage_fields_t *out) {
  int32_t first = out->count;
  for (size_t at = begin; at < end;) {
    uint64_t tag = 0;
    uint64_t length = 0;
    damage_field_t f = {at, 0, 0, 0, 0, parent};
    bool good = out->count < DAMAGE_FIELDS && damage_varint(d, &at, end, &tag) && tag >> 3 > 0 &&
                tag >> 3 < 64;
    f.number = (uint32_t)(tag >> 3);
    f.kind = (uint32_t)(tag & 7);
    f.content = at;
    if (good && f.kind == 0) {
      good = damage_varint(d, &at, end, &length);
      f.end = at;
    } else if (good && f.kind == 2) {
      good = damage_varint(d, &at, end, &length);
      f.content = at;
      f.end = at + (size_t)length;
    } else {
      f.end = at + (f.kind == 1 ? 8 : 4);
      good = good && (f.kind == 1 || f.kind == 5);
    }
    if (!good || (f.kind == 2 && length > end - f.content) || f.end > end) {
      out->count = first;
      return false;
    }
    int32_t index = out->count++;
    out->items[index] = f;
    if (f.kind == 2 && f.end - f.content > 1 && depth < DAMAGE_DEPTH)
      (void)damage_read(d, f.content, f.end, index, depth + 1, out);
    at = f.end;
  }
  return true;
}

static inline size_t damage_put_varint(uint64_t value, unsigned char *out) {
  size_t size = 0;
  for (; value > 127; value >>= 7)
    out[size++] = (unsigned char)(value | 128);
  out[size++] = (unsigned char)value;
  return size;
}

static inline bool damage_replace(damage_t *d, size_t begin, size_t end, const void *bytes,
                                  size_t size) {
  if (d->size - (end - begin) + size > d->capacity) return false;
  memmove(d->data + begin + size, d->data + end, d->size - end);
  if (size) memcpy(d->data + begin, bytes, size);
  d->size = d->size - (end - begin) + size;
  return true;
}

/* Replaces bytes inside `parent`, and corrects the lengths of all enclosing fields. */
static inline bool damage_edit(damage_t *d, const damage_fields_t *fields, int32_t parent,
                               size_t begin, size_t end, const void *bytes, size_t size) {
  int64_t change = (int64_t)size - (int64_t)(end - begin);
  if (!damage_replace(d, begin, end, bytes, size)) return false;
  for (int32_t i = parent; i >= 0; i = fields->items[i].parent) {
    const damage_field_t *f = &fields->items[i];
    unsigned char number[10];
    size_t at = f->begin;
    size_t length_size;
    uint64_t tag;
    (void)damage_varint(d, &at, f->content, &tag);
    length_size = damage_put_varint((uint64_t)((int64_t)(f->end - f->content) + change), number);
    if (!damage_replace(d, at, f->content, number, length_size)) return false;
    change += (int64_t)length_size - (int64_t)(f->content - at);
  }
  return true;
}

/* changes */

static inline void damage_number(damage_t *d, const damage_fields_t *fields,
                                 const damage_field_t *f) {
  static const int64_t tempting[] = {0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     7,
                                     8,
                                     9,
                                     16,
                                     17,
                                     127,
                                     255,
                                     256,
                                     65536,
                                     INT32_MAX,
                                     INT32_MIN,
                                     (int64_t)1 << 31,
                                     (int64_t)1 << 32,
                                     (int64_t)1 << 60,
                                     (int64_t)1 << 62,
                                     INT64_MAX,
                                     INT64_MIN,
                                     -2,
                                     -3,
                                     1000000};
  unsigned char bytes[10];
  size_t count = sizeof tempting / sizeof *tempting;
  uint64_t value =
      damage_random(d, 4) ? (uint64_t)tempting[damage_random(d, count)] : damage_random(d, 40);
  (void)damage_edit(d, fields, f->parent, f->content, f->end, bytes,
                    damage_put_varint(value, bytes));
}

/* Makes one change that, most of the time, leaves the file a valid message. */
static inline void damage_message(damage_t *d, damage_fields_t *fields) {
  fields->count = 0;
  if (!damage_read(d, 0, d->size, -1, 0, fields) || !fields->count) return;
  const damage_field_t *f = &fields->items[damage_random(d, (uint64_t)fields->count)];
  const damage_field_t *other = NULL;
  /* Another field of the same kind, elsewhere in the file. */
  for (int i = 0; i < 200 && !other; i++) {
    const damage_field_t *g = &fields->items[damage_random(d, (uint64_t)fields->count)];
    if (g != f && g->number == f->number && g->kind == f->kind) other = g;
  }
  size_t size = f->end - f->content;
  size_t spare = other ? other->end - other->content : 0;
  unsigned char *copy = malloc(size + spare + 16);
  if (!copy) return;
  switch (damage_random(d, 8)) {
  case 0:
    (void)damage_edit(d, fields, f->parent, f->begin, f->end, NULL, 0);
    break;  /* drop */
  case 1: { /* double */
    size_t whole = f->end - f->begin;
    unsigned char *twice = malloc(whole);
    if (twice) memcpy(twice, d->data + f->begin, whole);
    if (twice) (void)damage_edit(d, fields, f->parent, f->end, f->end, twice, whole);
    free(twice);
    break;
  }
  case 2:
  case 3:
  /* Takes the content of another field with that number. */
  case 4:
    if (f->kind == 0 && damage_random(d, 3)) {
      damage_number(d, fields, f);
    } else if (other) {
      memcpy(copy, d->data + other->content, spare);
      if (f->kind == 2) {
        unsigned char length[10];
        size_t at = f->begin;
        size_t used = damage_put_varint(spare, length);
        uint64_t tag;
        (void)damage_varint(d, &at, f->content, &tag);
        memmove(copy + used, copy, spare);
        memcpy(copy, length, used);
        (void)damage_edit(d, fields, f->parent, at, f->end, copy, spare + used);
      } else {
        (void)damage_edit(d, fields, f->parent, f->content, f->end, copy, spare);
      }
    }
    break;
  /* Truncates the content, and corrects its length. */
  case 5:
    if (f->kind == 2 && size) {
      unsigned char length[10];
      size_t at = f->begin;
      size_t kept = (size_t)damage_random(d, size);
      size_t used = damage_put_varint(kept, length);
      uint64_t tag;
      (void)damage_varint(d, &at, f->content, &tag);
      memcpy(copy, length, used);
      memcpy(copy + used, d->data + f->content, kept);
      (void)damage_edit(d, fields, f->parent, at, f->end, copy, kept + used);
    } else if (f->kind == 0) {
      damage_number(d, fields, f);
    }
    break;
  /* Changes one byte of the content. */
  case 6:
    if (size) d->data[f->content + damage_random(d, size)] = (unsigned char)damage_random(d, 256);
    break;
  default:
    if (f->kind == 0) {
      damage_number(d, fields, f);
    } else if (f->kind == 2 && size >= 8) {
      /* Changes an eighth byte: an extent in raw data. */
      static const int64_t extents[] = {
          0, -1, 1, 2, 1000, (int64_t)1 << 31, (int64_t)1 << 60, INT64_MAX, INT64_MIN};
      int64_t value = extents[damage_random(d, sizeof extents / sizeof *extents)];
      memcpy(d->data + f->content + (size_t)damage_random(d, size / 8) * 8, &value, sizeof value);
    }
  }
  free(copy);
}

static inline void damage_bits(damage_t *d) {
  uint64_t bit = damage_random(d, 8 * (uint64_t)d->size);
  if (d->size) d->data[bit / 8] = (unsigned char)(d->data[bit / 8] ^ 1 << bit % 8);
}

/* Applies damage number `number` to the file in d->data: every fifth one truncates, every fifth one
 * flips a few bits, and the others make one to three changes. */
static inline void damage_file(damage_t *d, uint64_t number, damage_fields_t *fields) {
  d->state = number * 0x2545f4914f6cdd1du + 1;
  uint64_t times = 1 + damage_random(d, 3);
  if (number % 5 == 0)
    d->size = (size_t)damage_random(d, d->size);
  else
    for (uint64_t i = 0; i < times; i++)
      if (number % 5 == 1)
        damage_bits(d);
      else
        damage_message(d, fields);
}

#endif
