/* Finds the functions of ONNX Runtime; see ort.h. */
#include "ort.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ort_functions.h"
#include "host.h"

typedef void (*any_fn)(void);

ort_t ort;

static const OrtApiBase *opened; /* whose functions `ort` has; NULL: none yet */

static void find_calls(const OrtApi *api) {
  const any_fn *table = (const void *)api;
#define ORT_FIND_(type, name, parameters) memcpy(&ort.name, &table[ORT_AT_##name], sizeof ort.name);
#define ORT_FIND_LATER_(since, type, name, parameters)                                             \
  if (ort.version >= (since)) memcpy(&ort.name, &table[ORT_AT_##name], sizeof ort.name);
  ORT_CALLS(ORT_FIND_, ORT_FIND_LATER_)
}

OrtStatus *ort_open(const OrtApiBase *base) {
  static const char start[] = "1.";
  const char *text = base->GetVersionString();
  const bool is_known = strncmp(text, start, strlen(start)) == 0;
  const long minor = is_known ? strtol(text + strlen(start), NULL, 10) : 0;
  if (opened == base) return NULL;
  /* The functions of the first version make statuses, also for an error. */
  const OrtApi *api = base->GetApi(minor >= ORT_VERSION_OLDEST ? ORT_VERSION_OLDEST : 1);
  OrtStatus *(*create)(ort_code_t, const char *) = NULL;
  char why[300];
  if (!api) return NULL;
  memcpy(&create, (const any_fn *)(const void *)api + ORT_AT_CreateStatus, sizeof create);
  if (opened)
    return create(ORT_FAIL, "Tenon: the process has two ONNX Runtimes, and Tenon's operators are "
                            "registered with the other one: export them as a library for this one");
  snprintf(why, sizeof why, "Tenon: expected ONNX Runtime 1.%d or newer, found %.100s",
           ORT_VERSION_OLDEST, text);
  if (minor < ORT_VERSION_OLDEST) return create(ORT_NOT_IMPLEMENTED, why);
  ort.version = (uint32_t)minor;
  find_calls(api);
  opened = base;
  return NULL;
}

OrtStatus *ort_fail(ort_code_t code, const char *format, ...) {
  char text[2000];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return ort.CreateStatus(code, text);
}

OrtStatus *ort_fail_tenon(tenon_status_t status) {
  static const unsigned char codes[] = {
      [TENON_INVALID] = ORT_INVALID_ARGUMENT,
      [TENON_RANGE] = ORT_INVALID_ARGUMENT,
      [TENON_UNIMPLEMENTED] = ORT_NOT_IMPLEMENTED,
  };
  const bool is_listed = status >= 0 && (size_t)status < sizeof codes && codes[status];
  return ort.CreateStatus(is_listed ? codes[status] : ORT_FAIL, host.tenon_error());
}

tenon_status_t ort_take(OrtStatus *status, const char *what) {
  char text[1000];
  if (!status) return TENON_OK;
  snprintf(text, sizeof text, "%s: %s", what, ort.GetErrorMessage(status));
  ort.ReleaseStatus(status);
  return host.tenon_error_set(TENON_INVALID, text);
}

bool ort_succeeds(OrtStatus *status) {
  if (!status) return true;
  ort.ReleaseStatus(status);
  return false;
}
