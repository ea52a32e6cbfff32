/* Which calls XLA may capture in a command buffer; see device.h. The kernels of an operator say so
 * themselves, by the word `capturable` (docs/contract.md). Python asks when it chooses the target
 * of a call, and the handler checks the call again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define EXPORT __attribute__((visibility("default")))

enum { WORDS = 400 };

/* Takes the next word of a kernel's text; returns NULL at the end. */
static char *next_word(char **text) {
  char *word = *text + strspn(*text, " ");
  if (!*word) return NULL;
  *text = word + strcspn(word, " ");
  if (**text) *(*text)++ = 0;
  return word;
}

/* Returns whether a word is a list of dtypes, as in "f32|f16", and whether `dtype` is in it. */
static bool is_list_of_dtypes(const char *word, tenon_dtype_t dtype, bool *out_has) {
  const char *at = word;
  *out_has = false;
  while (*at) {
    char name[32];
    tenon_dtype_t found;
    const size_t size = strcspn(at, "|");
    if (!size || size >= sizeof name) return false;
    memcpy(name, at, size);
    name[size] = 0;
    if (tenon_dtype_parse(name, &found) != TENON_OK) return false;
    *out_has |= tenon_dtype_id(found) == tenon_dtype_id(dtype);
    at += size + (at[size] == '|');
  }
  return true;
}

/* What one kernel is to a call. */
enum {
  KERNEL_OTHER,      /* it is of another backend, or serves other dtypes */
  KERNEL_CAPTURABLE, /* it serves the call, and can be captured */
  KERNEL_DIRECT      /* it may serve the call, and cannot be captured */
};

/* Words of a kernel's text that say nothing about dtypes. */
static bool is_capability(const char *word) {
  static const char *const words[] = {"accumulates", "capturable",  "doubles", "halves",
                                      "quantised",   "scalars",     "serial",  "strided",
                                      "stub",        "wide_atomics"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(word, words[i]) == 0) return true;
  return false;
}

static int judge_kernel(char *text, const char *backend, const tenon_dtype_t *dtypes,
                        size_t count) {
  const char *first = next_word(&text);
  bool is_capturable = false;
  bool serves_all = true;
  bool serves_one = !count;
  bool has_list = false;
  if (!first || (strcmp(first, backend) != 0 && strcmp(first, "source") != 0)) return KERNEL_OTHER;
  for (const char *word; (word = next_word(&text)) && strcmp(word, "from") != 0;) {
    is_capturable |= strcmp(word, "capturable") == 0;
    if (is_capability(word)) continue;
    has_list = true;
    for (size_t i = 0; i < count; i++) {
      bool has = false;
      /* Of a class of dtypes it is not known whether it has one. */
      serves_one |= !is_list_of_dtypes(word, dtypes[i], &has) || has;
      serves_all &= has;
    }
  }
  if (has_list && !serves_one) return KERNEL_OTHER;
  return is_capturable && serves_all ? KERNEL_CAPTURABLE : KERNEL_DIRECT;
}

/* The kernel's list of dtypes is that of its first type variable, and which operand has this type
 * is not known here: all operands must have a dtype of the list. */
bool call_has_captured_kernel(const tenon_op_t *op, const char *backend,
                              const tenon_dtype_t *dtypes, size_t count) {
  tenon_op_info_t info = {.size = sizeof info};
  bool found = false;
  tenon_op_info(op, &info);
  for (int32_t i = 0; i < info.kernel_count; i++) {
    char *text = tenon_op_kernel(op, i);
    const int kernel = text ? judge_kernel(text, backend, dtypes, count) : KERNEL_OTHER;
    tenon_text_release(text);
    if (kernel == KERNEL_DIRECT) return false;
    found |= kernel == KERNEL_CAPTURABLE;
  }
  return found && !info.is_stateful && !(info.traits & TENON_RANDOM);
}

static tenon_status_t fail_capture(const call_t *call, const target_t *target, const char *why) {
  char message[WORDS];
  snprintf(message, sizeof message,
           "%s: XLA cannot capture the call in a command buffer, because %s: give it the target "
           "tenon_%s instead of tenon_%s_graph",
           call_name(call), why, target->backend, target->backend);
  return tenon_error_set(TENON_UNIMPLEMENTED, message);
}

/* Returns XLA's dtypes of up to eight operands as one number; 0: there are none, or more. */
static uint64_t pack_dtypes(const xla_buffers_t *operands) {
  uint64_t packed = 0;
  if (operands->count > 8) return 0;
  for (int64_t k = 0; k < operands->count; k++) {
    if (operands->types[k] != XLA_ARGUMENT_BUFFER) return 0;
    packed |= (uint64_t)(uint8_t)((const xla_buffer_t *)operands->items[k])->dtype << 8 * k;
  }
  return packed;
}

static tenon_status_t check_capture(const call_t *call, const target_t *target,
                                    const xla_buffers_t *operands) {
  tenon_dtype_t dtypes[CALL_TENSORS_MOST];
  if (!call->op) return fail_capture(call, target, "it runs a model");
  if (!call->is_plain || call->is_random || call->written)
    return fail_capture(call, target, "its results are not written to XLA's buffers directly");
  for (uint32_t i = 0; i < call->input_count; i++)
    if (call->host >> i & 1 && call->counts[i] > 0)
      return fail_capture(call, target, "the host reads an argument");
  if (operands->count != call->operand_count) return TENON_OK; /* call_run says what is wrong */
  for (int64_t k = 0; k < operands->count; k++)
    if (operands->types[k] != XLA_ARGUMENT_BUFFER || !call_dtype_of(operands->items[k], &dtypes[k]))
      return fail_capture(call, target, "an operand has a dtype that Tenon does not have");
  if (call_has_captured_kernel(call->op, target->backend, dtypes, (size_t)operands->count))
    return TENON_OK;
  return fail_capture(call, target,
                      "no kernel with the word `capturable` serves the dtypes of its operands");
}

tenon_status_t call_check_capture(const call_t *call, const target_t *target,
                                  const xla_frame_t *frame) {
  const xla_buffers_t *operands = &frame->operands;
  uint64_t *captured = &((call_t *)(uintptr_t)call)->captured;
  const uint64_t packed = pack_dtypes(operands);
  if (packed && __atomic_load_n(captured, __ATOMIC_RELAXED) == packed) return TENON_OK;
  const tenon_status_t status = check_capture(call, target, operands);
  if (status == TENON_OK) __atomic_store_n(captured, packed, __ATOMIC_RELAXED);
  return status;
}

/* Returns 1 if calls of an operator on a backend may have the captured target. `dtypes`: names of
 * the operands' dtypes, separated by spaces. Unknown names give 0. */
EXPORT int tenon_jax_can_capture(const char *name, const char *backend, const char *dtypes);
EXPORT int tenon_jax_can_capture(const char *name, const char *backend, const char *dtypes) {
  const tenon_op_t *op = NULL;
  tenon_dtype_t list[CALL_TENSORS_MOST];
  size_t count = 0;
  char *text = strdup(dtypes);
  char *rest = text;
  bool is_known = text && tenon_op_find(name, &op) == TENON_OK;
  for (const char *word; is_known && (word = next_word(&rest));) {
    is_known = count < CALL_TENSORS_MOST && tenon_dtype_parse(word, &list[count]) == TENON_OK;
    count += is_known;
  }
  is_known = is_known && call_has_captured_kernel(op, backend, list, count);
  free(text);
  return is_known;
}
