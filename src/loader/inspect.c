/* The report about a library file for `tenon doctor LIB`: everything that loading examines before
 * it runs any code. Programs call tenon_library_inspect. The report reads the file with the same
 * functions as loading. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/sha256.h"
#include "base/status.h"
#include "base/trust.h"
#include "dispatch/services.h"
#include "loader/binary.h"
#include "loader/bridge.h"
#include "loader/locate.h"
#include "loader/missing.h"
#include "loader/needed.h"
#include "loader/policy.h"

static void begin_line(tn_text_t *text, const char *name) { tn_text_add(text, "%-15s", name); }

static void add_named_line(tn_text_t *text, const char *name, const char *value) {
  begin_line(text, name);
  tn_text_add(text, "%s\n", value);
}

static void report_binary(tn_text_t *text, const tn_binary_t *binary) {
  if (*binary->format) add_named_line(text, "format:", binary->format);
  add_named_line(text, "kind:", binary->kind);
  if (*binary->machine) add_named_line(text, "machine:", binary->machine);
  if (!*binary->name) return;
  begin_line(text, "own name:");
  tn_binary_quote(text, binary->name);
  tn_text_add(text, "\n");
}

/* Reports the needed libraries. A library that is not found is a problem, because opening the file
 * would fail. */
static void report_needed(tn_text_t *text, const tn_binary_t *binary, const char *path,
                          tn_text_t *offences) {
  char found[TN_PATH_SIZE];
  for (uint64_t i = 0; i < binary->needed.count && i < TN_LISTED; i++) {
    const char *name = binary->needed.names[i];
    tn_found_t result = tn_needed_find(binary, path, name, found, sizeof found);
    const char *location = "location unknown";
    if (result == TN_FOUND) location = found;
    if (result == TN_MISSING) location = "not found";
    begin_line(text, i ? "" : "needs:");
    tn_binary_quote(text, name);
    tn_text_add(text, " (%s)\n", location);
  }
  if (binary->needed.count == 0) add_named_line(text, "needs:", "no other library");
  for (uint64_t i = 0; i < binary->auxiliary.count && i < TN_LISTED; i++) {
    const char *name = binary->auxiliary.names[i];
    const bool is_there = tn_needed_find(binary, path, name, found, sizeof found) == TN_FOUND;
    begin_line(text, i ? "" : "needs if there:");
    if (!i) tn_text_add(text, " ");
    tn_binary_quote(text, name);
    tn_text_add(text, " (%s)\n", is_there ? found : "not found");
  }
  for (uint64_t i = 0; i < binary->audits.count && i < TN_LISTED; i++) {
    begin_line(text, "audits:");
    tn_binary_quote(text, binary->audits.names[i]);
    tn_text_add(text, " (the rule private refuses it)\n");
  }
  if (*binary->run_path) {
    begin_line(text, "run path:");
    tn_binary_quote(text, binary->run_path);
    tn_text_add(text, "\n");
  }
  tn_needed_missing(binary, path, offences);
}

/* Reports what else would make opening fail, and what some systems refuse. */
static void report_demands(tn_text_t *text, const tn_binary_t *binary, const tn_file_t *file,
                           const char *path, tn_text_t *offences) {
  char runtime[TN_PATH_SIZE];
  const char *word = tn_sanitizer_missing(binary, file, path, runtime, sizeof runtime);
  if (word) tn_sanitizer_offence(word, runtime, offences);
  tn_missing(binary, file, path, offences);
  if (binary->has_executable_stack)
    add_named_line(
        text, "note:",
        "it asks for an executable stack, which newer systems refuse: an assembler file lacks "
        ".section .note.GNU-stack,\"\",@progbits, or a file uses nested functions");
  if (binary->has_text_relocations)
    add_named_line(
        text, "note:",
        "its code is modified when it is loaded (text relocations), which hardened systems "
        "refuse: build all of it with -fPIC");
}

static void add_bridge_line(void *text, const char *words) { add_named_line(text, "", words); }

static void report_bridged(tn_text_t *text, const tenon_bridge_table_t *bridge, const char *path,
                           tn_text_t *offences) {
  tenon_bridge_call_t call = {sizeof call, TENON_PHASE_BRIDGE, &tn_host, path, NULL};
  add_named_line(text, "bridge:", bridge->name);
  if (bridge->inspect && bridge->inspect(&call, add_bridge_line, text) != TENON_OK)
    tn_binary_offence(offences, "%s", tn_error());
}

static void report_code(tn_text_t *text, const tn_binary_t *binary) {
  add_named_line(text, "entry:", binary->has_entry ? TN_ENTRY "()" : "none");
  begin_line(text, "initialisers:");
  tn_binary_initialisers(text, binary);
  tn_text_add(text, binary->initialiser_count ? " (the rule inert refuses them)\n"
                                              : "none but the compiler's\n");
  begin_line(text, "other exports:");
  tn_binary_names(text, &binary->exports);
  tn_text_add(text, binary->exports.count ? "\n" : "none\n");
  begin_line(text, "unloadable:");
  tn_text_add(text, binary->pins.count ? "no, because of " : "yes");
  tn_binary_names(text, &binary->pins);
  tn_text_add(text, "\n");
}

static void report_trust(tn_text_t *text, const char *path, const tn_file_t *file) {
  uint8_t hash[TN_SHA256_SIZE];
  char digits[TN_SHA256_TEXT];
  tn_text_t lines = {0};
  tn_file_changeable(path, &lines);
  add_named_line(text, "private:", lines.size ? "no (the rule private refuses it)" : "yes");
  for (const char *at = tn_text_get(&lines); *at; at += strcspn(at, "\n"), at += *at == '\n') {
    begin_line(text, "");
    tn_text_add(text, "%.*s\n", (int)strcspn(at, "\n"), at);
  }
  text->failed |= lines.failed;
  tn_text_clear(&lines);
  tn_sha256(file->data, file->size, hash);
  tn_sha256_text(hash, digits);
  add_named_line(text, "sha256:", digits);
  begin_line(text, "policy:");
  tn_policy_report(text);
  tn_text_add(text, "\n");
}

static void report_offences(tn_text_t *text, const tn_text_t *offences) {
  tn_text_add(text, offences->size ? "problems:\n" : "problems: none\n");
  for (const char *at = tn_text_get(offences); *at; at += strspn(at, "\n")) {
    size_t size = strcspn(at, "\n");
    tn_text_add(text, "  - %.*s\n", (int)size, at);
    at += size;
  }
}

tenon_status_t tenon_library_inspect(const char *path, char **out_text, uint32_t *out_loadable) {
  char real[TN_PATH_SIZE];
  tn_file_t file;
  tn_file_identity_t identity;
  bool is_copied;
  if (!path || !out_text)
    return tn_fail(TENON_INVALID, "cannot inspect a library: path or out_text is NULL");
  *out_text = NULL;
  tenon_status_t status = tn_locate(path, real, sizeof real);
  if (status != TENON_OK) return tn_fail(status, "cannot inspect %s: %s", path, tn_reason(path));
  status = tn_file_map_real(real, &file, &identity);
  if (status != TENON_OK) return tn_fail(status, "cannot inspect %s: %s", real, tn_reason(real));
  tn_binary_t binary;
  tn_text_t text = {0};
  tn_text_t offences = {0};
  tn_binary_read(&file, &binary, &offences);
  const tenon_bridge_table_t *bridge =
      binary.no_entry && tenon_start() == TENON_OK ? tn_bridge_of_library(&file) : NULL;
  if (!bridge) tn_binary_check(&binary, &offences);
  add_named_line(&text, "path:", real);
  begin_line(&text, "size:");
  tn_text_add(&text, "%zu bytes\n", file.size);
  report_trust(&text, real, &file);
  report_binary(&text, &binary);
  if (!strcmp(binary.kind, "shared object")) {
    report_needed(&text, &binary, real, &offences);
    report_code(&text, &binary);
    report_demands(&text, &binary, &file, real, &offences);
    if (bridge) report_bridged(&text, bridge, real, &offences);
  }
  if (tn_policy_check(real, &file, &binary, 0, &is_copied, &offences) != TENON_OK)
    tn_binary_offence(&offences, "%s", tn_error());
  report_offences(&text, &offences);
  if (out_loadable) *out_loadable = offences.size == 0;
  text.failed |= offences.failed;
  tn_text_clear(&offences);
  tn_file_unmap(&file);
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}
