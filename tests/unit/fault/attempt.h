/* Tries a model that may be damaged: reads it, compiles it and runs it on made-up inputs, with
 * limits on memory and on evaluations of bodies. The fault tests and the fuzzers use it. Invariant,
 * whose violation is reported to the caller: a failure has a message, is not an internal error of
 * Tenon (INTERNAL), and leaves the operators and the executable unchanged. */
#ifndef TENON_TESTS_ATTEMPT_H
#define TENON_TESTS_ATTEMPT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "faults.h"
#include "operator/frame.h"

enum {
  ATTEMPT_PORTS = 64,
  ATTEMPT_EVALUATIONS = 300,
};
#define ATTEMPT_BYTES ((int64_t)64 << 20) /* How many bytes one step may allocate in all. */

/* bounds */

static tenon_status_t (*attempt_evaluate)(tenon_call_t *, const tenon_graph_t *, uint32_t,
                                          tenon_tensor_t *const *, uint32_t, tenon_tensor_t **);
static int attempt_evaluations;

static inline tenon_status_t attempt_bounded(tenon_call_t *call, const tenon_graph_t *graph,
                                             uint32_t input_count, tenon_tensor_t *const *inputs,
                                             uint32_t output_count, tenon_tensor_t **outputs) {
  if (++attempt_evaluations > ATTEMPT_EVALUATIONS)
    return tn_fail(TENON_DEADLINE, "more evaluations than this test allows");
  return attempt_evaluate(call, graph, input_count, inputs, output_count, outputs);
}

static inline void attempt_start(void) {
  if (tenon_start() != TENON_OK) fprintf(stderr, "%s\n", tenon_error());
  tenon_threads_set(1);
  if (tn_evaluate != attempt_bounded) {
    attempt_evaluate = tn_evaluate;
    tn_evaluate = attempt_bounded;
  }
}

static inline void attempt_limit(bool on) {
  fault_limit(on ? ATTEMPT_BYTES : 0);
  attempt_evaluations = 0;
}

/* invariants */

/* Returns a number that changes when an operator is registered or removed. */
static inline uint64_t attempt_operators(void) {
  const tenon_op_t *const *ops = NULL;
  int32_t count = 0;
  uint64_t sum = 14695981039346656037u;
  if (tenon_ops_list(&ops, &count) != TENON_OK) return 0;
  for (int32_t i = 0; i < count; i++)
    sum = (sum ^ (uint64_t)(uintptr_t)ops[i]) * 1099511628211u;
  tenon_ops_release(ops);
  return sum;
}

/* inputs */

static inline void attempt_fill(tenon_tensor_t *t) {
  static const char *const texts[] = {"The cat", "a", "", "x y z", "gr\xc3\xbcn"};
  bool is_float = t->dtype.code != 0 && t->dtype.code != 1 && t->dtype.code != 6;
  if (tn_dtype_is(t->dtype, TENON_STRING)) {
    for (int64_t i = 0, n = tenon_count(t); i < n; i++)
      (void)tenon_tensor_set_string(t, i, texts[i % 5], strlen(texts[i % 5]));
    return;
  }
  uint64_t size = 0;
  if (!tn_dtype_bytes(t->dtype, tenon_count(t), &size)) return;
  memset(t->data, t->dtype.code == 6 ? 1 : 0, (size_t)size);
  for (uint64_t i = 0, step = t->dtype.bits / 8; step && (i + 1) * step <= size; i++) {
    unsigned char *at = (unsigned char *)t->data + i * step;
    if (t->dtype.code == 6) continue;
    if (!is_float) /* 2, 3, 0, 1: small indices, and counts other than 0. */
      at[0] = (unsigned char)((i + 2) % 4);
    else {
      at[step - 1] = (unsigned char)(0x3d + i % 4);
      at[0] = (unsigned char)i;
    }
  }
}

/* Makes inputs as the ports declare them; symbols get that extent. */
static inline bool attempt_inputs(const tenon_graph_t *graph, int64_t extent,
                                  tenon_tensor_t **out_inputs) {
  int32_t count = tenon_graph_input_count(graph);
  memset(out_inputs, 0, ATTEMPT_PORTS * sizeof *out_inputs);
  if (count > ATTEMPT_PORTS || tenon_graph_output_count(graph) > ATTEMPT_PORTS) return false;
  for (int32_t i = 0; i < count; i++) {
    tenon_port_t port = {.size = sizeof port};
    int64_t shape[TENON_RANK_MAX];
    int64_t elements = 1;
    if (tenon_graph_input(graph, i, &port) != TENON_OK) return false;
    for (int32_t d = 0; d < port.ndim; d++) {
      shape[d] = port.axes[d].extent < 0 ? extent : port.axes[d].extent;
      if (!tn_mul(elements, shape[d], &elements) || elements > 1 << 12)
        return false; /* This type is of no interest here. */
    }
    tenon_dtype_t dtype = port.dtype.bits ? port.dtype : tenon_dtype(TENON_F32);
    if (tenon_tensor_create(dtype, port.ndim < 0 ? 1 : port.ndim, port.ndim < 0 ? &extent : shape,
                            &out_inputs[i]) != TENON_OK)
      return false;
    attempt_fill(out_inputs[i]);
  }
  return true;
}

/* the attempt */

/* How far the attempt got, and the broken invariant: NULL, or a sentence. */
typedef struct attempt_t {
  bool was_read;
  bool was_compiled;
  bool did_run;
  bool is_fickle; /* is_fickle: the same run later ended differently */
  tenon_status_t status;
  const char *wrong;
} attempt_t;

static inline void attempt_check(attempt_t *a, tenon_status_t status) {
  a->status = status;
  if (status == TENON_OK) return;
  if (!*tenon_error()) a->wrong = "a failure without a message";
  if (status == TENON_INTERNAL) a->wrong = "an internal error: Tenon did not expect this";
  if (status < TENON_OK || status > TENON_UNAVAILABLE) a->wrong = "a status that does not exist";
}

static inline tenon_status_t attempt_run(tenon_executable_t *executable, int64_t extent,
                                         attempt_t *a) {
  const tenon_graph_t *graph = tenon_executable_graph(executable);
  tenon_tensor_t *inputs[ATTEMPT_PORTS];
  tenon_tensor_t *outputs[ATTEMPT_PORTS] = {NULL};
  tenon_status_t status = TENON_INVALID;
  tenon_random_seed(1);
  attempt_limit(true);
  if (attempt_inputs(graph, extent, inputs)) {
    status = tenon_executable_run(executable, inputs, outputs, NULL);
    attempt_check(a, status);
    a->did_run |= status == TENON_OK;
  }
  for (int32_t i = 0; i < ATTEMPT_PORTS; i++) {
    if ((outputs[i] != NULL) != (status == TENON_OK && i < tenon_graph_output_count(graph)))
      a->wrong = "outputs of a run that failed, or none of one that did not";
    tenon_tensor_release(outputs[i]);
    tenon_tensor_release(inputs[i]);
  }
  return status;
}

static inline attempt_t attempt_model(const void *data, size_t size, const char *folder,
                                      uint32_t flags) {
  attempt_t a = {false, false, false, false, TENON_OK, NULL};
  tenon_import_t options = {.size = sizeof options, .folder = folder};
  tenon_compile_t compile = {.size = sizeof compile, .flags = flags};
  tenon_graph_t *graph = NULL;
  tenon_executable_t *executable = NULL;
  fault_pause();
  void *copy = malloc(size + (size == 0)); /* A sanitizer then sees where the data ends. */
  fault_resume();
  char *text = NULL;
  tenon_status_t status;
  if (!copy) return a;
  if (size) memcpy(copy, data, size);
  attempt_limit(true);
  attempt_check(&a, tenon_graph_read(copy, size, &options, &graph));
  a.was_read = graph != NULL;
  if (graph) attempt_check(&a, tenon_graph_dump(graph, &text));
  tenon_text_release(text);
  text = NULL;
  attempt_limit(true);
  if (graph) attempt_check(&a, tenon_executable_create(graph, &compile, &executable));
  a.was_compiled = executable != NULL;
  if (executable) {
    tenon_status_t first = attempt_run(executable, 2, &a);
    (void)attempt_run(executable, 3, &a);
    a.is_fickle = attempt_run(executable, 2, &a) != first;
    status = tenon_executable_dump(executable, "plan", &text);
    if (status != TENON_OK) attempt_check(&a, status);
    tenon_text_release(text);
  }
  attempt_limit(false);
  tenon_executable_release(executable);
  tenon_graph_release(graph);
  free(copy);
  return a;
}

#endif
