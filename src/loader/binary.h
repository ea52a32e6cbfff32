/* A library file as its bytes describe it, read without running any of its code. The steps of
 * loading and the report of inspect.c use it. Each format has a reader (elf.c) that fills the same
 * structure, so no caller depends on a format. Texts point into the file, so the structure is valid
 * as long as the file is mapped. A file may be hostile: no reader trusts an offset, a count or a
 * terminator. */
#ifndef TN_LOADER_BINARY_H
#define TN_LOADER_BINARY_H

#include "base/file.h"
#include "base/text.h"

#define TN_ENTRY "tenon_library" /* the one function that a library exports */

enum { TN_LISTED = 64 }; /* entries that a list keeps; all entries are counted */

typedef struct tn_names_t {
  uint64_t count;
  const char *names[TN_LISTED];
} tn_names_t;

typedef struct tn_initialiser_t { /* code that runs when the file is opened */
  const char *name;               /* of the function; NULL: `count` unnamed functions */
  uint64_t count;
  const char *way; /* why the system runs it, e.g. "DT_INIT_ARRAY" */
} tn_initialiser_t;

typedef struct tn_binary_t {
  /* "ELF, 64 bits, little-endian", or "" for a format without a reader. */
  const char *format;
  const char *kind; /* "shared object", "static archive", "text", ... */
  /* "x86-64", a number in `machine_text`, or "" if the format has none. */
  const char *machine;
  char machine_text[24];
  const char *name; /* the file's own name (DT_SONAME), or "" */
  bool has_entry;
  bool is_of_this_machine;
  bool has_executable_stack;
  bool has_text_relocations;
  /* Why a shared object has no entry function. NULL: it has one, or another problem was
   * reported. */
  const char *no_entry;
  const char *tenon;          /* libtenon's name if the file links to it, otherwise NULL */
  tn_names_t needed;          /* libraries that the system opens with the file */
  tn_names_t auxiliary;       /* libraries that it opens with the file if it finds them */
  tn_names_t audits;          /* files that change how the system opens libraries */
  tn_names_t exports;         /* exported symbols other than the entry */
  tn_names_t pins;            /* reasons why the system never unloads the file */
  const char *run_path;       /* folders in which it wants needed libraries to be searched, or "" */
  bool is_run_path_first;     /* searched before LD_LIBRARY_PATH */
  uint32_t initialiser_count; /* initialisers other than the compiler's own */
  tn_initialiser_t initialisers[TN_LISTED];
} tn_binary_t;

/* Fills the structure as far as the file can be read, and appends one line to `offences` for each
 * reason why this process cannot load the file as a library, except those of tn_binary_check. Never
 * fails: a file of an unknown format has one line that says how it starts. */
void tn_binary_read(const tn_file_t *file, tn_binary_t *out_binary, tn_text_t *offences);

/* Appends a line if the file has no entry function, and one if it links to libtenon. Bridges, and
 * libraries that bridges read, are exempt from this check. */
void tn_binary_check(const tn_binary_t *binary, tn_text_t *offences);
/* Whether the file exports the symbol or, with `is_prefix`, a symbol that begins with `name`. */
bool tn_binary_exports(const tn_file_t *file, const char *name, bool is_prefix);

/* Appends one line. */
void tn_binary_offence(tn_text_t *offences, const char *format, ...) TENON_FORMAT(2, 3);
/* Appends text from a file, with '?' for unprintable bytes, cut after 200 bytes. */
void tn_binary_quote(tn_text_t *text, const char *name);
/* Appends up to 8 names: "a, b and 3 more". */
void tn_binary_names(tn_text_t *text, const tn_names_t *names);
/* Appends "setup by DT_INIT_ARRAY, 2 unnamed functions by ...". */
void tn_binary_initialisers(tn_text_t *text, const tn_binary_t *binary);

/* The readers of formats, for tn_binary_read. */
void tn_elf_read(const tn_file_t *file, tn_binary_t *out_binary, tn_text_t *offences);
bool tn_elf_exports(const tn_file_t *file, const char *name, bool is_prefix);
/* What the file requires of other libraries: tn_elf_undefined visits each symbol that the file uses
 * but does not define, tn_elf_versions visits each version of another library's symbols, and
 * tn_elf_defines_version says whether the file defines a version itself. The texts belong to the
 * file. */
void tn_elf_undefined(const tn_file_t *file, void (*each)(void *context, const char *name),
                      void *context);
void tn_elf_versions(const tn_file_t *file,
                     void (*each)(void *context, const char *library, const char *version),
                     void *context);
bool tn_elf_defines_version(const tn_file_t *file, const char *version);

#endif
