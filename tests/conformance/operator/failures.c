/* Checks failure handling: if a host service fails during a call, the call must report the failure,
 * and the next call must work. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "probe.h"
#include "run.h"

enum { MOST = 40 /* services of a call that are made to fail, one at a time */ };

static const char *lacks_services(const subject_t *subject) {
  if (!subject_runs_code(subject)) return "it has no kernel";
  if (!(subject->op->traits & TENON_PURE) || subject->op->traits & TENON_RANDOM)
    return "equal calls do not return equal results";
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (subject->op->schema.inputs[i].is_written) return "it writes to an input";
  return NULL;
}

static int64_t count_services(example_t *example, ran_t *ran) {
  probe.services = probe.fail_service = 0;
  run_plainly(example, ran);
  return probe.services;
}

/* Calls once with the n-th service failing, then once normally. */
static void fail_one(example_t *example, const ran_t *expected, int64_t n) {
  ran_t ran, next;
  char service[sizeof probe.failed_service];
  probe.services = probe.failed_services = 0;
  probe.fail_service = n;
  run_way(example, &(way_t){.crash_id = "failure.swallowed"}, &ran);
  probe.fail_service = 0;
  snprintf(service, sizeof service, "%s", probe.failed_services ? probe.failed_service : "none");
  const char *differs = ran.status == TENON_OK && probe.failed_services
                            ? ran_differs(example, expected, &ran, 1)
                            : NULL;
  if (differs)
    finding(
        example, "failure.swallowed",
        "a kernel returns an error if a host service fails, or works without that service",
        "use TENON_TRY around services that return a status, and compare returned memory with NULL",
        "host->%s failed (service call %lld), the kernel returned TENON_OK, and %s", service,
        (long long)n, differs);
  ran_free(&ran);
  if (differs || !probe.failed_services) return;
  run_way(example, &(way_t){.crash_id = "failure.next"}, &next);
  differs = next.status == TENON_OK ? ran_differs(example, expected, &next, 1) : next.error;
  if (differs)
    finding(example, "failure.next", "the call after a failed call works normally",
            "undo what the kernel had begun when it returns early", "after host->%s had failed: %s",
            service, differs);
  ran_free(&next);
}

/* Makes a call with an input that is refused, then a valid call. */
static void refuse_one(example_t *example, const ran_t *expected) {
  const tenon_op_t *op = example->op;
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS];
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *other = NULL;
  memcpy(inputs, example->inputs, sizeof inputs);
  if (!op->input_count || !inputs[0] || op->schema.inputs[0].kind == TENON_KIND_TENSORS) return;
  int64_t shape[7] = {1, 2, 1, 3, 1, 2, 1};
  if (tenon_tensor_create(tenon_dtype(TENON_F8E8M0), 7, shape, &other) != TENON_OK) return;
  inputs[0] = other;
  call_doing(example, "failure.next", "with an input that is refused, then again");
  tenon_status_t status = tenon_op_call(op, example->attrs, inputs, outputs, 0);
  for (uint32_t o = 0; o < op->output_count; o++)
    tenon_tensor_release(outputs[o]);
  tenon_tensor_release(other);
  if (status == TENON_OK) return;
  ran_t next;
  run_way(example, &(way_t){.crash_id = "failure.next"}, &next);
  const char *differs =
      next.status == TENON_OK ? ran_differs(example, expected, &next, 1) : next.error;
  if (differs)
    finding(example, "failure.next", "the call after a failed call works normally",
            "undo what infer or create had begun", "after a call that was refused: %s", differs);
  ran_free(&next);
}

static void run_failures(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; !has_findings() && (t = examples_next(&all));) {
    ran_t expected;
    int64_t services = count_services(t, &expected);
    for (int64_t n = 1;
         n <= services && n <= MOST && expected.status == TENON_OK && !has_findings(); n++)
      fail_one(t, &expected, n);
    if (expected.status == TENON_OK && !has_findings()) refuse_one(t, &expected);
    ran_free(&expected);
  }
}

const check_t checks_failures[] = {
    {"failure.services",
     "If a host service fails, the call fails or works without it, and the next call works.",
     "failure.swallowed failure.next", lacks_services, run_failures},
    {NULL, NULL, NULL, NULL, NULL}};
