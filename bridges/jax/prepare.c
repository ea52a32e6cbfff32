/* Prepares calls from their texts (text.h), and finds them again. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "common/call_text.h"
#include "common/hold.h"

enum { TEXT_MOST = 1 << 26 }; /* bytes of a text, which may have tensors as attributes */

/* All prepared calls. Texts are compared as a whole, so two calls of one text are one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static call_t *calls;

/* The bit of an alias mark in a set of marks. */
static uint64_t bit_of(const tenon_argument_t *argument) {
  return argument->mark ? (uint64_t)1 << (argument->mark & 63) : 0;
}

/* Reads what the operator's schema says about its arguments. Sets the alias marks of the inputs
 * that the operator writes to. */
static tenon_status_t read_schema(call_t *call, uint64_t *out_written) {
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
    if (of.is_host) {
      call->has_fixed_shapes = false;
      call->host |= (uint64_t)1 << i;
    }
    if (!of.is_written) continue;
    call->written |= (uint64_t)1 << i;
    *out_written |= bit_of(&of);
  }
  return TENON_OK;
}

static tenon_status_t set_results(call_t *call, uint64_t written, uint64_t padded) {
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
    if (bit_of(&of) & written)
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

static tenon_status_t read_counts(text_t *text, call_t *call) {
  return text_read_counts(text, call->input_count, call->is_list, call->counts,
                          &call->operand_count);
}

static tenon_status_t read_fields(text_t *text, call_t *call, uint64_t *out_padded) {
  text_bits_t bits;
  const tenon_status_t status = text_read_fields(text, call->attrs, &bits);
  call->wanted = bits.wanted;
  call->given = bits.given;
  call->requested = bits.inputs;
  call->is_forward = bits.is_forward != 0;
  *out_padded = bits.padded;
  return status;
}

static tenon_status_t open_model(call_t *call, const char *path) {
  int32_t output_count = 0;
  call->model.given = call->given;
  call->model.requested = call->requested;
  tenon_status_t status = model_compile(path, call->given != 0, &call->model.executable);
  if (status == TENON_OK) status = model_check(&call->model, call->counts[0], &output_count);
  call->output_count = (uint32_t)output_count;
  return status;
}

/* Reads the call of a model: "@model(2); @path='/m.onnx'; @end", followed by bits for gradients. */
static tenon_status_t read_model(text_t *text, call_t *call) {
  uint64_t padded = 0;
  call->input_count = 1;
  call->value_count = 1;
  call->is_list[0] = true;
  call->keeps = true;
  tenon_status_t status = read_counts(text, call);
  if (status != TENON_OK) return status;
  if (!text_take(text, "; @path='")) return text_fail(text, "; @path='FILE'");
  const char *path = text->at;
  const char *end = strstr(path, "'; @end");
  if (!end) return text_fail(text, "the end of the path, '; @end");
  text->at = end + strlen("'; @end");
  status = read_fields(text, call, &padded);
  if (status != TENON_OK) return status;
  char *copy = strndup(path, (size_t)(end - path));
  if (!copy) return tenon_error_set(TENON_MEMORY, "out of memory");
  status = open_model(call, copy);
  free(copy);
  return status;
}

static tenon_status_t read_call(call_t *call) {
  text_t text = {call->text, call->text};
  char name[TEXT_NAME_MOST];
  uint64_t written = 0;
  uint64_t padded = 0;
  tenon_status_t status = text_read_name(&text, name);
  if (status == TENON_OK && strcmp(name, "@model") == 0) return read_model(&text, call);
  if (status == TENON_OK) status = tenon_op_find(name, &call->op);
  if (status == TENON_OK) status = hold_library(call->op);
  if (status == TENON_OK) status = tenon_attrs_create(call->op, &call->attrs);
  if (status == TENON_OK) status = read_schema(call, &written);
  if (status == TENON_OK) status = read_counts(&text, call);
  if (status == TENON_OK) status = read_fields(&text, call, &padded);
  if (status == TENON_OK) status = set_results(call, written, padded);
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
    tenon_executable_release(call->model.executable);
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
