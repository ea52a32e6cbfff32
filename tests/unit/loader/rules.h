/* Shared code of the tests of policies for loading: a folder below /tmp with a copy of the planted
 * library `good`, and checks of loading. */
#ifndef TESTS_RULES_H
#define TESTS_RULES_H

#include <stdlib.h>
#include <sys/stat.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "check.h"
#include "loader/policy.h"

static char folder[200], file[300], text[2000];

static inline void write_copy(const tn_file_t *data, const char *to, mode_t mode) {
  remove(to);
  FILE *out = fopen(to, "wb");
  CHECK(out && fwrite(data->data, 1, data->size, out) == data->size);
  if (out) fclose(out);
  CHECK(chmod(to, mode) == 0);
}

static inline void copy(const char *from, const char *to, mode_t mode) {
  tn_file_t data;
  CHECK_STATUS(tn_file_map(from, &data), TENON_OK);
  write_copy(&data, to, mode);
  tn_file_unmap(&data);
}

/* The planted library, mapped once: an unprivileged user may not have access to a build in one of
 * root's folders. */
static inline const tn_file_t *good_library(void) {
  static tn_file_t good;
  if (!good.data) CHECK_STATUS(tn_file_map(TEST_LIBRARIES "/libgood.so", &good), TENON_OK);
  return &good;
}

/* Makes a folder FOLDER/ops with good.so, both with the permissions that the policy wants. */
static inline void begin(void) {
  CHECK_STATUS(tn_folder_make(folder, sizeof folder - 20), TENON_OK);
  CHECK(chmod(folder, 0755) == 0);
  snprintf(file, sizeof file, "%s/ops", folder);
  CHECK(mkdir(file, 0755) == 0 && chmod(file, 0755) == 0);
  snprintf(file, sizeof file, "%s/ops/good.so", folder);
  write_copy(good_library(), file, 0644);
}

static inline const char *beside(const char *name) {
  snprintf(text, sizeof text, "%s/%s", folder, name);
  return text;
}

static inline void end(void) {
  char command[300];
  CHECK_STATUS(tenon_policy_set(NULL), TENON_OK);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  CHECK(system(command) == 0);
  unsetenv("TENON_POLICY");
  tenon_shutdown();
}

static inline tenon_status_t load(const char *path, uint32_t flags) {
  char message[2000];
  tenon_library_t *library = NULL;
  tenon_status_t status = tenon_library_load(path, flags | TENON_LOAD_UNLOADABLE, &library);
  snprintf(message, sizeof message, "%s", tn_error());
  CHECK((status == TENON_OK) == (library != NULL));
  tenon_library_release(library);
  const tenon_op_t *op;
  CHECK(tenon_op_find("good::doubles", &op) == TENON_NOT_FOUND);
  return status == TENON_OK ? status : tn_fail(status, "%s", message);
}

#define REFUSED(path, flags, words)                                                                \
  do {                                                                                             \
    tenon_library_t *library_ = NULL;                                                              \
    CHECK_STATUS(tenon_library_load((path), (flags), &library_), TENON_DENIED);                    \
    CHECK_TEXT(tn_error(), (words));                                                               \
    tenon_library_release(library_);                                                               \
  } while (0)
#define LOADS(path, flags) CHECK_STATUS(load((path), (flags)), TENON_OK)

static inline void set(uint32_t flags, const char *one_folder, const char *hash) {
  const tenon_policy_t policy = {sizeof policy, flags,       one_folder ? 1 : 0,
                                 hash ? 1 : 0,  &one_folder, &hash};
  CHECK_STATUS(tenon_policy_set(&policy), TENON_OK);
}

static inline const char *hash_of(const char *path) {
  static char digits[TN_SHA256_TEXT];
  uint8_t hash[TN_SHA256_SIZE];
  tn_file_t data;
  CHECK_STATUS(tn_file_map(path, &data), TENON_OK);
  tn_sha256(data.data, data.size, hash);
  tn_sha256_text(hash, digits);
  tn_file_unmap(&data);
  return digits;
}

/* Writes a policy file. */
static inline const char *rules_file(const char *lines, mode_t mode) {
  static char path[300];
  snprintf(path, sizeof path, "%s/policy", folder);
  FILE *out = fopen(path, "w");
  CHECK(out && fputs(lines, out) >= 0 && fclose(out) == 0 && chmod(path, mode) == 0);
  return path;
}

#endif
