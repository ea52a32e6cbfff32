/* Source locations over libdw (elfutils). The library is opened on first use rather than linked, so
 * programs that never ask for locations do not need it. The types that cross the interface are
 * opaque, so its header is not needed either. The ABI is that of libdw.so.1. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dynlib.h"
#include "base/memory.h"
#include "base/source.h"

/* Dwfl_Callbacks of libdwfl.h. */
typedef struct callbacks_t {
  tenon_any_fn find_elf;
  tenon_any_fn find_debuginfo;
  tenon_any_fn section_address;
  char **debuginfo_path;
} callbacks_t;

struct tn_sources_t {
  tn_dynlib_t *library;
  callbacks_t callbacks;
  void *session;
  void (*end)(void *session);
  void *(*module)(void *session, uint64_t address);
  void *(*line_at)(void *module, uint64_t address);
  void *(*unit_of)(void *line);
  void *(*next_unit)(void *module, void *unit, uint64_t *bias);
  int (*lines)(void *unit, size_t *count);
  void *(*line)(void *unit, size_t index);
  const char *(*info)(void *line, uint64_t *address, int *number, int *column, uint64_t *time,
                      uint64_t *size);
  const char *(*folder)(void *line);
  const char *(*name)(void *unit);
  const char *(*symbol)(void *module, uint64_t address);
};

static bool find_function(tn_dynlib_t *library, const char *name, void *out_function) {
  tenon_any_fn function = tn_dynlib_function(library, name);
  memcpy(out_function, &function, sizeof function);
  return function != NULL;
}

static bool begin_session(tn_sources_t *s) {
  void *(*open)(const callbacks_t *);
  int (*report)(void *, int), (*finish)(void *, void *, void *);
  const struct {
    const char *name;
    void *function;
  } names[] = {{"dwfl_begin", &open},
               {"dwfl_linux_proc_report", &report},
               {"dwfl_report_end", &finish},
               {"dwfl_linux_proc_find_elf", &s->callbacks.find_elf},
               {"dwfl_standard_find_debuginfo", &s->callbacks.find_debuginfo},
               {"dwfl_end", &s->end},
               {"dwfl_addrmodule", &s->module},
               {"dwfl_module_getsrc", &s->line_at},
               {"dwfl_linecu", &s->unit_of},
               {"dwfl_module_nextcu", &s->next_unit},
               {"dwfl_getsrclines", &s->lines},
               {"dwfl_onesrcline", &s->line},
               {"dwfl_lineinfo", &s->info},
               {"dwfl_line_comp_dir", &s->folder},
               {"dwarf_diename", &s->name},
               {"dwfl_module_addrname", &s->symbol}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!find_function(s->library, names[i].name, names[i].function)) return false;
  s->session = open(&s->callbacks);
  return s->session && report(s->session, (int)getpid()) == 0 &&
         finish(s->session, NULL, NULL) == 0;
}

tn_sources_t *tn_sources_open(void) {
  tn_sources_t *s = tn_allocate_zero(1, sizeof *s);
  if (!s || tn_dynlib_open("libdw.so.1", &s->library) != TENON_OK || begin_session(s)) return s;
  if (s->session) s->end(s->session);
  s->session = NULL;
  return s;
}

void tn_sources_close(tn_sources_t *s) {
  if (!s) return;
  if (s->session) s->end(s->session);
  tn_dynlib_close(s->library);
  tn_release_memory(s);
}

/* Demangles a C++ name if libstdc++ is loaded in the process. The caller frees the result with
 * free(). */
static char *demangle(const char *name) {
  char *(*function)(const char *, char *, size_t *, int *) = NULL;
  void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  void *address = library ? dlsym(library, "__cxa_demangle") : NULL;
  memcpy(&function, &address, sizeof function);
  char *readable = function ? function(name, NULL, NULL, &(int){0}) : NULL;
  if (library) dlclose(library);
  return readable;
}

static void add_source_line(tn_text_t *text, const char *folder, const char *file, int number) {
  if (folder) tn_text_add(text, "%s/", folder);
  tn_text_add(text, "%s:%d", file, number);
}

bool tn_source_at(tn_sources_t *s, uintptr_t address, tn_text_t *text) {
  Dl_info about = {0};
  int number = 0;
  void *module = s && s->session ? s->module(s->session, address) : NULL;
  void *line = module ? s->line_at(module, address) : NULL;
  const char *name = module ? s->symbol(module, address) : NULL;
  const char *file = line ? s->info(line, NULL, &number, NULL, NULL, NULL) : NULL;
  const char *folder = file && *file != '/' ? s->folder(line) : NULL;
  bool is_known = dladdr((void *)address, &about) != 0;
  if (!name) name = about.dli_sname;
  char *readable = name && strncmp(name, "_Z", 2) == 0 ? demangle(name) : NULL;
  if (name)
    tn_text_add(text, "%s", readable ? readable : name);
  else
    tn_text_add(text, "0x%llx", (unsigned long long)address);
  free(readable);
  if (file) {
    tn_text_add(text, " at ");
    add_source_line(text, folder, file, number);
  }
  if (is_known && about.dli_fname)
    tn_text_add(text, " in %s+0x%llx", about.dli_fname,
                (unsigned long long)(address - (uintptr_t)about.dli_fbase));
  return name || file || is_known;
}

static bool ends_with(const char *text, const char *end) {
  size_t size = strlen(text);
  size_t end_size = strlen(end);
  return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* The line of a compilation unit at which the code at `address` begins. A C++ kernel is called
 * through tenon_guard of op.h, into which the compiler usually inlines it; then the result is the
 * next line that belongs to the unit's own file. */
enum { GUARD_BYTES = 512 };
static void *line_in(const tn_sources_t *s, void *unit, uint64_t address, int *out_number) {
  size_t count;
  bool is_guard = false;
  const char *own = s->name(unit);
  if (!unit || s->lines(unit, &count) != 0) return NULL;
  /* the lines are sorted by address */
  for (size_t i = 0; i < count; i++) {
    uint64_t at = 0;
    void *line = s->line(unit, i);
    const char *file = line ? s->info(line, &at, out_number, NULL, NULL, NULL) : NULL;
    if (!file || at < address || *out_number <= 0) continue;
    if (at > address + (is_guard ? GUARD_BYTES : 0)) return NULL;
    if (!is_guard) is_guard = ends_with(file, "tenon/op.h");
    if (!is_guard || (own && (ends_with(file, own) || ends_with(own, file)))) return line;
  }
  return NULL;
}

bool tn_source_add(tn_sources_t *s, tenon_any_fn function, tn_text_t *text) {
  uint64_t address = 0;
  uint64_t bias;
  int number = 0;
  if (!s || !s->session || !function) return false;
  memcpy(&address, &function, sizeof function);
  void *module = s->module(s->session, address);
  void *unit;
  void *near = module ? s->line_at(module, address) : NULL;
  void *line = near ? line_in(s, s->unit_of(near), address, &number) : NULL;
  /* clang does not write the table that maps addresses to units, so every unit is searched */
  for (unit = NULL; module && !near && !line;) {
    if (!(unit = s->next_unit(module, unit, &bias))) break;
    line = line_in(s, unit, address, &number);
  }
  const char *file = line ? s->info(line, NULL, &number, NULL, NULL, NULL) : NULL;
  const char *folder = file && *file != '/' ? s->folder(line) : NULL;
  if (!file) return false;
  add_source_line(text, folder, file, number);
  return true;
}
