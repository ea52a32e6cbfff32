/* check_operator runs the conformance suite on the operators of a library. `tenon check LIB.so`
 * executes it. */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"
#include "recorded.h"
#include "report.h"
#include "supervise.h"
#include "system.h"

#include "core/nearest.h"
#include "registry/registry.h"

options_t options = {.seed = 1, .limit = 10};

static void print_usage(FILE *to) {
  fputs("usage: check_operator LIB.so [OP...] [option]...\n       check_operator --builtin [OP...] "
        "[option]...\n\nChecks the operators of a library against their declarations, in "
        "child processes.\n\n  --case ID        run only this check, or those whose id begins "
        "with ID (\"strides.\"); with @LABEL only that call; may be repeated\n  --except [OP:]ID "
        "ignore known findings of this id, on all operators or on OP; may be repeated\n  --seed N  "
        "       seed of generated values (default: 1)\n  --limit SECONDS  time after which a check "
        "counts as hanging (default: 10)\n  --quick          try one call instead of several\n  "
        "--first          stop at the first finding\n  --list           list the checks and what "
        "they test; needs no library\n  --verbose, -v    print one line for each check\n  -j N     "
        "        number of processes to run at once (default: all processors)\n  --no-notes       "
        "print findings only, no notes\n  --samples DIR    also try the saved calls in DIR\n  "
        "--with FILE.py   the Python file that generated --samples: python -m tenon check LIB.so "
        "--with FILE.py sets both\n  --save DIR       save the calls that would be tried as "
        "folders, without results, and check nothing\n  --json           print the results as "
        "JSON\n  --junit FILE     also write the results to FILE as JUnit XML\nExit status: 0: no "
        "findings; 1: findings; 2: the library cannot be checked.\n",
        to);
}

static int list_checks(void) {
  int count = 0;
  for (const check_t *const *group = check_groups; *group; group++)
    for (const check_t *c = *group; c->id; c++, count++) {
      printf("%-22s %s\n", c->id, c->about);
      if (c->also) printf("%-22s also: %s\n", "", c->also);
    }
  printf("%d checks\n", count);
  return 0;
}

/* Calls `see` with the id of each check, and with each other id that it reports, until one call
 * returns true. Returns whether one did. */
static bool find_id(bool (*see)(const char *id, void *context), void *context) {
  char id[64];
  for (const check_t *const *group = check_groups; *group; group++)
    for (const check_t *c = *group; c->id; c++) {
      if (see(c->id, context)) return true;
      for (const char *at = c->also; at && *at; at += strspn(at, " ")) {
        size_t size = strcspn(at, " ");
        snprintf(id, sizeof id, "%.*s", (int)size, at);
        if (see(id, context)) return true;
        at += size;
      }
    }
  return false;
}

static bool begins_so(const char *id, void *context) {
  const char *words = context;
  return strncmp(id, words, strlen(words)) == 0;
}

static bool offer_id(const char *id, void *context) {
  tn_nearest_offer(context, id);
  return false;
}

/* Whether each --case selects checks; else reports the first one that does not. */
static bool are_cases_known(void) {
  for (int32_t i = 0; i < options.case_count; i++) {
    char words[64];
    tn_nearest_t nearest;
    snprintf(words, sizeof words, "%.*s", (int)strcspn(options.cases[i], "@"), options.cases[i]);
    if (find_id(begins_so, words)) continue;
    tn_nearest_begin(&nearest, words, strlen(words));
    (void)find_id(offer_id, &nearest);
    (void)report_refusal("--case %s: no check has an id that begins so%s; `tenon check --list` "
                         "lists the checks",
                         options.cases[i], tn_nearest_say(&nearest));
    return false;
  }
  return true;
}

static int read_options(int count, char **arguments) {
  enum {
    CASE = 256,
    EXCEPT,
    SEED,
    LIMIT,
    QUICK,
    FIRST,
    LIST,
    JSON,
    JUNIT,
    NOTES,
    SAMPLES,
    SAVE,
    WITH,
    BUILTIN,
    HELP,
  };
  static const struct option known[] = {{"case", 1, 0, CASE},
                                        {"except", 1, 0, EXCEPT},
                                        {"seed", 1, 0, SEED},
                                        {"limit", 1, 0, LIMIT},
                                        {"quick", 0, 0, QUICK},
                                        {"first", 0, 0, FIRST},
                                        {"list", 0, 0, LIST},
                                        {"json", 0, 0, JSON},
                                        {"junit", 1, 0, JUNIT},
                                        {"no-notes", 0, 0, NOTES},
                                        {"samples", 1, 0, SAMPLES},
                                        {"save", 1, 0, SAVE},
                                        {"with", 1, 0, WITH},
                                        {"builtin", 0, 0, BUILTIN},
                                        {"verbose", 0, 0, 'v'},
                                        {"help", 0, 0, HELP},
                                        {0, 0, 0, 0}};
  bool is_builtin = false;
  for (int word; (word = getopt_long(count, arguments, "vj:", known, NULL)) != -1;)
    switch (word) {
    case CASE:
      if (options.case_count < 64) options.cases[options.case_count++] = optarg;
      break;
    case EXCEPT:
      if (options.except_count < 64) options.excepts[options.except_count++] = optarg;
      break;
    case SEED:
      options.seed = strtoull(optarg, NULL, 0);
      break;
    case LIMIT:
      options.limit = atof(optarg);
      break;
    case QUICK:
      options.quick = true;
      break;
    case FIRST:
      options.first = true;
      break;
    case LIST:
      options.list = true;
      break;
    case JSON:
      options.json = true;
      break;
    case JUNIT:
      options.junit = optarg;
      break;
    case NOTES:
      options.no_notes = true;
      break;
    case SAMPLES:
      options.samples = optarg;
      break;
    case SAVE:
      options.save = optarg;
      break;
    case WITH:
      options.with = optarg;
      break;
    case BUILTIN:
      is_builtin = true;
      break;
    case 'v':
      options.verbose = true;
      break;
    case 'j':
      options.jobs = atoi(optarg);
      break;
    case HELP:
      print_usage(stdout);
      exit(0);
      return 0;
    default:
      print_usage(stderr);
      return 2;
    }
  if (options.list) return 0;
  if (!is_builtin && optind < count) options.library = arguments[optind++];
  if ((!is_builtin && !options.library) || !(options.limit > 0)) {
    print_usage(stderr);
    return 2;
  }
  while (optind < count && options.op_count < 64)
    options.ops[options.op_count++] = arguments[optind++];
  if (options.jobs < 1) options.jobs = system_processors();
  return 0;
}

static subject_t *subjects;
static int32_t subject_count;
static uint64_t ops_found; /* bit i: options.ops[i] exists */

static bool is_asked(const tenon_op_t *op) {
  bool asked = options.op_count == 0;
  for (int32_t i = 0; i < options.op_count; i++)
    if (strcmp(options.ops[i], op->name) == 0 ||
        strcmp(options.ops[i], op->name + strlen(op->schema.ns) + 2) == 0) {
      asked = true;
      ops_found |= (uint64_t)1 << i;
    }
  return asked;
}

static bool is_twin(const char *name) {
  size_t size = strlen(name);
  size_t ending = strlen("_reference");
  char of[600];
  const tenon_op_t *op;
  if (size <= ending || strcmp(name + size - ending, "_reference") != 0) return false;
  snprintf(of, sizeof of, "%.*s", (int)(size - ending), name);
  return tenon_op_find(of, &op) == TENON_OK;
}

/* A bridge that reads foreign libraries adds operators of its own, `_backward_name` and
 * `name.list`, for which the foreign library declares neither gradients nor which items of a list
 * are written. They are checked only if they are named. */
static bool is_of_bridge(const tenon_op_t *op) {
  if (options.op_count || !op->library || !op->library->path[0]) return false;
  bool is_helper =
      strncmp(op->schema.name, "_backward_", 10) == 0 || strcmp(op->schema.overload, "list") == 0;
  void *file = is_helper ? dlopen(op->library->path, RTLD_NOW | RTLD_NOLOAD) : NULL;
  bool is_own = !is_helper || !file || dlsym(file, "tenon_library");
  if (file) dlclose(file);
  return !is_own;
}

static void add_subject(const tenon_op_t *op) {
  char twin[600];
  if (is_twin(op->name) || is_of_bridge(op) || !is_asked(op)) return;
  subjects = realloc(subjects, (size_t)(subject_count + 1) * sizeof *subjects);
  if (!subjects) abort();
  subject_t *s = &subjects[subject_count++];
  *s = (subject_t){op, NULL, op->name};
  snprintf(twin, sizeof twin, "%s_reference", op->name);
  if (op->reference && tenon_op_find(twin, &s->reference) != TENON_OK) s->reference = NULL;
}

static bool collect_library(const tn_library_t *library) {
  for (uint32_t i = 0; i < library->op_count; i++)
    add_subject(library->ops[i]);
  for (uint32_t i = 0; i < library->extension_count; i++) {
    const tn_extension_t *e = &library->extensions[i];
    bool is_on_cpu = false;
    for (const tn_kernel_t *k = e->first; k; k = k == e->last ? NULL : k->next)
      is_on_cpu |= !k->words.device || strcmp(k->words.device, "cpu") == 0;
    if (e->op && e->op->library != library && is_on_cpu) add_subject(e->op);
  }
  return true;
}

static bool collect_subjects(void) {
  tenon_library_t *library = NULL;
  if (options.library) {
    if (tenon_library_load(options.library, 0, &library) != TENON_OK) return false;
    return collect_library((const tn_library_t *)library);
  }
  const tenon_op_t *const *ops;
  int32_t count;
  if (tenon_ops_list(&ops, &count) != TENON_OK) return false;
  for (int32_t i = 0; i < count; i++)
    add_subject(ops[i]);
  tenon_ops_release(ops);
  return true;
}

/* Finds the bridges beside libtenon, which is linked into this program: in the build folder, or in
 * lib of an installation. */
static void find_bridges(void) {
  static const char *const places[] = {"../bridges", "../../lib/tenon/bridges",
                                       "../../" TENON_LIBDIR "/tenon/bridges"};
  text_t own = {NULL, 0, 0, false};
  text_t path = {NULL, 0, 0, false};
  bool found = !system_own_folder(&own);
  for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
    text_clear(&path);
    text_add(&path, "%s/%s", text_get(&own), places[i]);
    found = system_is_folder(text_get(&path));
    if (found) setenv("TENON_BRIDGE_PATH", text_get(&path), 0);
  }
  text_free(&own);
  text_free(&path);
}

/* Called in the supervisor. The report on stdout is complete if the checks are done. */
static void report_end_of_child(const char *message, bool is_done) {
  if (is_done)
    fprintf(stderr, "check_operator: %s\n", message);
  else
    (void)report_refusal("%s", message);
}

static void supervise(void) {
  static supervise_t settings = {.failed = 2, .report = report_end_of_child};
  settings.limit_ms = options.limit * 1e3;
  supervise_begin(&settings);
}

static int save_samples(void) {
  for (int32_t i = 0; i < subject_count; i++)
    if (!samples_save(&subjects[i], options.save)) return 2;
  return 0;
}

/* Starts the runtime and loads the library. Returns 0 or the exit status. */
static int load_subjects(void) {
  if (!options.library) tn_registry_around = probe_descriptor;
  if (tenon_start() != TENON_OK) return report_refusal("%s", tenon_error());
  tn_registry_around = probe_descriptor;
  supervise_loading(options.library ? options.library : "the built-in operators");
  if (!collect_subjects()) return report_refusal("%s", tenon_error());
  supervise_loaded();
  tn_registry_around = NULL;
  for (int32_t i = 0; i < options.op_count; i++)
    if (!(ops_found >> i & 1))
      return report_refusal("operator %s does not exist in %s", options.ops[i],
                            options.library ? options.library : "the built-in operators");
  if (!subject_count)
    return report_refusal("%s has no operators with kernels for the CPU", options.library);
  return 0;
}

static int check_subjects(void) {
  int code = load_subjects();
  if (code) return code;
  if (options.save) return save_samples();
  if (options.samples && access(options.samples, R_OK | X_OK) != 0)
    return report_refusal("--samples %s: %s", options.samples, strerror(errno));
  report_begin();
  if (!run_all(subjects, subject_count, report_outcome))
    return report_refusal("the checks could not be run to their end");
  if (!report_has_outcome()) return report_refusal("the selection is empty: no check was run");
  if (!is_label_chosen("") && !boards_have_call(options.jobs))
    return report_refusal("--case ...@LABEL: no call has one of these labels; `tenon check -v` "
                          "without a label prints the calls that have findings, with their labels");
  return report_end();
}

int main(int count, char **arguments) {
  int code = read_options(count, arguments);
  if (code) return code;
  if (options.list) return list_checks();
  if (!are_cases_known()) return 2;
  /* Several processes run at once, so waiting threads of oneDNN's OpenMP must not spin. */
  if (!getenv("OMP_WAIT_POLICY")) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    execv("/proc/self/exe", arguments);
  }
  supervise();
  find_bridges();
  tenon_threads_set(2);
  code = check_subjects();
  fflush(stdout);
  return supervise_finished(code);
}
