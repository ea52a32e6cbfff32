/* Expands project templates; see template.h. */
#include "template.h"

#include <ctype.h>
#include <string.h>

#include "file.h"
#include "system.h"

bool template_open(template_t *templates, text_t *why) {
  /* Relative to the command: installed, and in a build. */
  static const char *const places[] = {"../share/tenon/templates", "share/templates"};
  text_t own = {NULL, 0, 0, false};
  bool found = false;
  if (!system_own_folder(&own)) {
    text_add(why, "the path of this command cannot be determined");
    return false;
  }
  for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
    text_clear(&templates->folder);
    text_add(&templates->folder, "%s/%s", text_get(&own), places[i]);
    found = system_is_folder(text_get(&templates->folder));
  }
  if (!found)
    text_add(why, "the templates were not found in %s or %s of %s: reinstall Tenon", places[0],
             places[1], text_get(&own));
  text_free(&own);
  return found;
}

void template_close(template_t *templates) {
  text_free(&templates->folder);
  texts_free(&templates->keys);
  texts_free(&templates->values);
}

bool template_kinds(const template_t *templates, texts_t *out_kinds, text_t *why) {
  texts_t names = {NULL, 0, 0};
  bool fine = system_list_folder(text_get(&templates->folder), &names, why);
  for (int32_t i = 0; fine && i < names.count; i++)
    if (strcmp(names.items[i], "common") != 0) fine = texts_add(out_kinds, names.items[i]);
  texts_free(&names);
  return fine;
}

static int32_t find_key(const template_t *templates, const char *key, size_t size) {
  for (int32_t i = templates->keys.count; i--;)
    if (strlen(templates->keys.items[i]) == size &&
        strncmp(templates->keys.items[i], key, size) == 0)
      return i;
  return -1;
}

bool template_set(template_t *templates, const char *key, const char *value) {
  return texts_add(&templates->keys, key) && texts_add(&templates->values, value);
}

const char *template_get(const template_t *templates, const char *key) {
  int32_t at = find_key(templates, key, strlen(key));
  return at < 0 ? "" : templates->values.items[at];
}

void template_expand(const template_t *templates, const char *text, text_t *out) {
  while (*text) {
    size_t plain = strcspn(text, "@");
    size_t size = 0;
    text_bytes(out, text, plain);
    text += plain;
    if (!*text) return;
    while (isupper((unsigned char)text[1 + size]) || text[1 + size] == '_')
      size++;
    int32_t at = text[1 + size] == '@' ? find_key(templates, text + 1, size) : -1;
    if (at < 0)
      text_bytes(out, text++, 1);
    else {
      text_add(out, "%s", templates->values.items[at]);
      text += size + 2;
    }
  }
}

bool template_about(template_t *templates, const char *kind, text_t *why) {
  text_t path = {NULL, 0, 0, false};
  text_t words = {NULL, 0, 0, false};
  text_t key = {NULL, 0, 0, false};
  text_t value = {NULL, 0, 0, false};
  text_add(&path, "%s/%s/about.txt", text_get(&templates->folder), kind);
  bool fine = file_read(text_get(&path), &words, why);
  for (const char *line = text_get(&words), *end; fine && *line; line = *end ? end + 1 : end) {
    const char *colon = strchr(line, ':');
    end = line + strcspn(line, "\n");
    if (!colon || colon > end || colon[1] != ' ') continue;
    text_t raw = {NULL, 0, 0, false};
    text_clear(&key);
    text_clear(&value);
    for (const char *at = line; at < colon; at++)
      text_add(&key, "%c", toupper((unsigned char)*at));
    text_bytes(&raw, colon + 2, (size_t)(end - colon - 2));
    template_expand(templates, text_get(&raw), &value);
    fine = template_set(templates, text_get(&key), text_get(&value));
    if (!fine) text_add(why, "out of memory");
    text_free(&raw);
  }
  text_t *const texts[] = {&path, &words, &key, &value};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_free(texts[i]);
  return fine;
}

static bool write_file(const template_t *templates, const char *from, const char *to, text_t *why) {
  text_t raw = {NULL, 0, 0, false};
  text_t bytes = {NULL, 0, 0, false};
  bool fine = file_read(from, &raw, why);
  if (fine) template_expand(templates, text_get(&raw), &bytes);
  fine = fine && file_write(to, &bytes, why);
  text_free(&raw);
  text_free(&bytes);
  return fine;
}

/* `below` is the path of this folder relative to the project, ending in "/", or "". */
static bool write_folder(const template_t *templates, const char *from, const char *to,
                         const char *below, texts_t *out_files, text_t *why) {
  texts_t names = {NULL, 0, 0};
  bool fine = system_make_folder(to, why) && system_list_folder(from, &names, why);
  for (int32_t i = 0; fine && i < names.count; i++) {
    text_t source = {NULL, 0, 0, false};
    text_t name = {NULL, 0, 0, false};
    text_t target = {NULL, 0, 0, false};
    text_t own = {NULL, 0, 0, false};
    const bool is_dot = strncmp(names.items[i], "dot-", 4) == 0;
    text_add(&source, "%s/%s", from, names.items[i]);
    text_add(&name, "%s", is_dot ? "." : "");
    template_expand(templates, names.items[i] + (is_dot ? 4 : 0), &name);
    text_add(&target, "%s/%s", to, text_get(&name));
    text_add(&own, "%s%s", below, text_get(&name));
    if (system_is_folder(text_get(&source))) {
      text_add(&own, "/");
      fine = write_folder(templates, text_get(&source), text_get(&target), text_get(&own),
                          out_files, why);
    } else if (strcmp(names.items[i], "about.txt") != 0) {
      fine = write_file(templates, text_get(&source), text_get(&target), why);
      if (fine && !texts_add(out_files, text_get(&own))) {
        text_add(why, "out of memory");
        fine = false;
      }
    }
    text_t *const texts[] = {&source, &name, &target, &own};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
      text_free(texts[k]);
  }
  texts_free(&names);
  return fine;
}

bool template_write(const template_t *templates, const char *kind, const char *folder,
                    texts_t *out_files, text_t *why) {
  const char *const parts[] = {kind, "common"};
  bool fine = true;
  for (size_t i = 0; fine && i < sizeof parts / sizeof *parts; i++) {
    text_t from = {NULL, 0, 0, false};
    text_add(&from, "%s/%s", text_get(&templates->folder), parts[i]);
    fine = write_folder(templates, text_get(&from), folder, "", out_files, why);
    text_free(&from);
  }
  return fine;
}
