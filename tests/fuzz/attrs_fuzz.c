/* Attribute values as text: the first two bytes choose an operator; the rest are lines
 * "name=value", which attrs_parse parses, or a version to upgrade from. Any text becomes a value
 * that reads back, or is refused with a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "faults.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static const tenon_op_t *const *ops;
static int32_t op_count;

static void wrong(const char *what, const char *text) {
  fprintf(stderr, "wrong: %s, of '%s'; last message: %s\n", what, text, tenon_error());
  abort();
}

static void check(tenon_status_t status, const char *text) {
  if (status == TENON_INTERNAL) wrong("an internal error", text);
  if (status != TENON_OK && !*tenon_error()) wrong("a failure without a message", text);
}

/* Reads all that a value contains, to its end. */
static void look(const tenon_op_t *op, const tenon_value_t *values) {
  tenon_argument_t argument = {.size = sizeof argument};
  unsigned sum = 0;
  for (int32_t i = 0; tenon_op_argument(op, TENON_ARGUMENT_ATTR, i, &argument) == TENON_OK; i++) {
    const tenon_value_t *v = &values[i];
    if (v->kind == TENON_KIND_NONE) continue;
    if (v->kind != argument.kind && !argument.is_scalar)
      wrong("a value of another kind", argument.name);
    if (v->kind == TENON_KIND_STR && strlen(v->as.s) > v->count)
      wrong("a text without its end", argument.name);
    if (v->kind == TENON_KIND_CHOICE && (uint64_t)v->as.i >= argument.choice_count)
      wrong("a choice that is none", argument.name);
    for (uint32_t k = 0; k < v->count; k++) {
      if (v->kind == TENON_KIND_STR) sum += (unsigned char)v->as.s[k];
      if (v->kind == TENON_KIND_INTS || v->kind == TENON_KIND_DIMS) sum += (unsigned)v->as.ints[k];
      if (v->kind == TENON_KIND_FLOATS) sum += v->as.floats[k] > 0;
      if (v->kind == TENON_KIND_STRS) sum += (unsigned)strlen(v->as.strs[k].data);
    }
  }
  if (sum == UINT32_MAX) fputc(0, stderr); /* This keeps the compiler from removing the reads. */
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values = NULL;
  if (!ops) {
    if (tenon_start() != TENON_OK ||
        tenon_library_add(tenon_library_contract(), NULL, NULL, NULL) != TENON_OK ||
        tenon_ops_list(&ops, &op_count) != TENON_OK)
      abort();
  }
  if (size < 2 || size > 1 << 14) return 0;
  const tenon_op_t *op = ops[(data[0] | data[1] << 8) % op_count];
  if (tenon_attrs_create(op, &attrs) != TENON_OK) abort();
  fault_limit((int64_t)64 << 20);
  for (size_t at = 2; at < size;) {
    const unsigned char *end = memchr(data + at, '\n', size - at);
    size_t length = end ? (size_t)(end - data) - at : size - at;
    fault_pause();
    char *text = malloc(length + 1); /* A block of its own lets a sanitizer see its end. */
    fault_resume();
    if (!text) break;
    memcpy(text, data + at, length);
    text[length] = 0;
    char *value = strchr(text, '=');
    if (value) {
      *value++ = 0;
      check(tenon_attrs_parse(attrs, text, value), value);
    } else
      check(tenon_attrs_upgrade(attrs, length ? text[0] : 0), text);
    free(text);
    at += length + 1;
  }
  tenon_status_t status = tenon_attrs_values(attrs, &values);
  fault_limit(0);
  check(status, "all of them");
  if (status == TENON_OK) look(op, values);
  tenon_attrs_release(attrs);
  return 0;
}
