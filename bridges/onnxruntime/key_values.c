/* Lists of names and values. Tenon has no sessions, so the configuration of one is empty. */
#include "key_values.h"

#include <stdlib.h>
#include <string.h>

#include "status.h"

struct OrtKeyValuePairs {
  char **keys;
  char **values;
  size_t count;
};

void ort_CreateKeyValuePairs(OrtKeyValuePairs **out) { *out = calloc(1, sizeof **out); }

static size_t find_key(const OrtKeyValuePairs *pairs, const char *key) {
  size_t i = 0;
  while (i < pairs->count && strcmp(pairs->keys[i], key) != 0)
    i++;
  return i;
}

void ort_RemoveKeyValuePair(OrtKeyValuePairs *pairs, const char *key) {
  if (!pairs || !key) return;
  const size_t i = find_key(pairs, key);
  if (i == pairs->count) return;
  free(pairs->keys[i]);
  free(pairs->values[i]);
  pairs->count--;
  pairs->keys[i] = pairs->keys[pairs->count];
  pairs->values[i] = pairs->values[pairs->count];
}

/* The interface has no way to report that memory is out: the pair is then missing. */
void ort_AddKeyValuePair(OrtKeyValuePairs *pairs, const char *key, const char *value) {
  if (!pairs || !key) return;
  ort_RemoveKeyValuePair(pairs, key);
  char **keys = realloc(pairs->keys, (pairs->count + 1) * sizeof *keys);
  if (keys) pairs->keys = keys;
  char **values = realloc(pairs->values, (pairs->count + 1) * sizeof *values);
  if (values) pairs->values = values;
  char *own_key = strdup(key);
  char *own_value = strdup(value ? value : "");
  if (!keys || !values || !own_key || !own_value) {
    free(own_key);
    free(own_value);
    return;
  }
  keys[pairs->count] = own_key;
  values[pairs->count++] = own_value;
}

const char *ort_GetKeyValue(const OrtKeyValuePairs *pairs, const char *key) {
  if (!pairs || !key) return NULL;
  const size_t i = find_key(pairs, key);
  return i < pairs->count ? pairs->values[i] : NULL;
}

void ort_GetKeyValuePairs(const OrtKeyValuePairs *pairs, const char *const **out_keys,
                          const char *const **out_values, size_t *out_count) {
  *out_keys = pairs ? (const char *const *)pairs->keys : NULL;
  *out_values = pairs ? (const char *const *)pairs->values : NULL;
  *out_count = pairs ? pairs->count : 0;
}

void ort_ReleaseKeyValuePairs(OrtKeyValuePairs *pairs) {
  if (!pairs) return;
  for (size_t i = 0; i < pairs->count; i++) {
    free(pairs->keys[i]);
    free(pairs->values[i]);
  }
  free(pairs->keys);
  free(pairs->values);
  free(pairs);
}

/* configuration */

static OrtStatus *make_empty(OrtKeyValuePairs **out) {
  ort_CreateKeyValuePairs(out);
  return *out ? NULL : status_make(ORT_FAIL, "out of memory");
}

OrtStatus *ort_KernelInfo_GetConfigEntries(const OrtKernelInfo *info, OrtKeyValuePairs **out) {
  (void)info;
  return make_empty(out);
}

OrtStatus *ort_GetSessionOptionsConfigEntries(const OrtSessionOptions *options,
                                              OrtKeyValuePairs **out) {
  (void)options;
  return make_empty(out);
}

OrtStatus *ort_HasSessionConfigEntry(const OrtSessionOptions *options, const char *key, int *out) {
  (void)options;
  (void)key;
  *out = 0;
  return NULL;
}

OrtStatus *ort_GetSessionConfigEntry(const OrtSessionOptions *options, const char *key, char *out,
                                     size_t *size) {
  (void)options;
  (void)out;
  (void)size;
  return status_make(ORT_INVALID_ARGUMENT,
                     "the configuration has no entry '%.100s': Tenon has no sessions", key);
}
