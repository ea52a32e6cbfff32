/* The library that a process with Tenon registers with ONNX Runtime: it provides operators of the
 * libraries that are loaded in Tenon at that time. */
#include <stdlib.h>

#include "common/hold.h"
#include "register.h"

#define EXPORT __attribute__((visibility("default")))

/* What the next registration of this thread is about; NULL: everything. */
static _Thread_local const char *const *asked;
static _Thread_local int32_t asked_count;

/* For tenon.onnxruntime: states the operators, by names such as "demo::gelu", or namespaces, that
 * the next registrations of this thread are about, until it is called with NULL. The names must
 * stay. */
EXPORT void tenon_onnxruntime_choose(const char *const *names, int32_t count);
void tenon_onnxruntime_choose(const char *const *names, int32_t count) {
  asked = names;
  asked_count = count;
}

/* For tenon.onnxruntime: a line for each operator of a namespace, or of all for NULL; see
 * register_report. */
EXPORT char *tenon_onnxruntime_report(const char *name);
char *tenon_onnxruntime_report(const char *name) {
  chosen_t chosen = {NULL, 0};
  char *text = chosen_add(&chosen, name) == TENON_OK ? register_report(&chosen) : NULL;
  chosen_free(&chosen);
  return text;
}

static tenon_status_t choose(chosen_t *out) {
  if (!asked) TENON_TRY(chosen_add(out, NULL));
  for (int32_t i = 0; asked && i < asked_count; i++)
    TENON_TRY(chosen_add(out, asked[i]));
  for (int32_t i = 0; i < out->count; i++)
    TENON_TRY(hold_library(out->ops[i]));
  return TENON_OK;
}

EXPORT OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);
OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  chosen_t chosen = {NULL, 0};
  const tenon_status_t status = choose(&chosen);
  OrtStatus *made = NULL;
  if (status == TENON_OK)
    made = register_operators(options, base, &chosen, asked != NULL);
  else
    made = register_failure(base, host.tenon_error());
  chosen_free(&chosen);
  return made;
}
