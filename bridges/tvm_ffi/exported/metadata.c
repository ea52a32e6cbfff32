/* What an exported operator says about itself: the types of its arguments and results, and its
 * documentation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "object.h"
#include "operator.h"

enum {
  TYPE_SIZE = 120, /* bytes of one type, escaped twice */
};

typedef struct writer_t {
  char *at;
  char *end;
} writer_t;

static void put_text(writer_t *w, const char *text) {
  const size_t size = strlen(text);
  if (size >= (size_t)(w->end - w->at)) return; /* the room is for the longest types */
  memcpy(w->at, text, size + 1);
  w->at += size;
}

/* In the string of the outer object, quotes are escaped. */
static void put_type(writer_t *w, const char *outer, const char *inner) {
  char text[TYPE_SIZE];
  if (outer)
    snprintf(text, sizeof text,
             "{\\\"type\\\":\\\"%s\\\",\\\"args\\\":[{\\\"type\\\":\\\"%s\\\"}]}", outer, inner);
  else
    snprintf(text, sizeof text, "{\\\"type\\\":\\\"%s\\\"}", inner);
  put_text(w, text);
}

static void put_argument(writer_t *w, const tenon_argument_t *argument) {
  static const char *const names[] = {
      [TENON_KIND_BOOL] = "bool",        [TENON_KIND_INT] = "int",
      [TENON_KIND_DIM] = "int",          [TENON_KIND_FLOAT] = "float",
      [TENON_KIND_STR] = "ffi.String",   [TENON_KIND_CHOICE] = "ffi.String",
      [TENON_KIND_DTYPE] = "DataType",   [TENON_KIND_DEVICE] = "Device",
      [TENON_KIND_TENSOR] = "DLTensor*", [TENON_KIND_INTS] = "int",
      [TENON_KIND_DIMS] = "int",         [TENON_KIND_FLOATS] = "float",
      [TENON_KIND_STRS] = "ffi.String",  [TENON_KIND_TENSORS] = "ffi.Tensor",
      [TENON_KIND_GRAPH] = "None",
  };
  const bool is_attr = argument->role == TENON_ARGUMENT_ATTR;
  const char *outer = NULL;
  if (argument->kind >= TENON_KIND_INTS)
    outer = "ffi.Array";
  else if (argument->is_optional || (is_attr && argument->has_default))
    outer = "Optional";
  /* A constant keeps its default. */
  if (is_attr && argument->kind == TENON_KIND_TENSOR)
    put_type(w, NULL, "None");
  else
    put_type(w, outer, names[argument->kind]);
}

static void put_results(writer_t *w, const exported_t *e) {
  if (e->output_count > 1) put_text(w, "{\\\"type\\\":\\\"Tuple\\\",\\\"args\\\":[");
  for (int32_t i = 0; i < e->output_count; i++) {
    if (i) put_text(w, ",");
    put_type(w, e->outputs[i].kind == TENON_KIND_TENSORS ? "ffi.Array" : NULL, "ffi.Tensor");
  }
  if (e->output_count > 1) put_text(w, "]}");
  if (!e->output_count) put_type(w, NULL, "None");
}

int exported_metadata(const exported_t *e, ffi_any_t *result) {
  const size_t capacity = (size_t)(e->argument_count + e->output_count + 4) * TYPE_SIZE;
  char *text = malloc(capacity);
  if (!text) return raise_text("MemoryError", "out of memory: metadata");
  writer_t w = {text, text + capacity};
  put_text(&w, "{\"type_schema\":\"{\\\"type\\\":\\\"ffi.Function\\\",\\\"named_args\\\":"
               "{\\\"return\\\":[");
  put_results(&w, e);
  put_text(&w, "],\\\"params\\\":[");
  for (int32_t i = 0; i < e->argument_count; i++) {
    if (i) put_text(&w, ",");
    put_argument(&w, e->arguments[i]);
  }
  put_text(&w, "]}}\"}");
  const bool is_fine = ffi_text_set(result, text, (size_t)(w.at - text));
  free(text);
  return is_fine ? 0 : raise_text("MemoryError", "out of memory: metadata");
}

int exported_doc(const exported_t *e, ffi_any_t *result) {
  tenon_op_info_t info = {.size = sizeof info};
  host.tenon_op_info(e->op, &info);
  const char *doc = info.doc ? info.doc : "";
  const size_t capacity = strlen(info.schema) + strlen(doc) + 3;
  char *text = malloc(capacity);
  if (!text) return raise_text("MemoryError", "out of memory: documentation");
  int size = snprintf(text, capacity, "%s%s%s", info.schema, *doc ? "\n\n" : "", doc);
  const bool is_fine = ffi_text_set(result, text, (size_t)size);
  free(text);
  return is_fine ? 0 : raise_text("MemoryError", "out of memory: documentation");
}
