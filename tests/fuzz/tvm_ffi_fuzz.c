/* Metadata and declarations of functions for tvm-ffi: any texts give an operator whose arguments
 * exist, or are refused with a message. The bytes before the first 0 are the metadata, and then
 * come schema, order of arguments and dtypes; an empty text is absent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosted/declare.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { TEXTS = 4 };

static void require(bool truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "wrong: %s; last message: %s\n", what, tenon_error());
  abort();
}

/* Every argument of the function is an argument or result of the schema. */
static void check_function(const declaration_t *d, const function_t *f) {
  const tn_schema_t *schema = &d->schema;
  require(f->argument_count >= 0 && f->argument_count <= ARGUMENTS_MOST, "the argument count");
  require(d->types != NULL, "the dtypes");
  for (int32_t i = 0; i < f->argument_count; i++) {
    const argument_t *argument = &f->arguments[i];
    const bool is_output = argument->pass == PASS_OUTPUT || argument->pass == PASS_OUTPUT_OBJECT;
    const uint32_t inputs = argument->pass == PASS_ATTR ? schema->attr_count : schema->input_count;
    require(argument->index < (is_output ? schema->output_count : inputs), "an argument");
  }
  require(f->returned_count >= 0 && (uint32_t)f->returned_count <= schema->output_count,
          "the results");
  for (int32_t i = 0; i < f->returned_count; i++)
    require(f->returned[i] < schema->output_count, "a result");
}

static void declare_texts(char *const *texts, tn_arena_t *arena) {
  const tenon_tvm_ffi_function_t declared = {.size = sizeof declared,
                                             .name = "f",
                                             .schema = texts[1],
                                             .arguments = texts[2],
                                             .types = texts[3]};
  declaration_t d = {.arena = arena, .declared = &declared};
  function_t function = {.name = "f"};
  tenon_status_t status = TENON_OK;
  if (texts[0]) status = metadata_read(texts[0], strlen(texts[0]), arena, &d.signature);
  if (status == TENON_OK) status = declare_function(&d, "fuzz", &function);
  if (status == TENON_OK)
    check_function(&d, &function);
  else
    require(*tenon_error() != 0, "a refusal without a message");
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  char *copy = malloc(size + 1);
  char *texts[TEXTS] = {NULL};
  tn_arena_t arena = {0};
  if (!copy) abort();
  memcpy(copy, data, size);
  copy[size] = 0;
  char *at = copy;
  for (int i = 0; i < TEXTS && at <= copy + size; i++) {
    if (*at) texts[i] = at;
    at += strlen(at) + 1;
  }
  declare_texts(texts, &arena);
  tn_arena_clear(&arena);
  free(copy);
  return 0;
}
