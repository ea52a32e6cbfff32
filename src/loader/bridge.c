/* Finds bridges, and decides which bridge reads a file. */
#include "loader/bridge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/status.h"
#include "base/thread.h"
#include "loader/library.h"
#include "loader/locate.h"
#include "registry/registry.h"

/* Protects the variables below. Taken before the lock of loading. */
static tn_mutex_t lock = TN_MUTEX_INIT;
static bool is_open;
static tn_text_t refused;

static void open_bridge(void *context, const char *path) {
  const char *end = strrchr(path, '.');
  (void)context;
  if (!end || strcmp(end, ".so") != 0 || tn_library_load_bridge(path) == TENON_OK) return;
  tn_text_add(&refused, "%s%s", refused.size ? "\n" : "", tn_error());
}

static void open_bridge_folders(const char *folders) {
  char folder[TN_PATH_SIZE];
  while (*folders) {
    size_t size = strcspn(folders, ":");
    if (size && snprintf(folder, sizeof folder, "%.*s", (int)size, folders) < TN_PATH_SIZE)
      tn_folder_list(folder, open_bridge, NULL);
    folders += size + (folders[size] != 0);
  }
}

/* Opens the bridges beside libtenon, in a build folder or an installation. */
static void open_own_bridges(void) {
  static const char *const places[] = {"bridges", "tenon/bridges"};
  char path[TN_PATH_SIZE], folder[TN_PATH_SIZE + 20];
  if (!tn_file_of_address((const void *)&lock, path, sizeof path)) return;
  const char *slash = strrchr(path, '/');
  for (int i = 0; i < 2; i++) {
    snprintf(folder, sizeof folder, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, places[i]);
    tn_folder_list(folder, open_bridge, NULL);
  }
}

static void ensure_bridges_open(void) {
  tn_mutex_lock(&lock);
  if (!is_open) {
    const char *folders = tn_environment("TENON_BRIDGE_PATH");
    is_open = true;
    open_bridge_folders(folders ? folders : "");
    open_own_bridges();
  }
  tn_mutex_unlock(&lock);
}

void tn_bridges_forget(void) {
  tn_mutex_lock(&lock);
  is_open = false;
  tn_text_clear(&refused);
  tn_mutex_unlock(&lock);
}

const char *tn_bridges_refused(void) { return tn_text_get(&refused); }

static bool exports_symbols(const tn_file_t *file, const tenon_bridge_table_t *table) {
  const char *const *name = table->symbols;
  while (name && *name && tn_binary_exports(file, *name, false))
    name++;
  return name && !*name && name != table->symbols;
}

/* Tables of older bridges end before the field `prefixes`. */
static bool exports_prefix(const tn_file_t *file, const tenon_bridge_table_t *table) {
  const char *const *prefix = TENON_HAS(table, prefixes) ? table->prefixes : NULL;
  while (prefix && *prefix && !tn_binary_exports(file, *prefix, true))
    prefix++;
  return prefix && *prefix;
}

const tenon_bridge_table_t *tn_bridge_of_library(const tn_file_t *file) {
  const tenon_bridge_table_t *table;
  ensure_bridges_open();
  for (size_t i = 0; (table = tn_registry_bridge(i)); i++)
    if (table->open && (exports_symbols(file, table) || exports_prefix(file, table))) return table;
  return NULL;
}

static bool has_suffix(const tenon_bridge_table_t *table, const char *path) {
  const size_t size = strlen(path);
  for (const char *const *end = table->suffixes; end && *end; end++)
    if (size >= strlen(*end) && strcmp(path + size - strlen(*end), *end) == 0) return true;
  return false;
}

const tenon_bridge_table_t *tn_bridge_of_model(const char *path) {
  const tenon_bridge_table_t *table;
  ensure_bridges_open();
  for (size_t i = 0; (table = tn_registry_bridge(i)); i++)
    if (table->read && has_suffix(table, path)) return table;
  return NULL;
}

/* Whether a bridge writes models; tables of older bridges end before this field. */
static bool writes_models(const tenon_bridge_table_t *table) {
  return TENON_HAS(table, write) && table->write;
}

const tenon_bridge_table_t *tn_bridge_that_writes(const char *path) {
  const tenon_bridge_table_t *table;
  ensure_bridges_open();
  for (size_t i = 0; (table = tn_registry_bridge(i)); i++)
    if (writes_models(table) && has_suffix(table, path)) return table;
  return NULL;
}

void tn_bridges_written(tn_text_t *text) {
  const tenon_bridge_table_t *table;
  ensure_bridges_open();
  for (size_t i = 0; (table = tn_registry_bridge(i)); i++)
    for (const char *const *end = writes_models(table) ? table->suffixes : NULL; end && *end; end++)
      tn_text_add(text, ", %s", *end);
}

void tn_bridges_report(tn_text_t *text) {
  const tenon_bridge_table_t *table;
  ensure_bridges_open();
  for (size_t i = 0; (table = tn_registry_bridge(i)); i++)
    tn_text_add(text, "%s%s", i ? ", " : "", table->name);
  if (!tn_registry_bridge(0)) tn_text_add(text, "none");
  if (refused.size) tn_text_add(text, "; %s", refused.data);
}
