/* The rules for loading. They come from tenon_policy_set, otherwise from the file named by
 * TENON_POLICY, otherwise from the file of the machine. Invariant: if the rules cannot be read, no
 * file can be loaded. */
#include "loader/policy.h"

#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/trust.h"
#include "loader/locate.h"
#include "loader/needed.h"

typedef struct rules_t {
  uint32_t flags;
  char **folders;
  uint8_t (*hashes)[TN_SHA256_SIZE];
  size_t folder_count;
  size_t folder_capacity;
  size_t hash_count;
  size_t hash_capacity;
  char from[TN_PATH_SIZE + 40]; /* who set the rules, for messages */
  tenon_status_t status;        /* not OK: the rules cannot be read, for the reason `wrong` */
  char *wrong;
} rules_t;

static tn_mutex_t lock = TN_MUTEX_INIT;
static rules_t rules;
static bool is_known; /* the rules were set, or files were looked for */
const char *tn_policy_file = "/etc/tenon/policy";

static void clear_rules(rules_t *r) {
  for (size_t i = 0; i < r->folder_count; i++)
    tn_release_memory(r->folders[i]);
  tn_release_memory(r->folders);
  tn_release_memory(r->hashes);
  tn_release_memory(r->wrong);
  *r = (rules_t){0};
}

static tenon_status_t add_folder(rules_t *r, const char *path, size_t size, const char *where,
                                 tn_text_t *wrong) {
  if (!size || *path != '/') {
    tn_binary_offence(wrong, "%sfolder '%.*s': expected an absolute path", where, (int)size, path);
    return TENON_OK;
  }
  if (!tn_grow((void **)&r->folders, &r->folder_capacity, r->folder_count, sizeof *r->folders) ||
      !(r->folders[r->folder_count] = tn_copy_text(path, size)))
    return tn_no_memory("the rules for loading", size);
  r->folder_count++;
  return TENON_OK;
}

static tenon_status_t add_hash(rules_t *r, const char *text, size_t size, const char *where,
                               tn_text_t *wrong) {
  if (!tn_grow((void **)&r->hashes, &r->hash_capacity, r->hash_count, sizeof *r->hashes))
    return tn_no_memory("the rules for loading", sizeof *r->hashes);
  if (tn_sha256_parse(text, size, r->hashes[r->hash_count]))
    r->hash_count++;
  else
    tn_binary_offence(wrong, "%shash '%.*s': expected SHA-256, 64 hexadecimal digits", where,
                      (int)size, text);
  return TENON_OK;
}

static tenon_status_t refuse_rules(const char *what, const char *name, const tn_text_t *wrong) {
  tn_text_t text = {0};
  if (!wrong->size && !wrong->failed) return TENON_OK;
  for (const char *at = tn_text_get(wrong); *at; at += strcspn(at, "\n"), at += *at == '\n')
    tn_text_add(&text, "%s%.*s", text.size ? "; " : "", (int)strcspn(at, "\n"), at);
  tenon_status_t status = wrong->failed || text.failed
                              ? tn_no_memory("the message about rules for loading", wrong->size)
                              : tn_fail(TENON_INVALID, "%s%s: %s", what, name, tn_text_get(&text));
  tn_text_clear(&text);
  return status;
}

static tenon_status_t copy_policy(const tenon_policy_t *policy, rules_t *r) {
  static const uint32_t known = TENON_POLICY_PRIVATE | TENON_POLICY_INERT;
  tenon_status_t status = TENON_OK;
  tn_text_t wrong = {0};
  if (policy->size < offsetof(tenon_policy_t, hashes) + sizeof policy->hashes)
    return tn_fail(
        TENON_INVALID,
        "cannot set the policy: tenon_policy_t.size is not set: expected sizeof(tenon_policy_t)");
  r->flags = policy->flags;
  if (policy->flags & ~known)
    tn_binary_offence(&wrong, "unknown flags 0x%x: expected TENON_POLICY_...",
                      policy->flags & ~known);
  if (policy->folder_count && !policy->folders) tn_binary_offence(&wrong, "folders is NULL");
  if (policy->hash_count && !policy->hashes) tn_binary_offence(&wrong, "hashes is NULL");
  for (uint32_t i = 0; policy->folders && i < policy->folder_count && status == TENON_OK; i++) {
    const char *folder = policy->folders[i] ? policy->folders[i] : "";
    status = add_folder(r, folder, strlen(folder), "", &wrong);
  }
  for (uint32_t i = 0; policy->hashes && i < policy->hash_count && status == TENON_OK; i++) {
    const char *hash = policy->hashes[i] ? policy->hashes[i] : "";
    status = add_hash(r, hash, strlen(hash), "", &wrong);
  }
  if (status == TENON_OK) status = refuse_rules("cannot set the policy", "", &wrong);
  tn_text_clear(&wrong);
  snprintf(r->from, sizeof r->from, "tenon_policy_set");
  return status;
}

/* Reads a line: "private", "inert", "folder PATH", "sha256 HASH", or the output of sha256sum, which
 * is HASH and a name. */
static tenon_status_t read_line(rules_t *r, const char *line, size_t size, int number,
                                tn_text_t *wrong) {
  char where[32];
  uint8_t hash[TN_SHA256_SIZE];
  snprintf(where, sizeof where, "line %d: ", number);
  while (size && strchr(" \t\r", line[size - 1]))
    size--;
  while (size && strchr(" \t", *line)) {
    line++;
    size--;
  }
  if (!size || *line == '#') return TENON_OK;
  size_t word = 0;
  while (word < size && !strchr(" \t", line[word]))
    word++;
  const char *rest = line + word;
  while (rest < line + size && strchr(" \t", *rest))
    rest++;
  const size_t rest_size = (size_t)(line + size - rest);
  if (tn_sha256_parse(line, word, hash)) return add_hash(r, line, word, where, wrong);
  if (word == 7 && !memcmp(line, "private", 7) && !rest_size) {
    r->flags |= TENON_POLICY_PRIVATE;
    return TENON_OK;
  }
  if (word == 5 && !memcmp(line, "inert", 5) && !rest_size) {
    r->flags |= TENON_POLICY_INERT;
    return TENON_OK;
  }
  if (word == 6 && !memcmp(line, "folder", 6)) return add_folder(r, rest, rest_size, where, wrong);
  if (word == 6 && !memcmp(line, "sha256", 6)) return add_hash(r, rest, rest_size, where, wrong);
  tn_binary_offence(
      wrong, "%s'%.*s': expected private, inert, folder PATH, sha256 HASH, or a line of sha256sum",
      where, (int)(size < 100 ? size : 100), line);
  return TENON_OK;
}

static tenon_status_t read_rules(const char *path, rules_t *r) {
  char real[TN_PATH_SIZE];
  tn_file_t file;
  tn_file_identity_t identity;
  tn_text_t wrong = {0};
  int number = 1;
  TN_TRY(tn_file_real_path(path, real, sizeof real));
  TN_TRY(tn_file_map_real(real, &file, &identity));
  tenon_status_t status = TENON_OK;
  const char *at = (const char *)file.data;
  const char *end = at + file.size;
  for (const char *stop; at < end && status == TENON_OK; at = stop + 1, number++) {
    if (!(stop = memchr(at, '\n', (size_t)(end - at)))) stop = end;
    status = read_line(r, at, (size_t)(stop - at), number, &wrong);
  }
  tn_file_changeable(real, &wrong); /* whoever can write this file could remove the rules */
  if (status == TENON_OK) status = refuse_rules(path, "", &wrong);
  tn_text_clear(&wrong);
  tn_file_unmap(&file);
  return status;
}

static void ensure_rules(void) {
  const char *named = tn_environment("TENON_POLICY");
  const bool is_named = named && *named;
  const char *path = is_named ? named : tn_policy_file;
  if (is_known) return;
  clear_rules(&rules);
  if (is_named || tn_file_exists(path)) {
    rules.status = read_rules(path, &rules);
    snprintf(rules.from, sizeof rules.from, "%s%s", is_named ? "TENON_POLICY=" : "", path);
    if (rules.status != TENON_OK) rules.wrong = tn_copy_text(tn_error(), strlen(tn_error()));
  }
  is_known = rules.status != TENON_MEMORY; /* without memory the next call reads them again */
}

tenon_status_t tenon_policy_set(const tenon_policy_t *policy) {
  rules_t made = {0};
  tenon_status_t status = policy ? copy_policy(policy, &made) : TENON_OK;
  if (status != TENON_OK) {
    clear_rules(&made);
    return status;
  }
  tn_mutex_lock(&lock);
  clear_rules(&rules);
  rules = made;
  is_known = true;
  tn_mutex_unlock(&lock);
  return TENON_OK;
}

void tn_policy_forget(void) {
  tn_mutex_lock(&lock);
  clear_rules(&rules);
  is_known = false;
  tn_mutex_unlock(&lock);
}

static bool is_below(const char *path, const char *folder) {
  char real[TN_PATH_SIZE];
  if (tn_file_real_path(folder, real, sizeof real) != TENON_OK) return false;
  size_t size = strlen(real);
  return size == 1 || (strncmp(path, real, size) == 0 && path[size] == '/');
}

static void check_folders(const char *path, tn_text_t *offences) {
  tn_text_t list = {0};
  for (size_t i = 0; i < rules.folder_count; i++) {
    if (is_below(path, rules.folders[i])) {
      tn_text_clear(&list);
      return;
    }
    tn_text_add(&list, "%s%s", i ? ", " : "", rules.folders[i]);
  }
  tn_binary_offence(
      offences, "rule folders (%s): it is not in %s: put it there, or name its folder in the rule",
      rules.from, tn_text_get(&list));
  tn_text_clear(&list);
}

static void check_changeable(const char *path, const char *before, const char *from,
                             tn_text_t *offences) {
  tn_text_t lines = {0};
  tn_file_changeable(path, &lines);
  for (const char *at = tn_text_get(&lines); *at; at += strcspn(at, "\n"), at += *at == '\n')
    tn_binary_offence(offences, "rule private (%s): %s%.*s", from, before, (int)strcspn(at, "\n"),
                      at);
  offences->failed |= lines.failed;
  tn_text_clear(&lines);
}

static void check_search_folder(const char *place, size_t size, const char *from,
                                tn_text_t *offences) {
  static const char *const starts[] = {"/", "$ORIGIN", "${ORIGIN}"};
  tn_text_t words = {0};
  char *name = tn_copy_text(place, size);
  size_t start = 0;
  for (size_t i = 0; name && i < sizeof starts / sizeof *starts; i++)
    if (!strncmp(name, starts[i], strlen(starts[i]))) start = strlen(starts[i]);
  const bool is_unclear = name && start && strchr(name + start, '$');
  if (!start || is_unclear) {
    if (name) tn_binary_quote(&words, name);
    tn_binary_offence(offences,
                      "rule private (%s): it looks for libraries in '%s', %s: link it with a run "
                      "path that begins with / or $ORIGIN",
                      from, tn_text_get(&words),
                      is_unclear ? "which only the system's loader can resolve"
                                 : "below the current folder");
  }
  tn_release_memory(name);
  tn_text_clear(&words);
}

/* Checks a list of libraries that the system opens with the file, as far as their location is
 * certain. */
static void check_libraries(const char *path, const tn_binary_t *binary, const tn_names_t *names,
                            const char *from, tn_text_t *offences) {
  char found[TN_PATH_SIZE], real[TN_PATH_SIZE], before[256];
  if (names->count > TN_LISTED)
    tn_binary_offence(
        offences,
        "rule private (%s): it needs %llu libraries, of which %d can be checked: link "
        "it with fewer",
        from, (unsigned long long)names->count, (int)TN_LISTED);
  for (uint64_t i = 0; i < names->count && i < TN_LISTED; i++) {
    const char *name = names->names[i];
    if (strchr(name, '/')) check_search_folder(name, strlen(name), from, offences);
    if (tn_needed_find(binary, path, name, found, sizeof found) != TN_FOUND ||
        tn_file_real_path(found, real, sizeof real) != TENON_OK)
      continue; /* opening reports the error */
    snprintf(before, sizeof before, "it needs %.200s: ", strrchr(real, '/') + 1);
    check_changeable(real, before, from, offences);
  }
}

static void check_needed(const char *path, const tn_binary_t *binary, const char *from,
                         tn_text_t *offences) {
  tn_text_t words = {0};
  for (const char *at = *binary->run_path ? binary->run_path : NULL; at;) {
    size_t size = strcspn(at, ":");
    check_search_folder(at, size, from, offences);
    at = at[size] ? at + size + 1 : NULL;
  }
  check_libraries(path, binary, &binary->needed, from, offences);
  check_libraries(path, binary, &binary->auxiliary, from, offences);
  if (!binary->audits.count) return;
  tn_binary_names(&words, &binary->audits);
  tn_binary_offence(offences,
                    "rule private (%s): it names %s by DT_AUDIT, DT_DEPAUDIT or DT_CONFIG, which "
                    "change how libraries are opened: link it without --audit, --depaudit and "
                    "--config",
                    from, tn_text_get(&words));
  tn_text_clear(&words);
}

static void check_private(const char *path, const tn_binary_t *binary, const char *from,
                          tn_text_t *offences) {
  check_changeable(path, "", from, offences);
  check_needed(path, binary, from, offences);
}

static void check_inert(const tn_binary_t *binary, const char *from, tn_text_t *offences) {
  tn_text_t words = {0};
  if (!binary->initialiser_count) return;
  tn_binary_initialisers(&words, binary);
  tn_binary_offence(offences,
                    "rule inert (%s): opening it runs code of its own (%s); use TENON_OPEN for "
                    "what must happen first",
                    from, tn_text_get(&words));
  tn_text_clear(&words);
}

static void check_hashes(const char *path, const tn_file_t *file, bool *out_is_copied,
                         tn_text_t *offences) {
  uint8_t hash[TN_SHA256_SIZE];
  char text[TN_SHA256_TEXT];
  tn_text_t lines = {0};
  tn_sha256(file->data, file->size, hash);
  for (size_t i = 0; i < rules.hash_count; i++) {
    if (memcmp(hash, rules.hashes[i], sizeof hash) != 0) continue;
    tn_file_changeable(path, &lines);
    *out_is_copied = lines.size || lines.failed;
    tn_text_clear(&lines);
    return;
  }
  tn_sha256_text(hash, text);
  tn_binary_offence(offences,
                    "rule sha256 (%s): its hash is %s, which is not among the %zu that are "
                    "accepted: add it if you know the file",
                    rules.from, text, rules.hash_count);
}

bool tn_policy_has_hashes(void) {
  tn_mutex_lock(&lock);
  ensure_rules();
  const bool has = rules.hash_count > 0;
  tn_mutex_unlock(&lock);
  return has;
}

tenon_status_t tn_policy_check(const char *path, const tn_file_t *file, const tn_binary_t *binary,
                               uint32_t flags, bool *out_is_copied, tn_text_t *offences) {
  const bool is_strict = flags & TENON_LOAD_STRICT;
  tenon_status_t status = TENON_OK;
  *out_is_copied = false;
  tn_mutex_lock(&lock);
  ensure_rules();
  const char *from = is_strict ? "TENON_LOAD_STRICT" : rules.from;
  if (rules.status != TENON_OK) {
    status = tn_fail(rules.status, "the rules for loading cannot be read: %s",
                     rules.wrong ? rules.wrong : "out of memory");
  } else {
    if (rules.folder_count) check_folders(path, offences);
    if (is_strict || rules.flags & TENON_POLICY_INERT) check_inert(binary, from, offences);
    if (is_strict || rules.flags & TENON_POLICY_PRIVATE)
      check_private(path, binary, from, offences);
    if (rules.hash_count) check_hashes(path, file, out_is_copied, offences);
  }
  tn_mutex_unlock(&lock);
  return status;
}

void tn_policy_report(tn_text_t *text) {
  tn_mutex_lock(&lock);
  ensure_rules();
  const size_t start = text->size;
  for (size_t i = 0; i < rules.folder_count; i++)
    tn_text_add(text, "%s%s", i ? ", " : "folders ", rules.folders[i]);
  const char *gap = text->size > start ? "; " : "";
  if (rules.flags & TENON_POLICY_PRIVATE) {
    tn_text_add(text, "%sprivate", gap);
    gap = "; ";
  }
  if (rules.flags & TENON_POLICY_INERT) {
    tn_text_add(text, "%sinert", gap);
    gap = "; ";
  }
  if (rules.hash_count) tn_text_add(text, "%s%zu SHA-256", gap, rules.hash_count);
  if (rules.status != TENON_OK)
    tn_text_add(text, "no file can be loaded: %s", rules.wrong ? rules.wrong : "out of memory");
  else if (text->size == start)
    tn_text_add(text, "none");
  if (*rules.from) tn_text_add(text, " (%s)", rules.from);
  tn_mutex_unlock(&lock);
}
