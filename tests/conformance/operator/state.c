/* Checks that states are destroyed, and that a call frees what it allocates. */
#include <stdio.h>
#include <string.h>

#include "base/source.h"
#include "base/text.h"
#include "intercept.h"
#include "probe.h"
#include "run.h"

enum {
  WARM = 4,
  ROUNDS = 16,
};

/* Calls once; inputs that are written to are copied first. */
static bool call_once(example_t *t) {
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  for (uint32_t i = 0; i < t->op->input_count; i++)
    inputs[i] = t->inputs[i] && t->op->schema.inputs[i].is_written ? tensor_dense(t->inputs[i])
                                                                   : t->inputs[i];
  tenon_status_t status = tenon_op_call(t->op, t->attrs, inputs, outputs, 0);
  for (uint32_t o = 0; o < t->op->output_count; o++)
    tenon_tensor_release(outputs[o]);
  for (uint32_t i = 0; i < t->op->input_count; i++)
    if (inputs[i] != t->inputs[i]) tenon_tensor_release(inputs[i]);
  return status == TENON_OK;
}

/* Creates and destroys a state, so that memory which these functions keep is detected, too. */
static bool call_bound(example_t *t) {
  tenon_bound_t *bound = NULL;
  if (!t->op->create) return true;
  if (tenon_bound_create(t->op, t->attrs, &bound) != TENON_OK) return false;
  tenon_bound_release(bound);
  return true;
}

static void name_place(void *address, tn_text_t *text) {
  tn_sources_t *sources = tn_sources_open();
  tn_source_at(sources, (uintptr_t)address - 1, text);
  tn_sources_close(sources);
}

/* Checks that destroy frees what create allocates. */
static void check_memory(example_t *t) {
  int64_t bytes = 0;
  void *address;
  tn_text_t place = {0};
  for (int i = 0; i < WARM; i++)
    if (!call_bound(t)) return;
  intercept_begin(true);
  for (int i = 0; i < ROUNDS; i++)
    call_bound(t);
  intercept_end();
  int64_t count = intercept_live(&bytes, &address);
  if (count < ROUNDS) return;
  name_place(address, &place);
  finding(t, NULL, "destroy frees all memory that create allocated", "free every part of the state",
          "%d states left %lld blocks of %lld bytes, allocated in %s", ROUNDS, (long long)count,
          (long long)bytes, tn_text_get(&place));
  tn_text_clear(&place);
}

static void check_balance(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_next(&all));) {
    tenon_bound_t *bound = NULL;
    tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
    doing(t, NULL, "a bound call is created, called and released");
    for (int i = 0; i < 3; i++) {
      probe.creates = probe.destroys = 0;
      if (tenon_bound_create(t->op, t->attrs, &bound) != TENON_OK) break;
      tenon_status_t status = tenon_bound_call(bound, t->inputs, outputs, 0);
      for (uint32_t o = 0; o < t->op->output_count && status == TENON_OK; o++) {
        tenon_tensor_release(outputs[o]);
        outputs[o] = NULL;
      }
      tenon_bound_release(bound);
      if (probe.creates != probe.destroys)
        finding(t, NULL, "each state that create makes is destroyed once", "correct TENON_STATE",
                "%lld states were created, %lld destroyed", (long long)probe.creates,
                (long long)probe.destroys);
    }
    if (!has_findings()) check_memory(t);
  }
}

static void check_leaks(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_next(&all));) {
    char text[1400];
    example_describe(t, NULL, text, sizeof text);
    doing(t, NULL, text);
    for (int i = 0; i < WARM; i++)
      if (!call_once(t) || !call_bound(t)) break;
    int64_t bytes = 0;
    void *address;
    bool fine = true;
    intercept_begin(true);
    for (int i = 0; i < ROUNDS && fine; i++)
      fine = call_once(t) && call_bound(t);
    intercept_end();
    int64_t count = fine ? intercept_live(&bytes, &address) : 0;
    if (count < ROUNDS) continue;
    tn_text_t place = {0};
    name_place(address, &place);
    finding(t, NULL, "memory that a call allocates is freed when it returns",
            "free the memory, or allocate it by host->allocate",
            "%d calls left %lld blocks of %lld bytes, allocated in %s", ROUNDS, (long long)count,
            (long long)bytes, tn_text_get(&place));
    tn_text_clear(&place);
  }
}

/* Reports requests that a kernel makes to the system. They are not failures, but the host could
 * serve them better. */
static void note_requests(const subject_t *subject) {
  examples_t all = examples(subject, false);
  example_t *t = examples_next(&all);
  if (!t) return;
  doing(t, NULL, "a call, twice");
  bool fine = call_once(t);
  intercept_begin(false);
  fine = fine && call_once(t);
  intercept_end();
  const request_place_t *places;
  int32_t count = intercept_requests(&places);
  for (int32_t i = 0; i < count && i < 8 && fine; i++) {
    tn_text_t place = {0};
    char id[40];
    name_place(places[i].address, &place);
    snprintf(id, sizeof id, "run.%s", places[i].what);
    note(t, id,
         places[i].bytes ? "run itself calls %s for %lld bytes, in %s: a workspace, or "
                           "host->allocate, would be reused"
                         : "run itself calls %s (%lld bytes), in %s",
         places[i].what, (long long)places[i].bytes, tn_text_get(&place));
    tn_text_clear(&place);
  }
  example_free(&all.now);
}

static const char *lacks_state(const subject_t *s) {
  return s->op->create ? NULL : "the operator has no state";
}
static const char *lacks_code(const subject_t *s) {
  return subject_runs_code(s) ? NULL : "a view runs no code";
}

const check_t checks_state[] = {
    {"state.balance", "Each state that is created is destroyed.", NULL, lacks_state, check_balance},
    {"memory.leak", "Calls, including states, free what they allocate.", NULL, lacks_code,
     check_leaks},
    {"run.asks", "Notes: memory, threads and files that a kernel requests from the system.", NULL,
     lacks_code, note_requests},
    {NULL, NULL, NULL, NULL, NULL}};
