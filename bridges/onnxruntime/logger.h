/* Messages of libraries. */
#ifndef BRIDGES_ONNXRUNTIME_LOGGER_H
#define BRIDGES_ONNXRUNTIME_LOGGER_H

#include "common/ort_interface.h"

OrtStatus *ort_KernelInfo_GetLogger(const OrtKernelInfo *info, const OrtLogger **out);
OrtStatus *ort_KernelContext_GetLogger(const OrtKernelContext *context, const OrtLogger **out);
OrtStatus *ort_Logger_LogMessage(const OrtLogger *logger, int severity, const char *message,
                                 const char *file, int line, const char *function);
OrtStatus *ort_Logger_GetLoggingSeverityLevel(const OrtLogger *logger, int *out);

#endif
