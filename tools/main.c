/* The `tenon` command: finds the verb that is named and calls its function. The table here is the
 * only list of verbs; they are defined in tools/verbs. Exit codes: 0 success, 1 failure, 2 wrong
 * usage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "installation.h"
#include "options.h"
#include "print_error.h"
#include "supervise.h"
#include "verbs/verb.h"

static const verb_t *const verbs[] = {
    &verb_new,     &verb_build,  &verb_ops,     &verb_show,    &verb_run,    &verb_model,
    &verb_check,   &verb_bench,  &verb_watch,   &verb_compare, &verb_replay, &verb_verify,
    &verb_devices, &verb_export, &verb_convert, &verb_compile, &verb_pack,   &verb_doctor};
enum { VERB_COUNT = sizeof verbs / sizeof *verbs };

static void print_help(void) {
  printf("usage: tenon VERB [option]... [argument]...\n\nBuilds, checks and runs Tenon operators, "
         "and runs ONNX models.\n\nverbs:\n");
  for (int i = 0; i < VERB_COUNT; i++)
    printf("  %-9s%s\n", verbs[i]->name, verbs[i]->summary);
  printf("\n`tenon VERB --help` describes a verb.  `tenon --version` prints the version, `tenon "
         "--include` the folder of the\nheaders, and `tenon --cmake` the folder of the CMake "
         "package.\n");
}

static int print_unknown_verb(const char *name) {
  const char *names[VERB_COUNT];
  for (int i = 0; i < VERB_COUNT; i++)
    names[i] = verbs[i]->name;
  const char *nearest = text_nearest(name, names, VERB_COUNT);
  if (nearest)
    return print_usage_error(NULL, "unknown verb '%s'; did you mean '%s'?", name, nearest);
  text_t all = {NULL, 0, 0, false};
  for (int i = 0; i < VERB_COUNT; i++)
    text_add(&all, "%s%s", i ? ", " : "", names[i]);
  int code =
      print_usage_error(NULL, "unknown verb '%s'; expected one of: %s", name, text_get(&all));
  text_free(&all);
  return code;
}

/* Prints a folder of the installation, for use in makefiles. */
static int print_folder(bool (*find)(text_t *out_folder, text_t *why)) {
  text_t folder = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  bool fine = find(&folder, &why);
  int code = EXIT_FINE;
  if (fine)
    puts(text_get(&folder));
  else
    code = print_failure("%s", text_get(&why));
  text_free(&folder);
  text_free(&why);
  return code;
}

static int run_command_line(int argc, char **argv) {
  if (argc < 2) return print_usage_error(NULL, "a verb is missing: `tenon --help` lists the verbs");
  const char *name = argv[1];
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    printf("tenon %s\n", tenon_version());
    return EXIT_FINE;
  }
  if (strcmp(name, "--include") == 0) return print_folder(installation_include);
  if (strcmp(name, "--cmake") == 0) return print_folder(installation_cmake);
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    print_help();
    return EXIT_FINE;
  }
  if (strcmp(name, "help") == 0) {
    if (argc == 2) {
      print_help();
      return EXIT_FINE;
    }
    char help[] = "--help";
    char *line[] = {argv[2], help, NULL};
    for (int i = 0; i < VERB_COUNT; i++)
      if (strcmp(verbs[i]->name, argv[2]) == 0) return verbs[i]->run(verbs[i], 2, line);
    return print_unknown_verb(argv[2]);
  }
  if (name[0] == '-')
    return print_usage_error(
        NULL, "unknown option '%s'; expected a verb, --help, --version, --include or --cmake",
        name);
  for (int i = 0; i < VERB_COUNT; i++)
    if (strcmp(verbs[i]->name, name) == 0) return verbs[i]->run(verbs[i], argc - 1, argv + 1);
  return print_unknown_verb(name);
}

int main(int argc, char **argv) {
  const char *crash = getenv("TENON_CRASH");
  if (!crash || strcmp(crash, "0") != 0) (void)tenon_crash_report(1);
  int code = run_command_line(argc, argv);
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_FINE)
    code = print_failure("cannot write to standard output");
  (void)supervise_finished(code); /* from here on only functions run that end the process */
  tenon_shutdown();               /* so that a leak checker reports only real leaks */
  return code;
}
