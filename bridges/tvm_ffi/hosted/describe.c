/* Makes the descriptor of a library; see describe.h. Metadata come from functions of the library,
 * `__tvm_ffi__metadata_<name>`. */
#include "describe.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "declare.h"
#include "object.h"
#include "symbols.h"
#include "thunk.h"

#define FFI_METADATA_PREFIX "__tvm_ffi__metadata_"

enum {
  ITEMS_A_FUNCTION = 9, /* besides the kernels */
  BACKENDS_MOST = 16,
};

typedef struct description_t {
  module_t *module;
  tenon_item_t *items;
  size_t item_count;
  tn_text_t left_out; /* functions without an operator, and why */
  uint32_t left_out_count;
} description_t;

/* the functions of a library */

typedef struct names_t {
  tn_arena_t *arena;
  const char **names;
  uint32_t count;
  uint32_t capacity;
  bool failed;
} names_t;

/* Names that begin with an underscore are those of metadata, documentation and contexts. */
static void note_function(void *context, const char *symbol, bool is_defined) {
  names_t *names = context;
  const size_t size = strlen(FFI_PREFIX);
  if (!is_defined || strncmp(symbol, FFI_PREFIX, size) != 0 || symbol[size] == '_') return;
  if (names->count == names->capacity) {
    const uint32_t capacity = names->capacity ? 2 * names->capacity : 64;
    const char **grown = tn_arena_array(names->arena, capacity, sizeof *grown);
    names->failed |= !grown;
    if (!grown) return;
    if (names->count) memcpy(grown, names->names, names->count * sizeof *grown);
    names->names = grown;
    names->capacity = capacity;
  }
  names->names[names->count++] = symbol + size;
}

static int order_functions(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool find_call(const module_t *module, const char *prefix, const char *name,
                      ffi_call_fn *out_call) {
  char symbol[512];
  void *address = NULL;
  int size = snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
  if (size > 0 && (size_t)size < sizeof symbol) address = dlsym(module->handle, symbol);
  /* ISO C has no cast from an object pointer to a function pointer. */
  memcpy(out_call, &address, sizeof address);
  return address != NULL;
}

static tenon_status_t read_metadata(module_t *module, const char *name,
                                    const signature_t **out_signature) {
  ffi_call_fn call;
  ffi_any_t result = {0};
  *out_signature = NULL;
  if (!find_call(module, FFI_METADATA_PREFIX, name, &call)) return TENON_OK;
  if (call(NULL, NULL, 0, &result) != 0) {
    ffi_object_t *error = NULL;
    if (module->runtime.take_error) module->runtime.take_error(&error);
    ffi_release(error);
    return tn_fail(TENON_INVALID, "its metadata cannot be read: the function fails");
  }
  ffi_bytes_t text = ffi_text_get(&result);
  tenon_status_t status =
      text.data
          ? metadata_read(text.data, text.size, &module->arena, out_signature)
          : tn_fail(TENON_INVALID, "expected a string, found a value of kind %d", (int)result.kind);
  ffi_any_release(&result);
  return status == TENON_OK ? status : tn_prefix(status, "its metadata: ");
}

/* items */

static void add_described(description_t *d, tenon_item_t made) { d->items[d->item_count++] = made; }

static void add_declared_text(description_t *d, uint32_t tag, const char *text) {
  if (text) add_described(d, (tenon_item_t){tag, 0, 0, text, NULL});
}

/* Shapes that TENON_SHAPES does not state are known when the function has returned. */
static tenon_status_t infer_nothing(tenon_infer_t *infer) {
  (void)infer;
  return TENON_OK;
}

static tenon_status_t add_kernels(description_t *d, const char *backends, const function_t *f) {
  tenon_run_fn run = thunk_take(f);
  const char *at = backends ? backends : "cpu cuda";
  if (!run)
    return tn_fail(TENON_MEMORY, "the process has %d functions of tvm-ffi, which is the most",
                   FUNCTIONS_MOST);
  for (int i = 0; *(at += strspn(at, " ")); i++) {
    const size_t size = strcspn(at, " ");
    char *backend = tn_arena_text(&d->module->arena, at, size);
    if (!backend) return tn_no_memory("the declaration of a function", 0);
    if (i == BACKENDS_MOST)
      return tn_fail(TENON_INVALID, "backends '%s': expected at most %d", backends, BACKENDS_MOST);
    add_described(d, (tenon_item_t)TENON_KERNEL(backend, run));
    at += size;
  }
  return TENON_OK;
}

static tenon_status_t describe_function(description_t *d, const tenon_tvm_ffi_function_t *declared,
                                        function_t *f) {
  module_t *module = d->module;
  declaration_t made = {.arena = &module->arena, .declared = declared};
  f->module = module;
  f->name = tn_arena_text(&module->arena, declared->name, strlen(declared->name));
  if (!f->name) return tn_no_memory("the name of a function", 0);
  if (!find_call(module, FFI_PREFIX, declared->name, &f->call))
    return tn_fail(TENON_NOT_FOUND, "the library does not export " FFI_PREFIX "%s", declared->name);
  TENON_TRY(read_metadata(module, declared->name, &made.signature));
  TENON_TRY(declare_function(&made, module->ns, f));
  add_declared_text(d, TENON_TAG_OP, made.schema.text);
  add_declared_text(d, TENON_TAG_TYPES, made.types);
  add_declared_text(d, TENON_TAG_SHAPES, declared->shapes);
  add_declared_text(d, TENON_TAG_GRADIENT, declared->gradient);
  if (declared->traits) add_described(d, (tenon_item_t)TENON_TRAITS(declared->traits));
  if (declare_needs_infer(f))
    add_described(d, (tenon_item_t)TENON_FN_(INFER, 0, tenon_infer_t, infer_nothing));
  return add_kernels(d, declared->backends, f);
}

/* descriptions by the caller, which are all needed */

static const char *copy_text(tn_arena_t *arena, const char *text, bool *failed) {
  const char *copy = text ? tn_arena_text(arena, text, strlen(text)) : NULL;
  *failed |= text && !copy;
  return copy;
}

/* Reads a structure of the caller, which may be older and shorter, and copies its texts. */
static tenon_status_t copy_declared(tn_arena_t *arena, const tenon_tvm_ffi_function_t *from,
                                    tenon_tvm_ffi_function_t *to) {
  bool failed = false;
  *to = (tenon_tvm_ffi_function_t){.size = sizeof *to};
  memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
  const char **const texts[] = {&to->name,   &to->schema,   &to->arguments, &to->types,
                                &to->shapes, &to->gradient, &to->backends};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    *texts[i] = copy_text(arena, *texts[i], &failed);
  if (failed) return tn_no_memory("the declaration of a function", 0);
  return to->name ? TENON_OK : tn_fail(TENON_INVALID, "a declared function has no name");
}

static tenon_status_t describe_declared(description_t *d, const tenon_tvm_ffi_function_t *declared,
                                        uint32_t count) {
  module_t *module = d->module;
  for (uint32_t i = 0; i < count; i++) {
    tenon_tvm_ffi_function_t copy;
    TENON_TRY(copy_declared(&module->arena, &declared[i], &copy));
    module->function_count++;
    tenon_status_t status = describe_function(d, &copy, &module->functions[i]);
    if (status != TENON_OK) return tn_prefix(status, "function %s: ", copy.name);
  }
  return TENON_OK;
}

/* descriptions by metadata; functions that have none, or that Tenon cannot call, are left out */

static tenon_status_t describe_exported(description_t *d, const names_t *names) {
  module_t *module = d->module;
  for (uint32_t i = 0; i < names->count; i++) {
    const tenon_tvm_ffi_function_t declared = {.size = sizeof declared, .name = names->names[i]};
    function_t *f = &module->functions[module->function_count];
    const size_t item_count = d->item_count;
    tenon_status_t status = describe_function(d, &declared, f);
    if (status == TENON_MEMORY) return status;
    if (status == TENON_OK) {
      module->function_count++;
      continue;
    }
    tn_text_add(&d->left_out, "\n  %s: %s", names->names[i], tenon_error());
    d->left_out_count++;
    d->item_count = item_count;
    thunk_release(f);
    memset(f, 0, sizeof *f);
  }
  if (module->function_count) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "no function can become an operator by its metadata: state schemas with "
                 "tenon.tvm_ffi.load or tenon_tvm_ffi_load, or build the library with "
                 "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1:%s",
                 d->left_out.size ? tn_text_get(&d->left_out) : " it exports none");
}

static tenon_status_t add_about(description_t *d) {
  module_t *module = d->module;
  tn_text_t text = {0};
  tn_text_add(&text, "functions of tvm-ffi: %u", module->function_count);
  if (d->left_out_count)
    tn_text_add(&text, "\nleft out: %u:%s", d->left_out_count, tn_text_get(&d->left_out));
  d->items[0] = (tenon_item_t){TENON_TAG_ABOUT, 0, 0, NULL, NULL};
  if (!text.failed) d->items[0].text = tn_arena_text(&module->arena, text.data, text.size);
  tn_text_clear(&text);
  return d->items[0].text ? TENON_OK : tn_no_memory("the description of a library", 0);
}

static tenon_status_t describe_all(description_t *d, const tenon_tvm_ffi_function_t *declared,
                                   uint32_t count) {
  module_t *module = d->module;
  names_t names = {.arena = &module->arena};
  if (!count && !symbols_each(module->handle, note_function, &names))
    return tn_fail(TENON_UNIMPLEMENTED, "the system does not show what it exports");
  if (names.count) qsort(names.names, names.count, sizeof *names.names, order_functions);
  const size_t most = count ? count : names.count;
  const size_t items = most * (ITEMS_A_FUNCTION + BACKENDS_MOST) + 2;
  module->functions = tn_arena_array(&module->arena, most + 1, sizeof *module->functions);
  d->items = tn_arena_array(&module->arena, items, sizeof *d->items);
  if (names.failed || !module->functions || !d->items)
    return tn_no_memory("the description of a library", 0);
  d->item_count = 1; /* the first item says what the library is */
  TENON_TRY(count ? describe_declared(d, declared, count) : describe_exported(d, &names));
  return add_about(d);
}

tenon_status_t describe_module(module_t *module, const tenon_tvm_ffi_function_t *declared,
                               uint32_t count, char *why, size_t capacity) {
  description_t d = {.module = module};
  tenon_status_t status = describe_all(&d, declared, count);
  tn_text_clear(&d.left_out);
  if (status != TENON_OK) {
    snprintf(why, capacity, "%s", tenon_error());
    return status;
  }
  module->descriptor = (tenon_descriptor_t){.size = sizeof module->descriptor,
                                            .abi = TENON_ABI,
                                            .layout = TENON_LAYOUT,
                                            .name = module->ns,
                                            .version = "0",
                                            .items = d.items};
  return TENON_OK;
}
