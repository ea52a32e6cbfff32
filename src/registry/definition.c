/* Makes operator records from the items of a descriptor: parses every text, resolves every name and
 * collects every offence. The registry calls it and publishes the result. Invariant: nothing
 * outside the definition changes, except that names of backends are interned. */

#include "registry/definition.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/reason.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/match.h"
#include "core/rule.h"
#include "dispatch/infer.h"
#include "dispatch/services.h"
#include "operator/state.h"
#include "operator/table.h"
#include "registry/definition_kernel.h"
#include "registry/transform.h"

void tn_definition_offend(tn_definition_t *b, tenon_status_t code, const char *format, ...) {
  /* Memory ran out, and further offences may only follow from that. */
  if (b->failed) return;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *at = text; *at; at++)
    if (*at == '\n') *at = ' '; /* an offence is one line */
  tn_text_add(b->offences, "%s%s", b->offences->size ? "\n" : "", text);
  b->code = b->offence_count++ ? TENON_INVALID : code;
  if (code == TENON_MEMORY) b->failed = true;
}

tenon_op_t *tn_definition_target(const tn_definition_t *b) {
  if (b->op) return b->op;
  return b->extension ? b->extension->op : NULL;
}

bool tn_definition_check(tn_definition_t *b, tenon_status_t status) {
  if (status == TENON_OK) return true;
  char text[2048];
  const tenon_op_t *op = tn_definition_target(b);
  const char *name = op ? op->name : "";
  snprintf(text, sizeof text, "%s", tn_error());
  if (strstr(text, name))
    tn_definition_offend(b, status, "%s", text);
  else
    tn_definition_offend(b, status, "%s: %s", name, text);
  return false;
}

void *tn_definition_room(tn_definition_t *b, tn_arena_t *arena, size_t size) {
  void *memory = tn_arena_allocate(arena, size);
  if (!memory)
    tn_definition_offend(b, TENON_MEMORY, "out of memory: an operator needs %zu bytes", size);
  return memory;
}

const char *tn_definition_text(tn_definition_t *b, tn_arena_t *arena, const char *text) {
  if (!text) return NULL;
  const char *copy = tn_arena_text(arena, text, strlen(text));
  if (!copy) tn_definition_offend(b, TENON_MEMORY, "out of memory: a text of an operator");
  return copy;
}

void tn_op_free(tenon_op_t *op) {
  tn_states_release(op);
  tn_table_release(op);
  tn_arena_t arena = op->arena;
  tn_arena_clear(&arena);
}

static void begin_op(tn_definition_t *b, const char *schema) {
  tn_arena_t arena = {NULL};
  b->op = NULL;
  b->extension = NULL;
  b->has_op = true;
  tenon_op_t *op = tn_definition_room(b, &arena, sizeof *op);
  if (!op) return;
  bool good =
      tn_definition_check(b, tn_schema_parse(schema, b->library->name, &arena, &op->schema));
  if (good && tn_map_get(&b->names, op->schema.full, strlen(op->schema.full))) {
    tn_definition_offend(b, TENON_EXISTS, "operator %s is defined twice in this library",
                         op->schema.full);
    good = false;
  }
  if (good && (!tn_grow((void **)&b->drafts, &b->capacity, b->count, sizeof *b->drafts) ||
               !tn_map_put(&b->names, op->schema.full, strlen(op->schema.full), op))) {
    tn_definition_offend(b, TENON_MEMORY, "out of memory: a list of operators");
    good = false;
  }
  if (!good) {
    tn_arena_clear(&arena);
    return;
  }
  op->name = op->schema.full;
  op->library = b->library;
  op->context = b->library->context;
  op->version = 1;
  op->draws = -1;
  op->input_count = op->schema.input_count;
  op->output_count = op->schema.output_count;
  op->defaults = op->schema.defaults;
  op->dispatch_input = -1;
  op->body = -1;
  op->arena = arena;
  b->drafts[b->count++] = (tn_draft_t){op, {0}};
  b->op = op;
}

static tenon_op_t *find_known(tn_definition_t *b, const char *name) {
  tenon_op_t *op = tn_map_get(&b->names, name, strlen(name));
  return op ? op : b->find(name);
}

static void begin_extension(tn_definition_t *b, const tenon_item_t *item) {
  b->op = NULL;
  b->extension = NULL;
  b->has_op = true;
  tenon_op_t *op = find_known(b, item->text);
  /* The operator may be defined later. The kernels that follow are parsed then. */
  if (!op) {
    if (!tn_grow((void **)&b->dangling, &b->dangling_capacity, b->dangling_count,
                 sizeof *b->dangling))
      tn_definition_offend(b, TENON_MEMORY, "out of memory: a list of kernels");
    else
      b->dangling[b->dangling_count++] =
          (tn_dangling_t){b->library, item->text, item, b->override, NULL};
    return;
  }
  /* The operator is removed with its own library, so no kernel waits for the operator. */
  bool is_own = op->library == b->library;
  for (size_t i = 0; i < b->extension_count && is_own; i++)
    if (b->extensions[i].op == op) {
      b->extension = &b->extensions[i];
      return;
    }
  if (!tn_grow((void **)&b->extensions, &b->extension_capacity, b->extension_count,
               sizeof *b->extensions)) {
    tn_definition_offend(b, TENON_MEMORY, "out of memory: a list of kernels");
    return;
  }
  b->extension = &b->extensions[b->extension_count++];
  *b->extension = (tn_extension_t){op, NULL, NULL, is_own ? NULL : item, b->override};
}

static void set_text(tn_definition_t *b, const char **field, const tenon_item_t *item,
                     const char *what) {
  tenon_op_t *op = tn_definition_target(b);
  if (*field)
    tn_definition_offend(b, TENON_INVALID, "%s: %s is stated twice", op->name, what);
  else if (!item->text)
    tn_definition_offend(b, TENON_INVALID, "%s: %s has no text", op->name, what);
  else
    *field = tn_definition_text(b, &op->arena, item->text);
}

static void set_function(tn_definition_t *b, tenon_any_fn *field, const tenon_item_t *item,
                         const char *what) {
  if (*field)
    tn_definition_offend(b, TENON_INVALID, "%s: %s is stated twice", tn_definition_target(b)->name,
                         what);
  else if (!item->function)
    tn_definition_offend(b, TENON_INVALID, "%s: %s has no function", tn_definition_target(b)->name,
                         what);
  else
    *field = item->function;
}

static void add_upgrade(tn_definition_t *b, const tenon_item_t *item) {
  tenon_op_t *op = b->op;
  tn_upgrades_t *upgrades = &op->upgrades;
  tn_upgrade_t *all = tn_arena_array(&op->arena, upgrades->count + 1, sizeof *all);
  if (!all) {
    tn_definition_offend(b, TENON_MEMORY, "out of memory: upgrades of %s", op->name);
    return;
  }
  if (upgrades->count) memcpy(all, upgrades->items, upgrades->count * sizeof *all);
  if (!tn_definition_check(b, tn_upgrade_parse(item->number, item->text ? item->text : "",
                                               &op->arena, &all[upgrades->count])))
    return;
  upgrades->items = all;
  upgrades->count++;
}

static void add_device(tn_definition_t *b, const tenon_device_table_t *table) {
  tn_library_t *library = b->library;
  tn_text_t offences = {0};
  if (!tn_device_table_check(table, &offences))
    for (char *line = offences.data, *end; line && (end = strchr(line, '\n')); line = end + 1)
      tn_definition_offend(b, TENON_INVALID, "%.*s", (int)(end - line), line);
  else if (library->device_count == TN_LIBRARY_DEVICES)
    tn_definition_offend(b, TENON_RANGE, "a library has at most %d devices", TN_LIBRARY_DEVICES);
  else if (tn_backend_intern(table->name ? table->name : "",
                             &library->backends[library->device_count]) != TENON_OK)
    tn_definition_offend(b, TENON_INVALID, "%s", tn_error());
  else
    library->devices[library->device_count++] = table;
  tn_text_clear(&offences);
}

static bool opens_libraries(const tenon_bridge_table_t *table) {
  return table->open && (table->symbols || (TENON_HAS(table, prefixes) && table->prefixes));
}

static void add_bridge(tn_definition_t *b, const tenon_bridge_table_t *table) {
  if (!table || !TENON_HAS(table, read) || !table->name)
    tn_definition_offend(
        b, TENON_INVALID,
        "the table of a bridge is NULL, smaller than it is in 1.0, or has no name");
  else if (!opens_libraries(table) && !(table->suffixes && table->read))
    tn_definition_offend(b, TENON_INVALID,
                         "the table of the bridge %s needs symbols or prefixes, and open, to open "
                         "libraries, or suffixes and read to read models",
                         table->name);
  else if (table->abi >> 16 != TENON_BRIDGE_ABI >> 16)
    tn_definition_offend(b, TENON_INVALID,
                         "the table of a bridge is of contract %u, this host has %u",
                         table->abi >> 16, TENON_BRIDGE_ABI >> 16);
  else
    b->library->bridge = table;
}

static void add_items(tn_definition_t *b, const tenon_item_t *items);

/* the items, by tag */

/* Where an item may stand: anywhere, after an operator, after an operator or an extension. */
enum { OF_LIBRARY, OF_OPERATOR, OF_KERNELS };

typedef struct tag_t {
  void (*take)(tn_definition_t *b, const tenon_item_t *item, const struct tag_t *tag);
  uint32_t place;
  const char *word; /* the item's name in messages */
  /* Offset of the field that the item sets, in tn_texts_t or tenon_op_t. */
  size_t offset;
} tag_t;

static void take_group(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  if (!item->text) {
    tn_definition_offend(b, TENON_INVALID, "a group of items is NULL");
  } else if (b->depth > 8) {
    tn_definition_offend(b, TENON_INVALID, "groups of items are nested more than 8 deep");
  } else {
    b->depth++;
    add_items(b, item->text);
    b->depth--;
  }
}

/* The items that follow belong to no operator, and are skipped. */
static void skip_operator(tn_definition_t *b) {
  b->op = NULL;
  b->extension = NULL;
  b->has_op = true;
}

static void take_op(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->kernel_prepare = NULL;
  b->kernel_release = NULL;
  if (item->text) {
    begin_op(b, item->text);
  } else {
    tn_definition_offend(b, TENON_INVALID, "an operator has no schema (NULL)");
    skip_operator(b);
  }
}

static void take_extension(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->kernel_prepare = NULL;
  b->kernel_release = NULL;
  if (item->text) {
    begin_extension(b, item);
  } else {
    tn_definition_offend(b, TENON_INVALID, "an extension names no operator (NULL)");
    skip_operator(b);
  }
}

static void take_open(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->open = (tenon_node_fn)item->function;
}

static void take_close(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->close = (tenon_free_fn)item->function;
}

static void take_device(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  add_device(b, item->text);
}

static void take_bridge(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  add_bridge(b, item->text);
}

static void take_transform(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  char why[512];
  bool is_pass = (item->tag & ~TENON_MUST) == TENON_TAG_PASS;
  (void)tag;
  const void *pass = is_pass ? item->text : NULL;
  const void *partitioner = is_pass ? NULL : item->text;
  if (!tn_transform_add(b->library, pass, partitioner, why, sizeof why))
    tn_definition_offend(b, TENON_INVALID, "%s", why);
}

static void take_rule(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  tn_library_t *library = b->library;
  (void)tag;
  if (!library->rules && !tn_definition_check(b, tn_rewrite_list_create(&library->rules))) return;
  tn_definition_check(b, tn_rewrite_list_add(library->rules, item->text, library->name));
}

static void take_about(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->library->about = tn_definition_text(b, &b->library->arena, item->text);
}

static void take_doc(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  set_text(b, &b->op->doc, item, tag->word);
}

static void take_text(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  char *texts = (char *)&b->drafts[b->count - 1].texts;
  set_text(b, (const char **)(void *)(texts + tag->offset), item, tag->word);
}

static void take_function(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  set_function(b, (tenon_any_fn *)(void *)((char *)b->op + tag->offset), item, tag->word);
}

/* The low 32 bits are traits of the contract, the high ones the number of draws plus one (0: infer
 * states it). In op->traits, the bits above the low 32 are the host's own. */
static void take_traits(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->op->traits = (uint32_t)item->number;
  b->op->draws = (item->number >> 32) - 1;
}

static void take_version(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->op->version = item->number;
  if (item->number < 1)
    tn_definition_offend(b, TENON_INVALID, "%s: version %lld: expected 1 or more", b->op->name,
                         (long long)item->number);
}

static void take_upgrade(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  add_upgrade(b, item);
}

static void take_destroy(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->op->destroy = (tenon_free_fn)item->function;
}

/* PREPARE belongs to the operator, or in an extension to the kernels that follow it. */
static void take_prepare(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  if (!item->function)
    tn_definition_offend(b, TENON_INVALID, "%s: %s has no function", tn_definition_target(b)->name,
                         tag->word);
  b->kernel_prepare = (tenon_node_fn)item->function;
  if (b->op) b->op->prepare = b->kernel_prepare;
}

static void take_release(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  b->kernel_release = (tenon_free_fn)item->function;
  if (b->op) b->op->release = b->kernel_release;
}

static void take_kernel(tn_definition_t *b, const tenon_item_t *item, const tag_t *tag) {
  (void)tag;
  tn_definition_add_kernel(b, item);
}

#define TEXT(name, member)                                                                         \
  { take_text, OF_OPERATOR, name, offsetof(tn_texts_t, member) }
#define FUNCTION(name, member)                                                                     \
  { take_function, OF_OPERATOR, name, offsetof(tenon_op_t, member) }

static const tag_t tags[] = {
    [TENON_TAG_GROUP] = {take_group, OF_LIBRARY, "GROUP", 0},
    [TENON_TAG_OP] = {take_op, OF_LIBRARY, "OP", 0},
    [TENON_TAG_EXTEND] = {take_extension, OF_LIBRARY, "EXTEND", 0},
    [TENON_TAG_OPEN] = {take_open, OF_LIBRARY, "OPEN", 0},
    [TENON_TAG_CLOSE] = {take_close, OF_LIBRARY, "CLOSE", 0},
    [TENON_TAG_DEVICE] = {take_device, OF_LIBRARY, "DEVICE", 0},
    [TENON_TAG_BRIDGE] = {take_bridge, OF_LIBRARY, "BRIDGE", 0},
    [TENON_TAG_PASS] = {take_transform, OF_LIBRARY, "PASS", 0},
    [TENON_TAG_PARTITIONER] = {take_transform, OF_LIBRARY, "PARTITIONER", 0},
    [TENON_TAG_REWRITE] = {take_rule, OF_LIBRARY, "REWRITE", 0},
    [TENON_TAG_ABOUT] = {take_about, OF_LIBRARY, "ABOUT", 0},
    [TENON_TAG_DOC] = {take_doc, OF_OPERATOR, "DOC", 0},
    [TENON_TAG_TYPES] = TEXT("TYPES", types),
    [TENON_TAG_SHAPES] = TEXT("SHAPES", shapes),
    [TENON_TAG_WHERE] = TEXT("WHERE", where),
    [TENON_TAG_GRADIENT] = TEXT("GRADIENT", gradient),
    [TENON_TAG_BATCHING] = TEXT("BATCHING", batching),
    [TENON_TAG_SHARDING] = TEXT("SHARDING", sharding),
    [TENON_TAG_REUSE] = TEXT("REUSE", reuse),
    [TENON_TAG_REDUCES] = TEXT("REDUCES", reduces),
    [TENON_TAG_USES] = TEXT("USES", uses),
    [TENON_TAG_SUBGRAPH] = TEXT("BODY", body),
    [TENON_TAG_SAMPLES] = TEXT("SAMPLES", samples),
    [TENON_TAG_TRAITS] = {take_traits, OF_OPERATOR, "TRAITS", 0},
    [TENON_TAG_VERSION] = {take_version, OF_OPERATOR, "VERSION", 0},
    [TENON_TAG_UPGRADE] = {take_upgrade, OF_OPERATOR, "UPGRADE", 0},
    [TENON_TAG_INFER] = FUNCTION("INFER", infer),
    [TENON_TAG_VALIDATE] = FUNCTION("VALIDATE", validate),
    [TENON_TAG_CREATE] = FUNCTION("CREATE", create),
    [TENON_TAG_REFERENCE] = FUNCTION("REFERENCE", reference),
    [TENON_TAG_DESTROY] = {take_destroy, OF_OPERATOR, "DESTROY", 0},
    [TENON_TAG_PREPARE] = {take_prepare, OF_KERNELS, "PREPARE", 0},
    [TENON_TAG_RELEASE] = {take_release, OF_KERNELS, "RELEASE", 0},
    [TENON_TAG_KERNEL] = {take_kernel, OF_KERNELS, "KERNEL", 0},
    [TENON_TAG_STUB] = {take_kernel, OF_KERNELS, "STUB", 0},
    [TENON_TAG_COMPOSITE] = {take_kernel, OF_KERNELS, "COMPOSITE", 0},
    [TENON_TAG_LOOP] = {take_kernel, OF_KERNELS, "LOOP", 0},
    [TENON_TAG_ROW] = {take_kernel, OF_KERNELS, "ROW", 0},
    [TENON_TAG_SOURCE] = {take_kernel, OF_KERNELS, "SOURCE", 0},
};

static bool may_stand_here(tn_definition_t *b, uint32_t number, const tag_t *tag) {
  if (!b->has_op) {
    tn_definition_offend(b, TENON_INVALID,
                         "item %u stands before the first operator: expected a schema (TENON_OP)",
                         number);
    /* The offence is reported once. */
    b->has_op = true;
    return false;
  }
  const tenon_op_t *op = tn_definition_target(b);
  /* The schema of the operator is bad, or the operator is not defined yet: its items are
   * skipped. */
  if (!op) return false;
  if (b->extension && tag->place != OF_KERNELS)
    tn_definition_offend(b, TENON_INVALID,
                         "extension of %s: item %u: only kernels can be added to an operator",
                         op->name, number);
  else if (!tag->take)
    tn_definition_offend(b, TENON_INVALID, "%s: item %u has no meaning here", op->name, number);
  else
    return true;
  return false;
}

static void add_item(tn_definition_t *b, const tenon_item_t *item) {
  uint32_t number = item->tag & ~TENON_MUST;
  if (number > TENON_TAG_REWRITE) { /* newer than this host */
    if (item->tag & TENON_MUST)
      tn_definition_offend(
          b, TENON_UNIMPLEMENTED,
          "item %u is newer than this host (contract %u.%u) and marked as needed: update libtenon",
          number, TENON_ABI >> 16, TENON_ABI & 0xffff);
    return;
  }
  const tag_t *tag = &tags[number];
  bool is_of_library = tag->take && tag->place == OF_LIBRARY;
  if (is_of_library || may_stand_here(b, number, tag)) tag->take(b, item, tag);
}

static void add_items(tn_definition_t *b, const tenon_item_t *items) {
  enum { MOST = 1 << 22 };
  int count = 0;
  for (; items->tag != TENON_TAG_END && !b->failed; items++) {
    if (++count > MOST) {
      tn_definition_offend(b, TENON_INVALID,
                           "a list of more than %d items: is its end (TENON_TAG_END) missing?",
                           MOST);
      return;
    }
    add_item(b, items);
  }
}

static tenon_status_t gradient_operator(void *context, const char *name) {
  tn_definition_t *b = context;
  size_t ns = strlen(b->op->schema.ns);
  if (strncmp(name, b->op->schema.ns, ns) != 0 || strncmp(name + ns, "::", 2) != 0) return TENON_OK;
  if (!find_known(b, name))
    tn_definition_offend(b, TENON_NOT_FOUND, "%s: gradient: operator %s is not in this library",
                         b->op->name, name);
  return TENON_OK;
}

static int32_t deciding_input(const tenon_op_t *op) {
  int32_t optional = -1;
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (op->types.inputs[i].kind != TN_TYPE_VARIABLE || op->types.inputs[i].index != 0) continue;
    if (!op->schema.inputs[i].is_optional) return (int32_t)i;
    if (optional < 0) optional = (int32_t)i;
  }
  return optional;
}

static bool is_view_operator(const tenon_op_t *op) {
  bool marked = op->output_count > 0;
  for (uint32_t o = 0; o < op->output_count; o++)
    marked &= op->schema.outputs[o].mark && !op->schema.outputs[o].is_written;
  return marked;
}

/* Sets the attribute whose graph determines the outputs. Such an operator takes one list of tensors
 * and returns one. */
static void set_body(tn_definition_t *b, tenon_op_t *op, const char *body) {
  const tn_schema_t *s = &op->schema;
  if (!body) return;
  op->body = tn_schema_attr(s, body, strlen(body));
  if (op->body < 0 || s->attrs[op->body].kind != TENON_KIND_GRAPH)
    tn_definition_offend(b, TENON_INVALID,
                         "%s: BODY '%s': expected the name of an attribute of kind graph", op->name,
                         body);
  else if (s->input_count != 1 || s->inputs[0].kind != TENON_KIND_TENSORS || s->output_count != 1 ||
           s->outputs[0].kind != TENON_KIND_TENSORS || s->outputs[0].count_attr < 0)
    tn_definition_offend(
        b, TENON_INVALID,
        "%s: BODY: expected a schema such as '(Tensor[] inputs, *, graph %s, int count) -> "
        "Tensor[count]'",
        op->name, body);
  op->body_infer = op->infer;
  op->infer = tn_infer_through_body;
}

/* Parses the declarations of an operator. Returns false if nothing else about it can be checked. */
static bool parse_texts(tn_definition_t *b, tenon_op_t *op, const tn_texts_t *t) {
  tn_arena_t *arena = &op->arena;
  const tn_schema_t *schema = &op->schema;
  if (!tn_definition_check(b, tn_types_parse(t->types, schema, arena, &op->types))) return false;
  tn_definition_check(b, tn_patterns_parse(t->shapes, false, schema, arena, &op->shapes));
  tn_definition_check(b, tn_patterns_parse(t->sharding, true, schema, arena, &op->sharding));
  tn_definition_check(b, tn_gradient_parse(t->gradient, schema, &op->types, arena, &op->gradient));
  tn_definition_check(b, tn_batching_parse(t->batching, schema, &op->batching));
  tn_definition_check(b, tn_samples_parse(t->samples, schema, arena, &op->samples));
  tn_definition_check(b, tn_where_parse(t->where, schema, arena, &op->where));
  tn_definition_check(b, tn_reduces_parse(t->reduces, schema, &op->reduces));
  tn_definition_check(b, tn_reuse_parse(t->reuse, schema, arena, &op->reuse));
  tn_definition_check(b, tn_upgrades_check(&op->upgrades, op->version, schema, arena));
  set_body(b, op, t->body);
  tn_definition_check(b, tn_uses_parse(t->uses, schema->ns, arena, &op->use_names, &op->use_count));
  op->where_text = t->where;
  op->reuse_text = t->reuse;
  return true;
}

/* Sets the traits that calls read instead of looking into the operator. */
static void set_traits(const tn_definition_t *b, tenon_op_t *op) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].is_written) op->traits |= TN_WRITES;
  const tn_matcher_t *matcher = op->shapes.matcher;
  /* Calls that write to inputs compare them with the other arguments before anything else. */
  bool is_plain = matcher && !b->library->places && !(op->traits & TN_WRITES) &&
                  (op->traits & (TENON_POINTWISE | TENON_RANDOM)) == matcher->traits && !op->infer;
  if (is_plain) op->traits |= TN_PLAIN;
  if (op->create) op->traits |= TN_STATEFUL;
  if (op->schema.needs_attrs) op->traits |= TN_NEEDS_ATTRS;
  op->is_view = !op->kernels && is_view_operator(op);
}

static void check_shapes_are_stated(tn_definition_t *b, const tenon_op_t *op) {
  bool is_composite = false;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    is_composite |= k->kind == TN_KIND_COMPOSITE;
  bool knows_shapes =
      op->infer || op->shapes.text || op->traits & TENON_POINTWISE || op->output_count == 0;
  if (!knows_shapes && !is_composite)
    tn_definition_offend(b, TENON_INVALID,
                         "%s: nothing says what shape its results have: add INFER or SHAPES, or "
                         "the trait TENON_POINTWISE",
                         op->name);
}

static void check_kernels(tn_definition_t *b, const tenon_op_t *op, const tn_texts_t *texts) {
  if (!op->kernels && !texts->has_bad_kernel && !op->is_view)
    tn_definition_offend(b, TENON_INVALID,
                         "%s: no kernel: add KERNEL, LOOP, ROW or COMPOSITE (only views, "
                         "`Tensor(a) x -> Tensor(a)`, need none)",
                         op->name);
  if (op->create && !op->destroy)
    tn_definition_offend(b, TENON_INVALID, "%s: CREATE without DESTROY", op->name);
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    tn_definition_check_stub(b, op, k);
}

static void find_uses(tn_definition_t *b, tenon_op_t *op) {
  const tenon_op_t **uses =
      op->use_count ? tn_arena_array(&op->arena, op->use_count, sizeof *uses) : NULL;
  if (op->use_count && !uses)
    tn_definition_offend(b, TENON_MEMORY, "out of memory: operators that %s uses", op->name);
  for (uint32_t i = 0; i < op->use_count && uses; i++) {
    uses[i] = find_known(b, op->use_names[i]);
    if (!uses[i])
      tn_definition_offend(b, TENON_NOT_FOUND, "%s uses %s, which no loaded library defines",
                           op->name, op->use_names[i]);
  }
  op->uses = uses;
}

/* Parses the declarations of an operator after all its items were read, and builds its table. */
static void finish_op(tn_definition_t *b, tenon_op_t *op, const tn_texts_t *texts) {
  const tn_texts_t t = *texts;
  b->op = op;
  size_t before = b->offence_count;
  if (!parse_texts(b, op, &t)) return;
  if (op->gradient.text && b->offence_count == before)
    tn_gradient_walk(&op->gradient, gradient_operator, b);
  check_shapes_are_stated(b, op);
  set_traits(b, op);
  check_kernels(b, op, &t);
  /* PREPARE may stand after the kernels. */
  for (tn_kernel_t *k = op->kernels; k; k = k->next) {
    if (k->prepare) continue;
    k->prepare = op->prepare;
    k->release = op->release;
  }
  find_uses(b, op);
  op->dispatch_input = deciding_input(op);
  if (b->offence_count == before) tn_definition_check(b, tn_table_build(op));
}

bool tn_descriptor_check(const tenon_descriptor_t *d, tn_text_t *offences) {
  size_t before = offences->size;
#define OFFENCE(...)                                                                               \
  do {                                                                                             \
    tn_text_add(offences, "%s", offences->size ? "\n" : "");                                       \
    tn_text_add(offences, __VA_ARGS__);                                                            \
  } while (0)
  if (!d) {
    OFFENCE("its entry returned NULL: expected a descriptor");
    return false;
  }
  /* The size that the structure had in contract 1.0. */
  const size_t least = offsetof(tenon_descriptor_t, items) + sizeof d->items;
  if (!TENON_HAS(d, items) || d->size > 1u << 16) {
    OFFENCE(
        "descriptor of %u bytes: expected %zu or a little more; is the file an operator library?",
        d->size, least);
    return false;
  }
  if (d->abi >> 16 != TENON_ABI >> 16)
    OFFENCE("contract %u.%u: this host has %u.%u and loads every library of major version %u: %s",
            d->abi >> 16, d->abi & 0xffff, TENON_ABI >> 16, TENON_ABI & 0xffff, TENON_ABI >> 16,
            d->abi >> 16 > TENON_ABI >> 16 ? "update libtenon" : "rebuild the library");
  if (d->layout != TENON_LAYOUT)
    OFFENCE("layout %08x: expected %08x (sizes of frozen structures): rebuild the library with "
            "this op.h",
            d->layout, TENON_LAYOUT);
  if (d->required)
    OFFENCE("requires features %#x, none of which this host has: update libtenon", d->required);
  if (!d->name || !tn_is_name(d->name, strlen(d->name)))
    OFFENCE("library name '%s': expected letters, digits and '_', not starting with a digit",
            d->name ? d->name : "(NULL)");
  if (!d->version) OFFENCE("library version is NULL");
  if (!d->items) OFFENCE("its list of items is NULL");
#undef OFFENCE
  return offences->size == before;
}

static bool has_kernel_of(const tn_kernel_t *k, const tn_backend_t *backend) {
  while (k && (k->words.at != TN_AT_BACKEND || k->backend != backend))
    k = k->next;
  return k != NULL;
}

/* A library that adds a kernel of core::allocate for a backend must also add one of core::copy, and
 * the reverse, unless the backend has it already. */
static void check_required(tn_definition_t *b) {
  static const char *const names[] = {"core::allocate", "core::copy"};
  for (size_t i = 0; i < b->extension_count; i++)
    for (int n = 0; n < 2; n++) {
      if (strcmp(b->extensions[i].op->name, names[n]) != 0) continue;
      const tenon_op_t *other = find_known(b, names[!n]);
      for (const tn_kernel_t *k = b->extensions[i].first; k && other; k = k->next) {
        /* A source kernel belongs to every backend that compiles it. */
        if (!k->backend) continue;
        bool has = k->words.at != TN_AT_BACKEND || has_kernel_of(other->kernels, k->backend);
        for (size_t e = 0; e < b->extension_count && !has; e++)
          has = b->extensions[e].op == other && has_kernel_of(b->extensions[e].first, k->backend);
        if (!has)
          tn_definition_offend(b, TENON_UNIMPLEMENTED,
                               "backend %s lacks %s: a device brings kernels of core::allocate and "
                               "core::copy, and the other required operators follow from them",
                               k->backend->name, names[!n]);
      }
    }
}

static void check_extensions(tn_definition_t *b) {
  for (size_t i = 0; i < b->extension_count && !b->failed; i++)
    for (const tn_kernel_t *k = b->extensions[i].first; k; k = k->next)
      tn_definition_check_stub(b, b->extensions[i].op, k);
}

bool tn_define(tn_definition_t *b, const tenon_descriptor_t *descriptor, const char *path) {
  tn_library_t *library = b->library;
  library->name = tn_definition_text(b, &library->arena, descriptor->name);
  library->version = tn_definition_text(b, &library->arena, descriptor->version);
  library->path = tn_definition_text(b, &library->arena, path);
  if (b->offence_count == 0) add_items(b, descriptor->items);
  for (size_t i = 0; i < b->count && !b->failed; i++)
    finish_op(b, b->drafts[i].op, &b->drafts[i].texts);
  /* A program adds kernels one by one; tenon_backend_check checks them together. */
  if (b->override == TN_OVERRIDE_MAY) check_required(b);
  check_extensions(b);
  return b->offence_count == 0;
}

bool tn_define_extension(tn_definition_t *b, const tn_dangling_t *dangling) {
  const tenon_item_t *item = dangling->items;
  begin_extension(b, item);
  for (item++; b->extension && item->tag != TENON_TAG_END && item->tag != TENON_TAG_OP &&
               item->tag != TENON_TAG_EXTEND && item->tag != TENON_TAG_GROUP;
       item++)
    add_item(b, item);
  check_extensions(b);
  return b->offence_count == 0;
}

bool tn_definition_open(tn_definition_t *b) {
  if (!b->open) return true;
  tenon_node_t node = {.size = sizeof node,
                       .phase = TENON_PHASE_OPEN,
                       .host = &tn_host,
                       .context = b->library->context,
                       .device = {1, 0}};
  const uint64_t errors = tn_error_count();
  tenon_status_t status = tn_reason_complete(b->open(&node), errors, "", "TENON_OPEN function");
  if (status != TENON_OK) {
    char text[1024];
    snprintf(text, sizeof text, "%s", tn_error());
    tn_definition_offend(b, status, "its open refused: %s", text);
    return false;
  }
  b->library->open_state = node.state;
  b->library->close = b->close;
  return true;
}
