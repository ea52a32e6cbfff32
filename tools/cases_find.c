/* Finds test cases; see cases.h. Folders are visited in sorted order, so that the output of two
 * runs can be compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "json.h"
#include "system.h"

enum { DEPTH_LIMIT = 16 }; /* of nested folders, because a symbolic link may form a cycle */

static char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy ? memcpy(copy, text, size) : NULL;
}

static bool add_case(cases_t *cases, const char *name, const char *model, const char *folder,
                     const text_t *json, text_t *why) {
  case_t item = {copy_text(name), copy_text(model), folder ? copy_text(folder) : NULL, -1, -1};
  if (cases->count == cases->capacity && cases->capacity <= INT32_MAX / 4) {
    int32_t capacity = cases->capacity * 2 + 64;
    case_t *items = realloc(cases->items, (size_t)capacity * sizeof *items);
    if (items) {
      cases->items = items;
      cases->capacity = capacity;
    }
  }
  json_find_number(text_get(json), "rtol", &item.relative);
  json_find_number(text_get(json), "atol", &item.absolute);
  if (item.name && item.model && (item.folder || !folder) && cases->count < cases->capacity) {
    cases->items[cases->count++] = item;
    return true;
  }
  text_add(why, "out of memory");
  free(item.name);
  free(item.model);
  free(item.folder);
  return false;
}

static bool read_text(const char *path, text_t *out) {
  char bytes[4096];
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  for (size_t size; (size = fread(bytes, 1, sizeof bytes, file)) > 0;)
    text_bytes(out, bytes, size);
  bool fine = !ferror(file) && !out->failed;
  fclose(file);
  return fine;
}

int cases_stem_size(const char *model) {
  static const char *const endings[] = {".onnx", ".tenon"};
  for (int i = 0; i < 2; i++)
    if (text_ends_with(model, endings[i])) return (int)(strlen(model) - strlen(endings[i]));
  return 0;
}

/* Whether `model` is PREFIX.onnx or PREFIX.tenon with PREFIX_output_0.pb beside it. */
static bool is_light(const char *model) {
  text_t output = {NULL, 0, 0, false};
  bool found = cases_stem_size(model) > 0;
  if (found) {
    text_add(&output, "%.*s_output_0.pb", cases_stem_size(model), model);
    found = system_is_file(text_get(&output));
  }
  text_free(&output);
  return found;
}

static bool add_light(cases_t *cases, const char *model, const char *name, const text_t *json,
                      text_t *why) {
  const char *file = text_file_name(model);
  text_t stem = {NULL, 0, 0, false};
  text_add(&stem, "%.*s", cases_stem_size(file), file);
  bool fine = add_case(cases, name ? name : text_get(&stem), model, NULL, json, why);
  text_free(&stem);
  return fine;
}

/* Adds the light model that data.json names: onnx/backend/test/data/real/CASE/data.json refers to
 * onnx/backend/test/data/light/MODEL.onnx. */
static bool add_named(cases_t *cases, const char *folder, const text_t *json, bool *out_found,
                      text_t *why) {
  text_t url = {NULL, 0, 0, false};
  text_t model = {NULL, 0, 0, false};
  bool fine = true;
  if (json_find_text(text_get(json), "url", &url)) {
    text_add(&model, "%s/../../light/%s", folder, text_file_name(text_get(&url)));
    if ((*out_found = is_light(text_get(&model))))
      fine = add_light(cases, text_get(&model), text_file_name(folder), json, why);
  }
  text_free(&url);
  text_free(&model);
  return fine;
}

static bool find_in_path(const char *path, int depth, cases_t *cases, text_t *why);

static bool find_in_folder(const char *folder, int depth, cases_t *cases, text_t *why) {
  texts_t names = {NULL, 0, 0};
  text_t path = {NULL, 0, 0, false};
  text_t json = {NULL, 0, 0, false};
  bool found = false;
  bool fine = system_list_folder(folder, &names, why);
  text_add(&path, "%s/data.json", folder);
  if (fine && texts_has(&names, "data.json") && !read_text(text_get(&path), &json)) {
    text_add(why, "cannot read %s", text_get(&path));
    fine = false;
  }
  const char *model = texts_has(&names, "model.onnx") ? "model.onnx" : "model.tenon";
  if (fine && texts_has(&names, model)) {
    text_clear(&path);
    text_add(&path, "%s/%s", folder, model);
    fine = add_case(cases, text_file_name(folder), text_get(&path), folder, &json, why);
    found = true;
  } else if (fine && json.size > 0) {
    fine = add_named(cases, folder, &json, &found, why);
  }
  for (int32_t i = 0; fine && !found && i < names.count; i++) {
    text_clear(&path);
    text_add(&path, "%s/%s", folder, names.items[i]);
    if (system_is_folder(text_get(&path)) || is_light(text_get(&path)))
      fine = find_in_path(text_get(&path), depth + 1, cases, why);
  }
  text_free(&path);
  text_free(&json);
  texts_free(&names);
  return fine;
}

static bool find_in_path(const char *path, int depth, cases_t *cases, text_t *why) {
  static const text_t no_json = {NULL, 0, 0, false};
  if (depth > DEPTH_LIMIT) return true;
  if (is_light(path)) return add_light(cases, path, NULL, &no_json, why);
  if (system_is_folder(path)) return find_in_folder(path, depth, cases, why);
  if (system_is_file(path))
    text_add(why, "%s: expected a folder, or a .onnx or .tenon file beside its _output_0.pb", path);
  else
    text_add(why, "%s: no such file or folder", path);
  return false;
}

bool cases_find(const char *path, cases_t *cases, text_t *why) {
  size_t size = strlen(path);
  /* The name of a case is the part after the last separator. */
  text_t trimmed = {NULL, 0, 0, false};
  while (size > 1 && path[size - 1] == '/')
    size--;
  text_bytes(&trimmed, path, size);
  bool fine = find_in_path(text_get(&trimmed), 0, cases, why);
  text_free(&trimmed);
  return fine;
}

void cases_free(cases_t *cases) {
  for (int32_t i = 0; i < cases->count; i++) {
    free(cases->items[i].name);
    free(cases->items[i].model);
    free(cases->items[i].folder);
  }
  free(cases->items);
  *cases = (cases_t){NULL, 0, 0};
}
