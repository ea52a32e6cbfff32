/* Kernels that wait for an operator that no library defines yet, or that do not fit the operator
 * that exists.  The registry calls it with its mutex held. */
#include "registry/waiting.h"

#include <string.h>

#include "base/memory.h"
#include "registry/registry.h"
#include "registry/suggestion.h"

static tn_dangling_t *waiting;
static size_t waiting_count, waiting_capacity;

bool tn_waiting_make_room(size_t more) {
  while (waiting_capacity - waiting_count < more)
    if (!tn_grow((void **)&waiting, &waiting_capacity, waiting_capacity, sizeof *waiting))
      return false;
  return true;
}

bool tn_waiting_add(const tn_dangling_t *one) {
  if (!tn_waiting_make_room(1)) return false;
  waiting[waiting_count++] = *one;
  return true;
}

void tn_waiting_forget(const tn_library_t *library) {
  size_t kept = 0;
  for (size_t i = 0; i < waiting_count; i++)
    if (waiting[i].library != library) waiting[kept++] = waiting[i];
  waiting_count = kept;
}

void tn_waiting_reset_reasons(void) {
  for (size_t i = 0; i < waiting_count; i++)
    if (!tn_registry_published(waiting[i].op)) waiting[i].reason = NULL;
}

/* Adds the kernels to their operator, which exists now. Kernels that do not fit it stay, with the
 * reason. */
static void resolve_one(tn_dangling_t *one) {
  tn_text_t offences = {0};
  tn_library_t *library = one->library;
  tn_definition_t d = {.library = library,
                       .offences = &offences,
                       .find = tn_registry_published,
                       .name_stubs = tn_registry_name_stubs,
                       .override = one->override,
                       .code = TENON_OK};
  bool good = tn_define_extension(&d, one);
  tn_extension_t *all =
      good ? tn_reallocate(library->extensions,
                           (library->extension_count + d.extension_count + 1) * sizeof *all)
           : NULL;
  if (all) library->extensions = all;
  if (all && tn_registry_link(&d)) {
    memcpy(all + library->extension_count, d.extensions, d.extension_count * sizeof *all);
    library->extension_count += (uint32_t)d.extension_count;
    one->library = NULL;
  } else if (!d.failed) {
    /* Where memory was missing (d.failed), the kernels are tried again later. */
    one->reason = tn_arena_text(&library->arena, tn_text_get(&offences), offences.size);
  }
  tn_release_memory(d.extensions);
  tn_text_clear(&offences);
}

void tn_waiting_resolve(void) {
  size_t kept = 0;
  for (size_t i = 0; i < waiting_count; i++) {
    if (tn_registry_published(waiting[i].op) && !waiting[i].reason) resolve_one(&waiting[i]);
    if (waiting[i].library) waiting[kept++] = waiting[i];
  }
  waiting_count = kept;
}

int32_t tn_waiting_count(const tn_library_t *library) {
  int32_t count = 0;
  for (size_t i = 0; i < waiting_count; i++)
    count += waiting[i].library == library;
  return count;
}

void tn_waiting_describe(tn_text_t *text) {
  for (size_t i = 0; i < waiting_count; i++) {
    tn_text_add(text, "%s: kernels of library %s", waiting[i].op, waiting[i].library->name);
    if (waiting[i].reason)
      tn_text_add(text, " do not fit: %s\n", waiting[i].reason);
    else
      tn_text_add(text, " wait: no library defines it\n");
  }
}

void tn_waiting_clear(void) {
  tn_release_memory(waiting);
  waiting = NULL;
  waiting_count = waiting_capacity = 0;
}
