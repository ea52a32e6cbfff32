/* Declares the operators of a library: Foo(Tensor input0, Tensor? input1, Tensor[] input2, *,
 * str[] **attributes) -> (Tensor output0). Dtypes are inferred, because a library states them for
 * each overload, and no text could say which combinations exist. */
#include "describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ort_element.h"
#include "infer.h"
#include "kernel.h"
#include "run.h"

enum { ITEMS_AN_OP = 10 };

typedef struct description_t {
  library_t *library;
  FILE *text; /* the text that is being written */
  char *data;
  size_t size;
  bool has_failed;
} description_t;

#define add(d, ...)                                                                                \
  do {                                                                                             \
    if ((d)->text) fprintf((d)->text, __VA_ARGS__);                                                \
  } while (0)

static void begin_text(description_t *d) {
  d->data = NULL;
  d->text = open_memstream(&d->data, &d->size);
}

/* Ends the text. The library keeps it. */
static const char *end_text(description_t *d) {
  library_t *l = d->library;
  char **grown = realloc(l->texts, (l->text_count + 1) * sizeof *grown);
  if (grown) l->texts = grown;
  if (!d->text || fclose(d->text) != 0 || !grown) {
    free(d->data);
    d->has_failed = true;
    return "";
  }
  l->texts[l->text_count] = d->data;
  return l->texts[l->text_count++];
}

static void add_item(description_t *d, tenon_item_t made) {
  d->library->items[d->library->item_count++] = made;
}

static void add_text_item(description_t *d, uint32_t tag) {
  add_item(d, (tenon_item_t){tag, 0, 0, end_text(d), NULL});
}

static void add_schema(description_t *d, const operator_t *op) {
  static const char *const inputs[] = {"Tensor", "Tensor?", "Tensor[]"};
  static const char *const outputs[] = {"Tensor", "Tensor?", "Tensor[" ATTRIBUTE_COUNT "]"};
  begin_text(d);
  add(d, "%s(", op->name);
  for (size_t i = 0; i < op->in_count; i++)
    add(d, "%s input%zu, ", inputs[op->in_kinds[i]], i);
  add(d, "*, ");
  if (op->has_output_list) add(d, "int " ATTRIBUTE_COUNT "=1, ");
  add(d, "str[] **attributes) -> (");
  for (size_t i = 0; i < op->out_count; i++)
    add(d, "%s%s output%zu", i ? ", " : "", outputs[op->out_kinds[i]], i);
  add(d, ")");
  add_text_item(d, TENON_TAG_OP);
}

static void add_elements(description_t *d, const uint8_t *elements, size_t count) {
  for (size_t i = 0; i < count; i++)
    add(d, "%s%s", i ? ", " : "", element_name((ort_element_t)elements[i]));
}

static void add_doc(description_t *d, const operator_t *op) {
  begin_text(d);
  add(d, "Operator %s of ONNX Runtime's domain '%s', version %d.\nKernels:", op->type, op->domain,
      op->since);
  for (size_t i = 0; i < op->overload_count; i++) {
    const overload_t *overload = &op->overloads[i];
    add(d, "%s (", i ? ";" : "");
    add_elements(d, overload->inputs, op->in_count);
    add(d, ") -> (");
    add_elements(d, overload->outputs, op->out_count);
    add(d, ")");
  }
  add(d, ". Attributes are passed by name; the library does not declare them.");
  add_text_item(d, TENON_TAG_DOC);
}

static void add_types(description_t *d, const operator_t *op) {
  begin_text(d);
  for (size_t i = 0; i < op->in_count; i++)
    add(d, "%sinput%zu", i ? ", " : "", i);
  for (size_t i = 0; i < op->out_count; i++)
    add(d, "%soutput%zu", i || op->in_count ? ", " : "", i);
  add(d, " = ?");
  add_text_item(d, TENON_TAG_TYPES);
}

static void describe_operator(description_t *d, const operator_t *op) {
  add_schema(d, op);
  add_doc(d, op);
  add_types(d, op);
  add_item(d, (tenon_item_t)TENON_FN_(INFER, 0, tenon_infer_t, infer_results));
  add_item(d, (tenon_item_t)TENON_FN_(CREATE, 0, tenon_node_t, state_create));
  add_item(d, (tenon_item_t)TENON_FREE_(DESTROY, state_destroy));
  add_item(d, (tenon_item_t)TENON_FN_(PREPARE, 0, tenon_node_t, kernel_prepare));
  add_item(d, (tenon_item_t)TENON_FREE_(RELEASE, kernel_release));
  add_item(d, (tenon_item_t)TENON_KERNEL("cpu", run_kernel));
}

bool describe_library(library_t *l) {
  description_t d = {.library = l};
  l->items = calloc((l->op_count + 1) * ITEMS_AN_OP, sizeof *l->items);
  if (!l->items) return false;
  begin_text(&d);
  add(&d, "library of custom operators for ONNX Runtime");
  add_text_item(&d, TENON_TAG_ABOUT);
  for (size_t i = 0; i < l->op_count; i++)
    describe_operator(&d, &l->ops[i]);
  l->descriptor =
      (tenon_descriptor_t){sizeof l->descriptor, TENON_ABI, TENON_LAYOUT, 0, l->ns, "1", l->items};
  return !d.has_failed;
}
