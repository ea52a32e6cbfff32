/* Libraries: loading, adding, and the handles of the caller. Loading is a sequence of steps, one
 * function each. The steps before open_file run no code of the file. A step that fails produces one
 * message that lists every problem it found. Invariant: `loading` is held from the check whether a
 * file is loaded until its library is registered, so two threads that load one file get one
 * library. */
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
  /* memory copy that is opened in place of the file if hashes are checked; -1: none */
  int copy;
  bool is_copied; /* the copy must be opened, because other users could change the file */
  tn_binary_t binary;
  tn_text_t offences; /* problems found by the current step, one line each */
  tn_dynlib_t *dynlib;
  const tenon_descriptor_t *descriptor;
  const tenon_bridge_table_t *bridge; /* set if the file is of another system */
  tenon_bridged_t bridged;
  const tenon_isolation_t *isolation; /* settings of TENON_LOAD_ISOLATED; NULL: defaults */
  bool is_bridge;                     /* the file is expected to be a bridge */
  tn_library_t *old;                  /* set: its newest generation is to be replaced */
  tn_library_t *library;              /* set: loading is done; owns a reference */
  bool is_new;
} load_t;

static tn_mutex_t loading = TN_MUTEX_INIT;

/* The only places that convert between the public type and the registry's type. */
static tn_library_t *to_library(const tenon_library_t *library) {
  return (tn_library_t *)(uintptr_t)library;
}
static tenon_library_t *to_handle(tn_library_t *library) { return (tenon_library_t *)library; }

/* The handle denotes the first generation; its current one has the data. */
static tn_library_t *current_library(const tenon_library_t *library) {
  return tn_library_now(to_library(library));
}

static void retain_library(tn_library_t *library) {
  __atomic_fetch_add(&library->references, 1, __ATOMIC_RELAXED);
}

/* Combines the problems into one message: "cannot load X: reason", or "cannot load X: 2 problems:\n
 * - ...\n  - ...". */
static tenon_status_t refuse_library(tenon_status_t status, const char *verb, const char *what,
                                     tn_text_t *offences) {
  if (offences->failed)
    return tn_no_memory("the message of a library that cannot be loaded", offences->size);
  /* A step that stated no offence has left a message as its error. */
  if (!offences->size) return tn_fail(status, "cannot %s %s: %s", verb, what, tn_error());
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

static tenon_status_t locate_file(load_t *load) {
  tenon_status_t status = tn_locate(load->given, load->path, sizeof load->path);
  return status == TENON_OK ? status : tn_fail(status, "%s", tn_reason(load->given));
}

static tenon_status_t read_file(load_t *load) {
  tenon_status_t status = tn_file_map_real(load->path, &load->file, &load->identity);
  if (status == TENON_OK && tn_policy_has_hashes())
    status = tn_file_copy(load->path, &load->file, &load->copy);
  return status == TENON_OK ? status : tn_fail(status, "%s", tn_reason(load->path));
}

static tenon_status_t inspect_file(load_t *load) {
  tn_binary_read(&load->file, &load->binary, &load->offences);
  if (!load->bridge && !(load->is_bridge && load->binary.has_entry))
    tn_binary_check(&load->binary, &load->offences);
  char runtime[TN_PATH_SIZE];
  const char *word =
      tn_sanitizer_missing(&load->binary, &load->file, load->path, runtime, sizeof runtime);
  if (word) tn_sanitizer_offence(word, runtime, &load->offences);
  /* This step never fails, so that the next one can add its problems to the same message. */
  return TENON_OK;
}

/* Checks the rules of the process, and what the caller's flags require of the file. */
static tenon_status_t check_policy(load_t *load) {
  const tn_binary_t *binary = &load->binary;
  tenon_status_t status = has_offences(load) ? TENON_INVALID : TENON_DENIED;
  tn_text_t words = {0};
  /* A bridged file is exempt: the bridge decides whether its library can be unloaded. */
  if (load->flags & TENON_LOAD_UNLOADABLE && binary->pins.count && !load->bridge) {
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

static tenon_status_t refuse_changeable(const char *opener) {
  return tn_fail(TENON_DENIED,
                 "others could change it after its hash was computed, and %s opens it by its path: "
                 "see tenon doctor for who",
                 opener);
}

/* Checks the rules for a file that the program opens itself. */
static tenon_status_t check_foreign(load_t *load) {
  tn_binary_read(&load->file, &load->binary, &load->offences);
  TN_TRY(check_policy(load));
  return load->is_copied ? refuse_changeable("the program") : TENON_OK;
}

static bool is_file_of(const load_t *load, const tn_library_t *library) {
  const tn_file_identity_t *a = &load->identity;
  const tn_file_identity_t *b = &library->file;
  return a->device == b->device && a->number == b->number && a->size == b->size &&
         a->modified == b->modified;
}

/* The library's own file: if it is unchanged, reloading has nothing to do. Another file must not be
 * loaded already. */
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

/* Spells the path in a new way for each reload, by adding parts without effect: "/a/b.so",
 * "/a/./b.so", "/a/.//b.so", ... For a path that it has seen before, the system's loader would
 * return the old file. */
static void spell_path(const load_t *load, char *out, size_t capacity) {
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
                 is_isolated ? "it is already loaded, isolated with other settings: unload it first"
                             : "it is already loaded into this process: unload it first");
}

static tenon_status_t open_isolated(load_t *load) {
  load->bridged.destroy = tn_isolation_close;
  return tn_isolation_open(load->path, &load->identity, load->flags, load->isolation,
                           &load->descriptor, &load->bridged.context);
}

/* The system's error names only the first missing thing, so this function adds everything that is
 * certainly missing. */
static void list_missing(load_t *load) {
  tn_needed_missing(&load->binary, load->path, &load->offences);
  tn_missing(&load->binary, &load->file, load->path, &load->offences);
}

static tenon_status_t open_bridged(load_t *load) {
  tenon_bridge_call_t call = {sizeof call, TENON_PHASE_BRIDGE, &tn_host, load->path, NULL};
  load->bridged = (tenon_bridged_t){.size = sizeof load->bridged};
  tenon_status_t status = load->bridge->open(&call, &load->bridged);
  if (status == TENON_UNAVAILABLE) {
    tn_binary_offence(&load->offences, "%s", tn_reason(load->path));
    list_missing(load);
  }
  if (status != TENON_OK) return status;
  load->descriptor = load->bridged.descriptor;
  return load->descriptor
             ? TENON_OK
             : tn_fail(TENON_INTERNAL, "bridge %s returned no descriptor", load->bridge->name);
}

static tenon_status_t open_directly(load_t *load) {
  char path[TN_PATH_SIZE + 256];
  spell_path(load, path, sizeof path);
  tenon_status_t status = load->is_copied ? tn_dynlib_open_copy(load->copy, &load->dynlib)
                                          : tn_dynlib_open(path, &load->dynlib);
  if (status == TENON_OK && load->is_copied) load->copy = -1;
  for (const tn_library_t *l = load->old; l && status == TENON_OK; l = l->older)
    /* The file of an earlier generation may be loaded again. */
    if (tn_dynlib_same(l->dynlib, load->dynlib) && !is_file_of(load, l))
      return tn_fail(TENON_PRECONDITION,
                     "the file was overwritten in place, so the code that is already loaded from "
                     "it is damaged: restart the program, and replace the file by renaming a new "
                     "one, as compilers do");
  if (status != TENON_UNAVAILABLE) return status;
  tn_binary_offence(&load->offences, "the system refuses it: %s", tn_reason(load->path));
  list_missing(load);
  return status;
}

static tenon_status_t open_file(load_t *load) {
  const bool is_isolated = (load->flags & TENON_LOAD_ISOLATED) != 0;
  if (load->is_copied && (load->bridge || is_isolated))
    return refuse_changeable(is_isolated ? "the process of an isolated library" : "a bridge");
  tenon_status_t (*open)(load_t *) = open_directly;
  if (load->bridge) open = open_bridged;
  if (is_isolated) open = open_isolated;
  TN_TRY(open(load));
  if (load->is_copied || tn_file_is_same(load->path, &load->identity)) return TENON_OK;
  return tn_fail(TENON_ABORTED, "it was changed while it was loaded: load it again");
}

static tenon_status_t query_descriptor(load_t *load) {
  if (load->descriptor) return TENON_OK;
  entry_fn entry = (entry_fn)tn_dynlib_function(load->dynlib, TN_ENTRY);
  load->descriptor = entry ? entry() : NULL;
  if (!load->descriptor)
    tn_binary_offence(&load->offences, "its function " TN_ENTRY "() returned no descriptor");
  return load->descriptor ? TENON_OK : TENON_INVALID;
}

static tenon_status_t check_descriptor(load_t *load) {
  return tn_descriptor_check(load->descriptor, &load->offences) ? TENON_OK : TENON_INVALID;
}

static tenon_status_t register_library(load_t *load) {
  if (load->old) {
    TN_TRY(tn_registry_replace(load->old, load->descriptor, load->path, &load->offences,
                               &load->library));
    load->library->dynlib = load->dynlib;
    load->library->file = load->identity;
    load->library->load_flags = load->flags;
    return TENON_OK;
  }
  int flags = 0;
  if (load->flags & TENON_LOAD_UNLOADABLE) flags |= TN_ADD_UNLOADABLE;
  if (load->flags & TENON_LOAD_ISOLATED) flags |= TN_ADD_ISOLATED;
  TN_TRY(tn_registry_add(load->descriptor, load->path, load->bridged.context, load->bridged.destroy,
                         flags, &load->offences, &load->library));
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
    locate_file, read_file,        inspect_file,     check_policy,     find_loaded,
    open_file,   query_descriptor, check_descriptor, register_library,
};

/* Libraries inside of a file */

/* From here on the library has the name of its file within the other one. */
static tenon_status_t name_inside(load_t *load) {
  const size_t size = strlen(load->path);
  const int more = snprintf(load->path + size, sizeof load->path - size, "!%s", load->given);
  load->is_copied = true;
  return more > 0 && size + (size_t)more < sizeof load->path
             ? TENON_OK
             : tn_fail(TENON_INVALID, "its path is too long");
}

static tenon_status_t (*const steps_inside[])(load_t *load) = {
    inspect_file,  check_policy,     name_inside,      find_loaded,
    open_directly, query_descriptor, check_descriptor, register_library,
};

tenon_status_t tn_library_load_inside(const char *path, const char *name, const void *data,
                                      size_t size) {
  load_t load = {.given = name, .copy = -1};
  snprintf(load.path, sizeof load.path, "%s", path);
  tn_mutex_lock(&loading);
  tenon_status_t status = tn_file_copy_part(name, data, size, &load.file, &load.copy);
  for (size_t i = 0; i < sizeof steps_inside / sizeof *steps_inside && !load.library; i++)
    if (status == TENON_OK) status = steps_inside[i](&load);
  if (status == TENON_OK) {
    __atomic_store_n(&load.library->is_unloadable, false, __ATOMIC_RELAXED);
    tn_registry_release(load.library);
  } else {
    tn_dynlib_close(load.dynlib);
  }
  tn_mutex_unlock(&loading);
  tn_file_unmap(&load.file);
  tn_copy_close(load.copy);
  if (status != TENON_OK) status = refuse_library(status, "load", name, &load.offences);
  tn_text_clear(&load.offences);
  return status;
}

/* Loads a file. If it is not a library of Tenon, it is loaded again through the bridge that
 * recognises it. */
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
    /* The library can be unloaded only if all who loaded it agree. */
    bool may_go = out_library && flags & TENON_LOAD_UNLOADABLE;
    if (load.is_new || !may_go)
      __atomic_store_n(&load.library->is_unloadable, may_go, __ATOMIC_RELAXED);
    if (!out_library) tn_registry_release(load.library);
  } else {
    tn_dynlib_close(load.dynlib);
    if (load.bridged.context && load.bridged.destroy) load.bridged.destroy(load.bridged.context);
  }
  tn_mutex_unlock(&loading);
  if (status != TENON_OK && load.binary.no_entry && !bridge && !is_bridge)
    is_foreign = (bridge = tn_bridge_of_library(&load.file)) != NULL;
  if (status != TENON_OK && load.binary.no_entry && !is_bridge && !bridge && *tn_bridges_refused())
    tn_binary_offence(&load.offences, "bridges that could not be opened: %s", tn_bridges_refused());
  tn_file_unmap(&load.file);
  tn_copy_close(load.copy);
  if (is_foreign) {
    tn_text_clear(&load.offences);
    return load_file(path, flags, isolation, bridge, false, out_library);
  }
  if (status != TENON_OK)
    status = refuse_library(status, "load", *load.path ? load.path : path, &load.offences);
  else if (out_library)
    *out_library = to_handle(load.library);
  tn_text_clear(&load.offences);
  return status;
}

static tenon_status_t load_with(const char *path, uint32_t flags,
                                const tenon_isolation_t *isolation, tenon_library_t **out_library) {
  static const uint32_t known = TENON_LOAD_STRICT | TENON_LOAD_UNLOADABLE | TENON_LOAD_ISOLATED;
  if (out_library) *out_library = NULL;
  if (!path) return tn_fail(TENON_INVALID, "cannot load a library: the path is NULL");
  if (flags & ~known)
    return tn_fail(TENON_INVALID, "cannot load %s: unknown flags 0x%x: expected TENON_LOAD_...",
                   path, flags & ~known);
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
  if (!library || !to_library(library)->places)
    return tn_fail(TENON_PRECONDITION, "cannot create a shared tensor: the library is %s",
                   library ? "not isolated" : "NULL");
  return tn_isolation_tensor(to_library(library)->context, dtype, ndim, shape, out_tensor);
}

/* Holds `loading`, as loading does. */
static tenon_status_t reload_library(load_t *load) {
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&loading);
  load->old = tn_library_now(load->old);
  if (!load->given) load->given = load->old->path;
  if (!load->old->dynlib)
    status =
        tn_fail(TENON_PRECONDITION,
                "only a library that was loaded from a file of Tenon's own format can be reloaded");
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
  load_t load = {.given = path, .old = to_library(library), .copy = -1};
  tenon_status_t status = reload_library(&load);
  if (status != TENON_OK)
    status = refuse_library(status, "reload", *load.path ? load.path : tenon_library_name(library),
                            &load.offences);
  tn_text_clear(&load.offences);
  return status;
}

tenon_status_t tenon_policy_check(const char *path) {
  static tenon_status_t (*const checks[])(load_t *) = {locate_file, read_file, check_foreign};
  load_t load = {.given = path, .copy = -1};
  tenon_status_t status = TENON_OK;
  if (!path) return tn_fail(TENON_INVALID, "cannot check a file: the path is NULL");
  for (size_t i = 0; i < sizeof checks / sizeof *checks && status == TENON_OK; i++)
    status = checks[i](&load);
  tn_file_unmap(&load.file);
  tn_copy_close(load.copy);
  if (status != TENON_OK)
    status = refuse_library(status, "load", *load.path ? load.path : path, &load.offences);
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
      *out_library = to_handle(library);
    else
      tn_registry_release(library);
  } else {
    bool has_name = descriptor->size >= offsetof(tenon_descriptor_t, items) && descriptor->name;
    status = refuse_library(status, "add library", has_name ? descriptor->name : "without a name",
                            &offences);
  }
  tn_text_clear(&offences);
  return status;
}

void tenon_library_retain(tenon_library_t *library) {
  if (library) retain_library(to_library(library));
}

void tenon_library_release(tenon_library_t *library) {
  if (library) tn_registry_release(to_library(library));
}

tenon_status_t tenon_library_unload(tenon_library_t *library) {
  if (!library) return tn_fail(TENON_INVALID, "cannot unload a library: the handle is NULL");
  return tn_registry_unload(to_library(library));
}

const char *tenon_library_name(const tenon_library_t *library) {
  return current_library(library)->name;
}
const char *tenon_library_version(const tenon_library_t *library) {
  return current_library(library)->version;
}
const char *tenon_library_path(const tenon_library_t *library) {
  return current_library(library)->path;
}
int32_t tenon_library_op_count(const tenon_library_t *library) {
  return (int32_t)current_library(library)->op_count;
}
int32_t tenon_library_extended_count(const tenon_library_t *library, int32_t *out_waiting) {
  return tn_registry_extended(to_library(library), out_waiting);
}
const tenon_op_t *tenon_library_op(const tenon_library_t *library, int32_t index) {
  const tn_library_t *newest = current_library(library);
  return index >= 0 && index < (int32_t)newest->op_count ? newest->ops[index] : NULL;
}
