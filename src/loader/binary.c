/* Recognises file formats by their first bytes, and provides functions that all readers of formats
 * share. The table below lists every format that the loader recognises. A format without a reader
 * is rejected with its name and advice. */
#include "loader/binary.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct format_t {
  const char *magic;
  size_t size;
  const char *kind;
  const char *advice;
  void (*read)(const tn_file_t *file, tn_binary_t *out_binary, tn_text_t *offences);
} format_t;

#define BUILD "build a shared library with `tenon build`"

/* clang-format off */
static const format_t formats[] = {
  {"\177ELF", 4, "ELF", NULL, tn_elf_read},
  {"!<arch>\n", 8, "static archive", "link its objects into a shared library (cc -shared)", NULL},
  {"!<thin>\n", 8, "thin archive", "link its objects into a shared library (cc -shared)", NULL},
  {"MZ", 2, "Windows program or library", BUILD " on this system", NULL},
  {"\xcf\xfa\xed\xfe", 4, "Mach-O file of macOS", BUILD " on this system", NULL},
  {"\xce\xfa\xed\xfe", 4, "Mach-O file of macOS, 32 bits", BUILD " on this system", NULL},
  {"\xca\xfe\xba\xbe", 4, "universal Mach-O file of macOS", BUILD " on this system", NULL},
  {"BC\xc0\xde", 4, "file of LLVM bitcode", BUILD, NULL},
  {"\0asm", 4, "WebAssembly module", BUILD, NULL},
  {"PK\3\4", 4, "zip archive", "unpack it and load the library inside", NULL},
  {"\x1f\x8b", 2, "gzip archive", "unpack it and load the library inside", NULL},
};
/* clang-format on */

void tn_binary_offence(tn_text_t *offences, const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (size < 0) return;
  for (char *at = line; *at; at++)
    if (*at == '\n') *at = ' ';
  tn_text_add(offences, "%s%s", offences->size ? "\n" : "", line);
}

static char printable(char byte) { return byte >= ' ' && byte <= '~' ? byte : '?'; }

void tn_binary_quote(tn_text_t *text, const char *name) {
  char copy[204];
  size_t size = 0;
  for (; name[size] && size < 200; size++)
    copy[size] = printable(name[size]);
  if (name[size]) {
    memset(copy + size, '.', 3);
    size += 3;
  }
  tn_text_bytes(text, copy, size);
}

void tn_binary_names(tn_text_t *text, const tn_names_t *names) {
  uint64_t shown = names->count < 8 ? names->count : 8;
  for (uint64_t i = 0; i < shown; i++) {
    if (i) tn_text_add(text, i + 1 == names->count ? " and " : ", ");
    tn_binary_quote(text, names->names[i]);
  }
  if (names->count > shown)
    tn_text_add(text, " and %llu more", (unsigned long long)(names->count - shown));
}

void tn_binary_initialisers(tn_text_t *text, const tn_binary_t *binary) {
  for (uint32_t i = 0; i < binary->initialiser_count; i++) {
    const tn_initialiser_t *starter = &binary->initialisers[i];
    if (i) tn_text_add(text, ", ");
    if (starter->name)
      tn_binary_quote(text, starter->name);
    else
      tn_text_add(text, "%llu unnamed function%s", (unsigned long long)starter->count,
                  starter->count == 1 ? "" : "s");
    tn_text_add(text, " by %s", starter->way);
  }
}

/* Describes a file of unknown format by its first line if this line is text, otherwise by its first
 * bytes. */
static void describe_unknown(const tn_file_t *file, tn_binary_t *out, tn_text_t *offences) {
  char start[64] = "";
  size_t size = 0;
  size_t most = file->size < 40 ? file->size : 40;
  while (size < most &&
         (printable((char)file->data[size]) == (char)file->data[size] || file->data[size] == '\t'))
    size++;
  bool is_text = size > 0 && (size == most || file->data[size] == '\n' || file->data[size] == '\r');
  out->kind = is_text ? "text" : "unknown";
  if (is_text) {
    snprintf(start, sizeof start, "'%.*s'%s", (int)size, (const char *)file->data,
             size == 40 ? "..." : "");
  } else {
    size_t at = 0;
    for (size_t i = 0; i < 8 && i < most; i++)
      at += (size_t)snprintf(start + at, sizeof start - at, "%s%02x", i ? " " : "bytes ",
                             file->data[i]);
  }
  tn_binary_offence(offences, "not a shared library: it starts with %s; " BUILD, start);
}

void tn_binary_read(const tn_file_t *file, tn_binary_t *out_binary, tn_text_t *offences) {
  *out_binary =
      (tn_binary_t){.format = "", .kind = "empty", .machine = "", .name = "", .run_path = ""};
  if (file->size == 0) {
    tn_binary_offence(offences, "not a shared library: it is empty; build or copy it again");
    return;
  }
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    const format_t *format = &formats[i];
    if (file->size < format->size || memcmp(file->data, format->magic, format->size) != 0) continue;
    out_binary->kind = format->kind;
    if (format->read)
      format->read(file, out_binary, offences);
    else
      tn_binary_offence(offences, "not a shared library: it is a %s; %s", format->kind,
                        format->advice);
    return;
  }
  describe_unknown(file, out_binary, offences);
}

void tn_binary_check(const tn_binary_t *binary, tn_text_t *offences) {
  if (binary->tenon)
    tn_binary_offence(
        offences,
        "it links to %.100s: an operator library must not link to Tenon; build it without -ltenon",
        binary->tenon);
  if (binary->no_entry)
    tn_binary_offence(offences, "it does not export the function " TN_ENTRY ": %s",
                      binary->no_entry);
}

bool tn_binary_exports(const tn_file_t *file, const char *name, bool is_prefix) {
  return file->size > 4 && memcmp(file->data, formats[0].magic, 4) == 0 &&
         tn_elf_exports(file, name, is_prefix);
}
