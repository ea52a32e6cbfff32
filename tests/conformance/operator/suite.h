/* The conformance suite of operators: the definition of a check, its input, and the functions that
 * report findings.
 *
 * A check is a function that runs on one operator in a child process. It makes calls (example.h),
 * runs them in a special way (run.h), compares the results, and reports defects by finding(). A
 * crash during a check is a finding, too. */
#ifndef CHECK_SUITE_H
#define CHECK_SUITE_H

#include <stdbool.h>
#include <tenon/tenon.h>

typedef struct subject_t { /* an operator under test */
  const tenon_op_t *op;
  const tenon_op_t *reference; /* the twin that runs TENON_REFERENCE; NULL: none */
  const char *name;
} subject_t;

typedef struct options_t {
  const char *library; /* NULL: the built-in operators */
  const char *samples; /* folder of recorded calls; NULL: none */
  const char *ops[64];
  const char *cases[64];
  const char *excepts[64];
  int32_t op_count;
  int32_t case_count;
  int32_t except_count;
  uint64_t seed;
  double limit; /* time limit of one check in seconds */
  int32_t jobs;
  bool quick;
  bool first;
  bool list;
  bool json;
  bool verbose;
  bool no_notes;
  const char *junit; /* file for JUnit XML; NULL: none */
  const char *with;  /* the Python file that generated --samples; NULL: none */
  const char *save;  /* folder in which the calls are saved instead of being tried; NULL: none */
} options_t;
extern options_t options;

typedef struct check_t {
  const char *id;    /* "write.outside" */
  const char *about; /* description for --list */
  const char *also;  /* other ids that the check reports, separated by spaces; NULL: none */
  /* Returns the reason why the check does not apply to an operator, or NULL if it applies. May
   * be NULL. */
  const char *(*lacks)(const subject_t *subject);
  void (*run)(const subject_t *subject);
} check_t;
/* Each group ends with id NULL; the list ends with NULL. */
extern const check_t *const check_groups[];

struct example_t;
/* Reports a finding. `id` NULL: the check's own id. `example` NULL: no particular call. `expected`
 * and `found` are printed after these words; `advice` says what to do. Only the first finding of an
 * id counts for one operator and example. */
void finding(const struct example_t *example, const char *id, const char *expected,
             const char *advice, const char *found, ...) TENON_FORMAT(5, 6);
/* Reports a defect that can be observed in any call: under `id` if the plain or the guarded calls
 * show it, else under the id of the running check. */
void finding_by_the_way(const struct example_t *example, const char *id, const char *expected,
                        const char *advice, const char *found, ...) TENON_FORMAT(5, 6);
/* Reports a remark that is not a failure. */
void note(const struct example_t *example, const char *id, const char *text, ...)
    TENON_FORMAT(3, 4);
/* States what is done next, for crash reports. `crash_id` NULL: the check's own id. */
void doing(const struct example_t *example, const char *crash_id, const char *how);
/* Whether this check has reported a finding. */
bool has_findings(void);

/* Whether --case selects the call with this label, or selects no particular call. */
bool is_label_chosen(const char *label);

/* Whether equal calls return equal results, given equal seeds. */
bool subject_is_pure(const subject_t *subject);
bool subject_runs_code(const subject_t *subject); /* it has a kernel, so it is not a view */
bool subject_has_floats(const subject_t *subject, bool outputs);

#endif
