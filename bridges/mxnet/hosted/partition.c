/* Partitioners of a library; see partition.h. MXNet's node numbers include variables, so they are
 * translated in both directions, and checked. */
#include "partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "common/guard.h"
#include "message.h"
#include "nnvm_block.h"

typedef struct session_t { /* stored in cut->state */
  const hosted_strategy_t *strategy;
  nnvm_t whole;
  void *selector; /* The library is never asked to free it. */
  const char **keys;
  const char **values;
  int count;
} session_t;

typedef struct asked_t { /* the arguments and results of one call of the library */
  const session_t *session;
  const abi_t *abi;
  int node;
  int other;
  int takes;
  int *ids;
  int id_count;
  int *kept;
  int kept_count;
  void *selector;
  const char *json;
  int id;
  int accepts;
  int new_count;
  char **new_keys;
  char **new_values;
  nnvm_block_t args;
  nnvm_block_t aux;
} asked_t;

static asked_t ask(const tenon_cut_t *cut) {
  const session_t *s = cut->state;
  return (asked_t){.session = s, .abi = &s->strategy->library->abi};
}

/* Evaluates a result of guard_call: a positive number means success. */
static tenon_status_t check_result(const session_t *s, int result, const char *what, char *why,
                                   size_t capacity) {
  if (result > 0) return TENON_OK;
  if (result < 0) return tn_fail(TENON_UNKNOWN, "%s failed: %s", what, why);
  snprintf(why, capacity, "%s failed", what);
  hosted_messages(s->strategy->library, why, capacity);
  return tn_fail(TENON_UNKNOWN, "%s", why);
}

/* the session */

static int create_selector(void *argument) {
  asked_t *a = argument;
  const session_t *s = a->session;
  return a->abi->_partCallCreateSelector(s->strategy->selector, s->whole.json, &a->selector,
                                         s->keys, s->values, s->count);
}

static void drop(session_t *s) {
  nnvm_clear(&s->whole);
  free(s->keys);
  free(s->values);
  free(s);
}

tenon_status_t partition_begin(tenon_cut_t *cut) {
  char why[WHY] = "";
  session_t *s = calloc(1, sizeof *s);
  const size_t count = (size_t)cut->option_count + 1;
  if (!s || !(s->keys = calloc(count, sizeof *s->keys)) ||
      !(s->values = calloc(count, sizeof *s->values))) {
    if (s) drop(s);
    return tn_no_memory("a partitioner", 0);
  }
  s->strategy = (const hosted_strategy_t *)cut->strategy;
  s->count = cut->option_count;
  for (int i = 0; i < s->count; i++) {
    s->keys[i] = cut->options[i].name;
    s->values[i] = cut->options[i].value;
  }
  cut->state = s;
  asked_t asked = ask(cut);
  tenon_status_t status = nnvm_write(cut->graph, NULL, NULL, &s->whole);
  if (status == TENON_OK && !s->strategy->supported) {
    status = check_result(s, guard_call(create_selector, &asked, why, sizeof why), "createSelector",
                          why, sizeof why);
    if (status == TENON_OK && !asked.selector)
      status = tn_fail(TENON_INVALID, "createSelector returned no selector");
    s->selector = asked.selector;
  }
  if (status != TENON_OK) drop(s);
  return status;
}

void partition_end(tenon_cut_t *cut) { drop(cut->state); }

/* selecting nodes */

static int supported(void *argument) {
  asked_t *a = argument;
  const session_t *s = a->session;
  return a->abi->_partCallSupportedOps(s->strategy->supported, s->whole.json, a->id_count, a->ids,
                                       s->keys, s->values, s->count);
}

tenon_status_t partition_supported(tenon_cut_t *cut, int32_t *ids) {
  char why[WHY] = "";
  asked_t asked = ask(cut);
  const nnvm_t *whole = &asked.session->whole;
  asked.id_count = whole->count;
  if (!(asked.ids = malloc(((size_t)whole->count + 1) * sizeof *asked.ids)))
    return tn_no_memory("a partitioner", 0);
  for (int i = 0; i < whole->count; i++)
    asked.ids[i] = TENON_CUT_NO;
  tenon_status_t status =
      check_result(asked.session, guard_call(supported, &asked, why, sizeof why), "supportedOps",
                   why, sizeof why);
  for (int i = 0; i < whole->count && status == TENON_OK; i++)
    if (whole->nodes[i] >= 0) ids[whole->nodes[i]] = asked.ids[i];
  free(asked.ids);
  return status;
}

static int select_start(void *argument) {
  asked_t *a = argument;
  a->abi->_partCallSelect(a->session->selector, a->node, &a->takes);
  return 1;
}
static int select_input(void *argument) {
  asked_t *a = argument;
  a->abi->_partCallSelectInput(a->session->selector, a->node, a->other, &a->takes);
  return 1;
}
static int select_output(void *argument) {
  asked_t *a = argument;
  a->abi->_partCallSelectOutput(a->session->selector, a->node, a->other, &a->takes);
  return 1;
}

static tenon_status_t selects(tenon_cut_t *cut, int (*how)(void *), const char *what, int32_t node,
                              int32_t other, int32_t *out) {
  char why[WHY] = "";
  asked_t asked = ask(cut);
  asked.node = asked.session->whole.ids[node];
  asked.other = other >= 0 ? asked.session->whole.ids[other] : -1;
  tenon_status_t status =
      check_result(asked.session, guard_call(how, &asked, why, sizeof why), what, why, sizeof why);
  *out = asked.takes != 0;
  return status;
}

tenon_status_t partition_select(tenon_cut_t *cut, int32_t node, int32_t *out) {
  return selects(cut, select_start, "Select", node, -1, out);
}
tenon_status_t partition_select_input(tenon_cut_t *cut, int32_t node, int32_t input, int32_t *out) {
  return selects(cut, select_input, "SelectInput", node, input, out);
}
tenon_status_t partition_select_output(tenon_cut_t *cut, int32_t node, int32_t output,
                                       int32_t *out) {
  return selects(cut, select_output, "SelectOutput", node, output, out);
}

static int filter(void *argument) {
  asked_t *a = argument;
  a->abi->_partCallFilter(a->session->selector, a->ids, a->id_count, &a->kept, &a->kept_count);
  return 1;
}

static tenon_status_t take_kept(const asked_t *asked, int32_t *nodes, int32_t *count) {
  const nnvm_t *whole = &asked->session->whole;
  if (asked->kept_count < 0 || asked->kept_count > *count || (asked->kept_count && !asked->kept))
    return tn_fail(TENON_INVALID, "Filter returned %d nodes, but was given only %d",
                   asked->kept_count, (int)*count);
  for (int i = 0; i < asked->kept_count; i++) {
    const int id = asked->kept[i];
    if (id < 0 || id >= whole->count || whole->nodes[id] < 0)
      return tn_fail(TENON_INVALID,
                     "Filter returned node %d, which is not an operator of this graph", id);
    nodes[i] = whole->nodes[id];
  }
  *count = asked->kept_count;
  return TENON_OK;
}

tenon_status_t partition_filter(tenon_cut_t *cut, int32_t *nodes, int32_t *count) {
  char why[WHY] = "";
  asked_t asked = ask(cut);
  asked.id_count = *count;
  if (!(asked.ids = malloc(((size_t)*count + 1) * sizeof *asked.ids)))
    return tn_no_memory("a partitioner", 0);
  for (int i = 0; i < *count; i++)
    asked.ids[i] = asked.session->whole.ids[nodes[i]];
  tenon_status_t status = check_result(asked.session, guard_call(filter, &asked, why, sizeof why),
                                       "Filter", why, sizeof why);
  if (status == TENON_OK) status = take_kept(&asked, nodes, count);
  if (asked.kept) asked.abi->_opCallFree(asked.kept);
  free(asked.ids);
  return status;
}

static int reset(void *argument) {
  const asked_t *a = argument;
  a->abi->_partCallReset(a->session->selector);
  return 1;
}

tenon_status_t partition_reset(tenon_cut_t *cut) {
  char why[WHY] = "";
  asked_t asked = ask(cut);
  return check_result(asked.session, guard_call(reset, &asked, why, sizeof why), "Reset", why,
                      sizeof why);
}

/* review */

#define BLOCK(b)                                                                                   \
  (b).names, (b).count, (b).data, (b).shapes, (b).ndims, (b).dtypes, (b).versions, (b).devices,    \
      (b).ids

static int review_subgraph(void *argument) {
  asked_t *a = argument;
  const session_t *s = a->session;
  return a->abi->_partCallReviewSubgraph(s->strategy->review, a->json, a->id, &a->accepts, s->keys,
                                         s->values, s->count, &a->new_keys, &a->new_values,
                                         &a->new_count, BLOCK(a->args), BLOCK(a->aux));
}

static tenon_status_t take_attrs(const asked_t *a, tenon_attrs_t *attrs) {
  if (a->new_count < 0 || (a->new_count && (!a->new_keys || !a->new_values)))
    return tn_fail(TENON_INVALID, "reviewSubgraph returned %d attributes, which is not possible",
                   a->new_count);
  for (int i = 0; i < a->new_count; i++) {
    const char *key = a->new_keys[i];
    const char *value = a->new_values[i];
    if (!key || !*key || strchr(key, '=') || !value || strcmp(key, HOSTED_SUBGRAPH) == 0)
      return tn_fail(
          TENON_INVALID,
          "reviewSubgraph returned attribute '%s': expected a name without '=', and a value",
          key ? key : "");
    TENON_TRY(tenon_attrs_parse(attrs, key, value));
  }
  return TENON_OK;
}

static void free_attrs(asked_t *a) {
  void (*release)(void *) = a->abi->_opCallFree;
  for (int i = 0; i < a->new_count && a->new_keys && a->new_values; i++) {
    if (a->new_keys[i]) release(a->new_keys[i]);
    if (a->new_values[i]) release(a->new_values[i]);
  }
  if (a->new_keys) release((void *)a->new_keys);
  if (a->new_values) release((void *)a->new_values);
}

tenon_status_t partition_review(tenon_cut_t *cut, tenon_review_t *review) {
  char why[WHY] = "";
  asked_t asked = ask(cut);
  const session_t *s = asked.session;
  nnvm_t inner;
  tn_arena_t arena = {NULL};
  tenon_status_t status = nnvm_write(review->subgraph, cut->graph, review->inputs, &inner);
  asked.json = inner.json;
  asked.id = review->id;
  asked.accepts = 1;
  if (status == TENON_OK && s->strategy->review) {
    status = nnvm_blocks(&s->whole, &arena, &asked.args, &asked.aux);
    if (status == TENON_OK)
      status = check_result(s, guard_call(review_subgraph, &asked, why, sizeof why),
                            "reviewSubgraph", why, sizeof why);
    if (status == TENON_OK) status = take_attrs(&asked, review->attrs);
    free_attrs(&asked);
  }
  if (status == TENON_OK) status = tenon_attrs_parse(review->attrs, HOSTED_SUBGRAPH, inner.json);
  review->is_accepted = asked.accepts != 0;
  nnvm_clear(&inner);
  tn_arena_clear(&arena);
  return status;
}
