/* plain: calls as they are meant to be, of each sample. */
#include <string.h>

#include "run.h"

/* Why a call failed, by what the host said of it. */
static const char *id_of(const char *error) {
  if (strstr(error, "infer said at most")) return "shapes.bound";
  if (strstr(error, "did not state the shape of result")) return "write.unwritten";
  return NULL;
}

/* Is it the optional inputs that are not there, if the call crashes?  It is, where it works with
 * all of them. */
static bool works_with_all(const subject_t *subject) {
  tn_trial_options_t o = {.rank = -1};
  trial_t t;
  ran_t ran = {.status = TENON_INVALID};
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (subject->op->schema.inputs[i].is_optional) o.has |= (uint64_t)1 << i;
  if (!o.has || !trial_make(subject, &o, options.seed, "all_given", &t)) return false;
  if (t.is_taken) run_plainly(&t, &ran);
  ran_free(&ran);
  trial_free(&t);
  return ran.status == TENON_OK;
}

static void plain(const subject_t *subject) {
  bool needs_optional = works_with_all(subject);
  trials_t all = trials(subject, false);
  for (trial_t *t; (t = trials_any(&all));) {
    if (!is_sample_good(t)) continue;
    ran_t ran;
    run_way(t, &(way_t){.crash_id = needs_optional ? "optional.absent" : NULL}, &ran);
    if (ran.status != TENON_OK && (subject->op->samples.count || id_of(ran.error)))
      finding(t, id_of(ran.error), "a call with arguments that infer takes succeeds",
              "let infer refuse what the kernel cannot do, or state calls that suit it by "
              "TENON_SAMPLES",
              "it fails: %s", ran.error);
    else if (ran.status != TENON_OK)
      note(
          t, "samples.missing",
          "the call that its schema alone says fails, so little was checked: add TENON_SAMPLES: %s",
          ran.error);
    ran_free(&ran);
  }
}

const check_t checks_plain[] = {
    {"call.plain", "A call of each sample succeeds, and comes back.",
     "samples.valid shapes.bound crash.signal crash.abort crash.exit crash.hang crash.stack "
     "crash.throws alias.inplace alias.undeclared attrs.changed workspace.over workspace.under "
     "workspace.temporary optional.absent",
     NULL, plain},
    {NULL, NULL, NULL, NULL, NULL}};
