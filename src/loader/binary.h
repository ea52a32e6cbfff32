/* What a library file is, read from its bytes without running any of it.  Called by the loader's
 * steps and by the report of inspect.c.  One reader for each format (elf.c) fills the same
 * structure, so that nothing above knows formats. Texts point into the file: the structure lives as
 * long as the file is mapped.  Files may be hostile: no reader trusts an offset, a count or a
 * terminator. */
#ifndef TN_LOADER_BINARY_H
#define TN_LOADER_BINARY_H

#include "base/file.h"
#include "base/text.h"

#define TN_ENTRY "tenon_library" /* the one function that a library exports */

enum { TN_LISTED = 64 }; /* entries of a list that are kept; all are counted */

typedef struct tn_names_t {
  uint64_t count;
  const char *names[TN_LISTED];
} tn_names_t;

typedef struct tn_starter_t { /* code that opening the file runs */
  const char *name;           /* of the function; NULL: `count` functions without a name */
  uint64_t count;
  const char *way; /* what makes the system run it: "DT_INIT_ARRAY" */
} tn_starter_t;

typedef struct tn_binary_t {
  const char *
      /* "ELF, 64 bits, little-endian"; "" when the file is in no format that has a reader */
      format;
  const char *kind;    /* "shared object", "static archive", "text", ... */
  const char *machine; /* "x86-64"; "" when the file does not say, or a number in `machine_text` */
  char machine_text[24];
  const char *name; /* that the file gives itself (DT_SONAME), or "" */
  bool has_entry;
  bool is_of_this_machine;
  bool has_executable_stack;
  bool has_text_relocations;
  const char *
      /* why a shared object has no entry, as far as it shows; NULL: it has, or it is another
       * offence */
      no_entry;
  const char *tenon;      /* libtenon, if it links that; else NULL */
  tn_names_t needed;      /* libraries that the system opens with it */
  tn_names_t exports;     /* what it exports beside the entry */
  tn_names_t pins;        /* symbols for which the system never unloads the file */
  const char *run_path;   /* folders that it wants searched for needed libraries, or "" */
  bool is_run_path_first; /* searched before those of the environment */
  uint32_t starter_count; /* initialisers beyond the compiler's own */
  tn_starter_t starters[TN_LISTED];
} tn_binary_t;

/* Fills in what can be read, and appends a line for each thing that keeps the file from being a
 * library that this process can load, but for those of tn_binary_check.  Never fails: a file that
 * is nothing known has one offence that says what it starts with. */
void tn_binary_read(const tn_file_t *file, tn_binary_t *out_binary, tn_text_t *offences);

/* Appends that it has no entry, and that it links libtenon: a bridge, and what bridges read, may do
 * so. */
void tn_binary_check(const tn_binary_t *binary, tn_text_t *offences);
bool tn_binary_exports(const tn_file_t *file, const char *name);

void tn_binary_offence(tn_text_t *offences, const char *format, ...)
    TENON_FORMAT(2, 3); /* one line */
/* Appends text from a file: what does not print becomes '?', and it is cut after 200 bytes. */
void tn_binary_quote(tn_text_t *text, const char *name);
/* Appends up to 8 names, "a, b and 3 more". */
void tn_binary_names(tn_text_t *text, const tn_names_t *names);
/* Appends "setup by DT_INIT_ARRAY, 2 functions without a name by ...". */
void tn_binary_starters(tn_text_t *text, const tn_binary_t *binary);

/* Readers of formats, for tn_binary_read. */
void tn_elf_read(const tn_file_t *file, tn_binary_t *out_binary, tn_text_t *offences);
bool tn_elf_exports(const tn_file_t *file, const char *name);
/* What it demands of others: each symbol that it uses, must find and does not define; each version
 * of a library's symbols; and whether it defines symbols of a version itself.  The texts are the
 * file's. */
void tn_elf_undefined(const tn_file_t *file, void (*each)(void *context, const char *name),
                      void *context);
void tn_elf_versions(const tn_file_t *file,
                     void (*each)(void *context, const char *library, const char *version),
                     void *context);
bool tn_elf_defines_version(const tn_file_t *file, const char *version);

#endif
