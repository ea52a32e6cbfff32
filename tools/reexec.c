/* Builds the command line that runs this command again under another program; see reexec.h. */
#include "reexec.h"

#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "process.h"
#include "system.h"

/* Finds the gdb pretty-printers, beside bin of an installation or in the source tree of this
 * build. */
static bool find_printers(text_t *out_path) {
  static const char *const places[] = {"../share/tenon/gdb/tenon-gdb.py",
                                       "../tools/gdb/tenon-gdb.py"};
  text_t own = {NULL, 0, 0, false};
  bool found = false;
  for (size_t i = 0; system_own_folder(&own) && i < sizeof places / sizeof *places && !found; i++) {
    text_clear(out_path);
    text_add(out_path, "%s/%s", text_get(&own), places[i]);
    found = system_is_file(text_get(out_path));
    text_clear(&own);
  }
  text_free(&own);
  return found;
}

static bool add_program(texts_t *command, const char *name, text_t *why) {
  text_t path = {NULL, 0, 0, false};
  bool found = system_find_program(name, &path) && texts_add(command, text_get(&path));
  if (!found)
    text_add(why, "%s was not found in PATH: install it, for example by apt-get install %s", name,
             name);
  text_free(&path);
  return found;
}

static bool add_gdb(texts_t *command, const reexec_t *under, text_t *why) {
  text_t line = {NULL, 0, 0, false};
  bool fine = add_program(command, "gdb", why) && texts_add(command, "-q");
  if (fine && find_printers(&line)) {
    text_t source = {NULL, 0, 0, false};
    text_add(&source, "source %s", text_get(&line));
    fine = texts_add(command, "-ex") && texts_add(command, text_get(&source));
    text_free(&source);
  }
  text_clear(&line);
  text_add(&line, "break %s", under->breakpoint ? under->breakpoint : "");
  if (under->breakpoint)
    fine = fine && texts_add(command, "-ex") && texts_add(command, "set breakpoint pending on") &&
           texts_add(command, "-ex") && texts_add(command, text_get(&line)) &&
           texts_add(command, "-ex") && texts_add(command, "run");
  text_free(&line);
  return fine && texts_add(command, "--args");
}

static bool add_self(texts_t *command, const reexec_t *under, int argc, char **argv) {
  text_t own = {NULL, 0, 0, false};
  bool fine = system_own_folder(&own);
  text_add(&own, "/tenon");
  fine = fine && texts_add(command, text_get(&own));
  for (int i = 0; i < argc && fine; i++) {
    bool is_left_out = false;
    for (const char *const *option = under->left_out; *option; option++)
      is_left_out |= strcmp(argv[i], *option) == 0;
    if (!is_left_out) fine = texts_add(command, argv[i]);
  }
  text_free(&own);
  return fine;
}

/* Sets LD_PRELOAD to the sanitizer run-time libraries that must be loaded before the operator
 * libraries. */
static bool preload_sanitizers(const reexec_t *under, text_t *why) {
  text_t list = {NULL, 0, 0, false};
  bool fine = true;
  for (int32_t i = 0; i < under->libraries->count && fine; i++) {
    text_t path = {NULL, 0, 0, false};
    char *runtime = NULL;
    library_path(under->libraries->items[i], &path);
    if (tenon_library_sanitizer(text_get(&path), &runtime) != TENON_OK) {
      text_add(why, "%s", tenon_error());
      fine = false;
    } else if (runtime && *runtime && !strstr(text_get(&list), runtime))
      text_add(&list, "%s%s", list.size ? ":" : "", runtime);
    tenon_text_release(runtime);
    text_free(&path);
  }
  if (fine && !list.size) {
    text_add(why, "--sanitizer: none of the libraries was built with a sanitizer");
    fine = false;
  }
  if (fine) process_set("LD_PRELOAD", text_get(&list));
  text_free(&list);
  return fine;
}

bool reexec_under(const reexec_t *under, int argc, char **argv, text_t *why) {
  texts_t command = {NULL, 0, 0};
  if (!under->gdb && !under->valgrind && !under->sanitizer) return true;
  bool fine = !under->sanitizer || preload_sanitizers(under, why);
  if (fine && under->gdb) fine = add_gdb(&command, under, why);
  if (fine && under->valgrind) fine = add_program(&command, "valgrind", why);
  if (fine && !add_self(&command, under, argc, argv)) {
    text_add(why, "out of memory");
    fine = false;
  }
  if (fine) (void)process_become(&command, why);
  texts_free(&command);
  return false;
}
