/* The registry, see registry.h: from a descriptor's items to operators, all or nothing.  Called by the loader and for
 * libraries that are linked in.  Invariant: names are published only after every operator of the library is complete. */
#include "dispatch/registry.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/cpu.h"
#include "base/dynlib.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dispatch/call.h"

typedef struct tn_extension_t { /* kernels added to an operator of another library */
  tenon_op_t *op;
  tn_kernel_t *first, *last; /* a piece of the operator's list */
} tn_extension_t;

static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_map_t operators; /* full name -> tenon_op_t */
static tn_library_t **libraries;
static size_t library_count, library_capacity;

/* ---- finding ---------------------------------------------------------------------------------------------------- */

const tenon_op_t *tn_registry_find(const char *name) {
  tn_mutex_lock(&lock);
  const tenon_op_t *op = tn_map_get(&operators, name, strlen(name));
  tn_mutex_unlock(&lock);
  return op;
}

tn_library_t *tn_registry_library(const char *path) {
  tn_library_t *found = NULL;
  tn_mutex_lock(&lock);
  for (size_t i = 0; i < library_count && !found; i++)
    if (strcmp(libraries[i]->path, path) == 0) found = libraries[i];
  if (found) __atomic_fetch_add(&found->references, 1, __ATOMIC_RELAXED);
  tn_mutex_unlock(&lock);
  return found;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const tenon_op_t *const *)a)->name, (*(const tenon_op_t *const *)b)->name);
}

tenon_status_t tn_registry_list(const tenon_op_t *const **out_ops, int32_t *out_count) {
  tn_mutex_lock(&lock);
  const tenon_op_t **ops = tn_allocate((operators.count + 1) * sizeof *ops), *op;
  size_t position = 0, count = 0;
  while (ops && (op = tn_map_next(&operators, &position, NULL))) ops[count++] = op;
  tn_mutex_unlock(&lock);
  if (!ops) return tn_no_memory("a list of operators", count * sizeof *ops);
  qsort(ops, count, sizeof *ops, by_name);
  *out_ops = ops, *out_count = (int32_t)count;
  return TENON_OK;
}

static size_t distance(const char *a, const char *b) { /* edits between two names, at most 63 letters of each */
  size_t row[64], n = strlen(a) < 63 ? strlen(a) : 63, m = strlen(b) < 63 ? strlen(b) : 63;
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t corner = row[0]++;
    for (size_t j = 1; j <= m; j++) {
      size_t best = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[m];
}

void tn_registry_suggest(const char *name, tn_text_t *text) {
  size_t position = 0, best = strlen(name) / 3 + 1;
  const tenon_op_t *op, *nearest = NULL;
  tn_mutex_lock(&lock);
  while ((op = tn_map_next(&operators, &position, NULL))) {
    size_t far = distance(name, op->name);
    const char *bare = strstr(name, "::") ? NULL : strstr(op->name, "::");
    if (bare && distance(name, bare + 2) < far) far = distance(name, bare + 2);
    if (far < best || (far == best && nearest && strcmp(op->name, nearest->name) < 0)) best = far, nearest = op;
  }
  if (nearest) tn_text_add(text, "; did you mean '%s'?", nearest->name);
  tn_text_add(text, " (libraries loaded:");
  for (size_t i = 0; i < library_count; i++) tn_text_add(text, "%s %s", i ? "," : "", libraries[i]->name);
  tn_text_add(text, ")");
  tn_mutex_unlock(&lock);
}

/* ---- building --------------------------------------------------------------------------------------------------- */

typedef struct build_t {
  tn_library_t *library;
  tn_text_t *offences;
  tenon_op_t **ops;
  size_t count, capacity;
  tn_extension_t *extensions;
  size_t extension_count, extension_capacity;
  tn_map_t names; /* operators of this library so far */
  tenon_op_t *op; /* that items belong to now; NULL: none, or a bad one whose items are skipped */
  tn_extension_t *extension;
  tenon_node_fn open, kernel_prepare;
  tenon_free_fn close, kernel_release;
  bool has_op, failed; /* failed: out of memory */
  tenon_status_t code;
  size_t offence_count;
} build_t;

static void offend(build_t *b, tenon_status_t code, const char *format, ...) TENON_FORMAT(3, 4);
static void offend(build_t *b, tenon_status_t code, const char *format, ...) {
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

static tenon_op_t *target(const build_t *b) { return b->op ? b->op : b->extension ? b->extension->op : NULL; }

static bool check(build_t *b, tenon_status_t status) { /* of a parser: its message is the offence, after the operator's name */
  if (status == TENON_OK) return true;
  char text[2048];
  const char *name = target(b) ? target(b)->name : "";
  snprintf(text, sizeof text, "%s", tn_error());
  bool is_named = strstr(text, name) != NULL;
  offend(b, status, "%s%s%s", is_named ? "" : name, is_named ? "" : ": ", text);
  return false;
}

static void *room(build_t *b, tn_arena_t *arena, size_t size) {
  void *memory = tn_arena_allocate(arena, size);
  if (!memory) offend(b, TENON_MEMORY, "out of memory: an operator needs %zu bytes", size);
  return memory;
}

static const char *kept(build_t *b, tn_arena_t *arena, const char *text) {
  if (!text) return NULL;
  const char *copy = tn_arena_text(arena, text, strlen(text));
  if (!copy) offend(b, TENON_MEMORY, "out of memory: a text of an operator");
  return copy;
}

static void free_op(tenon_op_t *op) {
  tn_states_release(op);
  tn_arena_t arena = op->arena;
  tn_arena_clear(&arena);
}

static void begin_op(build_t *b, const char *schema) {
  tn_arena_t arena = {NULL};
  b->op = NULL, b->extension = NULL, b->has_op = true;
  tenon_op_t *op = room(b, &arena, sizeof *op);
  if (!op) return;
  bool good = check(b, tn_schema_parse(schema, b->library->name, &arena, &op->schema));
  if (good && tn_map_get(&b->names, op->schema.full, strlen(op->schema.full))) {
    offend(b, TENON_EXISTS, "operator %s is defined twice in this library", op->schema.full);
    good = false;
  }
  if (good && (!tn_grow((void **)&b->ops, &b->capacity, b->count, sizeof *b->ops) ||
               !tn_map_put(&b->names, op->schema.full, strlen(op->schema.full), op))) {
    offend(b, TENON_MEMORY, "out of memory: a list of operators");
    good = false;
  }
  if (!good) {
    tn_arena_clear(&arena);
    return;
  }
  op->name = op->schema.full, op->library = b->library, op->context = b->library->context, op->version = 1;
  op->input_count = op->schema.input_count, op->output_count = op->schema.output_count;
  op->defaults = op->schema.defaults, op->dispatch_input = -1;
  op->arena = arena;
  b->ops[b->count++] = b->op = op;
}

static tenon_op_t *find_known(build_t *b, const char *name) {
  tenon_op_t *op = tn_map_get(&b->names, name, strlen(name));
  return op ? op : tn_map_get(&operators, name, strlen(name));
}

static void begin_extension(build_t *b, const char *name) {
  b->op = NULL, b->extension = NULL, b->has_op = true;
  tenon_op_t *op = find_known(b, name);
  if (!op) {
    offend(b, TENON_NOT_FOUND, "extends %s, which no loaded library defines", name);
    return;
  }
  for (size_t i = 0; i < b->extension_count; i++)
    if (b->extensions[i].op == op) {
      b->extension = &b->extensions[i];
      return;
    }
  if (!tn_grow((void **)&b->extensions, &b->extension_capacity, b->extension_count, sizeof *b->extensions)) {
    offend(b, TENON_MEMORY, "out of memory: a list of kernels");
    return;
  }
  b->extension = &b->extensions[b->extension_count++];
  *b->extension = (tn_extension_t){op, NULL, NULL};
}

typedef struct texts_t { /* of one operator, parsed when all are there */
  const char *types, *shapes, *where, *gradient, *batching, *sharding, *reuse, *uses;
  bool has_bad_kernel;
} texts_t;

static texts_t *texts_of(build_t *b) { /* hang on the operator until finish */
  tenon_op_t *op = b->op;
  if (!op->use_names) op->use_names = room(b, &op->arena, sizeof(texts_t));
  return (texts_t *)(uintptr_t)op->use_names;
}

static void add_kernel(build_t *b, const tenon_item_t *item) {
  tenon_op_t *op = target(b);
  if (b->op) texts_of(b)->has_bad_kernel = true; /* until it is added */
  const char *kind = item->tag == TENON_TAG_KERNEL ? "KERNEL" : item->tag == TENON_TAG_LOOP ? "LOOP" : item->tag == TENON_TAG_ROW ? "ROW" : "COMPOSITE";
  if (!item->function) {
    offend(b, TENON_INVALID, "%s: %s '%s' has no function", op->name, kind, item->text ? (const char *)item->text : "");
    return;
  }
  tn_arena_t *arena = &b->library->arena;
  tn_kernel_t *kernel = room(b, arena, sizeof *kernel);
  if (!kernel) return;
  *kernel = (tn_kernel_t){.context = b->library->context, .library = b->library, .prepare = b->kernel_prepare,
                          .release = b->kernel_release, .words = {"cpu", 0, ~(uint64_t)0, 0}};
  bool good = true;
  char text[256];
  switch (item->tag) {
  case TENON_TAG_KERNEL:
    kernel->kind = TN_KERNEL_DEVICE, kernel->run = (tenon_run_fn)item->function;
    good = check(b, tn_kernel_parse(item->text ? item->text : "", arena, &kernel->words));
    snprintf(text, sizeof text, "%s", item->text ? (const char *)item->text : "");
    break;
  case TENON_TAG_COMPOSITE:
    kernel->kind = TN_KERNEL_COMPOSITE, kernel->run = (tenon_run_fn)item->function;
    kernel->words.flags = TN_KERNEL_STRIDED | TN_KERNEL_QUANTISED; /* its parts see to that */
    snprintf(text, sizeof text, "composite");
    break;
  default:
    kernel->kind = item->tag == TENON_TAG_LOOP ? TN_KERNEL_LOOP : TN_KERNEL_ROW;
    kernel->run = item->tag == TENON_TAG_LOOP ? tn_loop_run : tn_row_run;
    kernel->loop.function = (tenon_loop_fn)item->function;
    good = check(b, tn_loop_parse(item->text ? item->text : "", &op->schema, arena, &kernel->loop.words));
    kernel->words.isa = kernel->loop.words.isa;
    if (good && kernel->loop.words.flags & TN_KERNEL_STRIDED) kernel->words.flags |= TN_KERNEL_STRIDED;
    snprintf(text, sizeof text, "cpu %s %s", item->tag == TENON_TAG_LOOP ? "loop" : "row", item->text ? (const char *)item->text : "");
  }
  kernel->text = kept(b, arena, text);
  if (!good) return;
  if (b->extension) {
    kernel->next = b->extension->first;
    b->extension->first = kernel;
    if (!b->extension->last) b->extension->last = kernel;
  } else {
    kernel->next = op->kernels;
    op->kernels = kernel;
    texts_of(b)->has_bad_kernel = false;
  }
}

static void set_text(build_t *b, const char **slot, const tenon_item_t *item, const char *what) {
  tenon_op_t *op = target(b);
  if (*slot) offend(b, TENON_INVALID, "%s: %s is stated twice", op->name, what);
  else if (!item->text) offend(b, TENON_INVALID, "%s: %s has no text", op->name, what);
  else *slot = kept(b, &op->arena, item->text);
}

static void set_function(build_t *b, tenon_any_fn *slot, const tenon_item_t *item, const char *what) {
  if (*slot) offend(b, TENON_INVALID, "%s: %s is stated twice", target(b)->name, what);
  else if (!item->function) offend(b, TENON_INVALID, "%s: %s has no function", target(b)->name, what);
  else *slot = item->function;
}

static void add_upgrade(build_t *b, const tenon_item_t *item) {
  tenon_op_t *op = b->op;
  tn_upgrade_t *all = tn_arena_array(&op->arena, op->upgrade_count + 1, sizeof *all);
  if (!all) {
    offend(b, TENON_MEMORY, "out of memory: upgrades of %s", op->name);
    return;
  }
  if (op->upgrade_count) memcpy(all, op->upgrades, op->upgrade_count * sizeof *all);
  if (!check(b, tn_upgrade_parse(item->number, item->text ? item->text : "", &op->arena, &all[op->upgrade_count]))) return;
  op->upgrades = all, op->upgrade_count++;
}

static void add_items(build_t *b, const tenon_item_t *items, int depth);

static void add_item(build_t *b, const tenon_item_t *item, int depth) {
  uint32_t tag = item->tag & ~TENON_MUST;
  switch (tag) {
  case TENON_TAG_GROUP:
    if (!item->text) offend(b, TENON_INVALID, "a group of items is NULL");
    else if (depth > 8) offend(b, TENON_INVALID, "groups of items are nested more than 8 deep");
    else add_items(b, item->text, depth + 1);
    return;
  case TENON_TAG_OP:
    b->kernel_prepare = NULL, b->kernel_release = NULL;
    if (item->text) begin_op(b, item->text);
    else offend(b, TENON_INVALID, "an operator has no schema (NULL)"), b->op = NULL, b->extension = NULL, b->has_op = true;
    return;
  case TENON_TAG_EXTEND:
    b->kernel_prepare = NULL, b->kernel_release = NULL;
    if (item->text) begin_extension(b, item->text);
    else offend(b, TENON_INVALID, "an extension names no operator (NULL)"), b->op = NULL, b->extension = NULL, b->has_op = true;
    return;
  case TENON_TAG_OPEN: b->open = (tenon_node_fn)item->function; return;
  case TENON_TAG_CLOSE: b->close = (tenon_free_fn)item->function; return;
  case TENON_TAG_ABOUT: b->library->about = kept(b, &b->library->arena, item->text); return;
  default: break;
  }
  if (tag > TENON_TAG_ABOUT) { /* newer than this host */
    if (item->tag & TENON_MUST) offend(b, TENON_UNIMPLEMENTED, "item %u is newer than this host (contract %u.%u) and marked as needed: update libtenon", tag, TENON_ABI >> 16, TENON_ABI & 0xffff);
    return;
  }
  if (!b->has_op) {
    offend(b, TENON_INVALID, "item %u stands before the first operator: expected a schema (TENON_OP)", tag);
    b->has_op = true; /* said once */
    return;
  }
  tenon_op_t *op = target(b);
  if (!op) return; /* items of an operator whose schema is bad */
  if (b->extension && tag != TENON_TAG_KERNEL && tag != TENON_TAG_LOOP && tag != TENON_TAG_ROW &&
      tag != TENON_TAG_COMPOSITE && tag != TENON_TAG_PREPARE && tag != TENON_TAG_RELEASE) {
    offend(b, TENON_INVALID, "extension of %s: item %u: only kernels can be added to an operator", op->name, tag);
    return;
  }
  texts_t *texts = b->op ? texts_of(b) : NULL;
  if (b->op && !texts) return;
  switch (tag) {
  case TENON_TAG_DOC: set_text(b, &op->doc, item, "DOC"); break;
  case TENON_TAG_TYPES: set_text(b, &texts->types, item, "TYPES"); break;
  case TENON_TAG_SHAPES: set_text(b, &texts->shapes, item, "SHAPES"); break;
  case TENON_TAG_WHERE: set_text(b, &texts->where, item, "WHERE"); break;
  case TENON_TAG_GRADIENT: set_text(b, &texts->gradient, item, "GRADIENT"); break;
  case TENON_TAG_BATCHING: set_text(b, &texts->batching, item, "BATCHING"); break;
  case TENON_TAG_SHARDING: set_text(b, &texts->sharding, item, "SHARDING"); break;
  case TENON_TAG_REUSE: set_text(b, &texts->reuse, item, "REUSE"); break;
  case TENON_TAG_USES: set_text(b, &texts->uses, item, "USES"); break;
  case TENON_TAG_TRAITS: op->traits = (uint64_t)item->number; break;
  case TENON_TAG_VERSION:
    op->version = item->number;
    if (item->number < 1) offend(b, TENON_INVALID, "%s: version %lld: expected 1 or more", op->name, (long long)item->number);
    break;
  case TENON_TAG_UPGRADE: add_upgrade(b, item); break;
  case TENON_TAG_INFER: set_function(b, (tenon_any_fn *)&op->infer, item, "INFER"); break;
  case TENON_TAG_VALIDATE: set_function(b, (tenon_any_fn *)&op->validate, item, "VALIDATE"); break;
  case TENON_TAG_CREATE: set_function(b, (tenon_any_fn *)&op->create, item, "CREATE"); break;
  case TENON_TAG_DESTROY: op->destroy = (tenon_free_fn)item->function; break;
  case TENON_TAG_PREPARE: /* of the operator, or of the kernels that follow in an extension */
    if (!item->function) offend(b, TENON_INVALID, "%s: PREPARE has no function", op->name);
    b->kernel_prepare = (tenon_node_fn)item->function;
    if (b->op) op->prepare = b->kernel_prepare;
    break;
  case TENON_TAG_RELEASE:
    b->kernel_release = (tenon_free_fn)item->function;
    if (b->op) op->release = b->kernel_release;
    break;
  case TENON_TAG_KERNEL: case TENON_TAG_COMPOSITE: case TENON_TAG_LOOP: case TENON_TAG_ROW: add_kernel(b, item); break;
  case TENON_TAG_SOURCE: case TENON_TAG_SUBGRAPH:
    if (item->tag & TENON_MUST) offend(b, TENON_UNIMPLEMENTED, "%s: this host has no source or subgraph kernels", op->name);
    break;
  default: offend(b, TENON_INVALID, "%s: item %u has no meaning here", op->name, tag);
  }
}

static void add_items(build_t *b, const tenon_item_t *items, int depth) {
  enum { MOST = 1 << 22 };
  int count = 0;
  for (; items->tag != TENON_TAG_END && !b->failed; items++) {
    if (++count > MOST) {
      offend(b, TENON_INVALID, "a list of more than %d items: is its end (TENON_TAG_END) missing?", MOST);
      return;
    }
    add_item(b, items, depth);
  }
}

static tenon_status_t gradient_operator(void *context, const char *name) {
  build_t *b = context;
  size_t ns = strlen(b->op->schema.ns);
  if (strncmp(name, b->op->schema.ns, ns) != 0 || strncmp(name + ns, "::", 2) != 0) return TENON_OK;
  if (!find_known(b, name)) offend(b, TENON_NOT_FOUND, "%s: gradient: operator %s is not in this library", b->op->name, name);
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
  for (uint32_t o = 0; o < op->output_count; o++) marked &= op->schema.outputs[o].mark && !op->schema.outputs[o].is_written;
  return marked;
}

/* Parses the texts of an operator whose items are all there, and builds its table. */
static void finish_op(build_t *b, tenon_op_t *op) {
  static const texts_t none = {0};
  tn_arena_t *arena = &op->arena;
  const texts_t t = op->use_names ? *(const texts_t *)(const void *)op->use_names : none;
  op->use_names = NULL, b->op = op;
  size_t before = b->offence_count;
  if (!check(b, tn_types_parse(t.types, &op->schema, arena, &op->types))) return;
  check(b, tn_patterns_parse(t.shapes, false, &op->schema, arena, &op->shapes));
  check(b, tn_patterns_parse(t.sharding, true, &op->schema, arena, &op->sharding));
  check(b, tn_gradient_parse(t.gradient, &op->schema, &op->types, arena, &op->gradient));
  check(b, tn_batching_parse(t.batching, &op->schema, &op->batching));
  check(b, tn_where_parse(t.where, &op->schema, arena, &op->where));
  check(b, tn_reuse_parse(t.reuse, &op->schema, arena, &op->reuse));
  check(b, tn_uses_parse(t.uses, op->schema.ns, arena, &op->use_names, &op->use_count));
  op->where_text = t.where, op->reuse_text = t.reuse;
  if (op->gradient.text && b->offence_count == before) tn_gradient_walk(&op->gradient, gradient_operator, b);
  bool composite = false;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) composite |= k->kind == TN_KERNEL_COMPOSITE;
  bool knows_shapes = op->infer || op->shapes.text || op->traits & TENON_POINTWISE || op->output_count == 0;
  if (!knows_shapes && !composite)
    offend(b, TENON_INVALID, "%s: nothing says what shape its results have: add INFER or SHAPES, or the trait TENON_POINTWISE", op->name);
  if (!op->kernels && !t.has_bad_kernel && !is_view_operator(op))
    offend(b, TENON_INVALID, "%s: no kernel: add KERNEL, LOOP, ROW or COMPOSITE (only views, `Tensor(a) x -> Tensor(a)`, need none)", op->name);
  if (op->create && !op->destroy) offend(b, TENON_INVALID, "%s: CREATE without DESTROY", op->name);
  const tenon_op_t **uses = op->use_count ? tn_arena_array(arena, op->use_count, sizeof *uses) : NULL;
  for (uint32_t i = 0; i < op->use_count && uses; i++)
    if (!(uses[i] = find_known(b, op->use_names[i])))
      offend(b, TENON_NOT_FOUND, "%s uses %s, which no loaded library defines", op->name, op->use_names[i]);
  op->uses = uses;
  op->dispatch_input = deciding_input(op);
  if (b->offence_count == before) check(b, tn_table_build(op));
}

/* ---- adding ----------------------------------------------------------------------------------------------------- */

bool tn_descriptor_check(const tenon_descriptor_t *d, tn_text_t *offences) {
  size_t before = offences->size;
#define OFFENCE(...) (tn_text_add(offences, "%s", offences->size ? "\n" : ""), tn_text_add(offences, __VA_ARGS__))
  if (!d) return OFFENCE("its entry returned NULL: expected a descriptor"), false;
  if (d->size < sizeof *d || d->size > 1u << 16)
    return OFFENCE("descriptor of %u bytes: expected %zu or a little more; is the file an operator library?", d->size, sizeof *d), false;
  if (d->abi >> 16 != TENON_ABI >> 16)
    OFFENCE("contract %u.%u: this host has %u.%u and loads every library of major version %u: %s", d->abi >> 16, d->abi & 0xffff,
            TENON_ABI >> 16, TENON_ABI & 0xffff, TENON_ABI >> 16,
            d->abi >> 16 > TENON_ABI >> 16 ? "update libtenon" : "rebuild the library");
  if (d->layout != TENON_LAYOUT)
    OFFENCE("layout %08x: expected %08x (sizes of frozen structures): rebuild the library with this op.h", d->layout, TENON_LAYOUT);
  if (d->required) OFFENCE("requires features %#x, none of which this host has: update libtenon", d->required);
  if (!d->name || !tn_is_name(d->name, strlen(d->name)))
    OFFENCE("library name '%s': expected letters, digits and '_', not starting with a digit", d->name ? d->name : "(NULL)");
  if (!d->version) OFFENCE("library version is NULL");
  if (!d->items) OFFENCE("its list of items is NULL");
#undef OFFENCE
  return offences->size == before;
}

static void free_library(tn_library_t *library) {
  for (uint32_t i = 0; i < library->op_count; i++) free_op(library->ops[i]);
  if (library->close) library->close(library->open_state);
  if (library->destroy) library->destroy(library->context);
  tn_release_memory(library->ops);
  tn_release_memory(library->extensions);
  tn_dynlib_close(library->dynlib);
  tn_arena_t arena = library->arena;
  tn_arena_clear(&arena);
}

static void publish_extensions(build_t *b) {
  for (size_t i = 0; i < b->extension_count; i++) {
    tn_extension_t *e = &b->extensions[i];
    if (!e->first) continue;
    e->last->next = e->op->kernels;
    e->op->kernels = e->first;
    check(b, tn_table_build(e->op));
  }
}

static void withdraw(tn_extension_t *e) { /* kernels of a library that goes leave the list of an operator that stays */
  if (!e->first) return;
  for (tn_kernel_t **at = &e->op->kernels; *at; at = &(*at)->next)
    if (*at == e->first) {
      *at = e->last->next;
      break;
    }
  (void)tn_table_build(e->op); /* without memory the old table stays, and its library is pinned by its users */
}

static void open_library(build_t *b) {
  if (!b->open) return;
  tenon_node_t node = {.size = sizeof node, .phase = TENON_PHASE_OPEN, .host = &tn_host, .context = b->library->context,
                       .device = {1, 0}};
  tenon_status_t status = b->open(&node);
  if (status != TENON_OK) {
    char text[1024];
    snprintf(text, sizeof text, "%s", tn_error());
    offend(b, status, "its open refused: %s", text);
    return;
  }
  b->library->open_state = node.state, b->library->close = b->close;
}

static bool build(build_t *b, const tenon_descriptor_t *descriptor) {
  add_items(b, descriptor->items, 0);
  for (size_t i = 0; i < b->count && !b->failed; i++) {
    const tenon_op_t *other = tn_map_get(&operators, b->ops[i]->name, strlen(b->ops[i]->name));
    if (other)
      offend(b, TENON_EXISTS, "operator %s is there already, from library %s%s%s", other->name, other->library->name,
             *other->library->path ? " at " : "", other->library->path);
    finish_op(b, b->ops[i]);
  }
  if (b->offence_count == 0) open_library(b);
  return b->offence_count == 0;
}

tenon_status_t tn_registry_add(const tenon_descriptor_t *descriptor, const char *path, void *context,
                               tenon_free_fn destroy, tn_text_t *offences, tn_library_t **out_library) {
  tn_arena_t arena = {NULL};
  if (!tn_descriptor_check(descriptor, offences)) return TENON_INVALID;
  tn_library_t *library = tn_arena_allocate(&arena, sizeof *library);
  if (!library) return tn_no_memory("a library", sizeof *library);
  library->arena = arena, library->context = context, library->references = 1;
  build_t b = {.library = library, .offences = offences, .code = TENON_OK};
  library->name = kept(&b, &library->arena, descriptor->name);
  library->version = kept(&b, &library->arena, descriptor->version);
  library->path = kept(&b, &library->arena, path);
  tn_mutex_lock(&lock);
  bool good = b.offence_count == 0 && build(&b, descriptor);
  if (good && !tn_grow((void **)&libraries, &library_capacity, library_count, sizeof *libraries)) {
    offend(&b, TENON_MEMORY, "out of memory: the list of libraries");
    good = false;
  }
  size_t published = 0;
  while (good && published < b.count) {
    good = tn_map_put(&operators, b.ops[published]->name, strlen(b.ops[published]->name), b.ops[published]);
    if (good) published++;
    else offend(&b, TENON_MEMORY, "out of memory: the map of operators");
  }
  if (good) {
    library->ops = b.ops, library->op_count = (uint32_t)b.count;
    library->extensions = b.extensions, library->extension_count = (uint32_t)b.extension_count;
    library->destroy = destroy;
    publish_extensions(&b);
    libraries[library_count++] = library;
    *out_library = library;
  } else {
    for (size_t i = 0; i < published; i++) tn_map_remove(&operators, b.ops[i]->name, strlen(b.ops[i]->name));
    library->ops = b.ops, library->op_count = (uint32_t)b.count, library->extensions = b.extensions;
    free_library(library);
  }
  tn_mutex_unlock(&lock);
  tn_map_clear(&b.names);
  if (good) return TENON_OK;
  if (offences->failed) return tn_no_memory("a message", offences->size);
  return b.code == TENON_OK ? TENON_INVALID : b.code;
}

/* ---- removing --------------------------------------------------------------------------------------------------- */

static void take_out(size_t index) {
  tn_library_t *library = libraries[index];
  for (uint32_t i = 0; i < library->op_count; i++)
    tn_map_remove(&operators, library->ops[i]->name, strlen(library->ops[i]->name));
  for (uint32_t i = 0; i < library->extension_count; i++) withdraw(&library->extensions[i]);
  memmove(&libraries[index], &libraries[index + 1], (--library_count - index) * sizeof *libraries);
}

static bool is_used(const tn_library_t *library) { /* by operators of another library, or kernels added to this one's */
  for (size_t l = 0; l < library_count; l++) {
    if (libraries[l] == library) continue;
    for (uint32_t i = 0; i < libraries[l]->op_count; i++)
      for (uint32_t u = 0; u < libraries[l]->ops[i]->use_count; u++)
        if (libraries[l]->ops[i]->uses[u]->library == library) return true;
    for (uint32_t i = 0; i < libraries[l]->extension_count; i++)
      if (libraries[l]->extensions[i].op->library == library) return true;
  }
  return false;
}

static bool is_held(const tn_library_t *library) {
  return __atomic_load_n(&library->references, __ATOMIC_ACQUIRE) || library->users;
}

/* A reference or a user of it went: takes an unloadable library out; true when it is to be freed now.  That happens
 * outside the mutex, since it runs code of the library. */
static bool settle(tn_library_t *library) {
  size_t index = 0;
  if (is_held(library)) return false;
  while (index < library_count && libraries[index] != library) index++;
  if (index == library_count) return true; /* it was held at shutdown */
  if (!__atomic_load_n(&library->is_unloadable, __ATOMIC_RELAXED) || is_used(library)) return false;
  take_out(index);
  return true;
}

void tn_registry_release(tn_library_t *library) {
  tn_mutex_lock(&lock);
  __atomic_fetch_sub(&library->references, 1, __ATOMIC_ACQ_REL);
  bool is_over = settle(library);
  tn_mutex_unlock(&lock);
  if (is_over) free_library(library);
}

void tn_registry_use(const tn_library_t *library) {
  tn_mutex_lock(&lock);
  ((tn_library_t *)(uintptr_t)library)->users++;
  tn_mutex_unlock(&lock);
}

void tn_registry_unuse(const tn_library_t *library) {
  tn_library_t *mine = (tn_library_t *)(uintptr_t)library;
  tn_mutex_lock(&lock);
  mine->users--;
  bool is_over = settle(mine);
  tn_mutex_unlock(&lock);
  if (is_over) free_library(mine);
}

void tn_registry_clear(void) {
  tn_mutex_lock(&lock);
  while (library_count) {
    tn_library_t *library = libraries[library_count - 1];
    take_out(library_count - 1);
    bool is_over = !is_held(library);
    tn_mutex_unlock(&lock);
    if (is_over) free_library(library); /* else with the last who holds it */
    tn_mutex_lock(&lock);
  }
  tn_map_clear(&operators);
  tn_release_memory(libraries);
  libraries = NULL, library_capacity = 0;
  tn_mutex_unlock(&lock);
}
