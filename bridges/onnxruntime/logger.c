/* Prints warnings and errors of libraries on standard error, as ONNX Runtime does unless a session
 * asks for more. */
#include "logger.h"

#include <stdio.h>

struct OrtLogger {
  int severity; /* the least severity that is printed */
};

enum { WARNING = 2 };
static const OrtLogger logger = {WARNING};

OrtStatus *ort_KernelInfo_GetLogger(const OrtKernelInfo *info, const OrtLogger **out) {
  (void)info;
  *out = &logger;
  return NULL;
}

OrtStatus *ort_KernelContext_GetLogger(const OrtKernelContext *context, const OrtLogger **out) {
  (void)context;
  *out = &logger;
  return NULL;
}

static const char *text_or_nothing(const char *text) { return text ? text : ""; }

OrtStatus *ort_Logger_LogMessage(const OrtLogger *of, int severity, const char *message,
                                 const char *file, int line, const char *function) {
  static const char *const names[] = {"verbose", "info", "warning", "error", "fatal"};
  if (severity < of->severity) return NULL;
  const char *name = names[severity > 4 ? 4 : severity];
  fprintf(stderr, "onnxruntime library: %s: %s (%s, %s:%d)\n", name, text_or_nothing(message),
          text_or_nothing(function), text_or_nothing(file), line);
  return NULL;
}

OrtStatus *ort_Logger_GetLoggingSeverityLevel(const OrtLogger *of, int *out) {
  *out = of->severity;
  return NULL;
}
