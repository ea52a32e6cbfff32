/* A small JSON writer and reader; see json.h. The reader does not parse: it searches for `"name"`
 * and a colon, which is enough for flat files. */
#include "json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void json_add_text(text_t *out, const char *text) {
  if (!text) {
    text_add(out, "null");
    return;
  }
  text_add(out, "\"");
  for (const char *at = text; *at;) {
    size_t size = text_character(at);
    if (*at == '"' || *at == '\\')
      text_add(out, "\\%c", *at);
    else if (*at == '\n')
      text_add(out, "\\n");
    else if ((unsigned char)*at < 0x20)
      text_add(out, "\\u%04x", (unsigned)*at);
    else if (size)
      text_bytes(out, at, size);
    else
      text_add(out, "\\ufffd");
    at += size ? size : 1;
  }
  text_add(out, "\"");
}

/* Returns the start of the member's value, or NULL. */
static const char *find_member(const char *json, const char *name) {
  size_t size = strlen(name);
  for (const char *at = json; (at = strchr(at, '"')) != NULL; at++) {
    if (strncmp(at + 1, name, size) != 0 || at[1 + size] != '"') continue;
    at += size + 2;
    while (isspace((unsigned char)*at))
      at++;
    if (*at != ':') continue;
    for (at++; isspace((unsigned char)*at);)
      at++;
    return at;
  }
  return NULL;
}

bool json_find_number(const char *json, const char *name, double *out_number) {
  const char *value = find_member(json, name);
  char *end = NULL;
  if (!value) return false;
  double number = strtod(value, &end);
  if (end == value) return false;
  *out_number = number;
  return true;
}

bool json_find_text(const char *json, const char *name, text_t *out_text) {
  const char *value = find_member(json, name);
  if (!value || *value != '"') return false;
  size_t size = strcspn(value + 1, "\"\\");
  if (value[1 + size] != '"') return false; /* the values that are read never contain escapes */
  text_bytes(out_text, value + 1, size);
  return true;
}
