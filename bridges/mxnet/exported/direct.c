/* Parses gradient formulas that are single calls; see direct.h. The text was checked when its
 * library was loaded. */
#include "direct.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct part_t { /* a part of the text */
  const char *at;
  size_t size;
} part_t;

static part_t trimmed(const char *at, const char *end) {
  while (at < end && isspace((unsigned char)*at))
    at++;
  while (end > at && isspace((unsigned char)end[-1]))
    end--;
  return (part_t){at, (size_t)(end - at)};
}

static bool is(part_t part, const char *word) {
  return strlen(word) == part.size && memcmp(word, part.at, part.size) == 0;
}

static int32_t find(const tenon_argument_t *arguments, int32_t count, part_t name) {
  for (int32_t i = 0; i < count; i++)
    if (is(name, arguments[i].name)) return i;
  return -1;
}

/* values */

static bool source_set(const operator_t *self, part_t value, direct_source_t *out) {
  int32_t i = find(self->inputs, self->input_count, value);
  int32_t o = find(self->outputs, self->output_count, value);
  if (i >= 0) {
    *out = (direct_source_t){DIRECT_INPUT, i};
    return true;
  }
  if (o >= 0) {
    *out = (direct_source_t){DIRECT_RESULT, o};
    return true;
  }
  if (is(value, "grad") && self->output_count == 1) {
    *out = (direct_source_t){DIRECT_GRAD, 0};
    return true;
  }
  if (value.size < 6 || memcmp(value.at, "grad.", 5) != 0) return false;
  o = find(self->outputs, self->output_count, (part_t){value.at + 5, value.size - 5});
  *out = (direct_source_t){DIRECT_GRAD, o};
  return o >= 0;
}

static bool setting_set(const operator_t *self, const char *name, part_t value,
                        direct_setting_t *out) {
  *out = (direct_setting_t){name, find(self->attrs, self->attr_count, value), ""};
  if (out->from >= 0) return true;
  snprintf(out->literal, sizeof out->literal, "%.*s", (int)value.size, value.at);
  /* A literal is a number here. True, None and dtypes are rare, so they are left to the tape. */
  return value.size < sizeof out->literal && !isalpha((unsigned char)value.at[0]);
}

/* Finds an argument of the called operator by its name or, without a name, by its position in the
 * schema. */
static bool argument_find(const direct_t *d, const tenon_op_info_t *info, uint32_t position,
                          part_t name, tenon_argument_t *out) {
  *out = (tenon_argument_t){.size = sizeof *out};
  for (uint32_t role = TENON_ARGUMENT_INPUT; role <= TENON_ARGUMENT_ATTR; role++)
    for (int32_t i = 0, n = role == TENON_ARGUMENT_INPUT ? info->input_count : info->attr_count;
         i < n; i++)
      if (host.tenon_op_argument(d->op, role, i, out) == TENON_OK &&
          (name.size ? is(name, out->name) : out->place == position))
        return true;
  return false;
}

static bool argument_set(const operator_t *self, const tenon_op_info_t *info, uint32_t position,
                         part_t text, direct_t *d) {
  const char *equals = memchr(text.at, '=', text.size);
  const char *end = text.at + text.size;
  const part_t none = {NULL, 0};
  const part_t name = equals ? trimmed(text.at, equals) : none;
  const part_t value = equals ? trimmed(equals + 1, end) : text;
  tenon_argument_t argument;
  if (!argument_find(d, info, position, name, &argument) || !value.size) return false;
  if (argument.role == TENON_ARGUMENT_ATTR)
    return d->setting_count < DIRECT_MOST &&
           setting_set(self, argument.name, value, &d->settings[d->setting_count++]);
  return argument.kind == TENON_KIND_TENSOR && source_set(self, value, &d->sources[argument.index]);
}

/* calls */

static bool op_find(const operator_t *self, part_t name, direct_t *d, tenon_op_info_t *info) {
  char full[600];
  const char *own = strstr(self->full, "::");
  bool has_space = memchr(name.at, ':', name.size) != NULL;
  if (name.size > 255) return false;
  snprintf(full, sizeof full, "%.*s%.*s", has_space ? 0 : (int)(own + 2 - self->full), self->full,
           (int)name.size, name.at);
  if (host.tenon_op_find(full, &d->op) != TENON_OK) return false;
  *info = (tenon_op_info_t){.size = sizeof *info};
  host.tenon_op_info(d->op, info);
  d->is_pointwise = info->traits & TENON_POINTWISE;
  d->source_count = info->input_count;
  return !info->is_stateful && !(info->traits & TENON_RANDOM) && info->input_count <= DIRECT_MOST;
}

static bool is_plain(const tenon_argument_t *arguments, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (arguments[i].kind == TENON_KIND_TENSORS || arguments[i].is_written) return false;
  return true;
}

bool direct_read(const operator_t *self, const int32_t *targets, int32_t target_count,
                 const char *call, const char *end, direct_t *out) {
  const part_t all = trimmed(call, end);
  const char *open = memchr(all.at, '(', all.size);
  const char *close = all.at + all.size - 1;
  tenon_op_info_t info;
  direct_t d = {.target_count = target_count};
  if (!open || *close != ')' || target_count > DIRECT_MOST || self->is_stateful) return false;
  for (const char *at = open + 1; at < close; at++)
    /* Nested calls, lists, strings and states are left to the tape. */
    if (strchr("([{'@", *at)) return false;
  if (!is_plain(self->inputs, self->input_count) || !is_plain(self->outputs, self->output_count))
    return false;
  if (!op_find(self, trimmed(all.at, open), &d, &info) || info.output_count != target_count)
    return false;
  uint32_t position = 0;
  for (const char *at = open + 1, *next; at < close; at = next + 1, position++) {
    next = memchr(at, ',', (size_t)(close - at));
    if (!next) next = close;
    if (!argument_set(self, &info, position, trimmed(at, next), &d)) return false;
  }
  memcpy(d.targets, targets, (size_t)target_count * sizeof *targets);
  *out = d;
  return true;
}

tenon_attrs_t *direct_attrs(const direct_t *d, const tenon_value_t *values,
                            const tenon_value_t **out_values) {
  tenon_attrs_t *attrs = NULL;
  if (host.tenon_attrs_create(d->op, &attrs) != TENON_OK) return NULL;
  for (int32_t s = 0; s < d->setting_count; s++) {
    const direct_setting_t *setting = &d->settings[s];
    tenon_status_t status =
        setting->from < 0 ? host.tenon_attrs_parse(attrs, setting->name, setting->literal)
                          : host.tenon_attrs_set(attrs, setting->name, &values[setting->from]);
    if (status != TENON_OK) {
      host.tenon_attrs_release(attrs);
      return NULL;
    }
  }
  if (host.tenon_attrs_values(attrs, out_values) != TENON_OK) {
    host.tenon_attrs_release(attrs);
    return NULL;
  }
  return attrs;
}
