/* Registers what a running program adds: operators, kernels, and fallbacks of whole backends and
 * layers, each with a handle that undoes it. Operators and kernels become a small library: they are
 * checked, and wait for a missing operator, like those of any library. Invariant: a registration
 * that is undone leaves the tables at once and frees its memory at shutdown, since a call may be on
 * its way to it. */
#include "registry/registration.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "operator/table.h"
#include "registry/registry.h"

struct tenon_registration_t {
  tn_library_t *library; /* of operators and kernels; NULL: this is a fallback */
  tn_backend_t *backend; /* of a fallback; NULL: the fallback is for a layer */
  bool is_autograd;      /* the fallback serves that backend's gradients */
  int bit;
  tn_table_entry_t entry;
  tenon_free_fn destroy;
  bool is_undone;
  tn_arena_t arena;                  /* holds the items: kernels that wait are parsed again */
  struct tenon_registration_t *next; /* list of all registrations, including undone ones */
};

static tn_mutex_t lock = TN_MUTEX_INIT;
static tenon_registration_t *all;

tn_mutex_t *tn_registrations_mutex(void) { return &lock; }

static void keep_registration(tenon_registration_t *r) {
  tn_mutex_lock(&lock);
  r->next = all;
  all = r;
  tn_mutex_unlock(&lock);
}

/* Copies the items and their texts, up to TENON_TAG_END; groups are not copied. Returns NULL if
 * memory runs out. */
static const tenon_item_t *copy_items(tn_arena_t *arena, const tenon_item_t *items) {
  size_t count = 0;
  while (items[count].tag != TENON_TAG_END)
    count++;
  tenon_item_t *copy = tn_arena_array(arena, count + 1, sizeof *copy);
  if (!copy) return NULL;
  memcpy(copy, items, (count + 1) * sizeof *copy);
  for (size_t i = 0; i < count; i++) {
    if (!copy[i].text || copy[i].tag == TENON_TAG_GROUP) continue;
    if (!(copy[i].text = tn_arena_text(arena, items[i].text, strlen(items[i].text)))) return NULL;
  }
  return copy;
}

static tenon_status_t add_items_of_program(const char *what, const tenon_item_t *items,
                                           void *context, tenon_free_fn destroy, uint32_t flags,
                                           tenon_registration_t **out_registration) {
  if (flags & ~(uint32_t)TENON_OVERRIDE)
    return tn_fail(TENON_INVALID, "%s: unknown flags %#x", what, flags);
  tenon_registration_t *r = tn_allocate_zero(1, sizeof *r);
  if (!r) return tn_no_memory("a registration", sizeof *r);
  tn_text_t offences = {0};
  tenon_descriptor_t descriptor = {sizeof descriptor, TENON_ABI,       TENON_LAYOUT, 0,
                                   "program",         tenon_version(), NULL};
  descriptor.items = copy_items(&r->arena, items);
  tenon_status_t status = descriptor.items ? TENON_OK : tn_no_memory("a registration", 0);
  if (status == TENON_OK)
    status = tn_registry_add(&descriptor, "", context, destroy,
                             flags & TENON_OVERRIDE ? TN_OVERRIDE_MUST : TN_OVERRIDE_NEVER,
                             &offences, &r->library);
  if (status != TENON_OK && offences.size)
    status = tn_fail(status, "cannot add %s: %s", what, tn_text_get(&offences));
  tn_text_clear(&offences);
  if (status == TENON_OK) {
    keep_registration(r);
    *out_registration = r;
    return TENON_OK;
  }
  tn_arena_clear(&r->arena);
  tn_release_memory(r);
  return status;
}

tenon_status_t tenon_op_add(const tenon_item_t *items, void *context, tenon_free_fn destroy,
                            uint32_t flags, tenon_registration_t **out_registration) {
  TN_TRY(tenon_start());
  if (!items || !out_registration)
    return tn_fail(TENON_INVALID,
                   "operators of a program need their items and a place for the registration");
  return add_items_of_program("operators", items, context, destroy, flags, out_registration);
}

static tenon_status_t extend_operator(uint32_t tag, const char *what, const char *op,
                                      const char *where, tenon_any_fn function, void *context,
                                      tenon_free_fn destroy, uint32_t flags,
                                      tenon_registration_t **out_registration) {
  TN_TRY(tenon_start());
  if (!op || !where || !out_registration)
    return tn_fail(TENON_INVALID, "%s needs the name of its operator and of its backend", what);
  const tenon_item_t items[] = {{TENON_TAG_EXTEND, 0, 0, op, NULL},
                                {tag, 0, 0, where, function},
                                {TENON_TAG_END, 0, 0, NULL, NULL}};
  return add_items_of_program(what, items, context, destroy, flags, out_registration);
}

tenon_status_t tenon_kernel_add(const char *op, const char *where, tenon_run_fn run, void *context,
                                tenon_free_fn destroy, uint32_t flags,
                                tenon_registration_t **out_registration) {
  return extend_operator(TENON_TAG_KERNEL, "a kernel", op, where, (tenon_any_fn)run, context,
                         destroy, flags, out_registration);
}

tenon_status_t tenon_stub_add(const char *op, const char *where, tenon_stub_fn stub, void *context,
                              tenon_free_fn destroy, uint32_t flags,
                              tenon_registration_t **out_registration) {
  return extend_operator(TENON_TAG_STUB, "a stub", op, where, (tenon_any_fn)stub, context, destroy,
                         flags, out_registration);
}

/* Sets the fallback in the row that the key names: of a backend, of a backend's gradients, or of a
 * layer. */
static tenon_status_t take_row(tenon_registration_t *r, const char *key) {
  int bit = tn_key_find(key);
  if (bit > TN_BIT_META) {
    if (bit != TN_BIT_VIEW && bit != TN_BIT_AUTOGRAD && bit != TN_BIT_AUTOCAST &&
        bit != TN_BIT_FUNCTIONAL)
      return tn_fail(
          TENON_INVALID,
          "'%s' can have no fallback: expected a backend, view, autograd, autocast or functional",
          key);
    if (tn_row_get(bit)->resolved == TN_RESOLVED_FALLBACK)
      return tn_fail(TENON_EXISTS, "%s has a fallback already", key);
    r->bit = bit;
    tn_row_set(bit, &r->entry);
    return TENON_OK;
  }
  static const char autograd[] = "autograd ";
  r->is_autograd = strncmp(key, autograd, sizeof autograd - 1) == 0;
  TN_TRY(tn_backend_intern(key + (r->is_autograd ? sizeof autograd - 1 : 0), &r->backend));
  if (r->backend == &tn_backend_cpu && !r->is_autograd)
    return tn_fail(TENON_INVALID, "the CPU can have no fallback: there is nothing behind it");
  if (r->is_autograd ? r->backend->gradients : r->backend->row)
    return tn_fail(TENON_EXISTS, "%s has a fallback already", key);
  tn_backend_row_set(r->backend, r->is_autograd, &r->entry);
  return TENON_OK;
}

tenon_status_t tenon_fallback_add(const char *key, tenon_run_fn run, void *context,
                                  tenon_free_fn destroy, uint32_t flags,
                                  tenon_registration_t **out_registration) {
  TN_TRY(tenon_start());
  if (!key || !run || !out_registration)
    return tn_fail(TENON_INVALID, "a fallback needs a backend and a function");
  if (flags & ~(uint32_t)TENON_PREFERRED)
    return tn_fail(TENON_INVALID, "fallback of %s: unknown flags %#x", key, flags);
  tenon_registration_t *r = tn_allocate_zero(1, sizeof *r);
  if (!r) return tn_no_memory("a fallback", sizeof *r);
  r->entry = (tn_table_entry_t){.run = run,
                                .context = context,
                                .resolved = TN_RESOLVED_FALLBACK,
                                .is_preferred = (flags & TENON_PREFERRED) != 0};
  tn_mutex_lock(&lock);
  tenon_status_t status = take_row(r, key);
  tn_mutex_unlock(&lock);
  if (status == TENON_OK) {
    r->destroy = destroy;
    keep_registration(r);
    *out_registration = r;
  } else
    tn_release_memory(r);
  return status;
}

static void undo_registration(tenon_registration_t *r) {
  if (r->is_undone) return;
  r->is_undone = true;
  if (r->library)
    r->is_undone = tn_registry_undo(r->library);
  else if (r->backend)
    tn_backend_row_set(r->backend, r->is_autograd, NULL);
  else
    tn_row_set(r->bit, NULL);
}

void tenon_registration_release(tenon_registration_t *r) {
  if (!r) return;
  tn_mutex_lock(&lock);
  undo_registration(r);
  tn_mutex_unlock(&lock);
}

void tn_registrations_clear(void) {
  tn_mutex_lock(&lock);
  for (tenon_registration_t *r = all, *next; r; r = next) {
    next = r->next;
    /* tn_registry_clear has run, so the library is not registered any more. */
    if (!r->is_undone && r->library)
      tn_registry_release(r->library);
    else if (!r->is_undone)
      undo_registration(r);
    if (r->destroy) r->destroy(r->entry.context);
    tn_arena_clear(&r->arena);
    tn_release_memory(r);
  }
  all = NULL;
  tn_mutex_unlock(&lock);
}
