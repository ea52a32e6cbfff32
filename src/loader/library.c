/* Libraries: loading, adding, and the caller's handles.  Loading is a row of steps, one function
 * each; those before open_file run nothing of the file, and each refuses with one message that
 * lists every offence it found. Invariant: `loading` is held from the look whether a file is loaded
 * until its library is in the registry, so that two threads that load one file get one library. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/dynlib.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/trust.h"
#include "dispatch/services.h"
#include "isolation/isolation.h"
#include "loader/binary.h"
#include "loader/bridge.h"
#include "loader/library.h"
#include "loader/locate.h"
#include "loader/missing.h"
#include "loader/needed.h"
#include "loader/policy.h"
#include "registry/registry.h"
#include "registry/reload.h"

typedef const tenon_descriptor_t *(*entry_fn)(void);

typedef struct load_t {
  const char *given;
  uint32_t flags;
  char path[TN_PATH_SIZE];
  tn_file_t file;
  tn_file_identity_t identity;
  int copy;       /* what is mapped in its place, where hashes count; -1: none */
  bool is_copied; /* that is opened, since others could change the file */
  tn_binary_t binary;
  tn_text_t offences; /* of the step that is under way, one line each */
  tn_dynlib_t *dynlib;
  const tenon_descriptor_t *descriptor;
  const tenon_bridge_table_t *bridge; /* the file is of another system */
  tenon_bridged_t bridged;
  const tenon_isolation_t *isolation; /* with TENON_LOAD_ISOLATED; NULL: defaults */
  bool is_bridge;                     /* the file is to be a bridge itself */
  tn_library_t *old;                  /* set: its newest generation is to be replaced */
  tn_library_t *library;              /* set: done, with a reference that is ours */
  bool is_new;
} load_t;

static tn_mutex_t loading = TN_MUTEX_INIT;

/* The only places where the public name and the registry's meet. */
static tn_library_t *inside(const tenon_library_t *library) {
  return (tn_library_t *)(uintptr_t)library;
}
static tenon_library_t *outside(tn_library_t *library) { return (tenon_library_t *)library; }

/* The first generation stands for all outside. */
static tn_library_t *now(const tenon_library_t *library) { return tn_library_now(inside(library)); }

static void hold(tn_library_t *library) {
  __atomic_fetch_add(&library->references, 1, __ATOMIC_RELAXED);
}

/* messages */

/* One message out of the offences: "cannot load X: reason", or "cannot load X: 2 problems:\n  -
 * ...\n  - ...". */
static tenon_status_t refuse(tenon_status_t status, const char *verb, const char *what,
                             tn_text_t *offences) {
  if (offences->failed)
    return tn_no_memory("the message of a library that cannot be loaded", offences->size);
  if (!offences->size)
    return tn_fail(status, "cannot %s %s: %s", verb, what,
                   tn_error()); /* the step left a message */
  tn_text_t text = {0};
  const char *separator = strchr(offences->data, '\n') ? "\n  - " : "";
  size_t count = 1;
  for (size_t i = 0; i < offences->size; i++)
    count += offences->data[i] == '\n';
  if (count > 1) tn_text_add(&text, "%zu problems:", count);
  for (const char *line = offences->data; count; count--, line += strcspn(line, "\n") + 1)
    tn_text_add(&text, "%s%.*s", separator, (int)strcspn(line, "\n"), line);
  status = text.failed ? tn_no_memory("the message of a library that cannot be loaded", text.size)
                       : tn_fail(status, "cannot %s %s: %s", verb, what, tn_text_get(&text));
  tn_text_clear(&text);
  return status;
}

static bool has_offences(const load_t *load) {
  return load->offences.size || load->offences.failed;
}

/* the steps */

static tenon_status_t locate(load_t *load) {
  tenon_status_t status = tn_locate(load->given, load->path, sizeof load->path);
  return status == TENON_OK ? status : tn_fail(status, "%s", tn_reason(load->given));
}

static tenon_status_t read_file(load_t *load) {
  tenon_status_t status = tn_file_map_real(load->path, &load->file, &load->identity);
  if (status == TENON_OK && tn_policy_has_hashes())
    status = tn_file_copy(load->path, &load->file, &load->copy);
  return status == TENON_OK ? status : tn_fail(status, "%s", tn_reason(load->path));
}

static tenon_status_t inspect(load_t *load) {
  tn_binary_read(&load->file, &load->binary, &load->offences);
  if (!load->bridge && !(load->is_bridge && load->binary.has_entry))
    tn_binary_check(&load->binary, &load->offences);
  char runtime[TN_PATH_SIZE];
  const char *word =
      tn_sanitizer_missing(&load->binary, &load->file, load->path, runtime, sizeof runtime);
  if (word) tn_sanitizer_offence(word, runtime, &load->offences);
  /* the next step ends what reading alone can find, so that one message has all of it */
  return TENON_OK;
}

/* The rules of the process, and what the caller's flags ask of the file. */
static tenon_status_t check_policy(load_t *load) {
  const tn_binary_t *binary = &load->binary;
  tenon_status_t status = has_offences(load) ? TENON_INVALID : TENON_DENIED;
  tn_text_t words = {0};
  if (load->flags & TENON_LOAD_UNLOADABLE && binary->pins.count &&
      !load->bridge) { /* of a bridge, what it states goes */
    tn_binary_names(&words, &binary->pins);
    tn_binary_offence(
        &load->offences,
        "TENON_LOAD_UNLOADABLE: the system never unloads it because of %s; build it with "
        "-fno-gnu-unique and without -z nodelete",
        tn_text_get(&words));
  }
  if (load->flags & TENON_LOAD_UNLOADABLE && !tn_thread_barrier()) {
    if (status == TENON_DENIED) status = TENON_UNIMPLEMENTED;
    tn_binary_offence(&load->offences,
                      "TENON_LOAD_UNLOADABLE: this system cannot tell whether a call is in a "
                      "library (membarrier is missing or refused): load it without that flag");
  }
  tn_text_clear(&words);
  TN_TRY(tn_policy_check(load->path, &load->file, binary, load->flags, &load->is_copied,
                         &load->offences));
  return has_offences(load) ? status : TENON_OK;
}

static bool is_file_of(const load_t *load, const tn_library_t *library) {
  const tn_file_identity_t *a = &load->identity;
  const tn_file_identity_t *b = &library->file;
  return a->device == b->device && a->number == b->number && a->size == b->size &&
         a->modified == b->modified;
}

/* Its own file, unchanged: there is nothing to do.  Another file must not be loaded already. */
static tenon_status_t find_replaced(load_t *load) {
  const bool is_own = strcmp(load->path, load->old->path) == 0;
  tn_library_t *other = is_own ? NULL : tn_registry_library(load->path);
  if (other) {
    tn_registry_release(other);
    return tn_fail(TENON_EXISTS, "%s is loaded already, as library %s", load->path, other->name);
  }
  if (is_own && is_file_of(load, load->old)) load->library = load->old;
  return TENON_OK;
}

/* The system's loader takes a path that it has seen for the file that it had then; so each reload
 * spells it another way, by parts that lead nowhere: "/a/b.so", "/a/./b.so", "/a/.//b.so", ... */
static void spell(const load_t *load, char *out, size_t capacity) {
  const char *name = strrchr(load->path, '/') + 1;
  int at = snprintf(out, capacity, "%.*s", (int)(name - load->path), load->path);
  for (uint64_t number = load->old ? tn_registry_reloads() + 1 : 0; number && at < (int)capacity;
       number >>= 1)
    at += snprintf(out + at, capacity - (size_t)at, number & 1 ? ".//" : "./");
  if (at < (int)capacity) snprintf(out + at, capacity - (size_t)at, "%s", name);
}

static tenon_status_t find_loaded(load_t *load) {
  if (load->old) return find_replaced(load);
  load->library = tn_registry_library(load->path);
  if (!load->library || !(load->flags & TENON_LOAD_ISOLATED)) return TENON_OK;
  const bool is_isolated = load->library->places;
  if (is_isolated && tn_isolation_same(load->library->context, load->isolation)) return TENON_OK;
  tn_registry_release(load->library);
  load->library = NULL;
  return tn_fail(TENON_PRECONDITION,
                 is_isolated ? "it is loaded already, isolated with other settings: unload it first"
                             : "it is loaded already, into this process itself: unload it first");
}

static tenon_status_t open_isolated(load_t *load) {
  load->bridged.destroy = tn_isolation_close;
  return tn_isolation_open(load->path, &load->identity, load->flags, load->isolation,
                           &load->descriptor, &load->bridged.context);
}

static tenon_status_t open_bridged(load_t *load) {
  tenon_bridge_call_t call = {sizeof call, TENON_PHASE_BRIDGE, &tn_host, load->path, NULL};
  load->bridged = (tenon_bridged_t){.size = sizeof load->bridged};
  TN_TRY(load->bridge->open(&call, &load->bridged));
  load->descriptor = load->bridged.descriptor;
  return load->descriptor
             ? TENON_OK
             : tn_fail(TENON_INTERNAL, "bridge %s gives no descriptor", load->bridge->name);
}

/* The system's reason names the first thing that is missing; we add all that surely is. */
static tenon_status_t open_own(load_t *load) {
  char path[TN_PATH_SIZE + 256];
  spell(load, path, sizeof path);
  tenon_status_t status = load->is_copied ? tn_dynlib_open_copy(load->copy, &load->dynlib)
                                          : tn_dynlib_open(path, &load->dynlib);
  if (status == TENON_OK && load->is_copied) load->copy = -1;
  for (const tn_library_t *l = load->old; l && status == TENON_OK; l = l->older)
    if (tn_dynlib_same(l->dynlib, load->dynlib) &&
        !is_file_of(load, l)) /* that of an earlier generation may come again */
      return tn_fail(
          TENON_PRECONDITION,
          "the file was written over where it is, so what is loaded is damaged: start again, "
          "and replace it by renaming a new file, as compilers do");
  if (status != TENON_UNAVAILABLE) return status;
  tn_binary_offence(&load->offences, "the system refuses it: %s", tn_reason(load->path));
  tn_needed_missing(&load->binary, load->path, &load->offences);
  tn_missing(&load->binary, &load->file, load->path, &load->offences);
  return status;
}

static tenon_status_t open_file(load_t *load) {
  const bool is_isolated = (load->flags & TENON_LOAD_ISOLATED) != 0;
  if (load->is_copied && (load->bridge || is_isolated))
    return tn_fail(TENON_DENIED,
                   "others could change it after its hash was found, and %s opens it by its path: "
                   "see tenon doctor for who",
                   is_isolated ? "the process of an isolated library" : "a bridge");
  TN_TRY(is_isolated ? open_isolated(load) : load->bridge ? open_bridged(load) : open_own(load));
  if (load->is_copied || tn_file_is_same(load->path, &load->identity)) return TENON_OK;
  return tn_fail(TENON_ABORTED, "it was changed while it was loaded: load it again");
}

static tenon_status_t query(load_t *load) {
  if (load->descriptor) return TENON_OK;
  entry_fn entry = (entry_fn)tn_dynlib_function(load->dynlib, TN_ENTRY);
  load->descriptor = entry ? entry() : NULL;
  if (!load->descriptor)
    tn_binary_offence(&load->offences, "its function " TN_ENTRY "() gave no descriptor");
  return load->descriptor ? TENON_OK : TENON_INVALID;
}

static tenon_status_t verify(load_t *load) {
  return tn_descriptor_check(load->descriptor, &load->offences) ? TENON_OK : TENON_INVALID;
}

static tenon_status_t enter(load_t *load) {
  if (load->old) {
    TN_TRY(tn_registry_replace(load->old, load->descriptor, load->path, &load->offences,
                               &load->library));
    load->library->dynlib = load->dynlib;
    load->library->file = load->identity;
    load->library->load_flags = load->flags;
    return TENON_OK;
  }
  TN_TRY(tn_registry_add(load->descriptor, load->path, load->bridged.context, load->bridged.destroy,
                         (load->flags & TENON_LOAD_UNLOADABLE ? TN_ADD_UNLOADABLE : 0) |
                             (load->flags & TENON_LOAD_ISOLATED ? TN_ADD_ISOLATED : 0),
                         &load->offences, &load->library));
  if (load->is_bridge)
    tn_dynlib_keep(load->dynlib);
  else
    load->library->dynlib = load->dynlib;
  load->library->file = load->identity;
  load->library->load_flags = load->flags;
  load->is_new = true;
  return TENON_OK;
}

static tenon_status_t (*const steps[])(load_t *load) = {
    locate, read_file, inspect, check_policy, find_loaded, open_file, query, verify, enter};

/* loading and adding */

/* One that is none of Tenon's is loaded again by the bridge that knows it. */
static tenon_status_t load_file(const char *path, uint32_t flags,
                                const tenon_isolation_t *isolation,
                                const tenon_bridge_table_t *bridge, bool is_bridge,
                                tenon_library_t **out_library) {
  load_t load = {.given = path,
                 .flags = flags,
                 .isolation = isolation,
                 .bridge = bridge,
                 .is_bridge = is_bridge,
                 .copy = -1};
  tenon_status_t status = TENON_OK;
  bool is_foreign = false;
  tn_mutex_lock(&loading);
  for (size_t i = 0; i < sizeof steps / sizeof *steps && status == TENON_OK && !load.library; i++)
    status = steps[i](&load);
  if (status == TENON_OK) {
    bool may_go =
        out_library && flags & TENON_LOAD_UNLOADABLE; /* it goes only if all who load it agree */
    if (load.is_new || !may_go)
      __atomic_store_n(&load.library->is_unloadable, may_go, __ATOMIC_RELAXED);
    if (!out_library) tn_registry_release(load.library);
  } else {
    tn_dynlib_close(load.dynlib);
    if (flags & TENON_LOAD_ISOLATED && load.bridged.context)
      tn_isolation_close(load.bridged.context);
  }
  tn_mutex_unlock(&loading);
  if (status != TENON_OK && load.binary.no_entry && !bridge && !is_bridge)
    is_foreign = (bridge = tn_bridge_of_library(&load.file)) != NULL;
  if (status != TENON_OK && load.binary.no_entry && !is_bridge && !bridge && *tn_bridges_refused())
    tn_binary_offence(&load.offences, "bridges that do not open: %s", tn_bridges_refused());
  tn_file_unmap(&load.file);
  tn_copy_close(load.copy);
  if (is_foreign) {
    tn_text_clear(&load.offences);
    return load_file(path, flags, isolation, bridge, false, out_library);
  }
  if (status != TENON_OK)
    status = refuse(status, "load", *load.path ? load.path : path, &load.offences);
  else if (out_library)
    *out_library = outside(load.library);
  tn_text_clear(&load.offences);
  return status;
}

static tenon_status_t load_with(const char *path, uint32_t flags,
                                const tenon_isolation_t *isolation, tenon_library_t **out_library) {
  static const uint32_t known = TENON_LOAD_STRICT | TENON_LOAD_UNLOADABLE | TENON_LOAD_ISOLATED;
  if (out_library) *out_library = NULL;
  if (!path) return tn_fail(TENON_INVALID, "cannot load a library: the path is NULL");
  if (flags & ~known)
    return tn_fail(TENON_INVALID, "cannot load %s: unknown flags 0x%x", path, flags & ~known);
  TN_TRY(tenon_start());
  return load_file(path, flags, isolation, NULL, false, out_library);
}

tenon_status_t tenon_library_load(const char *path, uint32_t flags, tenon_library_t **out_library) {
  return load_with(path, flags, NULL, out_library);
}

tenon_status_t tenon_library_load_isolated(const char *path, uint32_t flags,
                                           const tenon_isolation_t *isolation,
                                           tenon_library_t **out_library) {
  return load_with(path, flags | TENON_LOAD_ISOLATED, isolation, out_library);
}

tenon_status_t tenon_library_tensor_create(tenon_library_t *library, tenon_dtype_t dtype,
                                           int32_t ndim, const int64_t *shape,
                                           tenon_tensor_t **out_tensor) {
  if (!library || !inside(library)->places)
    return tn_fail(TENON_PRECONDITION, "cannot make a shared tensor: the library is %s",
                   library ? "not isolated" : "NULL");
  return tn_isolation_tensor(inside(library)->context, dtype, ndim, shape, out_tensor);
}

/* Under `loading`, as loads are. */
static tenon_status_t reload(load_t *load) {
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&loading);
  load->old = tn_library_now(load->old);
  if (!load->given) load->given = load->old->path;
  if (!load->old->dynlib)
    status = tn_fail(TENON_PRECONDITION, "it was not loaded from a file of Tenon's own kind");
  load->flags = load->old->load_flags;
  for (size_t i = 0; i < sizeof steps / sizeof *steps && status == TENON_OK && !load->library; i++)
    status = steps[i](load);
  if (status != TENON_OK) tn_dynlib_close(load->dynlib);
  tn_mutex_unlock(&loading);
  tn_file_unmap(&load->file);
  tn_copy_close(load->copy);
  return status;
}

tenon_status_t tenon_library_reload(tenon_library_t *library, const char *path) {
  if (!library) return tn_fail(TENON_INVALID, "cannot reload a library: the handle is NULL");
  load_t load = {.given = path, .old = inside(library), .copy = -1};
  tenon_status_t status = reload(&load);
  if (status != TENON_OK)
    status = refuse(status, "reload", *load.path ? load.path : tenon_library_name(library),
                    &load.offences);
  tn_text_clear(&load.offences);
  return status;
}

tenon_status_t tn_library_load_bridge(const char *path) {
  return load_file(path, 0, NULL, NULL, true, NULL);
}

tenon_status_t tenon_library_add(const tenon_descriptor_t *descriptor, void *context,
                                 tenon_free_fn destroy, tenon_library_t **out_library) {
  if (out_library) *out_library = NULL;
  if (!descriptor) return tn_fail(TENON_INVALID, "cannot add a library: the descriptor is NULL");
  TN_TRY(tenon_start());
  tn_text_t offences = {0};
  tn_library_t *library = NULL;
  tenon_status_t status =
      tn_registry_add(descriptor, "", context, destroy, TN_OVERRIDE_MAY, &offences, &library);
  if (status == TENON_OK) {
    if (out_library)
      *out_library = outside(library);
    else
      tn_registry_release(library);
  } else {
    bool has_name = descriptor->size >= offsetof(tenon_descriptor_t, items) && descriptor->name;
    status =
        refuse(status, "add library", has_name ? descriptor->name : "without a name", &offences);
  }
  tn_text_clear(&offences);
  return status;
}

/* handles */

void tenon_library_retain(tenon_library_t *library) {
  if (library) hold(inside(library));
}

void tenon_library_release(tenon_library_t *library) {
  if (library) tn_registry_release(inside(library));
}

tenon_status_t tenon_library_unload(tenon_library_t *library) {
  if (!library) return tn_fail(TENON_INVALID, "cannot unload a library: the handle is NULL");
  return tn_registry_unload(inside(library));
}

const char *tenon_library_name(const tenon_library_t *library) { return now(library)->name; }
const char *tenon_library_version(const tenon_library_t *library) { return now(library)->version; }
const char *tenon_library_path(const tenon_library_t *library) { return now(library)->path; }
int32_t tenon_library_op_count(const tenon_library_t *library) {
  return (int32_t)now(library)->op_count;
}
int32_t tenon_library_extended_count(const tenon_library_t *library, int32_t *out_waiting) {
  return tn_registry_extended(inside(library), out_waiting);
}
const tenon_op_t *tenon_library_op(const tenon_library_t *library, int32_t index) {
  const tn_library_t *newest = now(library);
  return index >= 0 && index < (int32_t)newest->op_count ? newest->ops[index] : NULL;
}
