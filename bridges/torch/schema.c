/* Reads the declarations of an operator, and writes its schema in PyTorch's language. */
#include "common/lists.h"
#include "operator.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether a name is a reserved word of PyTorch's schema language. */
static bool is_reserved_word(const char *name) {
  static const char *const words[] = {"and", "or", "not", "if",     "else",  "for",
                                      "in",  "is", "def", "return", "while", "None"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(words[i], name) == 0) return true;
  return false;
}

/* The room for the name of an operator for autograd, beyond that of the operator itself. */
enum { AUTOGRAD_ROOM = sizeof "__autograd" };

/* Sets the name (stored at `own`), the overload, and the name of the operator for autograd (stored
 * behind `own`). */
static void set_names(operator_t *self, char *own, const char *name, size_t name_size) {
  memcpy(own, name, name_size - 1);
  char *dot = strchr(own, '.');
  self->own = own;
  self->overload = dot ? dot + 1 : own + name_size - 1;
  if (dot)
    *dot = 0;
  else if (is_reserved_word(strstr(own, "::") + 2))
    own[name_size - 2] = '_';
  const char *short_name = strstr(name, "::") + 2;
  char *autograd = own + name_size;
  snprintf(autograd, name_size + AUTOGRAD_ROOM, "%.*s_%.*s_autograd", (int)(short_name - name),
           name, (int)strcspn(short_name, "."), short_name);
  self->autograd = autograd;
}

/* Reads all arguments and results. Returns NULL, or the reason why PyTorch cannot have the
 * operator. */
static const char *read_arguments(operator_t *self, const int32_t counts[3]) {
  const char *reason = NULL;
  uint32_t written = 0; /* bit k: an argument that is written to has the mark 'a' + k */
  for (uint32_t role = 0; role < 3; role++)
    for (int32_t i = 0; i < counts[role]; i++) {
      tenon_argument_t a = {.size = sizeof a};
      tenon_op_argument(self->op, role, i, &a);
      /* In PyTorch, a list of strings can only have the default None. */
      if (a.kind == TENON_KIND_STRS && a.has_default) {
        a.is_optional = 1;
        a.value = (tenon_value_t){.kind = TENON_KIND_NONE};
      }
      (role == TENON_ARGUMENT_OUTPUT ? self->results : self->arguments)[a.place] = a;
      if (a.kind == TENON_KIND_GRAPH) reason = "it has a graph as an attribute";
      if (role == TENON_ARGUMENT_INPUT && a.mark && a.is_written)
        written |= 1u << ((a.mark - 'a') & 31);
      if (role == TENON_ARGUMENT_OUTPUT && a.is_optional) self->has_wanted = !self->is_gradient;
      if (role != TENON_ARGUMENT_OUTPUT || !a.mark) continue;
      self->keeps = true;
      if (written >> ((a.mark - 'a') & 31) & 1) continue;
      self->copies[a.place] = true;
      self->results[a.place].mark = 0;
    }
  return reason;
}

operator_t *operator_new(const tenon_op_t *op, form_t form, char *why, size_t capacity) {
  const bool is_gradient = form == FORM_GRADIENT;
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  const int32_t counts[] = {info.input_count, info.attr_count, info.output_count};
  const uint32_t inputs = (uint32_t)counts[0];
  const uint32_t attrs = (uint32_t)counts[1];
  const uint32_t outputs = (uint32_t)counts[2];
  if (inputs + attrs > OPERATOR_MOST || outputs > OPERATOR_MOST) {
    snprintf(
        why, capacity,
        "the operator has more than %d arguments or results, which is not supported in PyTorch",
        OPERATOR_MOST);
    return NULL;
  }
  /* with room for an underscore behind a reserved word */
  const size_t name_size = strlen(info.name) + 2;
  operator_t *self =
      calloc(1, sizeof *self + (inputs + attrs + outputs) * sizeof(tenon_argument_t) +
                    2 * name_size + AUTOGRAD_ROOM);
  if (!self) {
    snprintf(why, capacity, "out of memory");
    return NULL;
  }
  *self = (operator_t){.op = op,
                       .name = info.name,
                       .traits = info.traits,
                       .argument_count = inputs + attrs,
                       .input_count = inputs,
                       .attr_count = attrs,
                       .output_count = outputs,
                       .arguments = (tenon_argument_t *)(self + 1),
                       .is_autograd = form == FORM_AUTOGRAD,
                       .is_gradient = is_gradient};
  self->results = self->arguments + inputs + attrs;
  set_names(self, (char *)(self->results + outputs), info.name, name_size);
  const char *reason = read_arguments(self, counts);
  if (!reason && lists_are_values(&info)) reason = LISTS_REASON;
  if (!reason) return self;
  snprintf(why, capacity, "%s", reason);
  free(self);
  return NULL;
}

void operator_free(operator_t *self) { free(self); }

typedef struct text_t {
  char *data;
  size_t size;
  size_t capacity;
  bool failed;
} text_t;

static void append_text(text_t *text, const char *format, ...) TENON_FORMAT(2, 3);
static void append_text(text_t *text, const char *format, ...) {
  va_list list;
  for (int attempt = 0; attempt < 2 && !text->failed; attempt++) {
    size_t left = text->capacity - text->size;
    va_start(list, format);
    int need = vsnprintf(text->data ? text->data + text->size : NULL, left, format, list);
    va_end(list);
    if (need >= 0 && (size_t)need < left) {
      text->size += (size_t)need;
      return;
    }
    char *grown = need < 0
                      ? NULL
                      : realloc(text->data, text->capacity = 2 * (text->size + (size_t)need) + 64);
    if (grown)
      text->data = grown;
    else
      text->failed = true;
  }
}

static void add_string(text_t *text, const char *s) {
  append_text(text, "'");
  for (; *s; s++)
    append_text(text, *s == '\'' || *s == '\\' ? "\\%c" : "%c", *s);
  append_text(text, "'");
}

static const char *type_of(const tenon_argument_t *a) {
  switch (a->kind) {
  case TENON_KIND_TENSOR:
    return "Tensor";
  case TENON_KIND_TENSORS:
    return "Tensor[]";
  case TENON_KIND_BOOL:
    return "bool";
  case TENON_KIND_INT:
    return "int";
  case TENON_KIND_DIM:
    return "SymInt";
  case TENON_KIND_FLOAT:
    return "float";
  case TENON_KIND_DTYPE:
    return "ScalarType";
  case TENON_KIND_DEVICE:
    return "Device";
  case TENON_KIND_INTS:
    return "int[]";
  case TENON_KIND_DIMS:
    return "SymInt[]";
  case TENON_KIND_FLOATS:
    return "float[]";
  case TENON_KIND_STRS:
    return "str[]";
  default:
    return "str"; /* strings and choices */
  }
}

static void add_float(text_t *text, double value) {
  char digits[40];
  int precision = 1;
  do
    snprintf(digits, sizeof digits, "%.*g", precision, value);
  while (precision++ < 17 && strtod(digits, NULL) != value);
  append_text(text, "%s%s", digits, strpbrk(digits, ".einf") ? "" : ".");
}

static void add_default(text_t *text, const tenon_argument_t *a) {
  const tenon_value_t *v = &a->value;
  int32_t code = 0;
  if (v->kind == TENON_KIND_NONE) {
    append_text(text, "None");
    return;
  }
  switch (v->kind) {
  case TENON_KIND_BOOL:
    append_text(text, v->as.i ? "True" : "False");
    break;
  case TENON_KIND_INT:
    append_text(text, "%lld", (long long)v->as.i);
    break;
  case TENON_KIND_DIM:
    append_text(text, "%lld", (long long)v->as.dim.value);
    break;
  case TENON_KIND_FLOAT:
    add_float(text, v->as.f);
    break;
  case TENON_KIND_STR:
    add_string(text, v->as.s);
    break;
  case TENON_KIND_CHOICE:
    add_string(text, a->choices[v->as.i]);
    break;
  case TENON_KIND_DTYPE:
    (void)torch_dtype_to(v->as.dtype, &code);
    append_text(text, "%d", (int)code);
    break;
  case TENON_KIND_DEVICE:
    append_text(text, "'cpu'");
    break;
  default:
    append_text(text, "[");
    for (uint32_t i = 0; i < v->count; i++) {
      if (i) append_text(text, ", ");
      if (v->kind == TENON_KIND_INTS)
        append_text(text, "%lld", (long long)v->as.ints[i]);
      else if (v->kind == TENON_KIND_DIMS)
        append_text(text, "%lld", (long long)v->as.dims[i].value);
      else if (v->kind == TENON_KIND_FLOATS)
        add_float(text, v->as.floats[i]);
    }
    append_text(text, "]");
  }
}

/* Adds the mark of an argument that is written to. */
static void add_mark(text_t *text, const tenon_argument_t *a) {
  append_text(text, "(%c!)", a->mark ? (int)a->mark : 'z' - (int)a->place);
}

static const char *underscore_if_word(const char *name) {
  return is_reserved_word(name) ? "_" : "";
}

static void add_argument(text_t *text, const tenon_argument_t *a) {
  append_text(text, "%s", a->kind == TENON_KIND_TENSORS ? "Tensor" : type_of(a));
  if (a->is_written) add_mark(text, a);
  if (a->kind == TENON_KIND_TENSORS) append_text(text, "[]");
  if (a->is_optional) append_text(text, "?");
  append_text(text, " %s%s", a->name, underscore_if_word(a->name));
  if (a->has_default || (a->is_optional && a->is_keyword)) {
    append_text(text, "=");
    add_default(text, a);
  }
}

static void add_results(text_t *text, const operator_t *self) {
  uint32_t count = 0;
  uint32_t made = 0;
  for (uint32_t o = 0; o < self->output_count; o++)
    count += !self->results[o].mark;
  append_text(text, ") -> %s", count == 1 ? "" : "(");
  for (uint32_t o = 0; o < self->output_count; o++) {
    const tenon_argument_t *r = &self->results[o];
    if (r->mark) continue;
    if (made++) append_text(text, ", ");
    append_text(text, "Tensor%s", r->kind == TENON_KIND_TENSORS ? "[]" : "");
    if (count > 1) append_text(text, " %s", r->name);
  }
  if (count != 1) append_text(text, ")");
}

char *operator_schema(const operator_t *self, bool is_autograd) {
  text_t text = {NULL, 0, 0, false};
  const char *name = strstr(self->name, "::") + 2;
  bool is_keyword = false;
  if (self->is_gradient || is_autograd) {
    size_t size = strcspn(name, ".");
    append_text(&text, "_%.*s_%s%s", (int)size, name, is_autograd ? "autograd" : "vjp",
                name + size);
  } else {
    append_text(&text, "%s%s", name, underscore_if_word(name));
  }
  append_text(&text, "(");
  for (uint32_t i = 0; i < self->argument_count; i++) {
    const tenon_argument_t *a = &self->arguments[i];
    if (i) append_text(&text, ", ");
    if (a->is_keyword && !is_keyword) append_text(&text, "*, ");
    is_keyword = is_keyword || a->is_keyword;
    add_argument(&text, a);
  }
  if ((self->has_wanted || self->is_gradient) && self->argument_count) append_text(&text, ", ");
  if ((self->has_wanted || self->is_gradient) && !is_keyword) append_text(&text, "*, ");
  if (self->has_wanted) append_text(&text, "int wanted=0");
  if (self->is_gradient)
    append_text(&text, "Tensor[] grads, int given, int inputs) -> Tensor[]");
  else
    add_results(&text, self);
  if (!text.failed) return text.data;
  free(text.data);
  return NULL;
}
