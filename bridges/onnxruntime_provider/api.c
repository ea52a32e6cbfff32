/* Finds the functions of ONNX Runtime; see api.h. */
#include "api.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "common/ort_functions.h"

api_t api;

const char *api_open(const OrtApiBase *base) {
  if (api.ep && api.editor) return NULL;
  const void *table = base->GetApi(1);
  memcpy((void *)&api.CreateStatus, table,
         sizeof(void *)); /* the first function of every version */
  table = base->GetApi(EP_VERSION);
  if (!table) return "tenon: ONNX Runtime 1.24 or newer is needed";
#define API_FIND(name)                                                                             \
  memcpy((void *)&api.name, (const char *)table + ORT_AT_##name * sizeof(void *), sizeof(void *));
#define API_STATUS(name, ...) API_FIND(name)
#define API_OTHER(result, name, ...) API_FIND(name)
  API_FUNCTIONS(API_STATUS, API_OTHER)
  api.ep = api.GetEpApi();
  api.editor = api.GetModelEditorApi();
  return api.ep && api.editor ? NULL : "tenon: this build of ONNX Runtime does not take providers";
}

tenon_status_t api_check(OrtStatus *status) {
  if (!status) return TENON_OK;
  const tenon_status_t code =
      tn_fail(TENON_UNKNOWN, "ONNX Runtime: %s", api.GetErrorMessage(status));
  api.ReleaseStatus(status);
  return code;
}

OrtStatus *api_status(tenon_status_t status, const char *where) {
  char text[4096];
  if (status == TENON_OK) return NULL;
  snprintf(text, sizeof text, "tenon: %s%s%s", where, *where ? ": " : "", tenon_error());
  return api.CreateStatus(status == TENON_INVALID ? ORT_INVALID_ARGUMENT : ORT_FAIL, text);
}
