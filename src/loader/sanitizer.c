/* Libraries that were built with a sanitizer, in programs that were not; see missing.h. The
 * sanitizer's run-time library replaces malloc and other functions, so it must be loaded before all
 * other libraries. If it is opened later, it ends the process. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/dynlib.h"
#include "base/status.h"
#include "loader/locate.h"
#include "loader/missing.h"
#include "loader/needed.h"

typedef struct sanitizer_t {
  const char *word;
  const char *symbol; /* used by instrumented code */
  const char *gcc;
  const char *clang; /* prefixes of the run-time libraries' names */
  const char *package;
} sanitizer_t;

static const sanitizer_t sanitizers[] = {
    {"address", "__asan_init", "libasan.so.", "libclang_rt.asan", "libasan8"},
    {"thread", "__tsan_init", "libtsan.so.", "libclang_rt.tsan", "libtsan2"},
    {"hwaddress", "__hwasan_init", "libhwasan.so.", "libclang_rt.hwasan", "libhwasan0"},
    {"memory", "__msan_init", NULL, NULL, NULL},
};

enum { SANITIZERS = sizeof sanitizers / sizeof *sanitizers };

static void note_sanitizer(void *context, const char *name) {
  bool *is_used = context;
  for (size_t i = 0; i < SANITIZERS; i++)
    if (!strcmp(name, sanitizers[i].symbol)) is_used[i] = true;
}

/* Finds the run-time library that the file names, otherwise gcc's, which has the same interface as
 * clang's. */
static void find_runtime(const sanitizer_t *sanitizer, const tn_binary_t *binary, const char *path,
                         char *out, size_t capacity) {
  static const char versions[] = "98765";
  char name[64];
  *out = 0;
  for (uint64_t i = 0; i < binary->needed.count && i < TN_LISTED; i++) {
    const char *needed = binary->needed.names[i];
    bool is_it = sanitizer->gcc && (!strncmp(needed, sanitizer->gcc, strlen(sanitizer->gcc)) ||
                                    !strncmp(needed, sanitizer->clang, strlen(sanitizer->clang)));
    if (is_it && tn_needed_find(binary, path, needed, out, capacity) != TN_FOUND) *out = 0;
    if (is_it) return;
  }
  for (const char *version = versions; sanitizer->gcc && *version && !*out; version++) {
    size_t size = strlen(sanitizer->gcc);
    memcpy(name, sanitizer->gcc, size);
    name[size] = *version;
    name[size + 1] = 0;
    if (tn_needed_find(binary, path, name, out, capacity) != TN_FOUND) *out = 0;
  }
}

const char *tn_sanitizer_missing(const tn_binary_t *binary, const tn_file_t *file, const char *path,
                                 char *out_runtime, size_t capacity) {
  *out_runtime = 0;
  if (strcmp(binary->kind, "shared object") != 0 || !binary->is_of_this_machine) return NULL;
  bool is_used[SANITIZERS] = {false};
  tn_elf_undefined(file, note_sanitizer, is_used);
  for (size_t i = 0; i < SANITIZERS; i++) {
    if (!is_used[i] || tn_dynlib_global(sanitizers[i].symbol)) continue;
    find_runtime(&sanitizers[i], binary, path, out_runtime, capacity);
    return sanitizers[i].word;
  }
  return NULL;
}

void tn_sanitizer_offence(const char *word, const char *runtime, tn_text_t *offences) {
  const char *package = "";
  for (size_t i = 0; i < SANITIZERS; i++)
    if (!strcmp(word, sanitizers[i].word) && sanitizers[i].package) package = sanitizers[i].package;
  if (*runtime)
    tn_binary_offence(offences,
                      "it was built with -fsanitize=%s, whose run-time library must be in the "
                      "process before all others: start the program with LD_PRELOAD=%s in its "
                      "environment (`tenon run --sanitizer` does)",
                      word, runtime);
  else if (*package)
    tn_binary_offence(
        offences,
        "it was built with -fsanitize=%s, whose run-time library is not installed (apt-get install "
        "%s), and must be in the process before all others, by LD_PRELOAD",
        word, package);
  else
    tn_binary_offence(offences,
                      "it was built with -fsanitize=%s, which requires the same option for the "
                      "whole program: build it without",
                      word);
}

tenon_status_t tenon_library_sanitizer(const char *path, char **out_runtime) {
  char real[TN_PATH_SIZE], runtime[TN_PATH_SIZE];
  tn_file_t file;
  tn_binary_t binary;
  tn_text_t ignored = {0};
  tn_text_t text = {0};
  if (!path || !out_runtime)
    return tn_fail(TENON_INVALID,
                   "cannot find the sanitizer of a library: path or out_runtime is NULL");
  *out_runtime = NULL;
  TN_TRY(tn_locate(path, real, sizeof real));
  TN_TRY(tn_file_map(real, &file));
  tn_binary_read(&file, &binary, &ignored);
  const char *word = tn_sanitizer_missing(&binary, &file, real, runtime, sizeof runtime);
  tenon_status_t status = TENON_OK;
  tn_text_add(&text, "%s", word ? runtime : "");
  if (word && !*runtime) {
    tn_text_clear(&ignored);
    tn_sanitizer_offence(word, runtime, &ignored);
    status = tn_fail(TENON_NOT_FOUND, "%s: %s", real, tn_text_get(&ignored));
  }
  tn_file_unmap(&file);
  tn_text_clear(&ignored);
  if (status != TENON_OK)
    tn_text_clear(&text);
  else if (!(*out_runtime = tn_text_take(&text)))
    status = TENON_MEMORY;
  return status;
}
