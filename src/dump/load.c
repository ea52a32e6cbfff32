/* Reads a call from a folder that save.c wrote, or a program with any JSON writer;
 * docs/debugging.md lists the members. Invariant: everything that is lent out lives in the dump. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/status.h"
#include "core/dtype.h"
#include "dump/record.h"
#include "loader/locate.h"

static tenon_status_t read_text(const tn_json_t *root, const char *name, const char **out) {
  const tn_json_t *found = tn_json_find(root, name);
  if (!found || found->kind == TN_JSON_NULL) return TENON_OK;
  if (found->kind != TN_JSON_TEXT)
    return tn_json_fail(found, "member '%s': expected a text, found %s", name,
                        tn_json_kind_name(found->kind));
  *out = found->text;
  return TENON_OK;
}

/* Reads a number, or a text with a number, because other JSON readers lose digits of large
 * numbers. */
static tenon_status_t read_unsigned(const tn_json_t *root, const char *name, uint64_t *out) {
  const tn_json_t *found = tn_json_find(root, name);
  char *end = NULL;
  if (!found) return TENON_OK;
  const bool is_text = found->kind == TN_JSON_NUMBER || found->kind == TN_JSON_TEXT;
  if (is_text && *found->text >= '0' && *found->text <= '9') *out = strtoull(found->text, &end, 10);
  if (!end || *end)
    return tn_json_fail(found, "member '%s': expected an integer of at least 0", name);
  return TENON_OK;
}

static tenon_status_t read_status(const tn_json_t *root, tenon_status_t *out) {
  const char *name = NULL;
  TN_TRY(read_text(root, "status", &name));
  *out = TENON_OK;
  for (tenon_status_t s = TENON_OK; name && s <= TENON_UNAVAILABLE; s++)
    if (strcmp(tenon_status_name(s), name) == 0) {
      *out = s;
      return TENON_OK;
    }
  return name ? tn_json_fail(tn_json_find(root, "status"), "'%.60s' is not the name of a status",
                             name)
              : TENON_OK;
}

static tenon_status_t read_tensors(tenon_recording_t *r, const tn_json_t *root, const char *name,
                                   tenon_tensor_t *const **out_tensors, int32_t *out_count) {
  const tn_json_t *list = tn_json_find(root, name);
  if (!list) return TENON_OK;
  if (list->kind != TN_JSON_LIST || list->count > INT32_MAX)
    return tn_json_fail(list, "member '%s': expected a list, found %s", name,
                        tn_json_kind_name(list->kind));
  if (!list->count) return TENON_OK;
  tenon_tensor_t **tensors = tn_arena_array(&r->arena, list->count, sizeof *tensors);
  if (!tensors) return tn_no_memory("a failure dump", list->count);
  for (size_t i = 0; i < list->count; i++) {
    const tn_json_t *same = tn_json_find(&list->items[i], "same_as");
    int64_t of;
    if (same && (!tn_json_integer(same, &of) || of < 0 || (size_t)of >= i))
      return tn_json_fail(same, "member 'same_as': expected the index of an earlier tensor");
    if (same)
      tensors[i] = tensors[of];
    else
      TN_TRY(tn_dumped_tensor(r, &list->items[i], &tensors[i]));
    if (!r->info.device) TN_TRY(read_text(&list->items[i], "device", &r->info.device));
  }
  *out_tensors = tensors;
  *out_count = (int32_t)list->count;
  return TENON_OK;
}

static tenon_status_t read_attrs(tenon_recording_t *r, const tn_json_t *root) {
  const tn_json_t *attrs = tn_json_find(root, "attributes");
  if (!attrs) return TENON_OK;
  if (attrs->kind != TN_JSON_OBJECT || attrs->count > INT32_MAX)
    return tn_json_fail(attrs, "member 'attributes': expected an object");
  const char **texts = tn_arena_array(&r->arena, attrs->count + 1, sizeof *texts);
  r->attr_tensors = tn_arena_array(&r->arena, attrs->count + 1, sizeof *r->attr_tensors);
  if (!texts || !r->attr_tensors) return tn_no_memory("a failure dump", attrs->count);
  for (size_t i = 0; i < attrs->count; i++) {
    const tn_json_t *value = &attrs->items[i];
    if (value->kind == TN_JSON_TEXT || value->kind == TN_JSON_NUMBER)
      texts[i] = value->text;
    else if (value->kind == TN_JSON_NULL)
      texts[i] = "None";
    else if (value->kind == TN_JSON_BOOL)
      texts[i] = value->count ? "True" : "False";
    else if (value->kind != TN_JSON_OBJECT)
      return tn_json_fail(value, "attribute '%.60s': expected a text in the schema's language",
                          attrs->names[i]);
    else if (tn_json_find(value, "file") || tn_json_find(value, "items"))
      TN_TRY(tn_dumped_tensor(r, value, &r->attr_tensors[i]));
  }
  r->attrs = attrs;
  r->info.attr_count = (int32_t)attrs->count;
  r->info.attr_names = attrs->names;
  r->info.attr_texts = texts;
  return TENON_OK;
}

static tenon_status_t read_root(tenon_recording_t *r, const tn_json_t *root) {
  uint64_t format = 0;
  uint64_t threads = 0;
  int32_t ignored;
  if (root->kind != TN_JSON_OBJECT) return tn_json_fail(root, "expected an object");
  TN_TRY(read_unsigned(root, "format", &format));
  if (format > TN_RECORD_FORMAT)
    return tn_json_fail(root,
                        "format %llu, but this Tenon reads formats up to %d: use a newer Tenon",
                        (unsigned long long)format, TN_RECORD_FORMAT);
  const struct {
    const char *name;
    const char **text;
  } texts[] = {{"operator", &r->info.op},
               {"node", &r->info.node},
               {"kernel", &r->info.kernel},
               {"error", &r->info.error},
               {"library", &r->info.library},
               {"library_path", &r->info.library_path},
               {"library_hash", &r->info.library_hash},
               {"tenon", &r->info.version}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    TN_TRY(read_text(root, texts[i].name, texts[i].text));
  if (!r->info.op) return tn_json_fail(root, "expected a member 'operator'");
  TN_TRY(read_status(root, &r->info.status));
  TN_TRY(read_unsigned(root, "state", &r->info.state));
  TN_TRY(read_unsigned(root, "threads", &threads));
  r->info.threads = threads < 4096 ? (int32_t)threads : 4096;
  const tn_json_t *random = tn_json_find(root, "random");
  r->info.is_random = random != NULL;
  TN_TRY(read_unsigned(random, "seed", &r->info.seed));
  TN_TRY(read_unsigned(random, "offset", &r->info.offset));
  TN_TRY(read_attrs(r, root));
  TN_TRY(read_tensors(r, root, "inputs", &r->info.inputs, &r->info.input_count));
  TN_TRY(read_tensors(r, root, "outputs", &r->info.outputs, &r->info.output_count));
  TN_TRY(read_tensors(r, root, "written", &r->info.written, &ignored));
  if (r->info.written && ignored != r->info.input_count)
    return tn_json_fail(root, "member 'written': expected one tensor for each input");
  return TENON_OK;
}

tenon_status_t tenon_recording_load(const char *folder, tenon_recording_t **out_recording) {
  char path[4200];
  tn_file_t file;
  const tn_json_t *root;
  *out_recording = NULL;
  TN_TRY(tenon_start());
  if (snprintf(path, sizeof path, "%s/call.json", folder) >= (int)sizeof path)
    return tn_fail(TENON_INVALID, "%.100s...: the path is too long", folder);
  tenon_status_t status = tn_file_map(path, &file);
  if (status != TENON_OK) return tn_prefix(status, "%s is not a failure dump: ", folder);
  tenon_recording_t *r = tn_allocate_zero(1, sizeof *r);
  status = r && (r->folder = tn_arena_text(&r->arena, folder, strlen(folder)))
               ? TENON_OK
               : tn_no_memory("a failure dump", sizeof *r);
  if (status == TENON_OK) {
    r->info.size = sizeof r->info;
    status = tn_json_read((const char *)file.data, file.size, &r->arena, &root);
    if (status == TENON_OK) status = read_root(r, root);
    if (status != TENON_OK) (void)tn_prefix(status, "%s: ", path);
  }
  tn_file_unmap(&file);
  if (status == TENON_OK)
    *out_recording = r;
  else
    tenon_recording_release(r);
  return status;
}

void tenon_recording_release(tenon_recording_t *recording) {
  if (!recording) return;
  for (size_t i = recording->count; i--;)
    tenon_tensor_release(recording->tensors[i]); /* parts after the tensors that own them */
  tn_release_memory(recording->tensors);
  tn_arena_clear(&recording->arena);
  tn_release_memory(recording);
}

void tenon_recording_info(const tenon_recording_t *recording, tenon_recording_info_t *info) {
  uint32_t size = info->size < sizeof *info ? info->size : (uint32_t)sizeof *info;
  uint32_t theirs = info->size;
  memcpy(info, &recording->info, size);
  info->size = theirs;
}

/* Whether a path without links leads into the folder of the dump. */
static bool is_in_dump(const tenon_recording_t *r, const char *path) {
  char folder[TN_PATH_SIZE];
  if (tn_file_real_path(r->folder, folder, sizeof folder) != TENON_OK) return true;
  size_t size = strlen(folder);
  return strncmp(path, folder, size) == 0 && path[size] == '/';
}

static tenon_status_t check_hash(const tenon_recording_t *r, const char *path) {
  uint8_t expected[TN_SHA256_SIZE], found[TN_SHA256_SIZE];
  char digits[TN_SHA256_TEXT];
  const char *stated = r->info.library_hash;
  tn_file_t file;
  if (!stated || !tn_sha256_parse(stated, strlen(stated), expected))
    return tn_fail(TENON_DENIED,
                   "it states no SHA-256 of its library (library_hash), so %s may be another file",
                   path);
  TN_TRY(tn_file_map(path, &file));
  tn_sha256(file.data, file.size, found);
  tn_file_unmap(&file);
  tn_sha256_text(found, digits);
  if (memcmp(expected, found, sizeof found) == 0) return TENON_OK;
  return tn_fail(TENON_DENIED, "the library %s is another build: expected SHA-256 %.64s, found %s",
                 path, stated, digits);
}

static tenon_status_t find_library(const tenon_recording_t *r, const char **out_path) {
  char real[TN_PATH_SIZE];
  const char *given = r->info.library_path;
  if (*given != '/')
    return tn_fail(
        TENON_DENIED,
        "its library_path '%.200s' is relative: expected an absolute path, because a dump "
        "does not choose a file of the current folder",
        given);
  TN_TRY(tn_file_real_path(given, real, sizeof real));
  if (is_in_dump(r, given) || is_in_dump(r, real))
    return tn_fail(TENON_DENIED,
                   "its library_path '%.200s' lies in the dump itself: a dump does not bring the "
                   "code that it runs",
                   given);
  TN_TRY(check_hash(r, real));
  *out_path = tn_arena_text((tn_arena_t *)(uintptr_t)&r->arena, real, strlen(real));
  return *out_path ? TENON_OK : tn_no_memory("a path", strlen(real));
}

tenon_status_t tenon_recording_library(const tenon_recording_t *recording, const char **out_path) {
  *out_path = NULL;
  if (!recording->info.library_path || !*recording->info.library_path) return TENON_OK;
  tenon_status_t status = find_library(recording, out_path);
  return status == TENON_OK ? status : tn_prefix(status, "%s/call.json: ", recording->folder);
}

static tenon_status_t set_device(tenon_attrs_t *attrs, const char *name, const tn_json_t *device) {
  char backend[256];
  const char *colon = device->kind == TN_JSON_TEXT ? strchr(device->text, ':') : NULL;
  size_t size = device->kind == TN_JSON_TEXT ? device->count : 0;
  if (colon) size = (size_t)(colon - device->text);
  tenon_value_t value = {.kind = TENON_KIND_DEVICE};
  if (!size || size >= sizeof backend)
    return tn_json_fail(device, "expected a device, such as \"sim:0\"");
  memcpy(backend, device->text, size);
  backend[size] = 0;
  value.as.device = (tenon_device_t){1, 0};
  if (strcmp(backend, "cpu") != 0)
    TN_TRY(tenon_device_find(backend, colon ? atoi(colon + 1) : 0, &value.as.device));
  return tenon_attrs_set(attrs, name, &value);
}

static tenon_status_t set_graph(const tenon_recording_t *r, tenon_attrs_t *attrs, const char *name,
                                const tn_json_t *graph) {
  char path[4200];
  tenon_value_t value = {.kind = TENON_KIND_GRAPH};
  tenon_graph_t *read;
  if (graph->kind != TN_JSON_TEXT || strchr(graph->text, '/') ||
      snprintf(path, sizeof path, "%s/%s", r->folder, graph->text) >= (int)sizeof path)
    return tn_json_fail(graph, "expected the name of a file in the same folder");
  TN_TRY(tenon_graph_load(path, NULL, &read));
  value.as.graph = read;
  tenon_status_t status = tenon_attrs_set(attrs, name, &value);
  tenon_graph_release(read);
  return status;
}

static tenon_status_t set_tensor(tenon_attrs_t *attrs, const char *name, tenon_tensor_t *tensor) {
  tenon_value_t value = {.kind = TENON_KIND_TENSOR, .as = {.tensor = tensor}};
  if (tn_dtype_is(tensor->dtype, TENON_LIST))
    value =
        (tenon_value_t){TENON_KIND_TENSORS, (uint32_t)tensor->shape[0], {.tensors = tensor->data}};
  return tenon_attrs_set(attrs, name, &value);
}

static tenon_status_t set_attr(const tenon_recording_t *r, tenon_attrs_t *attrs, int32_t i) {
  const char *name = r->info.attr_names[i];
  const tn_json_t *value = &r->attrs->items[i];
  const tn_json_t *device = tn_json_find(value, "device");
  const tn_json_t *graph = tn_json_find(value, "graph");
  if (value->kind == TN_JSON_NULL)
    return tenon_attrs_set(attrs, name, &(tenon_value_t){.kind = TENON_KIND_NONE});
  if (r->info.attr_texts[i]) return tenon_attrs_parse(attrs, name, r->info.attr_texts[i]);
  if (r->attr_tensors[i]) return set_tensor(attrs, name, r->attr_tensors[i]);
  if (graph) return set_graph(r, attrs, name, graph);
  if (device) return set_device(attrs, name, device);
  return tn_json_fail(value, "attribute '%.60s': expected a tensor, a graph or a device", name);
}

tenon_status_t tenon_recording_attrs(const tenon_recording_t *recording, const tenon_op_t *op,
                                     tenon_attrs_t **out_attrs) {
  tenon_status_t status = TENON_OK;
  TN_TRY(tenon_attrs_create(op, out_attrs));
  for (int32_t i = 0; i < recording->info.attr_count && status == TENON_OK; i++)
    status = set_attr(recording, *out_attrs, i);
  if (status == TENON_OK) return status;
  tenon_attrs_release(*out_attrs);
  *out_attrs = NULL;
  return tn_prefix(status, "%s/call.json: ", recording->folder);
}
