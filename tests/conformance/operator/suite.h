/* suite.h: the conformance suite of operators: what a check is, what it is given, and how it says
 * what it found.
 *
 * A check is a function that is run on one operator in a child process.  It makes calls to try
 * (trial.h), has them run in some way that is special (run.h), compares, and says what is wrong by
 * finding().  A crash while it runs is a finding of its own id. */
#ifndef CHECK_SUITE_H
#define CHECK_SUITE_H

#include <stdbool.h>
#include <tenon/tenon.h>

typedef struct subject_t { /* an operator under test */
  const tenon_op_t *op;
  const tenon_op_t *reference; /* the same by TENON_REFERENCE; NULL: none */
  const char *name;
} subject_t;

typedef struct options_t {
  const char *library; /* NULL: the built-in operators */
  const char *samples; /* a folder of recorded calls; NULL: none */
  const char *ops[64];
  const char *cases[64];
  const char *excepts[64];
  int32_t op_count;
  int32_t case_count;
  int32_t except_count;
  uint64_t seed;
  double limit; /* seconds, of one case */
  int32_t jobs;
  bool quick;
  bool first;
  bool list;
  bool json;
  bool verbose;
  bool no_notes;
  const char *junit; /* file; NULL: none */
  const char *with;  /* the Python file that --samples is of; NULL: none */
  const char *save;  /* folder for the calls to try, which are then not tried; NULL: none */
} options_t;
extern options_t options;

typedef struct check_t {
  const char *id;    /* "write.outside" */
  const char *about; /* what it checks, for --list */
  const char *also;  /* other ids that it finds, with spaces between; NULL: none */
  const char *(*lacks)(
      const subject_t
          *subject); /* why it says nothing of this operator; NULL: it does.  May be NULL */
  void (*run)(const subject_t *subject);
} check_t;
extern const check_t *const check_groups[]; /* each ends with id NULL; the list ends with NULL */

struct trial_t;
/* Says what was found; `id` NULL: the check's own.  `trial` NULL: of no call.  `expected` and
 * `found` are sentences' parts; `advice` is what to do.  Only the first of an id counts for one
 * operator and trial. */
void finding(const struct trial_t *trial, const char *id, const char *expected, const char *advice,
             const char *found, ...) TENON_FORMAT(5, 6);
/* The same of what is seen in every call, whatever the check is about: under `id` where the plain
 * call or the guarded ones show it, else under the check's own. */
void finding_by_the_way(const struct trial_t *trial, const char *id, const char *expected,
                        const char *advice, const char *found, ...) TENON_FORMAT(5, 6);
/* A remark that is no failure. */
void note(const struct trial_t *trial, const char *id, const char *text, ...) TENON_FORMAT(3, 4);
/* What is done now: for reports of crashes.  `crash_id` NULL: the check's own. */
void doing(const struct trial_t *trial, const char *crash_id, const char *how);
/* Has anything been found by this check? */
bool has_findings(void);

/* Does --case name the call with this label, or none? */
bool is_label_chosen(const char *label);

/* what operators are */

bool subject_is_pure(
    const subject_t *subject); /* equal calls give equal results, as long as seeds are equal */
bool subject_runs_code(const subject_t *subject); /* it has a kernel: it is no view */
bool subject_has_floats(const subject_t *subject, bool outputs);

#endif
