/* Parses dtype and shape of a tensor; see tensor_spec.h. */
#include "tensor_spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *at) {
  while (isspace((unsigned char)*at))
    at++;
  return at;
}

static size_t name_size(const char *at) {
  size_t size = 0;
  if (isdigit((unsigned char)*at)) return 0;
  while (isalnum((unsigned char)at[size]) || at[size] == '_')
    size++;
  return size;
}

/* Parses one extent; NULL if it is malformed. */
static const char *parse_extent(const char *at, tensor_spec_t *form) {
  const size_t size = name_size(at);
  char *end = NULL;
  if (form->ndim == TENON_RANK_MAX || size >= sizeof form->names[0]) return NULL;
  form->names[form->ndim][0] = 0;
  if (size) {
    snprintf(form->names[form->ndim], sizeof form->names[0], "%.*s", (int)size, at);
    form->extents[form->ndim++] = -1;
    return skip_space(at + size);
  }
  errno = 0;
  long long extent = strtoll(at, &end, 10);
  if (end == at || errno || extent < 0) return NULL;
  form->extents[form->ndim++] = extent;
  return skip_space(end);
}

bool tensor_spec_parse(const char *text, tensor_spec_t *out_form, text_t *why) {
  const char *equals = strchr(text, '=');
  const char *at = skip_space(equals ? equals + 1 : text);
  char dtype[32];
  size_t size = name_size(at);
  tensor_spec_t form = {.ndim = 0};
  bool fine = size > 0 && size < sizeof dtype &&
              (!equals || (equals > text && equals - text < (int)sizeof form.name));
  if (fine && equals) snprintf(form.name, sizeof form.name, "%.*s", (int)(equals - text), text);
  snprintf(dtype, sizeof dtype, "%.*s", fine ? (int)size : 0, at);
  if (fine && tenon_dtype_parse(dtype, &form.dtype) != TENON_OK) {
    text_add(why, "'%s': %s", text, tenon_error());
    return false;
  }
  at = fine ? skip_space(at + size) : at;
  fine = fine && *at == '[';
  at = fine ? skip_space(at + 1) : at;
  for (bool more = fine && *at != ']'; more;) {
    at = parse_extent(at, &form);
    fine = at && (*at == ',' || *at == ']');
    more = fine && *at == ',';
    if (more) at = skip_space(at + 1);
  }
  fine = fine && *at == ']' && !*skip_space(at + 1);
  if (!fine) text_add(why, "'%s': expected a dtype and extents, such as f32[rows, 4]", text);
  if (fine) *out_form = form;
  return fine;
}
