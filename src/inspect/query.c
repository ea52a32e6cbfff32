/* Questions about keys and tables, for people, tools and tests: the public functions over
 * operator/table.h. */
#include "inspect/query.h"

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/cpu.h"
#include "base/source.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "device/plugin.h"
#include "operator/names.h"
#include "operator/table.h"

/* the table of an operator */

tenon_status_t tn_key_parse(const char *key, tn_named_key_t *out_key) {
  static const char autograd[] = "autograd ";
  static const struct {
    const char *name;
    uint8_t at;
  } aliases[] = {{"composite", TN_AT_COMPOSITE}, {"composite_explicit", TN_AT_EXPLICIT}};
  *out_key = (tn_named_key_t){.bit = -1};
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(key, aliases[i].name) == 0) {
      out_key->at = aliases[i].at;
      return TENON_OK;
    }
  if (strncmp(key, autograd, sizeof autograd - 1) == 0) {
    out_key->backend = tn_backend_find(key + sizeof autograd - 1);
    if (!out_key->backend)
      return tn_fail(TENON_NOT_FOUND, "no backend is called '%s'", key + sizeof autograd - 1);
    out_key->bit = TN_BIT_AUTOGRAD;
    out_key->at = TN_AT_AUTOGRAD;
    return TENON_OK;
  }
  out_key->backend = tn_backend_find(key);
  out_key->bit = tn_key_find(key);
  if (out_key->bit < 0) return tn_fail(TENON_NOT_FOUND, "no key is called '%s'", key);
  switch (out_key->bit) {
  case TN_BIT_AUTOGRAD:
    out_key->at = TN_AT_AUTOGRAD;
    break;
  case TN_BIT_AUTOCAST:
    out_key->at = TN_AT_AUTOCAST;
    break;
  case TN_BIT_VIEW:
    out_key->at = TN_AT_VIEW;
    break;
  case TN_BIT_FUNCTIONAL:
    out_key->at = TN_AT_FUNCTIONAL;
    break;
  default:
    out_key->at = out_key->backend ? TN_AT_BACKEND : TN_AT_NOWHERE;
  }
  return TENON_OK;
}

static const tn_table_entry_t *entry_of(const tenon_op_t *op, const tn_backend_t *backend) {
  return backend->bit == TN_BIT_OTHERS ? tn_table_others(op, backend)
                                       : tn_table_entry(op, TN_KEY(backend->bit));
}

tenon_status_t tn_table_find(const tenon_op_t *op, const char *key,
                             const tn_table_entry_t **out_entry) {
  tn_named_key_t place;
  TN_TRY(tn_key_parse(key, &place));
  if (place.bit < 0)
    return tn_fail(TENON_NOT_FOUND,
                   "'%s' stands for other keys and has no entry of its own: ask for one of them",
                   key);
  if (place.backend && place.bit == TN_BIT_AUTOGRAD)
    *out_entry = tn_table_autograd(op, place.backend);
  else if (place.backend)
    *out_entry = entry_of(op, place.backend);
  else
    *out_entry = tn_table_entry(op, TN_KEY(place.bit));
  return TENON_OK;
}

static const tn_kernel_t *first_kernel(const tn_table_entry_t *entry) {
  for (int d = 0; d < TN_DTYPE_COUNT && entry->by_dtype; d++)
    if (entry->by_dtype[d] && entry->by_dtype[d][0]) return entry->by_dtype[d][0];
  return entry->only;
}

static tenon_any_fn function_of(const tn_table_entry_t *entry, const tn_kernel_t *kernel) {
  if (kernel && kernel->stub) return (tenon_any_fn)kernel->stub;
  if (kernel && kernel->loop.function) return (tenon_any_fn)kernel->loop.function;
  if (kernel) return (tenon_any_fn)kernel->run;
  return entry->resolved == TN_RESOLVED_FALLBACK ? (tenon_any_fn)entry->run : NULL;
}

static void describe_entry(const tn_table_entry_t *entry, tenon_slot_info_t *info) {
  const tn_kernel_t *kernel = first_kernel(entry);
  uint32_t size = info->size < sizeof *info ? info->size : (uint32_t)sizeof *info;
  tenon_slot_info_t full = {.size = size,
                            .is_missing = entry->resolved == TN_RESOLVED_MISSING ||
                                          entry->resolved == TN_RESOLVED_DENIED,
                            .rule = tn_resolution_name(entry->resolved),
                            .function = function_of(entry, kernel)};
  if (kernel) {
    full.kernel = kernel->text;
    full.number = kernel->number;
    full.library = kernel->library->name;
    full.library_path = kernel->library->path;
  }
  memcpy(info, &full, size);
}

tenon_status_t tenon_op_slot(const tenon_op_t *op, const char *key, tenon_slot_info_t *info) {
  const tn_table_entry_t *entry;
  op = tn_op_now(op);
  /* While the mutex is held, the kernels that are in the table stay mapped. */
  tn_registry_lock();
  tenon_status_t status = tn_table_find(op, key, &entry);
  if (status == TENON_OK) describe_entry(entry, info);
  tn_registry_unlock();
  return status;
}
static void add_source(tn_sources_t *sources, tenon_any_fn function, tn_text_t *text) {
  tn_text_t source = {0};
  bool is_known = tn_source_add(sources, function, &source);
  tn_text_add(text, is_known ? ", at %s" : ", source unknown", tn_text_get(&source));
  tn_text_clear(&source);
}

/* Appends, for example, "cpu f64 [core, number 12] for f32, f64, at file.c:3"; without the last
 * part if `sources` is NULL. */
static void add_kernel(const tn_table_entry_t *entry, const tn_kernel_t *kernel,
                       tn_sources_t *sources, tn_text_t *text) {
  const char *separator = " for ";
  tn_text_add(text, "%s [%s, number %llu]", kernel->text, kernel->library->name,
              (unsigned long long)kernel->number);
  for (int d = 0; d < TN_DTYPE_COUNT && entry->by_dtype; d++)
    if (entry->by_dtype[d] && entry->by_dtype[d][0] == kernel) {
      tn_text_add(text, "%s%s", separator, tn_dtype_name(tn_dtype_at(d)));
      separator = ", ";
    }
  if (sources) add_source(sources, function_of(entry, kernel), text);
}

/* Whether the kernel at `at` was listed already, at an earlier position in the entry. */
static bool is_listed(const tn_table_entry_t *entry, int dtype, const tn_kernel_t *const *at) {
  for (int d = 0; d <= dtype; d++)
    for (const tn_kernel_t *const *list = entry->by_dtype[d]; list && *list && list != at; list++)
      if (*list == *at) return true;
  return false;
}

static void add_entry(const char *key, const tn_table_entry_t *entry, tn_sources_t *sources,
                      tn_text_t *text) {
  const char *resolution = tn_resolution_name(entry->resolved);
  bool is_first = true;
  tn_text_add(text, "%-20s %s", key, resolution);
  for (int d = 0; d < TN_DTYPE_COUNT && entry->by_dtype; d++)
    for (const tn_kernel_t *const *list = entry->by_dtype[d]; list && *list; list++) {
      if (is_listed(entry, d, list)) continue;
      if (is_first)
        tn_text_add(text, ": ");
      else
        tn_text_add(text, "\n%*s", (int)strlen(resolution) + 23, "");
      add_kernel(entry, *list, sources, text);
      is_first = false;
    }
  if (entry->only) {
    tn_text_add(text, ": ");
    add_kernel(entry, entry->only, sources, text);
  } else if (entry->resolved == TN_RESOLVED_DENIED) {
    tn_text_add(text, ": ");
    add_kernel(entry, entry->denial, NULL, text);
  } else if (entry->resolved == TN_RESOLVED_FALLBACK && sources)
    add_source(sources, function_of(entry, NULL), text);
  tn_text_add(text, "\n");
}

void tn_table_print(const tenon_op_t *op, tn_sources_t *sources, tn_text_t *text) {
  static const int layers[] = {TN_BIT_DETAIL, TN_BIT_STRIDED, TN_BIT_VIEW, TN_BIT_AUTOCAST,
                               TN_BIT_FUNCTIONAL};
  const tn_backend_t *backend;
  const tn_table_entry_t *entry;
  const tn_table_entry_t *gradients = tn_table_autograd(op, NULL);
  bool is_brief = !sources;
  bool has_missing = false;
  char key[300];
  for (int32_t i = 0; (backend = tn_backend_at(i)); i++) {
    entry = entry_of(op, backend);
    if (is_brief && entry->resolved == TN_RESOLVED_MISSING)
      has_missing = true;
    else
      add_entry(backend->name, entry, sources, text);
  }
  if (has_missing) tn_text_add(text, "%-20s missing\n", "other backends");
  for (int32_t i = 0; (backend = tn_backend_at(i)); i++) {
    entry = tn_table_autograd(op, backend);
    if (entry->resolved == TN_RESOLVED_FALLTHROUGH || (is_brief && entry == gradients)) continue;
    snprintf(key, sizeof key, "autograd %.255s", backend->name);
    add_entry(key, entry, sources, text);
  }
  if (is_brief && gradients->resolved != TN_RESOLVED_FALLTHROUGH)
    add_entry("autograd of others", gradients, NULL, text);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    entry = tn_table_entry(op, TN_KEY(layers[i]));
    if (entry->resolved != TN_RESOLVED_FALLTHROUGH &&
        !(layers[i] == TN_BIT_AUTOCAST && tn_row_is_initial(layers[i], entry)))
      add_entry(tn_key_name(layers[i]), entry, sources, text);
  }
}

tenon_status_t tenon_op_table(const tenon_op_t *op, char **out_text) {
  tn_text_t text = {0};
  tn_sources_t *sources = tn_sources_open();
  op = tn_op_now(op);
  tn_registry_lock();
  tn_table_print(op, sources, &text);
  tn_registry_unlock();
  tn_sources_close(sources);
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

tenon_status_t tenon_function_source(tenon_any_fn function, char **out_text) {
  tn_text_t text = {0};
  tn_sources_t *sources = tn_sources_open();
  bool is_known = tn_source_add(sources, function, &text);
  tn_sources_close(sources);
  if (is_known && (*out_text = tn_text_take(&text))) return TENON_OK;
  tn_text_clear(&text);
  return is_known
             ? TENON_MEMORY
             : tn_fail(TENON_NOT_FOUND,
                       "nothing tells where this function was written: its library has no debug "
                       "information (-g1), or libdw.so.1 (elfutils) is not installed");
}

bool tn_kernel_is_under(const tn_kernel_t *kernel, const tn_named_key_t *place) {
  return kernel->words.at == place->at && kernel->backend == place->backend;
}

int32_t tenon_op_has_kernel(const tenon_op_t *op, const char *key) {
  tn_named_key_t place;
  if (key && tn_key_parse(key, &place) != TENON_OK) return 0;
  bool found = false;
  op = tn_op_now(op);
  tn_registry_lock();
  for (const tn_kernel_t *k = op->kernels; k && !found; k = k->next)
    found = (!key || tn_kernel_is_under(k, &place)) &&
            !(k->words.flags & (TN_KERNEL_FALLTHROUGH | TN_KERNEL_NO_FALLBACK)) &&
            tn_cpu_has(k->words.isa);
  tn_registry_unlock();
  return found;
}

int32_t tenon_op_has_computed_kernel(const tenon_op_t *op, const char *key) {
  const tn_table_entry_t *entry;
  return tn_table_find(tn_op_now(op), key, &entry) == TENON_OK &&
         entry->resolved != TN_RESOLVED_MISSING && entry->resolved != TN_RESOLVED_DENIED;
}

int32_t tenon_op_is_fallthrough(const tenon_op_t *op, const char *key) {
  const tn_table_entry_t *entry;
  return tn_table_find(tn_op_now(op), key, &entry) == TENON_OK &&
         entry->resolved == TN_RESOLVED_FALLTHROUGH;
}

/* keys */

const char *tenon_backend_name(int32_t index) {
  const tn_backend_t *backend = tn_backend_at(index);
  return backend ? backend->name : NULL;
}

tenon_status_t tenon_device_find(const char *name, int32_t ordinal, tenon_device_t *out_device) {
  tn_backend_t *backend;
  TN_TRY(tenon_start());
  TN_TRY(tn_backend_intern(name, &backend));
  TN_TRY(tn_device_builtin(name));
  int32_t most = backend->device.type > 1 ? 255 : 0;
  if (ordinal < 0 || ordinal > most)
    return tn_fail(TENON_RANGE, "%s: ordinal %d: expected 0 to %d", name, (int)ordinal, (int)most);
  *out_device = (tenon_device_t){backend->device.type, backend->device.id + ordinal};
  tn_ordinal_t *there;
  return backend->has_plugin ? tn_ordinal_get(*out_device, &there) : TENON_OK;
}

tenon_status_t tenon_keys_of(const tenon_tensor_t *tensor, char **out_text) {
  char keys[1024];
  tn_text_t text = {0};
  const tn_thread_calls_t *calls = &tn_thread()->calls;
  uint64_t set = tensor ? tensor->keys : calls->include & ~calls->exclude;
  tn_text_add(&text, "%s", tn_keys_print(set, keys, sizeof keys));
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

static tenon_status_t change_key(const char *key, int32_t is_on, uint64_t *set) {
  int bit = tn_key_find(key);
  if (bit < 0) return tn_fail(TENON_NOT_FOUND, "no key is called '%s'", key);
  if (bit == TN_BIT_MODE || bit == TN_BIT_TRACE || strncmp(key, "above ", 6) == 0 ||
      strncmp(key, "below ", 6) == 0)
    return tn_fail(TENON_INVALID,
                   "'%s' is switched by tenon_layer_enable, tenon_mode_push or tenon_trace_set",
                   key);
  if (bit == TN_BIT_STRIDED || bit == TN_BIT_DETAIL)
    return tn_fail(TENON_INVALID, "'%s' follows from the tensors of a call alone", key);
  if (bit == TN_BIT_OTHERS)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "'%s' shares its key with other backends: it cannot be switched", key);
  *set = is_on ? *set | TN_KEY(bit) : *set & ~TN_KEY(bit);
  return TENON_OK;
}

tenon_status_t tenon_key_include(const char *key, int32_t is_on) {
  return change_key(key, is_on, &tn_thread()->calls.include);
}
tenon_status_t tenon_key_exclude(const char *key, int32_t is_on) {
  return change_key(key, is_on, &tn_thread()->calls.exclude);
}
