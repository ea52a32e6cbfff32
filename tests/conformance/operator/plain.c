/* Checks the plain call of each example. */
#include <stdio.h>
#include <string.h>

#include "run.h"

/* The id for a failed call, derived from the host's error message. */
static const char *id_of(const char *error) {
  if (strstr(error, "infer said at most")) return "shapes.bound";
  if (strstr(error, "did not state the shape of result")) return "write.unwritten";
  return NULL;
}

/* If the plain call crashes, tells whether absent optional inputs are the cause: then the call with
 * all of them works. */
static bool works_with_all(const subject_t *subject) {
  tn_example_options_t o = {.rank = -1};
  example_t t;
  ran_t ran = {.status = TENON_INVALID};
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (subject->op->schema.inputs[i].is_optional) o.has |= (uint64_t)1 << i;
  if (!o.has || !example_make(subject, &o, options.seed, "all_given", &t)) return false;
  if (t.is_taken) run_plainly(&t, &ran);
  ran_free(&ran);
  example_free(&t);
  return ran.status == TENON_OK;
}

/* Whether the operator is one of core that may take a list as a value, which no example can state:
 * those have tests of their own. In other libraries an open type says nothing about lists. */
static bool may_take_list(const subject_t *subject) {
  bool found = false;
  if (strncmp(subject->op->name, "core::", 6) != 0) return false;
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    found |= subject->op->types.inputs[i].kind == TN_TYPE_OPEN &&
             subject->op->schema.inputs[i].kind == TENON_KIND_TENSOR;
  return found;
}

/* An operator of which no call succeeds is not checked at all, and so has not passed. Saved calls
 * (--samples) take the place of these, and --case ID@LABEL may leave all of them out. */
static void require_success(const subject_t *subject, const char *why) {
  if (may_take_list(subject) || has_findings() || options.samples || !is_label_chosen("")) return;
  doing(NULL, NULL, "");
  finding(NULL, "samples.missing", "one call succeeds, so that the operator can be checked",
          "declare calls that the operator accepts by TENON_SAMPLES, or mend the operator",
          "no call succeeds, so nothing was checked: %s", why);
}

static void check_plain(const subject_t *subject) {
  bool needs_optional = works_with_all(subject);
  bool has_success = false;
  char why[600] = "no call could be made";
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_any(&all));) {
    if (!is_sample_good(t)) {
      snprintf(why, sizeof why, "%s", t->why);
      continue;
    }
    ran_t ran;
    run_way(t, &(way_t){.crash_id = needs_optional ? "optional.absent" : NULL}, &ran);
    has_success |= ran.status == TENON_OK;
    if (ran.status != TENON_OK) snprintf(why, sizeof why, "%.599s", ran.error);
    if (ran.status != TENON_OK && (subject->op->samples.count || id_of(ran.error)))
      finding(
          t, id_of(ran.error), "a call with arguments that infer accepts succeeds",
          "let infer refuse what the kernel cannot do, or declare suitable calls by TENON_SAMPLES",
          "the call fails: %s", ran.error);
    else if (ran.status != TENON_OK)
      note(
          t, "samples.missing",
          "the call made from the schema alone fails, so little was checked: add TENON_SAMPLES: %s",
          ran.error);
    ran_free(&ran);
  }
  if (!has_success) require_success(subject, why);
}

const check_t checks_plain[] = {
    {"call.plain", "A call of each example succeeds and returns.",
     "samples.valid samples.missing failure.status failure.silent shapes.bound crash.signal "
     "crash.abort crash.exit crash.hang crash.stack "
     "crash.throws alias.inplace alias.undeclared attrs.changed workspace.over workspace.under "
     "workspace.temporary optional.absent",
     NULL, check_plain},
    {NULL, NULL, NULL, NULL, NULL}};
