/* Prepares calls from their texts, and finds them again. A text is
 *
 *     core::concat(3); axis=1
 *
 * the operator, the number of operands of each tensor argument ("-": absent), and the attributes as
 * literals of the schema language. Names that begin with "@" are not attributes: the results that
 * are wanted or padded, and for gradients the results and inputs that have one (bits). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

enum { TEXT_MOST = 1 << 20, NAME_MOST = 512 }; /* bytes of a text, and of a name in it */

/* All prepared calls. Texts are compared as a whole, so two calls of one text are one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static call_t *calls;

/* A reader of the text. It ends with a zero byte. */
typedef struct reader_t {
  const char *text;
  const char *at;
} reader_t;

static tenon_status_t fail_text(const reader_t *r, const char *expected) {
  char message[400];
  snprintf(
      message, sizeof message,
      "the attribute `call` of a custom call is damaged: column %d: expected %s, found '%.20s': "
      "make such calls with tenon.jax",
      (int)(r->at - r->text) + 1, expected, r->at);
  return tenon_error_set(TENON_INVALID, message);
}

static bool take(reader_t *r, const char *word) {
  const size_t size = strlen(word);
  if (strncmp(r->at, word, size) != 0) return false;
  r->at += size;
  return true;
}

/* Copies the text up to one of the characters in `ends`. */
static tenon_status_t read_name(reader_t *r, const char *ends, char name[NAME_MOST]) {
  const size_t size = strcspn(r->at, ends);
  if (!size || size >= NAME_MOST || !r->at[size]) return fail_text(r, "a name");
  memcpy(name, r->at, size);
  name[size] = 0;
  r->at += size;
  return TENON_OK;
}

static tenon_status_t read_unsigned(reader_t *r, uint64_t most, uint64_t *out_number) {
  char *end;
  if (*r->at < '0' || *r->at > '9') return fail_text(r, "a number");
  *out_number = strtoull(r->at, &end, 10);
  if (*out_number > most) return fail_text(r, "a smaller number");
  r->at = end;
  return TENON_OK;
}

/* Returns the end of a literal, which is ";" outside of quotes, or the end of the text. */
static const char *end_of_literal(const char *at) {
  bool is_quoted = false;
  for (; *at; at++) {
    if (*at == '\\' && is_quoted && at[1])
      at++;
    else if (*at == '\'')
      is_quoted = !is_quoted;
    else if (*at == ';' && !is_quoted)
      break;
  }
  return at;
}

static tenon_status_t read_counts(reader_t *r, call_t *call) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < call->input_count; i++) {
    uint64_t count = 0;
    if (i && !take(r, ", ")) return fail_text(r, "a number of operands for each input");
    call->counts[i] = -1;
    if (take(r, "-")) continue;
    const tenon_status_t status =
        read_unsigned(r, call->is_list[i] ? CALL_TENSORS_MOST : 1, &count);
    if (status != TENON_OK) return status;
    if (!count && !call->is_list[i]) return fail_text(r, "1 or - for an input that is no list");
    call->counts[i] = (int32_t)count;
    total += count;
  }
  if (total > CALL_TENSORS_MOST) return fail_text(r, "at most 256 operands");
  call->operand_count = (uint32_t)total;
  return take(r, ")") ? TENON_OK : fail_text(r, "')' after the inputs");
}

/* Reads one field whose name begins with "@". */
static tenon_status_t read_bits(reader_t *r, call_t *call, const char *name, uint64_t *out_padded) {
  const struct {
    const char *name;
    uint64_t *bits;
  } fields[] = {{"@wanted", &call->wanted},
                {"@padded", out_padded},
                {"@given", &call->given},
                {"@inputs", &call->requested}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (strcmp(name, fields[i].name) == 0) return read_unsigned(r, UINT64_MAX, fields[i].bits);
  return fail_text(r, "@wanted, @padded, @given or @inputs");
}

static tenon_status_t read_fields(reader_t *r, call_t *call, uint64_t *out_padded) {
  char name[NAME_MOST];
  while (*r->at) {
    if (!take(r, "; ")) return fail_text(r, "'; '");
    tenon_status_t status = read_name(r, "=", name);
    if (status != TENON_OK) return status;
    r->at++;
    if (*name == '@' || !call->op) {
      status = read_bits(r, call, name, out_padded);
    } else {
      const char *end = end_of_literal(r->at);
      char *literal = strndup(r->at, (size_t)(end - r->at));
      status = literal ? tenon_attrs_parse(call->attrs, name, literal)
                       : tenon_error_set(TENON_MEMORY, "out of memory");
      free(literal);
      r->at = end;
    }
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

/* Reads what the operator's schema says about its arguments. */
static tenon_status_t read_schema(call_t *call, uint64_t *out_marks) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(call->op, &info);
  call->input_count = (uint32_t)info.input_count;
  call->value_count = (uint32_t)(info.input_count + info.attr_count);
  call->output_count = (uint32_t)info.output_count;
  call->is_random = (info.traits & TENON_RANDOM) != 0;
  call->has_fixed_shapes = !call->is_random;
  if (call->value_count > CALL_MOST || call->output_count > CALL_MOST)
    return tenon_error_set(TENON_UNIMPLEMENTED,
                           "an operator with more than 64 arguments or results");
  for (uint32_t i = 0; i < call->input_count; i++) {
    tenon_argument_t of = {.size = sizeof of};
    const tenon_status_t status =
        tenon_op_argument(call->op, TENON_ARGUMENT_INPUT, (int32_t)i, &of);
    if (status != TENON_OK) return status;
    call->is_list[i] = of.kind == TENON_KIND_TENSORS;
    if (of.is_host) call->has_fixed_shapes = false;
    if (!of.is_written) continue;
    call->written |= (uint64_t)1 << i;
    if (of.mark) out_marks[of.mark & 63] |= 1;
  }
  return TENON_OK;
}

static tenon_status_t set_results(call_t *call, const uint64_t *marks, uint64_t padded) {
  call->is_plain = !call->given;
  for (uint32_t i = 0; i < call->input_count; i++) {
    if (!call->is_list[i]) continue;
    call->is_plain = false;
    call->keeps = true; /* A list owns its items. */
  }
  for (uint32_t o = 0; o < call->output_count; o++) {
    tenon_argument_t of = {.size = sizeof of};
    const tenon_status_t status =
        tenon_op_argument(call->op, TENON_ARGUMENT_OUTPUT, (int32_t)o, &of);
    if (status != TENON_OK) return status;
    if (of.mark) call->keeps = true;
    if (of.mark && marks[of.mark & 63])
      call->results[o] = RESULT_WRITTEN;
    else if (call->wanted && !(call->wanted >> o & 1))
      call->results[o] = RESULT_UNWANTED;
    else if (padded >> o & 1)
      call->results[o] = RESULT_PADDED;
    else if (of.mark || of.kind == TENON_KIND_TENSORS)
      call->results[o] = RESULT_COPIED;
    if (call->results[o] != RESULT_GIVEN) call->is_plain = false;
  }
  if (call->given) call->keeps = true;
  return TENON_OK;
}

/* Reads the call of a model: "@model(2); @path='/m.onnx'", followed by bits for gradients. */
static tenon_status_t read_model(reader_t *r, call_t *call) {
  uint64_t padded = 0;
  call->input_count = 1;
  call->value_count = 1;
  call->is_list[0] = true;
  call->keeps = true;
  r->at++;
  tenon_status_t status = read_counts(r, call);
  if (status != TENON_OK) return status;
  if (!take(r, "; @path='")) return fail_text(r, "; @path='FILE'");
  const char *path = r->at;
  const char *end = strstr(path, "'; @end");
  if (!end) return fail_text(r, "the end of the path, '; @end");
  r->at = end + strlen("'; @end");
  status = read_fields(r, call, &padded);
  char *copy = status == TENON_OK ? strndup(path, (size_t)(end - path)) : NULL;
  if (copy) status = call_open_model(call, copy);
  free(copy);
  return status;
}

static tenon_status_t read_call(call_t *call) {
  reader_t reader = {call->text, call->text};
  char name[NAME_MOST];
  uint64_t marks[64] = {0};
  uint64_t padded = 0;
  tenon_status_t status = read_name(&reader, "(", name);
  if (status == TENON_OK && strcmp(name, "@model") == 0) return read_model(&reader, call);
  if (status == TENON_OK) status = tenon_op_find(name, &call->op);
  if (status == TENON_OK) status = call_hold_library(call->op);
  if (status == TENON_OK) status = tenon_attrs_create(call->op, &call->attrs);
  if (status == TENON_OK) status = read_schema(call, marks);
  if (status != TENON_OK) return status;
  reader.at++;
  status = read_counts(&reader, call);
  if (status == TENON_OK) status = read_fields(&reader, call, &padded);
  if (status == TENON_OK) status = set_results(call, marks, padded);
  const tenon_value_t *values = NULL;
  if (status == TENON_OK) status = tenon_attrs_values(call->attrs, &values);
  if (status == TENON_OK && call->value_count > call->input_count)
    memcpy(call->values + call->input_count, values,
           (call->value_count - call->input_count) * sizeof *values);
  return status;
}

static tenon_status_t prepare(const char *text, size_t size, const call_t **out_call) {
  for (call_t *c = calls; c; c = c->next) {
    if (!call_has_text(c, text, size)) continue;
    *out_call = c;
    return TENON_OK;
  }
  call_t *call = size <= TEXT_MOST ? calloc(1, sizeof *call + size + 1) : NULL;
  if (!call)
    return tenon_error_set(TENON_MEMORY, "out of memory, or the attribute `call` is too long");
  memcpy(call->text, text, size);
  call->size = size;
  const tenon_status_t status = read_call(call);
  if (status != TENON_OK) {
    tenon_attrs_release(call->attrs);
    tenon_executable_release(call->model);
    free(call);
    return status;
  }
  call->next = calls;
  calls = call;
  *out_call = call;
  return TENON_OK;
}

tenon_status_t call_prepare(const char *text, size_t size, const call_t **out_call) {
  pthread_mutex_lock(&lock);
  const tenon_status_t status = prepare(text, size, out_call);
  pthread_mutex_unlock(&lock);
  return status;
}
