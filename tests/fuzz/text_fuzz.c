/* The contract's languages. The first line of a file is a schema; the lines after it are other
 * declarations of the operator, each after a letter: t types, p shapes, s sharding, g gradient, w
 * where, r reuse, b batching, u uses, k kernel, l loop, U upgrade, S samples. Any text is parsed or
 * refused with a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/declarations.h"
#include "core/gradient.h"
#include "core/pattern.h"
#include "core/samples.h"
#include "core/schema.h"
#include "core/types.h"
#include "core/upgrade.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(tenon_status_t status, const char *text) {
  if (status == TENON_OK || (*tn_error() && status != TENON_INTERNAL)) return;
  fprintf(stderr, "wrong: status %d, message '%s', of: %s\n", (int)status, tn_error(), text);
  abort();
}

typedef struct all_t { /* The parsed declarations of one operator. */
  tn_schema_t schema;
  tn_types_t types;
  bool has_types;
} all_t;

static void parse(char letter, const char *text, all_t *all, tn_arena_t *arena) {
  tn_patterns_t patterns;
  tn_gradient_t gradient;
  tn_batching_t batching;
  tn_upgrade_t upgrade;
  tn_kernel_words_t kernel;
  tn_loop_words_t loop;
  tn_samples_t samples;
  const uint8_t *words;
  const int32_t *inputs;
  const char *const *names;
  uint32_t count;
  tenon_status_t status = TENON_OK;
  switch (letter) {
  case 't':
    status = tn_types_parse(text, &all->schema, arena, &all->types);
    all->has_types = status == TENON_OK;
    break;
  case 'p':
  case 's':
    status = tn_patterns_parse(text, letter == 's', &all->schema, arena, &patterns);
    break;
  case 'g':
    if (all->has_types)
      status = tn_gradient_parse(text, &all->schema, &all->types, arena, &gradient);
    break;
  case 'w':
    status = tn_where_parse(text, &all->schema, arena, &words);
    break;
  case 'r':
    status = tn_reuse_parse(text, &all->schema, arena, &inputs);
    break;
  case 'b':
    status = tn_batching_parse(text, &all->schema, &batching);
    break;
  case 'u':
    status = tn_uses_parse(text, all->schema.ns, arena, &names, &count);
    break;
  case 'k':
    status = tn_kernel_parse(text, arena, &kernel);
    break;
  case 'l':
    status = tn_loop_parse(text, &all->schema, arena, &loop);
    break;
  case 'U':
    status = tn_upgrade_parse(1, text, arena, &upgrade);
    break;
  case 'S':
    status = tn_samples_parse(text, &all->schema, arena, &samples);
    break;
  default:
    break;
  }
  check(status, text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  tn_arena_t arena = {NULL};
  all_t all;
  if (size > 1 << 14) return 0;
  memset(&all, 0, sizeof all);
  for (size_t at = 0, line = 0; at <= size; line++) {
    const unsigned char *end = memchr(data + at, '\n', size - at);
    size_t length = end ? (size_t)(end - data) - at : size - at;
    char *text = malloc(length + 1); /* A block of its own lets a sanitizer see its end. */
    if (!text) break;
    memcpy(text, data + at, length);
    text[length] = 0;
    tenon_status_t status = TENON_OK;
    if (line == 0)
      check(status = tn_schema_parse(text, "fuzz", &arena, &all.schema), text);
    else if (length)
      parse(*text, text + 1, &all, &arena);
    free(text);
    if (status != TENON_OK) break;
    at += length + 1;
  }
  tn_arena_clear(&arena);
  return 0;
}
