/* Writes a call to a folder: call.json, and a .npy file for each tensor. Called by programs, and by
 * watch.c. Invariant: call.json is written last, so a folder that has it is complete. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "core/value.h"
#include "dump/record.h"
#include "graph/placement.h"
#include "operator/library.h"

typedef struct writer_t {
  const char *folder;
  tn_text_t json;
} writer_t;

static void add_text_member(writer_t *w, const char *name, const char *value) {
  if (!value) return;
  tn_text_add(&w->json, "  \"%s\": ", name);
  tn_text_json(&w->json, value);
  tn_text_add(&w->json, ",\n");
}

static void add_numbers(writer_t *w, const char *name, const int64_t *values, int32_t count) {
  tn_text_add(&w->json, ", \"%s\": [", name);
  for (int32_t i = 0; i < count; i++)
    tn_text_add(&w->json, "%s%" PRId64, i ? ", " : "", values[i]);
  tn_text_add(&w->json, "]");
}

static tenon_status_t add_tensor_json(writer_t *w, const tenon_tensor_t *t, const char *stem,
                                      const char *name);

static tenon_status_t add_part(writer_t *w, const char *role, const tenon_tensor_t *t,
                               const char *stem) {
  char part[200];
  if (!t) return TENON_OK;
  snprintf(part, sizeof part, "%.150s_%s", stem, role);
  tn_text_add(&w->json, ", \"%s\": ", role);
  return add_tensor_json(w, t, part, NULL);
}

static tenon_status_t add_detail(writer_t *w, const tenon_tensor_t *t, const char *stem) {
  const tenon_detail_t *d = t->detail;
  if (!d) return TENON_OK;
  tn_text_add(&w->json, ", \"layout\": \"%s\"", tenon_tensor_layout(t));
  if (d->kind == TENON_DETAIL_QUANTISED) {
    tn_text_add(&w->json, ", \"axis\": %d, \"block\": %d", (int)d->axis, (int)d->block);
    TN_TRY(add_part(w, "scale", d->scale, stem));
    return add_part(w, "zero_point", d->zero_point, stem);
  }
  TN_TRY(add_part(w, "values", d->values, stem));
  TN_TRY(add_part(w, "indices", d->indices, stem));
  return add_part(w, "indptr", d->indptr, stem);
}

/* Saves the distinct elements: an axis of stride 0 has one. */
static tenon_status_t save_elements(const writer_t *w, const tenon_tensor_t *t, const char *file) {
  char path[4200];
  int64_t shape[TENON_RANK_MAX];
  tenon_tensor_t distinct = *t;
  for (int32_t i = 0; i < t->ndim; i++)
    shape[i] = t->strides[i] == 0 && t->shape[i] > 1 ? 1 : t->shape[i];
  distinct.shape = shape;
  distinct.detail = NULL;
  distinct.keys &= ~(TN_TENSOR_OWNED | TN_KEY_DETAIL);
  if (snprintf(path, sizeof path, "%s/%s", w->folder, file) >= (int)sizeof path)
    return tn_fail(TENON_INVALID, "%.100s...: the path is too long", w->folder);
  tn_tensor_mark(&distinct);
  if (t->device.type == 1) return tenon_tensor_save(&distinct, path);
  tenon_tensor_t *here = NULL;
  TN_TRY(tenon_tensor_copy_to(&distinct, (tenon_device_t){1, 0}, &here));
  tenon_status_t status = tenon_tensor_save(here, path);
  tenon_tensor_release(here);
  return status;
}

static tenon_status_t add_dense(writer_t *w, const tenon_tensor_t *t, const char *stem) {
  char file[220], device[300];
  add_numbers(w, "shape", t->shape, t->ndim);
  if (!tn_is_dense(t->ndim, t->shape, t->strides)) add_numbers(w, "strides", t->strides, t->ndim);
  if (t->device.type != 1)
    tn_text_add(&w->json, ", \"device\": \"%s\"", tn_device_text(t->device, device, sizeof device));
  else if ((uintptr_t)t->data % TN_ALIGNMENT && tenon_count(t))
    tn_text_add(&w->json, ", \"misaligned\": %d", (int)((uintptr_t)t->data % TN_ALIGNMENT));
  if (!t->data && tenon_count(t)) { /* of a sparse tensor, or of a result that was never created */
    if (!t->detail) tn_text_add(&w->json, ", \"is_missing\": true");
    return add_detail(w, t, stem);
  }
  snprintf(file, sizeof file, "%s.npy", stem);
  tn_text_add(&w->json, ", \"file\": \"%s\"", file);
  TN_TRY(save_elements(w, t, file));
  return add_detail(w, t, stem);
}

static tenon_status_t add_items(writer_t *w, const tenon_tensor_t *list, const char *stem) {
  char part[200];
  tn_text_add(&w->json, "\"items\": [");
  for (int64_t i = 0; i < list->shape[0]; i++) {
    snprintf(part, sizeof part, "%.150s_%lld", stem, (long long)i);
    if (i) tn_text_add(&w->json, ", ");
    TN_TRY(add_tensor_json(w, tenon_item(list, i), part, NULL));
  }
  tn_text_add(&w->json, "]");
  return TENON_OK;
}

static tenon_status_t add_tensor_json(writer_t *w, const tenon_tensor_t *t, const char *stem,
                                      const char *name) {
  tenon_status_t status = TENON_OK;
  if (!t) {
    tn_text_add(&w->json, "null");
    return TENON_OK;
  }
  tn_text_add(&w->json, "{");
  if (name) tn_text_add(&w->json, "\"name\": \"%s\", ", name);
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    status = add_items(w, t, stem);
  } else {
    tn_text_add(&w->json, "\"dtype\": \"%s\"", tn_dtype_name(t->dtype));
    status = add_dense(w, t, stem);
  }
  tn_text_add(&w->json, "}");
  return status;
}

/* Two arguments that are one tensor are one again when the dump is read. */
static bool is_same_tensor(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  return a && b && !tn_dtype_is(a->dtype, TENON_LIST) && a->data && a->data == b->data &&
         a->detail == b->detail && a->byte_offset == b->byte_offset &&
         tn_dtype_same(a->dtype, b->dtype) && a->ndim == b->ndim &&
         (!a->ndim || (!memcmp(a->shape, b->shape, (size_t)a->ndim * 8) &&
                       !memcmp(a->strides, b->strides, (size_t)a->ndim * 8)));
}

static tenon_status_t add_tensors(writer_t *w, const char *role, const tn_argument_t *arguments,
                                  tenon_tensor_t *const *tensors, uint32_t count) {
  char stem[64];
  tn_text_add(&w->json, "  \"%s%s\": [", role, strcmp(role, "written") ? "s" : "");
  for (uint32_t i = 0; tensors && i < count; i++) {
    uint32_t same = 0;
    tn_text_add(&w->json, i ? ",\n    " : "\n    ");
    while (same < i && !is_same_tensor(tensors[same], tensors[i]))
      same++;
    snprintf(stem, sizeof stem, "%s_%u", role, (unsigned)i);
    if (same < i)
      tn_text_add(&w->json, "{\"name\": \"%s\", \"same_as\": %u}", arguments[i].name,
                  (unsigned)same);
    else
      TN_TRY(add_tensor_json(w, tensors[i], stem, arguments[i].name));
  }
  tn_text_add(&w->json, "],\n");
  return TENON_OK;
}

static void add_text(writer_t *w, const tn_argument_t *attr, const tenon_value_t *value) {
  tn_text_t text = {0};
  tn_value_print(attr, value, &text);
  tn_text_json(&w->json, tn_text_get(&text));
  w->json.failed |= text.failed;
  tn_text_clear(&text);
}

static tenon_status_t add_attr_value(writer_t *w, const tn_argument_t *attr,
                                     const tenon_value_t *value, uint32_t i) {
  char stem[64], path[4200], device[300];
  snprintf(stem, sizeof stem, "attr_%u", (unsigned)i);
  switch (value->kind) {
  case TENON_KIND_NONE:
    tn_text_add(&w->json, "null");
    return TENON_OK;
  case TENON_KIND_TENSOR:
    return add_tensor_json(w, value->as.tensor, stem, NULL);
  case TENON_KIND_DEVICE:
    tn_text_add(&w->json, "{\"device\": \"%s\"}",
                tn_device_text(value->as.device, device, sizeof device));
    return TENON_OK;
  case TENON_KIND_TENSORS:
    tn_text_add(&w->json, "{\"items\": [");
    for (uint32_t k = 0; k < value->count; k++) {
      snprintf(stem, sizeof stem, "attr_%u_%u", (unsigned)i, (unsigned)k);
      if (k) tn_text_add(&w->json, ", ");
      TN_TRY(add_tensor_json(w, value->as.tensors[k], stem, NULL));
    }
    tn_text_add(&w->json, "]}");
    return TENON_OK;
  case TENON_KIND_GRAPH:
    tn_text_add(&w->json, "{\"graph\": \"%s.onnx\"}", stem);
    if (snprintf(path, sizeof path, "%s/%s.onnx", w->folder, stem) >= (int)sizeof path)
      return tn_fail(TENON_INVALID, "%.100s...: the path is too long", w->folder);
    return tenon_graph_save(value->as.graph, path);
  default:
    add_text(w, attr, value);
    return TENON_OK;
  }
}

/* Writes attributes that the schema does not name, each as "name=value". */
static void add_open_attrs(writer_t *w, const tenon_value_t *value, const char **separator) {
  for (uint32_t k = 0; k < value->count && value->kind == TENON_KIND_STRS; k++) {
    const tenon_string_t *s = &value->as.strs[k];
    const char *equals = memchr(s->data, '=', s->size);
    char *name = equals ? tn_copy_text(s->data, (size_t)(equals - s->data)) : NULL;
    char *text = name ? tn_copy_text(equals + 1, s->size - (size_t)(equals + 1 - s->data)) : NULL;
    tn_text_add(&w->json, "%s", *separator);
    if (text) {
      tn_text_json(&w->json, name);
      tn_text_add(&w->json, ": ");
      tn_text_json(&w->json, text);
    } else
      w->json.failed = true;
    tn_release_memory(name);
    tn_release_memory(text);
    *separator = ", ";
  }
}

static tenon_status_t add_attrs(writer_t *w, const tn_schema_t *schema,
                                const tenon_value_t *attrs) {
  const char *separator = "";
  tn_text_add(&w->json, "  \"attributes\": {");
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    if (schema->attrs[i].is_open) {
      add_open_attrs(w, &attrs[i], &separator);
      continue;
    }
    if (attrs[i].kind == TENON_KIND_NONE && !schema->attrs[i].is_optional)
      continue; /* required but missing */
    tn_text_add(&w->json, "%s\"%s\": ", separator, schema->attrs[i].name);
    TN_TRY(add_attr_value(w, &schema->attrs[i], &attrs[i], i));
    separator = ", ";
  }
  tn_text_add(&w->json, "},\n");
  return TENON_OK;
}

/* Identifies the library, and tells its builds apart by a hash. */
static void add_library(writer_t *w, const tn_library_t *library) {
  uint8_t hash[TN_SHA256_SIZE];
  char digits[TN_SHA256_TEXT];
  tn_file_t file;
  add_text_member(w, "library", library->name);
  add_text_member(w, "library_version", library->version);
  if (!library->path || !*library->path) return;
  add_text_member(w, "library_path", library->path);
  if (tn_file_map(library->path, &file) != TENON_OK) return;
  tn_sha256(file.data, file.size, hash);
  tn_sha256_text(hash, digits);
  add_text_member(w, "library_hash", digits);
  tn_file_unmap(&file);
}

static tenon_status_t add_call_description(writer_t *w, const tenon_op_t *op,
                                           const tenon_value_t *attrs,
                                           const tenon_recording_info_t *call) {
  tn_text_add(&w->json, "{\n  \"format\": %d,\n", TN_RECORD_FORMAT);
  add_text_member(w, "operator", op->name);
  add_text_member(w, "schema", op->schema.text);
  add_text_member(w, "node", call->node);
  add_text_member(w, "kernel", call->kernel);
  add_text_member(w, "status", tn_status_name(call->status));
  if (call->status != TENON_OK) add_text_member(w, "error", call->error);
  TN_TRY(add_attrs(w, &op->schema, attrs));
  TN_TRY(add_tensors(w, "input", op->schema.inputs, call->inputs, op->input_count));
  if (call->written)
    TN_TRY(add_tensors(w, "written", op->schema.inputs, call->written, op->input_count));
  if (call->outputs)
    TN_TRY(add_tensors(w, "output", op->schema.outputs, call->outputs, op->output_count));
  if (call->is_random)
    tn_text_add(&w->json,
                "  \"random\": {\"seed\": \"%" PRIu64 "\", \"offset\": \"%" PRIu64 "\"},\n",
                call->seed, call->offset);
  if (call->state) tn_text_add(&w->json, "  \"state\": %" PRIu64 ",\n", call->state);
  add_library(w, op->library);
  add_text_member(w, "tenon", tenon_version());
  tn_text_add(&w->json, "  \"threads\": %d\n}\n", (int)tenon_threads_get());
  return w->json.failed ? tn_no_memory("a failure dump", 0) : TENON_OK;
}

tenon_status_t tenon_recording_save(const char *folder, const tenon_op_t *op,
                                    const tenon_value_t *attrs,
                                    const tenon_recording_info_t *call) {
  char path[4200];
  writer_t w = {folder, {0}};
  tenon_recording_info_t all = {0};
  memcpy(&all, call, call->size < sizeof all ? call->size : sizeof all);
  TN_TRY(tn_folder_create(folder, true));
  tenon_status_t status = add_call_description(&w, op, attrs ? attrs : op->defaults, &all);
  if (status == TENON_OK && snprintf(path, sizeof path, "%s/call.json", folder) >= (int)sizeof path)
    status = tn_fail(TENON_INVALID, "%.100s...: the path is too long", folder);
  if (status == TENON_OK) status = tn_file_replace(path, w.json.data, w.json.size, 0666);
  tn_text_clear(&w.json);
  if (status == TENON_OK) return TENON_OK;
  tn_folder_remove(folder);
  return tn_prefix(status, "saving the call of %s: ", op->name);
}
