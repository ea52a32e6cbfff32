/* Shared code of the tests of the contract's languages: damaged variants of valid texts, and the
 * failure of each allocation in turn. Each text lies in a block of exactly its size, so that the
 * address sanitizer sees every access outside. The sequence of variants is fixed. */
#ifndef TENON_TESTS_TEXTS_H
#define TENON_TESTS_TEXTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "check.h"
#include "core/schema.h"
#include "core/types.h"
#include "faults.h"

typedef tenon_status_t (*texts_parse_fn)(const char *text, tn_arena_t *arena);

static inline uint32_t texts_random(uint32_t *state) {
  return (*state = *state * 1664525u + 1013904223u) >> 8;
}

/* Returns a copy of the text in which a few bytes are replaced, removed, doubled, or swapped for a
 * piece of the language. */
static inline char *texts_break(const char *text, uint32_t *state) {
  static const char *const pieces[] = {"(",      ")",
                                       "[",      "]",
                                       "->",     "::",
                                       "...",    "'",
                                       ",",      "=",
                                       ";",      "!",
                                       "?",      "@",
                                       "*",      "|",
                                       "\\",     "-",
                                       ".",      "\xff",
                                       "\x01",   "9999999999999999999999",
                                       "1e999",  "-inf",
                                       "_",      "Tensor",
                                       "int",    "None",
                                       "x",      "out",
                                       "grad",   "f32",
                                       "[[[[[[", "((((((",
                                       "str['"};
  size_t size = strlen(text);
  size_t room = size + 64;
  char *copy = calloc(1, room + 1);
  char *exact;
  memcpy(copy, text, size);
  for (uint32_t edits = 1 + texts_random(state) % 3; edits && size; edits--) {
    size_t at = texts_random(state) % size;
    switch (texts_random(state) % 4) {
    case 0:
      copy[at] = (char)(1 + texts_random(state) % 255);
      break;
    case 1:
      memmove(copy + at, copy + at + 1, size - at);
      size--;
      break;
    case 2:
      copy[at] = 0;
      size = at;
      break;
    default: {
      const char *piece = pieces[texts_random(state) % (sizeof pieces / sizeof *pieces)];
      size_t more = strlen(piece);
      if (size + more > room) break;
      memmove(copy + at + more, copy + at, size - at + 1);
      memcpy(copy + at, piece, more);
      size += more;
    }
    }
  }
  exact = malloc(strlen(copy) + 1);
  memcpy(exact, copy, strlen(copy) + 1);
  free(copy);
  return exact;
}

/* Checks that damaged variants either parse or fail as invalid with a message. */
static inline void texts_check_broken(const char *text, texts_parse_fn parse, int count) {
  uint32_t state = 7;
  for (int i = 0; i < count; i++) {
    tn_arena_t arena = {0};
    char *broken = texts_break(text, &state);
    tenon_status_t status = parse(broken, &arena);
    if (!CHECK(status == TENON_OK || (status == TENON_INVALID && strstr(tn_error(), "column")) ||
               (status == TENON_INVALID && *tn_error())))
      fprintf(stderr, "  text: %s\n  message: %s\n", broken, tn_error());
    free(broken);
    tn_arena_clear(&arena);
  }
}

/* Lets each allocation fail in turn, alone and together with all later ones: the result must always
 * be a clean TENON_MEMORY. */
static inline void texts_check_memory(const char *text, texts_parse_fn parse) {
  for (int sticky = 0; sticky < 2; sticky++)
    for (int64_t n = 1;; n++) {
      tn_arena_t arena = {0};
      fault_memory(n, sticky);
      tenon_status_t status = parse(text, &arena);
      fault_end();
      tn_arena_clear(&arena);
      if (status == TENON_OK) {
        CHECK(n > 1);
        break;
      }
      if (!CHECK_STATUS(status, TENON_MEMORY) || !CHECK(n < 10000)) break;
      CHECK_TEXT(tn_error(), "out of memory");
    }
}

/* Returns `count` copies of a piece between a head and a tail. */
static inline char *texts_repeat(const char *head, const char *piece, size_t count,
                                 const char *tail) {
  size_t size = strlen(piece);
  size_t used = strlen(head);
  char *text = malloc(used + size * count + strlen(tail) + 1);
  memcpy(text, head, used);
  for (size_t i = 0; i < count; i++, used += size)
    memcpy(text + used, piece, size);
  memcpy(text + used, tail, strlen(tail) + 1);
  return text;
}

#endif
