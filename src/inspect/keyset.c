/* Questions about dispatch keys: their names and aliases, and the sets that threads include and
 * exclude.  The public functions over operator/key.h. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "inspect/query.h"

const char *tenon_key_name(int32_t position) { return tn_key_name(position); }

tenon_status_t tenon_key_parse(const char *name, int32_t *out_position) {
  tn_named_key_t key;
  TN_TRY(tn_key_parse(name, &key));
  if (out_position) *out_position = key.bit;
  return TENON_OK;
}

const char *tenon_key_for_device(tenon_device_t device) {
  const tn_backend_t *backend = tn_backend_of(device);
  return backend ? backend->name : NULL;
}

static bool is_alias(const tn_named_key_t *key) {
  return key->bit < 0 || (key->bit == TN_BIT_AUTOGRAD && !key->backend);
}

int32_t tenon_key_is_alias(const char *name) {
  tn_named_key_t key;
  return tn_key_parse(name, &key) == TENON_OK && is_alias(&key);
}

int32_t tenon_key_in_alias(const char *name, const char *alias) {
  tn_named_key_t key, of;
  if (tn_key_parse(name, &key) != TENON_OK || tn_key_parse(alias, &of) != TENON_OK) return 0;
  /* A key that is no alias contains only itself. */
  if (!is_alias(&of)) return key.bit == of.bit && key.backend == of.backend;
  if (is_alias(&key)) return key.at == of.at;
  bool is_backend = key.backend && key.at == TN_AT_BACKEND;
  bool is_gradient = key.at == TN_AT_AUTOGRAD;
  return (is_backend && of.at != TN_AT_AUTOGRAD) || (is_gradient && of.at != TN_AT_EXPLICIT);
}

static tenon_status_t give(uint64_t keys, char **out_text) {
  char room[1024];
  tn_text_t text = {0};
  if (!out_text) return TENON_OK;
  tn_text_add(&text, "%s", tn_keys_print(keys, room, sizeof room));
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

tenon_status_t tenon_thread_keys(char **out_included, char **out_excluded) {
  const tn_thread_calls_t *calls = &tn_thread()->calls;
  if (out_excluded) *out_excluded = NULL;
  TN_TRY(give(calls->include, out_included));
  tenon_status_t status = give(calls->exclude, out_excluded);
  if (status != TENON_OK && out_included) {
    tenon_text_release(*out_included);
    *out_included = NULL;
  }
  return status;
}
