/* Reads the attributes of nodes, which MXNet writes as strings in Python's notation. Called by
 * lowering.c, lower_*.c, custom.c, node.c and model.c. */
#include "attribute.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *attr_text(lower_t *lower, const char *name, const char *otherwise) {
  for (int32_t i = 0; i < lower->node->attr_count; i++) {
    if (strcmp(lower->node->attrs[i].name, name) != 0) continue;
    lower->used[i] = true;
    const char *value = lower->node->attrs[i].value;
    return strcmp(value, "None") == 0 ? otherwise : value;
  }
  return otherwise;
}

static void wrong(lower_t *lower, const char *name, const char *expected, const char *value) {
  lower_fail(lower, "attribute '%s': expected %s, found '%.60s'", name, expected, value);
}

/* Reads an integer, including 3L as Python 2 wrote it. Returns NULL if there is none. */
static const char *read_int(const char *at, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(at, &end, 10);
  if (end == at || errno) return NULL;
  return end + (*end == 'L');
}

int64_t attr_int(lower_t *lower, const char *name, int64_t otherwise) {
  const char *text = attr_text(lower, name, NULL);
  const char *end;
  int64_t value = otherwise;
  if (!text) return otherwise;
  if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) return *text == 'T';
  if (!(end = read_int(text, &value)) || *end) wrong(lower, name, "an integer", text);
  return value;
}

double attr_float(lower_t *lower, const char *name, double otherwise) {
  const char *text = attr_text(lower, name, NULL);
  char *end;
  if (!text) return otherwise;
  if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) return *text == 'T';
  double value = strtod(text, &end);
  if (end == text || *end) wrong(lower, name, "a number", text);
  return value;
}

bool attr_bool(lower_t *lower, const char *name, bool otherwise) {
  static const char *const words[] = {"True", "true", "1", "False", "false", "0"};
  const char *text = attr_text(lower, name, NULL);
  if (!text) return otherwise;
  for (size_t i = 0; i < 6; i++)
    if (strcmp(text, words[i]) == 0) return i < 3;
  wrong(lower, name, "True or False", text);
  return otherwise;
}

tenon_dtype_t attr_dtype(lower_t *lower, const char *name, tenon_dtype_t otherwise) {
  const char *text = attr_text(lower, name, NULL);
  const char *end;
  tenon_dtype_t dtype = otherwise;
  int64_t number;
  if (!text || strcmp(text, "-1") == 0) return otherwise;
  if (mxnet_dtype_parse(text, &dtype)) return dtype;
  if (!(end = read_int(text, &number)) || *end || !mxnet_dtype_from(number, &dtype))
    wrong(lower, name, "a dtype", text);
  return dtype;
}

bool attr_is(lower_t *lower, const char *name, const char *value, const char *otherwise) {
  return strcmp(attr_text(lower, name, otherwise), value) == 0;
}

static const char *skip(const char *at) { return at + strspn(at, " \t\n"); }

int32_t attr_ints(lower_t *lower, const char *name, int64_t values[INTS_MAX]) {
  const char *text = attr_text(lower, name, NULL);
  const char *at;
  int32_t count = 0;
  if (!text) return -1;
  at = skip(text);
  char close = *at == '(' ? ')' : 0;
  if (*at == '[') close = ']';
  if (close) at = skip(at + 1);
  while (at && *at != close && count < INTS_MAX) {
    if (strncmp(at, "None", 4) == 0) {
      values[count++] = INT64_MIN;
      at += 4;
    } else if ((at = read_int(at, &values[count])))
      count++;
    if (!at) break;
    at = skip(at);
    if (close && *at == ',')
      at = skip(at + 1);
    else
      break;
  }
  if (!at || *at != close || (close && *skip(at + 1))) {
    wrong(lower, name, "integers, as (1, 2)", text);
    return 0;
  }
  return count;
}

const char *attr_list(lower_t *lower, const int64_t *values, int32_t count) {
  size_t room = (size_t)count * 24 + 3;
  size_t used = 1;
  char *text = lower_take(lower, room, 1);
  if (!text) return "[]";
  *text = '[';
  for (int32_t i = 0; i < count; i++)
    used +=
        (size_t)snprintf(text + used, room - used, "%s%lld", i ? "," : "", (long long)values[i]);
  text[used] = ']';
  return text;
}

bool attr_give(lower_t *lower, const char *name, const tenon_op_t *op, tenon_attrs_t *attrs,
               const char *argument) {
  tenon_argument_t about = {.size = sizeof about};
  tenon_value_t value = {TENON_KIND_DTYPE, 0, {0}};
  int64_t ints[INTS_MAX];
  uint32_t kind = TENON_KIND_NONE;
  for (int32_t i = 0; tenon_op_argument(op, TENON_ARGUMENT_ATTR, i, &about) == TENON_OK; i++)
    if (strcmp(about.name, argument) == 0) kind = about.kind;
  if (!attr_text(lower, name, NULL) || lower_stopped(lower)) return false;
  switch (kind) {
  case TENON_KIND_BOOL:
    lower->status = tenon_attrs_int(attrs, argument, attr_bool(lower, name, false));
    break;
  case TENON_KIND_INT:
    lower->status = tenon_attrs_int(attrs, argument, attr_int(lower, name, 0));
    break;
  case TENON_KIND_FLOAT:
    lower->status = tenon_attrs_float(attrs, argument, attr_float(lower, name, 0));
    break;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS: {
    int32_t count = attr_ints(lower, name, ints);
    if (!lower_stopped(lower))
      lower->status = tenon_attrs_ints(attrs, argument, ints, (uint32_t)count);
    break;
  }
  case TENON_KIND_DTYPE:
    value.as.dtype = attr_dtype(lower, name, value.as.dtype);
    if (!lower_stopped(lower)) lower->status = tenon_attrs_set(attrs, argument, &value);
    break;
  default:
    lower->status = tenon_attrs_text(attrs, argument, attr_text(lower, name, ""));
  }
  return !lower_stopped(lower);
}
