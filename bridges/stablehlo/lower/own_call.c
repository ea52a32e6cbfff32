/* Calls of Tenon's operators by programs of JAX (bridges/jax/text.h) become nodes of the operator:
 * the attribute `call` of the custom call states its name, its operands and its attributes. Called
 * by lower_call.c. */
#include "lower/own_call.h"

#include <string.h>

#include "common/call_text.h"
#include "lower/arguments.h"

enum { INPUTS_MOST = 64 };

typedef struct own_call_t {
  const tenon_op_t *op;
  tenon_op_info_t info;
  bool is_list[INPUTS_MOST];
  int32_t counts[INPUTS_MOST]; /* -1: the input is absent */
  text_bits_t bits;
  tenon_attrs_t *attrs;
} own_call_t;

bool hlo_is_own_call(const char *target) {
  static const char *const targets[] = {"tenon_cpu", "tenon_cuda", "tenon_cuda_graph"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (strcmp(target, targets[i]) == 0) return true;
  return false;
}

/* Reads which inputs are lists. Inputs that the operator writes to have no node in a graph of
 * StableHLO's values. */
static void read_inputs(hlo_lower_t *lower, own_call_t *call) {
  call->info.size = sizeof call->info;
  tenon_op_info(call->op, &call->info);
  if (call->info.input_count > INPUTS_MOST) hlo_missing(lower, "more than 64 inputs");
  if (call->info.traits & TENON_RANDOM)
    hlo_missing(lower, "%.100s draws random numbers by a key of JAX, which graphs do not have",
                call->info.name);
  for (int32_t i = 0; i < call->info.input_count && !hlo_stopped(lower); i++) {
    tenon_argument_t of = {.size = sizeof of};
    if (hlo_has_failed(lower, tenon_op_argument(call->op, TENON_ARGUMENT_INPUT, i, &of))) return;
    call->is_list[i] = of.kind == TENON_KIND_TENSORS;
    if (of.is_written) hlo_missing(lower, "%.100s writes to its inputs", call->info.name);
  }
}

static void read_call(hlo_lower_t *lower, const char *text, own_call_t *call) {
  text_t reader = {text, text};
  char name[TEXT_NAME_MOST];
  uint32_t total = 0;
  if (hlo_has_failed(lower, text_read_name(&reader, name))) return;
  if (strcmp(name, "@model") == 0) hlo_missing(lower, "it runs a model that is in another file");
  if (hlo_stopped(lower)) return;
  if (tenon_op_find(name, &call->op) != TENON_OK) {
    hlo_missing(lower, "no loaded library has the operator %.100s", name);
    return;
  }
  read_inputs(lower, call);
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_attrs_create(call->op, &call->attrs)) ||
      hlo_has_failed(lower, text_read_counts(&reader, (uint32_t)call->info.input_count,
                                             call->is_list, call->counts, &total)) ||
      hlo_has_failed(lower, text_read_fields(&reader, call->attrs, &call->bits)))
    return;
  if (total != (uint32_t)lower->op->operand_count && !call->bits.given)
    hlo_wrong(lower, "the call states %d operands, found %d", (int)total,
              (int)lower->op->operand_count);
  if (call->bits.given)
    hlo_missing(lower, "it is a gradient of %.100s that is computed by its parts", name);
  if (call->bits.padded) hlo_missing(lower, "the size of a result of %.100s depends on data", name);
}

/* A node has all results of its operator. Those that a program leaves out must be the last ones,
 * because the others are taken in order. */
static void check_wanted(hlo_lower_t *lower, const own_call_t *call, int32_t count) {
  const uint64_t wanted = call->bits.wanted;
  if (wanted & (wanted + 1)) hlo_missing(lower, "it leaves out results before others");
  if (wanted ? count < lower->op->result_count : count != lower->op->result_count)
    hlo_wrong(lower, "%.100s has %d results, but the call states %d", call->info.name, (int)count,
              (int)lower->op->result_count);
}

static void add_call(hlo_lower_t *lower, own_call_t *call) {
  int32_t next = 0;
  hlo_edges_t operands[INPUTS_MOST] = {{NULL, 0, false}};
  tenon_edge_t *edges = hlo_lower_take(lower, (size_t)lower->op->operand_count, sizeof *edges);
  for (int32_t i = 0; edges && i < lower->op->operand_count; i++)
    edges[i] = hlo_edge(lower, i);
  for (int32_t i = 0; edges && i < call->info.input_count; i++) {
    const int32_t count = call->counts[i] > 0 ? call->counts[i] : 0;
    operands[i] = (hlo_edges_t){edges + next, count, call->is_list[i]};
    next += count;
  }
  if (!edges || hlo_stopped(lower)) return;
  tenon_attrs_t *attrs = call->attrs;
  call->attrs = NULL; /* hlo_call takes the attributes over. */
  hlo_edges_t results =
      hlo_call(lower, call->op, attrs, operands, call->info.input_count, lower->op->result_count);
  if (!hlo_stopped(lower)) check_wanted(lower, call, results.count);
  for (int32_t i = 0; i < lower->op->result_count && !hlo_stopped(lower); i++)
    hlo_give(lower, i, results.edges[i]);
}

void hlo_lower_own_call(hlo_lower_t *lower, const char *target) {
  own_call_t call = {.op = NULL};
  const hlo_attr_t *config = hlo_attr(lower, "mhlo.backend_config", "backend_config");
  const hlo_attr_t *text = config ? hlo_attr_find(config, "call") : NULL;
  if (!text || text->kind != HLO_ATTR_TEXT)
    hlo_wrong(lower, "a call with the target %.60s has no text `call`", target);
  if (!hlo_stopped(lower)) read_call(lower, text->text, &call);
  if (!hlo_stopped(lower)) add_call(lower, &call);
  tenon_attrs_release(call.attrs);
}
