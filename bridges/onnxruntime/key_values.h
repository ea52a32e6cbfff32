/* Lists of names and values, and the configuration of a session, of which Tenon has none. */
#ifndef BRIDGES_ONNXRUNTIME_KEY_VALUES_H
#define BRIDGES_ONNXRUNTIME_KEY_VALUES_H

#include "common/ort_interface.h"

void ort_CreateKeyValuePairs(OrtKeyValuePairs **out);
void ort_AddKeyValuePair(OrtKeyValuePairs *pairs, const char *key, const char *value);
const char *ort_GetKeyValue(const OrtKeyValuePairs *pairs, const char *key);
void ort_GetKeyValuePairs(const OrtKeyValuePairs *pairs, const char *const **out_keys,
                          const char *const **out_values, size_t *out_count);
void ort_RemoveKeyValuePair(OrtKeyValuePairs *pairs, const char *key);
void ort_ReleaseKeyValuePairs(OrtKeyValuePairs *pairs);
OrtStatus *ort_KernelInfo_GetConfigEntries(const OrtKernelInfo *info, OrtKeyValuePairs **out);
OrtStatus *ort_GetSessionOptionsConfigEntries(const OrtSessionOptions *options,
                                              OrtKeyValuePairs **out);
OrtStatus *ort_HasSessionConfigEntry(const OrtSessionOptions *options, const char *key, int *out);
OrtStatus *ort_GetSessionConfigEntry(const OrtSessionOptions *options, const char *key, char *out,
                                     size_t *size);

#endif
