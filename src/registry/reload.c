/* Reloading: a library that was read again replaces its older generation, all of it or nothing. The
 * loader calls it. Invariants: an operator whose declarations have not changed keeps its handle,
 * whose calls go to the new operator; if an operator that is held has changed, the whole reload
 * fails; the older generation stays mapped until the library is closed, since calls may be in it
 * and its records are held. */
#include "registry/reload.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "operator/table.h"
#include "registry/registry.h"
#include "registry/suggestion.h"
#include "registry/waiting.h"

static uint64_t reloads; /* number of reloads; atomic */
/* The library whose operators a definition does not see; guarded by the registry's mutex. */
static const tn_library_t *hidden;

uint64_t tn_registry_reloads(void) { return __atomic_load_n(&reloads, __ATOMIC_ACQUIRE); }

static tenon_op_t *find_other(const char *name) {
  tenon_op_t *op = tn_registry_published(name);
  return op && op->library != hidden ? op : NULL;
}

static tenon_op_t *op_of(const tn_library_t *library, const char *name) {
  for (uint32_t i = 0; i < library->op_count; i++)
    if (strcmp(library->ops[i]->name, name) == 0) return library->ops[i];
  return NULL;
}

/* checks */

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

/* The first declaration of an operator that has changed and that holders of the operator rely on;
 * NULL: none. *was and *is get the two texts, or NULL. */
static const char *what_changed(const tenon_op_t *a, const tenon_op_t *b, const char **was,
                                const char **is) {
  const struct {
    const char *what;
    const char *was;
    const char *is;
  } texts[] = {{"schema", a->schema.text, b->schema.text},
               {"TYPES", a->types.text, b->types.text},
               {"SHAPES", a->shapes.text, b->shapes.text},
               {"WHERE", a->where_text, b->where_text}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    *was = texts[i].was;
    *is = texts[i].is;
    if (!same_text(*was, *is)) return texts[i].what;
  }
  *was = *is = NULL;
  if (a->version != b->version) return "VERSION";
  return (a->traits ^ b->traits) & 0xffffffffu || a->is_view != b->is_view ? "TRAITS" : NULL;
}

static void add_count(tn_text_t *text, int64_t number, const char *what) {
  if (!number) return;
  const char *separator = text->size ? ", " : "";
  const char *plural = number > 1 ? "s" : "";
  tn_text_add(text, "%s%lld %s%s", separator, (long long)number, what, plural);
}

/* Appends who holds an operator of any generation: graphs (each executable has its own), bound
 * calls, and libraries whose operators call it or that add kernels to it. */
static void name_holders(const tn_library_t *old, const tenon_op_t *op, tn_text_t *text) {
  int64_t graphs = 0;
  int64_t bounds = 0;
  for (const tn_library_t *l = old; l; l = l->older)
    for (uint32_t i = 0; i < l->op_count; i++) {
      if (tn_op_now(l->ops[i]) != op) continue;
      graphs += __atomic_load_n(&l->ops[i]->graphs, __ATOMIC_RELAXED);
      bounds += __atomic_load_n(&l->ops[i]->bounds, __ATOMIC_RELAXED);
    }
  add_count(text, graphs, "graph");
  add_count(text, bounds, "bound call");
  tn_library_t **at;
  for (size_t l = 0; (at = tn_registry_at(l)); l++) {
    const tn_library_t *other = *at;
    bool uses = false;
    if (other == old) continue;
    for (uint32_t i = 0; i < other->op_count; i++)
      for (uint32_t u = 0; u < other->ops[i]->use_count; u++)
        uses |= tn_op_now(other->ops[i]->uses[u]) == op;
    for (uint32_t i = 0; i < other->extension_count; i++)
      uses |= other->extensions[i].op == op;
    if (uses) tn_text_add(text, "%slibrary %s", text->size ? ", " : "", other->name);
  }
}

static void check_op(tn_definition_t *d, const tn_library_t *old, const tenon_op_t *op,
                     const tenon_op_t *next) {
  tn_text_t holders = {0};
  const char *was = NULL;
  const char *is = NULL;
  const char *what = next ? what_changed(op, next, &was, &is) : "";
  if (what) name_holders(old, op, &holders);
  if (what && holders.size && !next)
    tn_definition_offend(d, TENON_PRECONDITION, "%s is not in it any more, and is held by %s",
                         op->name, tn_text_get(&holders));
  else if (what && holders.size && !was && !is)
    tn_definition_offend(d, TENON_PRECONDITION, "%s: its %s changed, and it is held by %s",
                         op->name, what, tn_text_get(&holders));
  else if (what && holders.size) {
    if (!was) was = "";
    if (!is) is = "";
    tn_definition_offend(d, TENON_PRECONDITION,
                         "%s: its %s changed from '%s' to '%s', and it is held by %s", op->name,
                         what, was, is, tn_text_get(&holders));
  }
  tn_text_clear(&holders);
}

/* Where the registry lists the library; NULL: it is not listed any more. */
static tn_library_t **library_slot(const tn_library_t *library) {
  tn_library_t **place;
  size_t index = 0;
  while ((place = tn_registry_at(index)) && *place != library)
    index++;
  return place;
}

static bool may_replace(tn_definition_t *d, const tn_library_t *old) {
  const tn_library_t *library = d->library;
  const size_t before = d->offence_count;
  if (!library_slot(old)) {
    tn_definition_offend(d, TENON_PRECONDITION, "the runtime was shut down");
    return false;
  }
  if (strcmp(library->name, old->name) != 0)
    tn_definition_offend(d, TENON_INVALID, "it is library %s now, expected %s", library->name,
                         old->name);
  if (library->device_count || old->device_count || library->bridge || old->bridge)
    tn_definition_offend(d, TENON_UNIMPLEMENTED,
                         "a library that brings a device or a bridge is not reloaded: start again");
  for (uint32_t i = 0; i < old->op_count; i++)
    check_op(d, old, old->ops[i], op_of(library, old->ops[i]->name));
  return d->offence_count == before && tn_registry_names_free(d, old);
}

/* replacing */

/* Does everything that needs memory: registers the new names, links kernels for other libraries'
 * operators, reserves room for kernels of other libraries, and makes the entries that lead calls to
 * the successors. */
static bool prepare_tables(tn_definition_t *d, tn_library_t *old, tn_table_entry_t **entries) {
  tn_library_t *library = d->library;
  bool good = tn_registry_make_room(old, d->dangling_count + 1);
  uint32_t named = 0;
  for (uint32_t i = 0; i < old->op_count && good; i++)
    good = (entries[i] = tn_table_movable(old->ops[i])) != NULL;
  for (; named < library->op_count && good; named++)
    if (!op_of(old, library->ops[named]->name)) good = tn_registry_put(library->ops[named]);
  if (good && (good = tn_registry_link(d))) {
    library->extension_count = (uint32_t)d->extension_count;
    return true;
  }
  for (uint32_t i = 0; i < named; i++)
    if (!op_of(old, library->ops[i]->name)) tn_registry_drop(library->ops[i]->name);
  tn_definition_offend(d, TENON_MEMORY, "out of memory: the registry");
  return false;
}

static bool is_of(const tn_extension_t *extension, const tn_library_t *library) {
  return extension->op && extension->op->library == library;
}

/* Adds the kernels that other libraries added to the old operators to the new ones. */
static void move_extensions(const tn_library_t *old) {
  tn_library_t **at;
  for (size_t l = 0; (at = tn_registry_at(l)); l++)
    for (uint32_t i = 0; *at != old && i < (*at)->extension_count; i++) {
      const tn_extension_t *e = &(*at)->extensions[i];
      if (is_of(e, old))
        (void)tn_waiting_add(&(tn_dangling_t){*at, e->items->text, e->items, e->override, NULL});
    }
  tn_waiting_resolve();
}

static void end_extensions(const tn_library_t *old) {
  tn_library_t **at;
  for (size_t l = 0; (at = tn_registry_at(l)); l++)
    for (uint32_t i = 0; *at != old && i < (*at)->extension_count; i++) {
      tn_extension_t *e = &(*at)->extensions[i];
      if (!is_of(e, old)) continue;
      /* TN_FOR_GOOD: the table of the old operator is not built again. */
      (void)tn_registry_withdraw(e, TN_FOR_GOOD);
      e->op = NULL;
    }
}

/* Replaces the library; nothing here can fail. */
static void commit_generation(tn_definition_t *d, tn_library_t *old,
                              tn_table_entry_t *const *entries) {
  tn_library_t *library = d->library;
  tn_library_t **place = library_slot(old);
  const uint64_t number = tn_registry_reloads() + 1;
  for (uint32_t i = 0; i < library->op_count; i++) {
    const tenon_op_t *before = op_of(old, library->ops[i]->name);
    library->ops[i]->born = number;
    if (before) library->ops[i]->mixed = before->mixed;
    /* The name is in the registry already, so no memory is needed. */
    (void)tn_registry_put(library->ops[i]);
  }
  *place = library;
  library->older = old;
  library->first = old->first;
  library->is_unloadable = __atomic_load_n(&old->is_unloadable, __ATOMIC_RELAXED);
  tn_waiting_forget(old);
  for (size_t i = 0; i < d->dangling_count; i++)
    (void)tn_waiting_add(&d->dangling[i]);
  move_extensions(old);
  __atomic_store_n(&library->first->newest, library, __ATOMIC_RELEASE);
  for (uint32_t i = 0; i < old->op_count; i++) {
    tenon_op_t *op = old->ops[i];
    tenon_op_t *next = op_of(library, op->name);
    const char *was, *is;
    if (!next) tn_registry_drop(op->name);
    if (next && what_changed(op, next, &was, &is)) next = NULL;
    __atomic_store_n(&op->successor, next ? next : op, __ATOMIC_RELEASE);
    tn_table_move(op, entries[i]);
  }
  end_extensions(old);
  for (uint32_t i = 0; i < old->extension_count; i++)
    if (old->extensions[i].op && old->extensions[i].op->library != old) {
      (void)tn_registry_withdraw(&old->extensions[i], TN_FOR_GOOD);
      old->extensions[i].op = NULL;
    }
  __atomic_store_n(&old->replaced, number, __ATOMIC_RELEASE);
  __atomic_store_n(&reloads, number, __ATOMIC_RELEASE);
}

static bool define_generation(tn_definition_t *d, tn_library_t *old,
                              const tenon_descriptor_t *descriptor, const char *path) {
  tn_registry_lock();
  hidden = old;
  bool good = tn_define(d, descriptor, path);
  good = tn_registry_take_ops(d) && may_replace(d, old) && good;
  hidden = NULL;
  tn_registry_unlock();
  /* Opening runs code of the library, so the mutex must not be held. */
  return good && tn_definition_open(d);
}

tenon_status_t tn_registry_replace(tn_library_t *old, const tenon_descriptor_t *descriptor,
                                   const char *path, tn_text_t *offences,
                                   tn_library_t **out_library) {
  tn_arena_t arena = {NULL};
  if (!tn_descriptor_check(descriptor, offences)) return TENON_INVALID;
  tn_library_t *library = tn_arena_allocate(&arena, sizeof *library);
  if (!library) return tn_no_memory("a library", sizeof *library);
  library->arena = arena;
  library->gate = old->gate;
  library->first = library->newest = library;
  tn_table_entry_t **entries = tn_allocate_zero(old->op_count + 1u, sizeof *entries);
  tn_definition_t d = {.library = library,
                       .offences = offences,
                       .find = find_other,
                       .name_stubs = tn_registry_name_stubs,
                       .override = TN_OVERRIDE_MAY,
                       .code = TENON_OK};
  if (!entries) tn_definition_offend(&d, TENON_MEMORY, "out of memory: the registry");
  bool good = entries && define_generation(&d, old, descriptor, path);
  tn_registry_lock();
  /* The check is repeated, since other libraries may have been added in the meantime. */
  good = good && may_replace(&d, old) && prepare_tables(&d, old, entries);
  if (good)
    commit_generation(&d, old, entries);
  else
    library->device_count = 0;
  tn_registry_unlock();
  tn_release_memory(d.dangling);
  tn_release_memory(entries);
  if (good) {
    *out_library = library;
    return TENON_OK;
  }
  /* The gate belongs to the old generation. */
  library->gate = 0;
  if (!library->is_stuck) tn_registry_free(library);
  if (offences->failed) return tn_no_memory("a message", offences->size);
  return d.code == TENON_OK ? TENON_INVALID : d.code;
}
