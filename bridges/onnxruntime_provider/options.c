/* Reads the options of a session; see provider.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "provider.h"

/* ---- values ---------------------------------------------------------------------------------- */

static tenon_status_t read_option_number(const char *key, const char *text, int32_t least,
                                         int32_t *out) {
  char *end = NULL;
  const long number = strtol(text, &end, 10);
  if (end == text || *end || number < least || number > 1 << 20)
    return tn_fail(TENON_INVALID, "option %s: expected a number from %d to %d; found '%s'", key,
                   least, 1 << 20, text);
  *out = (int32_t)number;
  return TENON_OK;
}

static tenon_status_t read_choice(const char *key, const char *text, const char *no,
                                  const char *yes, bool *out) {
  *out = strcmp(text, yes) == 0;
  if (*out || strcmp(text, no) == 0) return TENON_OK;
  return tn_fail(TENON_INVALID, "option %s: expected %s or %s; found '%s'", key, no, yes, text);
}

static tenon_status_t read_option_text(const char *text, char **out) {
  free(*out);
  *out = strdup(text);
  return *out ? TENON_OK : tn_no_memory("an option", strlen(text));
}

static tenon_status_t read_names(const char *text, char **out) {
  free(*out);
  if (asprintf(out, ",%s,", text) >= 0) return TENON_OK;
  *out = NULL;
  return tn_no_memory("an option", strlen(text));
}

/* ---- keys ------------------------------------------------------------------------------------ */

static tenon_status_t read_option(const char *key, const char *text, options_t *options) {
  if (strcmp(key, "threads") == 0) return read_option_number(key, text, 0, &options->threads);
  if (strcmp(key, "smallest_group") == 0)
    return read_option_number(key, text, 1, &options->smallest);
  if (strcmp(key, "optimize") == 0)
    return read_choice(key, text, "full", "plain", &options->is_plain);
  if (strcmp(key, "leave") == 0) return read_names(text, &options->leave);
  if (strcmp(key, "report_file") == 0) return read_option_text(text, &options->report);
  return tn_fail(TENON_INVALID,
                 "unknown option '%s'; there are threads, smallest_group, optimize, leave, "
                 "report_file",
                 key);
}

/* Entries that ONNX Runtime defines for saving compiled groups. */
static tenon_status_t read_context_option(const char *key, const char *text, options_t *options) {
  if (strcmp(key, "ep.context_enable") == 0)
    return read_choice(key, text, "0", "1", &options->saves_contexts);
  if (strcmp(key, "ep.context_embed_mode") == 0)
    return read_choice(key, text, "0", "1", &options->embeds_contexts);
  if (strcmp(key, "ep.context_file_path") == 0)
    return read_option_text(text, &options->context_path);
  if (strcmp(key, "ep.context_node_name_prefix") == 0)
    return read_option_text(text, &options->context_prefix);
  return TENON_OK;
}

static tenon_status_t read_entries(const OrtKeyValuePairs *entries, const char *provider,
                                   options_t *options) {
  char prefix[128];
  const size_t size = (size_t)snprintf(prefix, sizeof prefix, "ep.%s.", provider);
  const char *const *keys = NULL;
  const char *const *values = NULL;
  size_t count = 0;
  tenon_status_t status = TENON_OK;
  api.GetKeyValuePairs(entries, &keys, &values, &count);
  for (size_t i = 0; i < count && status == TENON_OK; i++) {
    if (strncmp(keys[i], prefix, size) == 0)
      status = read_option(keys[i] + size, values[i], options);
    else
      status = read_context_option(keys[i], values[i], options);
  }
  return status;
}

tenon_status_t options_read(const OrtSessionOptions *session, const char *provider,
                            options_t *out_options) {
  OrtKeyValuePairs *entries = NULL;
  *out_options = (options_t){.smallest = 1};
  tenon_status_t status = API(GetSessionOptionsConfigEntries, session, &entries);
  if (status == TENON_OK) status = read_entries(entries, provider, out_options);
  if (entries) api.ReleaseKeyValuePairs(entries);
  return status;
}

void options_clear(options_t *options) {
  free(options->leave);
  free(options->report);
  free(options->context_path);
  free(options->context_prefix);
}

bool options_leave(const options_t *options, const node_t *node) {
  char name[512];
  if (!options->leave) return false;
  snprintf(name, sizeof name, ",%s%s%s,", node->domain, *node->domain ? "::" : "", node->type);
  return strstr(options->leave, name) != NULL;
}
