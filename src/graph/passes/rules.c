/* Lists the rules of a compilation, applies those of a pass to a graph, and counts them (rules.h).
 * Called by the compiler. */
#include "graph/passes/rules.h"

#include <string.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/nearest.h"
#include "operator/names.h"

/* One pass each; libraries have none of these. */
static const tn_rewrite_rule_t *const tables[TN_RULES_PASSES] = {
    [TN_RULES_QUANTISE] = tn_rules_quantise, [TN_RULES_CONTROL] = tn_rules_control,
    [TN_RULES_SIMPLIFY] = tn_rules_simplify, [TN_RULES_FORMULAS] = tn_rules_formulas,
    [TN_RULES_BLOCKS] = tn_rules_blocks,     [TN_RULES_ATTENTION] = tn_rules_attention,
    [TN_RULES_SHARE] = tn_rules_share,       [TN_RULES_CHANNELS] = tn_rules_channels,
    [TN_RULES_FUSE] = tn_rules_fuse,         [TN_RULES_CONCAT] = tn_rules_concat};

/* Listing */

static tenon_status_t add_use(tn_rules_t *rules, const tn_rewrite_use_t *use) {
  if (!tn_grow((void **)&rules->uses, &rules->capacity, rules->count, sizeof *rules->uses))
    return tn_no_memory("the rules of a compilation", rules->count * sizeof *rules->uses);
  rules->uses[rules->count++] = *use;
  return TENON_OK;
}

/* The built-in rules, of which each compilation copies the uses. They are parsed when the process
 * starts, and do not change until it ends. */
static struct {
  tn_rewrite_list_t *texts;
  tn_rules_t rules;
} own;

static tenon_status_t add_own(const tn_rewrite_rule_t *rule, uint8_t pass) {
  tn_rewrite_use_t use = {.rule = rule, .pass = pass};
  if (rule->apply) {
    use.name = tn_arena_text(&own.texts->arena, rule->text, strcspn(rule->text, ":"));
    if (!use.name) return tn_no_memory("a rule", 0);
  } else {
    TN_TRY(tn_rewrite_list_add(own.texts, rule->text, "core"));
    use.text = own.texts->last;
    use.name = use.text->name;
  }
  return add_use(&own.rules, &use);
}

void tn_rules_clear(void) {
  tn_rules_close(&own.rules);
  tn_rewrite_list_release(own.texts);
  own.texts = NULL;
}

tenon_status_t tn_rules_start(void) {
  tenon_status_t status = tn_rewrite_list_create(&own.texts);
  for (uint8_t pass = 0; pass < TN_RULES_PASSES; pass++)
    for (const tn_rewrite_rule_t *rule = tables[pass]; rule && rule->text && status == TENON_OK;
         rule++)
      status = add_own(rule, pass);
  if (status != TENON_OK) tn_rules_clear();
  return status;
}

typedef struct listing_t {
  tn_rules_t *rules;
  tenon_status_t status;
} listing_t;

static tenon_status_t hold_list(tn_rules_t *rules, tn_rewrite_list_t *list) {
  if (!tn_grow((void **)&rules->lists, &rules->list_capacity, rules->list_count,
               sizeof *rules->lists))
    return tn_no_memory("the rules of a compilation", rules->list_count * sizeof *rules->lists);
  rules->lists[rules->list_count++] = list;
  tn_rewrite_list_retain(list);
  return TENON_OK;
}

static tenon_status_t use_list(tn_rules_t *rules, tn_rewrite_list_t *list) {
  TN_TRY(hold_list(rules, list));
  for (const tn_rewrite_text_t *text = list->first; text; text = text->next)
    TN_TRY(add_use(
        rules, &(tn_rewrite_use_t){.name = text->name, .text = text, .pass = TN_RULES_LIBRARIES}));
  return TENON_OK;
}

/* Called with the registry's mutex held. */
static bool list_library(void *context, tn_library_t *library) {
  listing_t *l = context;
  if (library->rules) l->status = use_list(l->rules, library->rules);
  return l->status == TENON_OK;
}

/* Switches */

static tenon_status_t turn_off(tn_rules_t *rules, const char *name, size_t size) {
  tn_nearest_t nearest;
  bool is_found = false;
  tn_nearest_begin(&nearest, name, size);
  for (size_t i = 0; i < rules->count; i++) {
    tn_rewrite_use_t *use = &rules->uses[i];
    const bool is_it = strlen(use->name) == size && memcmp(use->name, name, size) == 0;
    tn_nearest_offer(&nearest, use->name);
    use->is_off |= is_it;
    is_found |= is_it;
  }
  return is_found ? TENON_OK
                  : tn_fail(TENON_NOT_FOUND,
                            "no rewriting rule '%.*s'%s (tenon ops --rewrites lists them)",
                            (int)size, name, tn_nearest_say(&nearest));
}

tenon_status_t tn_rules_open(tn_rules_t *rules, const char *without) {
  listing_t listing = {rules, TENON_OK};
  *rules = (tn_rules_t){.count = 0};
  TN_TRY(hold_list(rules, own.texts));
  tn_registry_walk(list_library, &listing);
  tenon_status_t status = listing.status;
  for (size_t i = 0; i < own.rules.count && status == TENON_OK; i++)
    status = add_use(rules, &own.rules.uses[i]);
  for (const char *at = without; at && *at && status == TENON_OK;) {
    const size_t size = strcspn(at, ",");
    status = turn_off(rules, at, size);
    at += size + (at[size] == ',');
  }
  return status;
}

void tn_rules_close(tn_rules_t *rules) {
  for (size_t i = 0; i < rules->list_count; i++)
    tn_rewrite_list_release(rules->lists[i]);
  tn_release_memory(rules->lists);
  tn_release_memory(rules->uses);
  *rules = (tn_rules_t){.count = 0};
}

/* Applying */

static bool takes_node(const tn_rewrite_rule_t *rule, const tn_node_t *node) {
  const size_t most = sizeof rule->ops / sizeof *rule->ops;
  bool is_taken = !rule->ops[0];
  for (size_t i = 0; i < most && rule->ops[i]; i++)
    is_taken |= tn_node_is(node, rule->ops[i]);
  return is_taken;
}

static tenon_status_t apply_rule(tn_rewrite_use_t *use, tn_rewrite_t *r, tn_node_t *node) {
  const int32_t changes = r->changes;
  tenon_status_t status = TENON_OK;
  tn_scratch_mark_t mark = tn_scratch_mark();
  if (use->text)
    status = tn_rewrite_apply_text(r, node, use->text);
  else if (takes_node(use->rule, node))
    status = use->rule->apply(r, node);
  tn_scratch_reset(mark);
  use->count += r->changes > changes;
  return status;
}

/* Whether something reads the node's results; rules leave nodes behind that nothing reads. */
static bool is_alive(const tn_rewrite_t *r, const tn_node_t *node) {
  bool is_read = !(node->op->traits & TENON_PURE);
  for (int32_t o = 0; o < node->output_count; o++)
    is_read |= (size_t)node->outputs[o] < r->edge_count && r->uses[node->outputs[o]] > 0;
  return is_read;
}

tenon_status_t tn_rules_apply(tn_rules_t *rules, uint8_t pass, tenon_graph_t *graph) {
  tn_rewrite_t r;
  bool is_needed = false;
  for (size_t i = 0; i < rules->count; i++)
    is_needed |= rules->uses[i].pass == pass && !rules->uses[i].is_off;
  if (!is_needed) return TENON_OK;
  TN_TRY(tn_rewrite_begin(&r, graph));
  tenon_status_t status = TENON_OK;
  for (size_t n = 0; n < graph->node_count && status == TENON_OK; n++)
    for (size_t i = 0; i < rules->count && status == TENON_OK; i++) {
      tn_rewrite_use_t *use = &rules->uses[i];
      tn_node_t *node = &graph->nodes[n];
      if (use->pass == pass && !use->is_off && node->op && !node->group && is_alive(&r, node))
        status = apply_rule(use, &r, node);
    }
  tn_rewrite_end(&r);
  return status;
}

bool tn_rules_changed(const tn_rules_t *rules, uint8_t pass) {
  bool has_changed = false;
  for (size_t i = 0; i < rules->count; i++)
    has_changed |= rules->uses[i].pass == pass && rules->uses[i].count > 0;
  return has_changed;
}

void tn_rules_print(const tn_rules_t *rules, tn_text_t *text) {
  for (size_t i = 0; i < rules->count; i++)
    if (rules->uses[i].count)
      tn_text_add(text, "%-40s %d\n", rules->uses[i].name, (int)rules->uses[i].count);
}

/* Describing */

typedef struct description_t {
  int32_t index; /* how many rules come before the wanted one */
  tenon_rewrite_info_t info;
  bool is_found;
} description_t;

/* Called with the registry's mutex held. */
static bool describe_library(void *context, tn_library_t *library) {
  description_t *d = context;
  for (const tn_rewrite_text_t *text = library->rules ? library->rules->first : NULL; text;
       text = text->next)
    if (d->index-- == 0) {
      d->info.library = library->name;
      d->info.rule = text->text;
      d->is_found = true;
      return false;
    }
  return true;
}

tenon_status_t tenon_rewrite_info(int32_t index, tenon_rewrite_info_t *info) {
  TN_TRY(tenon_start());
  description_t d = {.index = index, .info = {.library = "", .condition = ""}};
  if (index >= 0) tn_registry_walk(describe_library, &d);
  for (int32_t pass = 0; pass < TN_RULES_PASSES && !d.is_found && index >= 0; pass++)
    for (const tn_rewrite_rule_t *rule = tables[pass]; rule && rule->text && !d.is_found; rule++) {
      d.is_found = d.index-- == 0;
      d.info.rule = rule->text;
      d.info.condition = rule->condition ? rule->condition : "";
    }
  if (!d.is_found) return tn_fail(TENON_RANGE, "there is no rewriting rule %d", (int)index);
  d.info.size = info->size < sizeof *info ? info->size : (uint32_t)sizeof *info;
  memcpy(info, &d.info, d.info.size);
  return TENON_OK;
}
