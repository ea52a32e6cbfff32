/* plain: calls as they are meant to be, of each sample. */
#include <string.h>

#include "run.h"

/* Why a call failed, by what the host said of it. */
static const char *id_of(const char *error) {
  if (strstr(error, "infer said at most")) return "shapes.bound";
  if (strstr(error, "did not state the shape of result")) return "write.unwritten";
  return NULL;
}

static void plain(const subject_t *subject) {
  trials_t all = trials(subject, false);
  for (trial_t *t; (t = trials_any(&all));) {
    if (!is_sample_good(t)) continue;
    ran_t ran;
    run_plainly(t, &ran);
    if (ran.status != TENON_OK && (subject->op->samples.count || id_of(ran.error)))
      finding(t, id_of(ran.error), "a call with arguments that infer takes succeeds",
              "let infer refuse what the kernel cannot do, or state calls that suit it by TENON_SAMPLES",
              "it fails: %s", ran.error);
    else if (ran.status != TENON_OK)
      note(t, "samples.missing",
           "the call that its schema alone says fails, so little was checked: add TENON_SAMPLES: %s", ran.error);
    ran_free(&ran);
  }
}

const check_t checks_plain[] = {
    {"call.plain", "A call of each sample succeeds, and comes back.",
     "samples.valid shapes.bound crash.signal crash.abort crash.exit crash.hang crash.stack crash.throws alias.inplace "
     "alias.undeclared attrs.changed workspace.over workspace.under workspace.temporary",
     NULL, plain},
    {NULL, NULL, NULL, NULL, NULL}};
