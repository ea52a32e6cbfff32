/* The registry: adds a library, all of it or nothing, and removes it again; see registry.h. The
 * loader calls it, and start.c does for libraries that are linked in. Invariant: names are
 * published only after every operator of the library is complete. */
#include "registry/registry.h"
#include "device/stream.h"
#include "dispatch/services.h"
#include "operator/table.h"
#include "registry/suggestion.h"
#include "registry/waiting.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/dynlib.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/rule.h"

static uint32_t gates; /* bit set of the gates that are taken */
/* Libraries that are out of the tables while calls may still be in their kernels. */
static tn_library_t **undone;
static size_t undone_count, undone_capacity;

/* finding */

tn_library_t *tn_registry_library(const char *path) {
  tn_library_t *found = NULL;
  tn_registry_lock();
  for (size_t i = 0; i < tn_registry_count() && !found; i++)
    if (strcmp((*tn_registry_at(i))->path, path) == 0) found = *tn_registry_at(i);
  if (found) __atomic_fetch_add(&(found = found->first)->references, 1, __ATOMIC_RELAXED);
  tn_registry_unlock();
  return found;
}

const tenon_bridge_table_t *tn_registry_bridge(size_t index) {
  const tenon_bridge_table_t *found = NULL;
  tn_registry_lock();
  for (size_t i = 0; i < tn_registry_count() && !found; i++)
    if ((*tn_registry_at(i))->bridge && index-- == 0) found = (*tn_registry_at(i))->bridge;
  tn_registry_unlock();
  return found;
}

/* adding */

static uint8_t take_gate(void) {
  tn_registry_lock();
  uint8_t gate = 1;
  while (gate < TN_GATE_SEVERAL && gates >> gate & 1)
    gate++;
  if (gate == TN_GATE_SEVERAL)
    gate = 0;
  else
    gates |= 1u << gate;
  tn_registry_unlock();
  return gate;
}

static bool has_source(const tenon_op_t *op) {
  const tn_kernel_t *k = op->kernels;
  while (k && k->kind != TN_KIND_SOURCE)
    k = k->next;
  return k != NULL;
}

/* Rebuilds the tables of operators with source kernels, which serve the backends that can compile
 * now. Returns false if memory runs out; some tables are then as before. */
static bool rebuild_sources(void) {
  bool good = true;
  size_t position = 0;
  for (tenon_op_t *op; (op = tn_registry_next(&position));)
    if (has_source(op)) good &= tn_table_build(op) == TENON_OK;
  return good;
}

/* Removes the library's devices. */
static void end_devices(tn_library_t *library) {
  if (!library->device_count) return;
  for (uint32_t i = 0; i < library->device_count; i++) {
    __atomic_store_n(&library->backends[i]->compiles, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&library->backends[i]->has_plugin, 0, __ATOMIC_RELEASE);
  }
  tn_registry_lock();
  /* A call through a table that could not be rebuilt fails. */
  (void)rebuild_sources();
  tn_registry_unlock();
  for (uint32_t i = 0; i < library->device_count; i++)
    tn_plugin_remove(library->devices[i]);
  library->device_count = 0;
}

static bool add_devices(tn_definition_t *d) {
  tn_library_t *library = d->library;
  uint32_t count = library->device_count;
  for (library->device_count = 0; library->device_count < count; library->device_count++) {
    const tenon_device_table_t *table = library->devices[library->device_count];
    tn_backend_t *backend = library->backends[library->device_count];
    tn_backend_set_type(backend, table->type);
    if (tn_plugin_add(table, backend->name, backend->device, &tn_host) != TENON_OK) {
      tn_definition_offend(d, TENON_EXISTS, "%s", tn_error());
      return false;
    }
    __atomic_store_n(&backend->has_plugin, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&backend->compiles, TN_SLOT(table, compile) ? 1 : 0, __ATOMIC_RELEASE);
  }
  if (count && !rebuild_sources()) {
    tn_definition_offend(d, TENON_MEMORY, "%s", tn_error());
    return false;
  }
  return true;
}

static void free_generation(tn_library_t *library) {
  tn_registry_lock();
  if (library->gate) gates &= ~(1u << library->gate);
  tn_registry_unlock();
  for (uint32_t i = 0; i < library->op_count; i++)
    tn_op_free(library->ops[i]);
  end_devices(library);
  tn_streams_forget_names();
  if (library->close) library->close(library->open_state);
  if (library->destroy) library->destroy(library->context);
  tn_release_memory(library->ops);
  tn_release_memory(library->extensions);
  tn_rewrite_list_release(library->rules);
  tn_dynlib_close(library->dynlib);
  tn_arena_t arena = library->arena;
  tn_arena_clear(&arena);
}

static void free_library(tn_library_t *library) {
  for (tn_library_t *l = tn_library_now(library), *older; l; l = older) {
    older = l->older;
    /* All generations share one gate, which is given back once. */
    if (older) l->gate = 0;
    free_generation(l);
  }
}

/* Takes kernels of a library that goes out of the list of an operator that stays. Returns false if
 * memory runs out: the table then stays as it was. */
bool tn_registry_withdraw(tn_extension_t *e, int how) {
  if (!e->first || !e->op) return true;
  for (tn_kernel_t **at = &e->op->kernels; *at; at = &(*at)->next)
    if (*at == e->first) {
      *at = e->last->next;
      break;
    }
  if (how != TN_FOR_NOW) tn_table_forget(e->op, e->first->library, how == TN_QUIETLY);
  return tn_table_build(e->op) == TENON_OK;
}

static tenon_status_t link_kernels(tn_extension_t *e) {
  if (!e->first || !e->op) return TENON_OK;
  /* The list is sorted by number, the newest first: kernels that come back because their library
   * could not be unloaded go to their old position. */
  tn_kernel_t **at = &e->op->kernels;
  while (*at && (*at)->number > e->first->number)
    at = &(*at)->next;
  e->last->next = *at;
  *at = e->first;
  tenon_status_t status = tn_table_build(e->op);
  if (status != TENON_OK) {
    *at = e->last->next;
    tn_table_forget(e->op, e->first->library, false);
  }
  return status;
}

bool tn_registry_link(tn_definition_t *b) {
  for (size_t i = 0; i < b->extension_count; i++) {
    if (link_kernels(&b->extensions[i]) == TENON_OK) continue;
    tn_definition_offend(b, TENON_MEMORY, "%s: %s", b->extensions[i].op->name, tn_error());
    while (i--)
      if (!tn_registry_withdraw(&b->extensions[i], TN_FOR_GOOD)) b->library->is_stuck = true;
    return false;
  }
  return true;
}

/* An operator exists once, so a name that another library has published is an offence. */
bool tn_registry_names_free(tn_definition_t *d, const tn_library_t *but) {
  size_t before = d->offence_count;
  const tn_library_t *library = d->library;
  for (size_t i = 0; i < library->op_count; i++) {
    const tenon_op_t *other = tn_registry_published(library->ops[i]->name);
    if (other && other->library != but)
      tn_definition_offend(d, TENON_EXISTS, "operator %s is there already, from library %s%s%s",
                           other->name, other->library->name, *other->library->path ? " at " : "",
                           other->library->path);
  }
  return d->offence_count == before;
}

static bool publish_library(tn_definition_t *d, tn_library_t *library) {
  size_t published = 0;
  bool good = tn_registry_reserve() &&
              tn_grow((void **)&undone, &undone_capacity, undone_count, sizeof *undone);
  while (good && published < library->op_count) {
    tenon_op_t *op = library->ops[published];
    good = tn_registry_put(op);
    if (good) published++;
  }
  if (good && tn_waiting_make_room(d->dangling_count) && tn_registry_link(d)) {
    library->extension_count = (uint32_t)d->extension_count;
    tn_registry_append(library);
    for (size_t i = 0; i < d->dangling_count; i++)
      (void)tn_waiting_add(&d->dangling[i]);
    tn_waiting_resolve();
    return true;
  }
  for (size_t i = 0; i < published; i++)
    tn_registry_drop(library->ops[i]->name);
  /* tn_grow has made room for this element. */
  if (library->is_stuck) undone[undone_count++] = library;
  tn_definition_offend(d, TENON_MEMORY, "out of memory: the registry");
  return false;
}

bool tn_registry_take_ops(tn_definition_t *d) {
  tn_library_t *library = d->library;
  library->ops = tn_allocate((d->count + 1) * sizeof *library->ops);
  for (size_t i = 0; i < d->count; i++) {
    if (library->ops)
      library->ops[library->op_count++] = d->drafts[i].op;
    else
      tn_op_free(d->drafts[i].op);
  }
  library->extensions = d->extensions;
  tn_release_memory(d->drafts);
  tn_map_clear(&d->names);
  if (!library->ops) tn_definition_offend(d, TENON_MEMORY, "out of memory: a list of operators");
  return library->ops != NULL;
}

const tenon_descriptor_t *(*tn_registry_around)(const tenon_descriptor_t *);

tenon_status_t tn_registry_add(const tenon_descriptor_t *descriptor, const char *path,
                               void *context, tenon_free_fn destroy, int flags, tn_text_t *offences,
                               tn_library_t **out_library) {
  tn_arena_t arena = {NULL};
  if (!tn_descriptor_check(descriptor, offences)) return TENON_INVALID;
  if (tn_registry_around) descriptor = tn_registry_around(descriptor);
  tn_library_t *library = tn_arena_allocate(&arena, sizeof *library);
  if (!library) return tn_no_memory("a library", sizeof *library);
  library->arena = arena;
  library->context = context;
  library->references = 1;
  library->first = library->newest = library;
  library->descriptor = descriptor;
  library->places = (flags & TN_ADD_ISOLATED) != 0;
  if (flags & TN_ADD_UNLOADABLE && !(library->gate = take_gate())) {
    tn_arena_clear(&arena);
    return tn_fail(TENON_RANGE, "%d unloadable libraries are loaded already", TN_GATE_SEVERAL - 1);
  }
  tn_definition_t d = {.library = library,
                       .offences = offences,
                       .find = tn_registry_published,
                       .name_stubs = tn_registry_name_stubs,
                       .override = flags & 15,
                       .code = TENON_OK};
  tn_registry_lock();
  bool good = tn_define(&d, descriptor, path);
  good = tn_registry_take_ops(&d) && tn_registry_names_free(&d, NULL) && good;
  tn_registry_unlock();
  /* Opening runs code of the library, so the mutex must not be held. */
  good = good && tn_definition_open(&d);
  tn_registry_lock();
  good = good && tn_registry_names_free(&d, NULL);
  /* No device was added, so none is to be removed. */
  if (!good) library->device_count = 0;
  good = good && add_devices(&d) && publish_library(&d, library);
  tn_registry_unlock();
  tn_release_memory(d.dangling);
  if (good) {
    library->destroy = destroy;
    *out_library = library;
    return TENON_OK;
  }
  if (!library->is_stuck) free_library(library);
  if (offences->failed) return tn_no_memory("a message", offences->size);
  return d.code == TENON_OK ? TENON_INVALID : d.code;
}

/* removing */

/* Takes back the kernels that `other` added to operators of `going`: they wait for operators of the
 * same names again. */
static void send_back(const tn_library_t *going, tn_library_t *other) {
  for (uint32_t i = 0; i < other->extension_count; i++) {
    tn_extension_t *e = &other->extensions[i];
    if (!e->op || e->op->library != going) continue;
    /* Calls may still be on their way through a table that could not be rebuilt. */
    if (other != going && !tn_registry_withdraw(e, TN_FOR_GOOD)) other->is_stuck = true;
    /* Without reserved room (tn_registry_make_room), kernels are lost if memory runs out. */
    if (other != going)
      (void)tn_waiting_add(&(tn_dangling_t){other, e->items->text, e->items, e->override, NULL});
    e->op = NULL;
  }
}

/* Makes room for the kernels that send_back has to keep. */
bool tn_registry_make_room(const tn_library_t *going, size_t more) {
  for (size_t l = 0; l < tn_registry_count() && going->op_count; l++)
    more += (*tn_registry_at(l))->extension_count;
  return tn_waiting_make_room(more);
}

/* Takes a library out of the registry. Returns false if memory ran out and some table could not be
 * changed. */
static bool take_out(size_t index, int how) {
  tn_library_t *library = *tn_registry_at(index);
  tn_waiting_forget(library);
  for (size_t l = 0; l < tn_registry_count(); l++)
    send_back(library, *tn_registry_at(l));
  for (uint32_t i = 0; i < library->op_count; i++)
    tn_registry_drop(library->ops[i]->name);
  tn_waiting_reset_reasons();
  for (uint32_t i = 0; i < library->extension_count; i++)
    if (!tn_registry_withdraw(&library->extensions[i], how)) library->is_stuck = true;
  tn_registry_remove(index);
  return !library->is_stuck;
}

/* Whether `user` has operators that call operators of `library`, or kernels for them. */
static bool builds_on(const tn_library_t *user, const tn_library_t *library) {
  if (user->first == library->first) return false;
  for (uint32_t i = 0; i < user->op_count; i++)
    for (uint32_t u = 0; u < user->ops[i]->use_count; u++)
      if (user->ops[i]->uses[u]->library->first == library->first) return true;
  for (uint32_t i = 0; i < user->extension_count; i++)
    if (user->extensions[i].op && user->extensions[i].op->library->first == library->first)
      return true;
  return false;
}

/* The next library that builds on `library`, among the registered ones and those that calls may
 * still be in; NULL: none. */
static const tn_library_t *next_user(const tn_library_t *library, size_t *position) {
  while (*position < tn_registry_count() + undone_count) {
    size_t at = (*position)++;
    const tn_library_t *user =
        at < tn_registry_count() ? *tn_registry_at(at) : undone[at - tn_registry_count()];
    if (builds_on(user, library)) return user;
  }
  return NULL;
}

static bool is_used(const tn_library_t *library) {
  size_t position = 0;
  return next_user(library, &position) != NULL;
}

/* The bound calls, graphs and executables that use the library, over all its generations. */
static int64_t users_of(const tn_library_t *library) {
  int64_t users = 0;
  for (const tn_library_t *l = tn_library_now(library); l; l = l->older)
    users += l->users;
  return users;
}

static bool is_held(const tn_library_t *library) {
  return __atomic_load_n(&library->first->references, __ATOMIC_ACQUIRE) || users_of(library);
}

/* Whether no call is in the library's code. No new call can reach it, since its kernels are out of
 * the tables. */
static bool is_quiet(const tn_library_t *library) {
  /* A library without a gate is linked in, or only called by holders of a handle, who answer for
   * their calls. */
  if (!library->gate) return true;
  return tn_thread_barrier() && !tn_thread_gate(library->gate) && !tn_thread_gate(TN_GATE_SEVERAL);
}

/* Called after a reference to the library or a use of it has ended. Takes an unloadable library
 * that nothing holds out of the registry. Returns true if the caller must free it now, without
 * holding the mutex, since that runs code of the library. A library that a call is in stays until
 * shutdown. */
static bool settle_library(tn_library_t *library) {
  size_t index = 0;
  if (is_held(library)) return false;
  library = tn_library_now(library);
  while (index < tn_registry_count() && *tn_registry_at(index) != library)
    index++;
  /* A library that is not registered any more was held at shutdown. */
  if (index == tn_registry_count()) return true;
  if (!__atomic_load_n(&library->is_unloadable, __ATOMIC_RELAXED) || is_used(library)) return false;
  if (!tn_grow((void **)&undone, &undone_capacity, undone_count, sizeof *undone)) return false;
  if (take_out(index, TN_FOR_GOOD) && is_quiet(library)) return true;
  undone[undone_count++] = library;
  return false;
}

static void name_users(const tn_library_t *library, tn_text_t *text) {
  int64_t handles = __atomic_load_n(&library->first->references, __ATOMIC_ACQUIRE) - 1;
  if (handles > 0)
    tn_text_add(text, ", %lld more handle%s of it", (long long)handles, handles > 1 ? "s" : "");
  for (uint32_t i = 0; i < library->device_count; i++)
    if (tn_plugin_live(library->devices[i]))
      tn_text_add(text, ", %llu tensors on device %s",
                  (unsigned long long)tn_plugin_live(library->devices[i]),
                  library->backends[i]->name);
  for (uint32_t i = 0; i < library->device_count; i++)
    if (tn_plugin_groups(library->devices[i]))
      tn_text_add(text, ", %llu compiled groups of device %s",
                  (unsigned long long)tn_plugin_groups(library->devices[i]),
                  library->backends[i]->name);
  if (users_of(library))
    tn_text_add(text, ", %lld bound calls, graphs or executables", (long long)users_of(library));
  size_t position = 0;
  for (const tn_library_t *user; (user = next_user(library, &position));)
    tn_text_add(text, ", library %s", user->name);
}

tenon_status_t tn_registry_unload(tn_library_t *library) {
  tn_text_t users = {0};
  tenon_status_t status = TENON_OK;
  tn_registry_lock();
  size_t index = 0;
  library = tn_library_now(library);
  while (index < tn_registry_count() && *tn_registry_at(index) != library)
    index++;
  name_users(library, &users);
  if (!library->gate)
    status =
        tn_fail(TENON_PRECONDITION,
                "cannot unload library %s: it was not loaded with TENON_LOAD_UNLOADABLE (Python: "
                "tenon.load(..., unloadable=True))",
                library->name);
  else if (index == tn_registry_count())
    status = tn_fail(TENON_PRECONDITION, "cannot unload library %s: the runtime was shut down",
                     library->name);
  else if (users.size)
    status = tn_fail(TENON_UNAVAILABLE, "cannot unload library %s: it is held by %s", library->name,
                     tn_text_get(&users) + 2);
  else if (!tn_thread_barrier())
    status = tn_fail(
        TENON_UNIMPLEMENTED,
        "cannot unload library %s: this system cannot tell whether a call is in it (membarrier)",
        library->name);
  if (status == TENON_OK) {
    bool is_out = true;
    for (uint32_t i = 0; i < library->extension_count; i++)
      is_out &= tn_registry_withdraw(&library->extensions[i], TN_FOR_NOW);
    if (!is_out)
      status = tn_no_memory("unloading a library", 0);
    else if (is_quiet(library))
      (void)take_out(index, TN_QUIETLY);
    else
      status = tn_fail(TENON_UNAVAILABLE,
                       "cannot unload library %s: a call is in one of its kernels", library->name);
    /* Linking the kernels again cannot fail, since the entries exist already. */
    for (uint32_t i = 0; status != TENON_OK && i < library->extension_count; i++)
      (void)link_kernels(&library->extensions[i]);
  }
  tn_registry_unlock();
  tn_text_clear(&users);
  if (status == TENON_OK) free_library(library);
  return status;
}

void tn_registry_release(tn_library_t *library) {
  tn_registry_lock();
  __atomic_fetch_sub(&library->first->references, 1, __ATOMIC_ACQ_REL);
  bool is_over = settle_library(library);
  tn_registry_unlock();
  if (is_over) free_library(library);
}

/* Drops the library's extensions of one other library, which *out_owner gets; NULL: there is none
 * left. Returns true if the caller must free that other library. */
static bool let_owner_go(tn_library_t *library, tn_library_t **out_owner) {
  tn_library_t *owner = NULL;
  for (uint32_t i = 0; i < library->extension_count; i++) {
    tn_extension_t *e = &library->extensions[i];
    if (!owner && e->op) owner = (tn_library_t *)(uintptr_t)e->op->library;
    if (e->op && e->op->library == owner) e->op = NULL;
  }
  *out_owner = owner;
  return owner && owner != library && settle_library(owner);
}

/* Takes operators and kernels out of the tables.  Their records stay until shutdown: a call may be
 * on its way to them. */
bool tn_registry_undo(tn_library_t *library) {
  tn_library_t *owner = NULL;
  tn_registry_lock();
  size_t index = 0;
  while (index < tn_registry_count() && *tn_registry_at(index) != library)
    index++;
  bool is_undone = index < tn_registry_count() && tn_registry_make_room(library, 0) &&
                   tn_grow((void **)&undone, &undone_capacity, undone_count, sizeof *undone);
  if (is_undone) {
    /* The library goes to `undone` even if some table could not be changed. */
    (void)take_out(index, TN_FOR_GOOD);
    undone[undone_count++] = library;
  }
  do {
    bool is_over = is_undone && let_owner_go(library, &owner);
    tn_registry_unlock();
    if (is_over) free_library(owner);
    tn_registry_lock();
  } while (owner);
  tn_registry_unlock();
  return is_undone;
}

int32_t tn_registry_extended(const tn_library_t *library, int32_t *out_waiting) {
  int32_t count = 0;
  tn_registry_lock();
  library = tn_library_now(library);
  for (uint32_t i = 0; i < library->extension_count; i++)
    count += library->extensions[i].op != NULL;
  if (out_waiting) *out_waiting = tn_waiting_count(library);
  tn_registry_unlock();
  return count;
}

void tn_registry_dangling(tn_text_t *text) {
  tn_registry_lock();
  tn_waiting_describe(text);
  tn_registry_unlock();
}

void tn_registry_clear(void) {
  tn_registry_lock();
  while (tn_registry_count()) {
    tn_library_t *library = *tn_registry_at(tn_registry_count() - 1);
    (void)take_out(tn_registry_count() - 1, TN_FOR_GOOD);
    bool is_over = !is_held(library);
    tn_registry_unlock();
    /* A library that is still held is freed by its last holder. */
    if (is_over) free_library(library);
    tn_registry_lock();
  }
  while (undone_count) {
    tn_library_t *library = undone[--undone_count];
    /* The reference belongs to the handle. The runtime frees the library, unless something that it
     * made is still held. */
    library->first->references = 0;
    bool is_over = !is_held(library);
    tn_registry_unlock();
    if (is_over) free_library(library);
    tn_registry_lock();
  }
  tn_waiting_clear();
  tn_names_clear();
  tn_release_memory(undone);
  undone = NULL;
  undone_capacity = 0;
  tn_registry_unlock();
}

/* for reloading */

void tn_registry_free(tn_library_t *library) { free_generation(library); }

/* Ends one use of a library. The last use of an unloadable library without references frees it. */
static void end_use(tn_library_t *mine) {
  tn_registry_lock();
  mine->users--;
  bool is_over = settle_library(mine);
  tn_registry_unlock();
  if (is_over) free_library(mine);
}

void tn_registry_install(void) { tn_library_unused = end_use; }
