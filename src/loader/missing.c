/* Finds symbols and symbol versions that a library needs and that neither the process nor the
 * library's own dependencies define. See missing.h. */
#include "loader/missing.h"

#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "base/memory.h"
#include "loader/locate.h"
#include "loader/needed.h"

enum {
  FILES = 64,
  NAMES = 8,
};

typedef struct opened_t { /* the needed libraries, and those that they need: mapped, not run */
  tn_file_t files[FILES];
  char *names[FILES];
  char *paths[FILES]; /* as requested, and where they were found */
  uint32_t count;
  bool is_whole; /* every needed library was found */
} opened_t;

static void add_needed(opened_t *opened, const tn_binary_t *binary, const char *path) {
  char found[TN_PATH_SIZE];
  for (uint64_t i = 0; i < binary->needed.count && i < TN_LISTED; i++) {
    const char *name = binary->needed.names[i];
    uint32_t at = 0;
    while (at < opened->count && strcmp(opened->names[at], name) != 0)
      at++;
    if (at < opened->count) continue;
    bool is_there = at < FILES &&
                    tn_needed_find(binary, path, name, found, sizeof found) == TN_FOUND &&
                    tn_file_map(found, &opened->files[at]) == TENON_OK;
    if (!is_there) {
      opened->is_whole = false;
      continue;
    }
    opened->names[at] = tn_copy_text(name, strlen(name));
    opened->paths[at] = tn_copy_text(found, strlen(found));
    opened->count++;
    if (opened->names[at] && opened->paths[at]) continue;
    tn_file_unmap(&opened->files[at]);
    tn_release_memory(opened->names[at]);
    tn_release_memory(opened->paths[at]);
    opened->count--;
    opened->is_whole = false;
  }
}

static void open_needed(opened_t *opened, const tn_binary_t *binary, const char *path) {
  *opened = (opened_t){.is_whole = true};
  add_needed(opened, binary, path);
  for (uint32_t i = 0; i < opened->count; i++) {
    tn_text_t ignored = {0};
    tn_binary_t other;
    tn_binary_read(&opened->files[i], &other, &ignored);
    add_needed(opened, &other, opened->paths[i]);
    tn_text_clear(&ignored);
  }
}

static void close_needed(opened_t *opened) {
  for (uint32_t i = 0; i < opened->count; i++) {
    tn_file_unmap(&opened->files[i]);
    tn_release_memory(opened->names[i]);
    tn_release_memory(opened->paths[i]);
  }
}

typedef struct search_t {
  const opened_t *opened;
  tn_text_t *offences;
  tn_names_t names; /* undefined symbols */
} search_t;

/* Returns: the first compiler whose C++ library has the version. */
static const char *compiler_of(const char *version) {
  static const char *const known[][2] = {
      {"GLIBCXX_3.4.29", "gcc 11"},   {"GLIBCXX_3.4.30", "gcc 12"}, {"GLIBCXX_3.4.31", "gcc 13"},
      {"GLIBCXX_3.4.32", "gcc 13.2"}, {"GLIBCXX_3.4.33", "gcc 14"}, {"GLIBCXX_3.4.34", "gcc 15"},
      {"CXXABI_1.3.13", "gcc 11"},    {"CXXABI_1.3.14", "gcc 13"},  {"CXXABI_1.3.15", "gcc 14"},
      {"CXXABI_1.3.16", "gcc 15"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i][0], version)) return known[i][1];
  return "a newer gcc";
}

static const char *libc_version(void) {
  const char *(*version)(void) = (const char *(*)(void))tn_dynlib_global("gnu_get_libc_version");
  return version ? version() : "another libc";
}

static void check_version(void *context, const char *library, const char *version) {
  search_t *search = context;
  const opened_t *opened = search->opened;
  uint32_t i = 0;
  while (i < opened->count && strcmp(opened->names[i], library) != 0)
    i++;
  if (i == opened->count || tn_elf_defines_version(&opened->files[i], version)) return;
  if (!strncmp(version, "GLIBC_", 6))
    tn_binary_offence(search->offences,
                      "it was built with glibc %.40s or newer (%.60s asks for %.60s), this system "
                      "has %s: build it here, or on a system that is as old",
                      version + 6, library, version, libc_version());
  else if (!strncmp(version, "GLIBCXX_", 8) || !strncmp(version, "CXXABI_", 7))
    tn_binary_offence(
        search->offences,
        "it was built with the C++ library of %s (it asks for %.60s), %.200s is older: build it "
        "with this system's g++, link it with -static-libstdc++, or install the newer libstdc++6",
        compiler_of(version), version, opened->paths[i]);
  else
    tn_binary_offence(search->offences,
                      "it was linked with a newer %.100s (it asks for %.60s) than %.200s", library,
                      version, opened->paths[i]);
}

/* Prefixes of symbols that compilers' own libraries define, and how to link these libraries. */
static const char *const hints[][2] = {
    {"__asan_", "it was built with -fsanitize=address: see docs/debugging.md"},
    {"__tsan_", "it was built with -fsanitize=thread: see docs/debugging.md"},
    {"__msan_", "it was built with -fsanitize=memory: build the whole program with it, too"},
    {"__ubsan_", "it was built with -fsanitize=undefined: link it with that option too"},
    {"__gcov_", "it was built with --coverage: link it with that option too"},
    {"__llvm_profile_", "it was built with -fprofile-instr-generate: link it with that option too"},
    {"__kmpc_", "clang's OpenMP: link it with -fopenmp by clang (libomp)"},
    {"GOMP_", "gcc's OpenMP: link it with -fopenmp"},
    {"omp_", "OpenMP: link it with -fopenmp"},
    {"__intel_", "the Intel compiler's library: link it by that compiler, or with -static-intel"},
    {"_intel_", "the Intel compiler's library: link it by that compiler, or with -static-intel"},
    {"__svml_", "the Intel compiler's library: link it by that compiler, or with -static-intel"},
    {"_gfortran_", "Fortran: link it with -lgfortran"},
    {"__cuda", "CUDA's runtime: link it with -lcudart, by nvcc"},
    {"cuda", "CUDA's runtime: link it with -lcudart"},
    {"_ZNSt3__1",
     "the C++ library of clang (libc++): link it with -lc++, or build it with -stdlib=libstdc++"},
    {"_ZSt", "the C++ library: link it by g++, not gcc"},
    {"_ZNSt", "the C++ library: link it by g++, not gcc"},
    {"_ZNKSt", "the C++ library: link it by g++, not gcc"},
    {"__cxa_", "the C++ library: link it by g++, not gcc"},
    {"__gxx_", "the C++ library: link it by g++, not gcc"},
    {"_ZTVN10__cxxabiv", "the C++ library: link it by g++, not gcc"},
    {"tenon_",
     "an operator library does not link to Tenon: use the functions of the call's `host`"}};

static const char *hint_of(const char *name) {
  if (strstr(name, "7__cxx11") && strncmp(name, "_ZNSt", 5) != 0 && strncmp(name, "_ZNKSt", 6) != 0)
    return "link the library that defines it; if that library uses the other C++ ABI, build both "
           "with the same -D_GLIBCXX_USE_CXX11_ABI";
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
    if (!strncmp(name, hints[i][0], strlen(hints[i][0]))) return hints[i][1];
  return "link the library that defines it";
}

static void check_symbol(void *context, const char *name) {
  search_t *search = context;
  if (tn_dynlib_global(name)) return;
  for (uint32_t i = 0; i < search->opened->count; i++)
    if (tn_elf_exports(&search->opened->files[i], name, false)) return;
  if (search->names.count < TN_LISTED) search->names.names[search->names.count] = name;
  search->names.count++;
}

typedef char *(*demangle_fn)(const char *name, char *room, size_t *size, int *status);

static void add_symbol_name(tn_text_t *text, const char *name, demangle_fn demangle) {
  int status = 0;
  char *readable = demangle && !strncmp(name, "_Z", 2) ? demangle(name, NULL, NULL, &status) : NULL;
  tn_binary_quote(text, readable ? readable : name);
  if (readable) {
    tn_text_add(text, " (");
    tn_binary_quote(text, name);
    tn_text_add(text, ")");
  }
  free(readable);
}

/* Reports the names in one line for each remedy. */
static void report_names(const tn_names_t *names, tn_text_t *offences) {
  bool is_said[TN_LISTED] = {false};
  tn_dynlib_t *cxx = NULL;
  demangle_fn demangle = (demangle_fn)tn_dynlib_global("__cxa_demangle");
  if (!demangle && names->count && tn_dynlib_open("libstdc++.so.6", &cxx) == TENON_OK)
    demangle = (demangle_fn)tn_dynlib_function(cxx, "__cxa_demangle");
  for (uint64_t i = 0; i < names->count && i < TN_LISTED; i++) {
    tn_text_t list = {0};
    const char *hint = hint_of(names->names[i]);
    uint64_t count = 0;
    if (is_said[i]) continue;
    for (uint64_t k = i; k < names->count && k < TN_LISTED; k++) {
      if (strcmp(hint_of(names->names[k]), hint) != 0) continue;
      is_said[k] = true;
      if (count++ >= NAMES) continue;
      if (list.size) tn_text_add(&list, ", ");
      add_symbol_name(&list, names->names[k], demangle);
    }
    if (count > NAMES) tn_text_add(&list, " and %llu more", (unsigned long long)(count - NAMES));
    tn_binary_offence(offences,
                      "it uses %s, which neither it nor the libraries that it needs define; %s",
                      tn_text_get(&list), hint);
    tn_text_clear(&list);
  }
  tn_dynlib_close(cxx);
}

void tn_missing(const tn_binary_t *binary, const tn_file_t *file, const char *path,
                tn_text_t *offences) {
  opened_t opened;
  search_t search = {.opened = &opened, .offences = offences};
  if (strcmp(binary->kind, "shared object") != 0 || !binary->is_of_this_machine) return;
  open_needed(&opened, binary, path);
  tn_elf_versions(file, check_version, &search);
  if (opened.is_whole) /* Otherwise a library that was not found may define the symbols. */
    tn_elf_undefined(file, check_symbol, &search);
  report_names(&search.names, offences);
  close_needed(&opened);
}
