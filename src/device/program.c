/* Finds compiled programs: in the ordinal's list, then in the file cache, otherwise with the
 * compiler. Each kernel of a text is compiled separately when it is first launched, because
 * compiling kernels that nobody uses takes long. */
#include "device/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cache.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"

typedef struct tn_program_t {
  struct tn_program_t *next;
  uint64_t id;
  const char *constants;
  uint32_t kernel_count;
  struct {
    void *native;
    void *kernel; /* of the plug-in; atomic; NULL: not compiled yet */
  } kernels[];    /* followed by the constants */
} tn_program_t;

tn_program_counts_t tn_program_counts;
static tn_mutex_t compiling = TN_MUTEX_INIT;

void tn_programs_in_child(void) { compiling = (tn_mutex_t)TN_MUTEX_INIT; }

uint64_t tn_program_id(tenon_code_t *code) {
  uint64_t id = __atomic_load_n(&code->id, __ATOMIC_RELAXED);
  if (id) return id;
  id = tn_cache_hash(code->text, (size_t)(code->end - code->text), 2);
  id = tn_cache_hash(code->file, strlen(code->file), id) | 1;
  __atomic_store_n(&code->id, id, __ATOMIC_RELAXED);
  return id;
}

static tn_program_t *find_program(const tn_ordinal_t *o, uint64_t id, const char *constants) {
  tn_program_t *p = __atomic_load_n(&o->programs, __ATOMIC_ACQUIRE);
  while (p && (p->id != id || (p->constants != constants && strcmp(p->constants, constants) != 0)))
    p = p->next;
  return p;
}

uint32_t tn_program_language(const tn_ordinal_t *o) {
  for (uint32_t i = TENON_SOURCE_OPENCL; i <= TENON_SOURCE_C; i++)
    if (o->properties.languages >> i & 1) return i;
  return 0;
}

/* Writes "N=4 T=float" as lines of #define. */
static void add_constants(tn_text_t *text, const char *constants) {
  for (const char *at = constants; *at;) {
    size_t size = strcspn(at, " ");
    size_t name = strcspn(at, "= ");
    if (size)
      tn_text_add(text, "#define %.*s %.*s\n", (int)name, at,
                  (int)(name < size ? size - name - 1 : 0), at + name + 1);
    at += size + strspn(at + size, " ");
  }
}

void tn_program_source(const tenon_code_t *code, const char *constants, tn_text_t *text) {
  add_constants(text, constants);
  tn_text_add(text, "#line 1 ");
  tn_text_json(text, code->file);
  tn_text_add(text, "\n");
  tn_text_bytes(text, code->text, (size_t)(code->end - code->text));
}

/* Was the kernel listed before? It is listed once for each set of constants. */
static bool was_listed(const tenon_code_t *code, uint32_t kernel) {
  for (uint32_t i = 0; i < kernel; i++)
    if (strcmp(code->kernels[i].name, code->kernels[kernel].name) == 0) return true;
  return false;
}

void tn_program_text(uint32_t language, const tenon_code_t *code, uint32_t kernel,
                     const char *constants, tn_text_t *text) {
  const char *wanted = kernel < code->kernel_count ? code->kernels[kernel].name : NULL;
  tn_prelude(language, text);
  for (uint32_t i = 0; i < code->kernel_count; i++)
    if (!was_listed(code, i))
      tn_text_add(text, "#define TENON_E_%s TENON_%s\n", code->kernels[i].name,
                  !wanted || strcmp(code->kernels[i].name, wanted) == 0 ? "WANTED" : "UNWANTED");
  tn_program_source(code, constants, text);
}

void tn_code_key(tn_text_t *key, const tn_ordinal_t *o) {
  tn_text_add(key, "%s\n%s\n%s\n%s\n", o->plugin->name, o->properties.name, o->properties.driver,
              o->properties.target);
}

void tn_code_name(const tn_text_t *key, const char *ending, char out_name[TN_CODE_NAME]) {
  snprintf(out_name, TN_CODE_NAME, "%016" PRIx64 "%016" PRIx64 ".%s",
           tn_cache_hash(key->data, key->size, 3), tn_cache_hash(key->data, key->size, 4), ending);
}

static void *reserve_sink(tenon_sink_t *sink, uint64_t bytes) {
  tn_sink_t *s = (tn_sink_t *)sink;
  tn_release_memory(s->data);
  s->data = tn_allocate(s->size = (size_t)bytes);
  if (!s->data) (void)tn_no_memory("compiled code", s->size);
  return s->data;
}

tn_sink_t tn_sink(void) { return (tn_sink_t){.sink = {sizeof(tenon_sink_t), 0, reserve_sink}}; }

static tenon_status_t compile_kernel(tn_ordinal_t *o, uint32_t language, const tenon_code_t *code,
                                     const tn_text_t *text, const tn_text_t *key, const char *name,
                                     void **out_native) {
  tenon_source_t source = {.size = sizeof source,
                           .language = language,
                           .text = text->data,
                           .text_size = text->size,
                           .file = code->file,
                           .options = ""};
  tn_sink_t sink = tn_sink();
  uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->compile(&o->context, &source, &sink.sink);
  status = tn_ordinal_complete(o, errors, "compile", status);
  if (status == TENON_OK && !sink.data)
    status = tn_fail(TENON_INTERNAL, "its plug-in returned no compiled code for %s", code->file);
  errors = tn_error_count();
  if (status == TENON_OK)
    status =
        tn_ordinal_complete(o, errors, "program_load",
                            o->table->program_load(&o->context, sink.data, sink.size, out_native));
  if (status == TENON_OK) {
    __atomic_add_fetch(&tn_program_counts.compiled, 1, __ATOMIC_RELAXED);
    tn_cache_write(name, key->data, key->size, sink.data, sink.size);
  }
  tn_release_memory(sink.data);
  return status;
}

static tenon_status_t load_kernel(tn_ordinal_t *o, const tenon_code_t *code, uint32_t kernel,
                                  const char *constants, void **out_native) {
  uint32_t language = TN_SLOT(o->table, compile) ? tn_program_language(o) : 0;
  char name[TN_CODE_NAME];
  void *data;
  size_t size;
  tn_text_t text = {0};
  tn_text_t key = {0};
  if (!language)
    return tn_fail(TENON_UNIMPLEMENTED, "device %s:%d cannot compile source kernels",
                   o->plugin->name, (int)o->context.ordinal);
  tn_program_text(language, code, kernel, constants, &text);
  tn_code_key(&key, o);
  tn_text_add(&key, "%u\n", language);
  if (!text.failed) tn_text_bytes(&key, text.data, text.size);
  tenon_status_t status =
      text.failed || key.failed ? tn_no_memory("the text of a kernel", text.size) : TENON_OK;
  bool is_read = false;
  if (status == TENON_OK) {
    tn_code_name(&key, "program", name);
    /* the driver may still refuse the code */
    if (tn_cache_read(name, key.data, key.size, &data, &size)) {
      is_read = o->table->program_load(&o->context, data, size, out_native) == TENON_OK;
      tn_release_memory(data);
    }
    if (is_read)
      __atomic_add_fetch(&tn_program_counts.read, 1, __ATOMIC_RELAXED);
    else
      status = compile_kernel(o, language, code, &text, &key, name, out_native);
  }
  tn_text_clear(&text);
  tn_text_clear(&key);
  return status;
}

static tenon_status_t create_program(tn_ordinal_t *o, const tenon_code_t *code, uint64_t id,
                                     const char *constants, tn_program_t **out_program) {
  size_t kernels = code->kernel_count * sizeof *(*out_program)->kernels;
  size_t length = strlen(constants) + 1;
  tn_program_t *p = tn_allocate_zero(1, sizeof *p + kernels + length);
  if (!p) return tn_no_memory("a program", sizeof *p);
  p->id = id;
  p->kernel_count = code->kernel_count;
  p->constants = memcpy((char *)p->kernels + kernels, constants, length);
  p->next = o->programs;
  __atomic_store_n(&o->programs, p, __ATOMIC_RELEASE);
  *out_program = p;
  return TENON_OK;
}

static tenon_status_t create_kernel(tn_ordinal_t *o, const tenon_code_t *code, uint32_t number,
                                    const char *constants, tn_program_t *p) {
  void *native = NULL;
  void *kernel = NULL;
  char name[300];
  if (p->kernels[number].kernel) return TENON_OK; /* another thread was faster */
  TN_TRY(load_kernel(o, code, number, constants, &native));
  snprintf(name, sizeof name, "%s%s",
           tn_program_language(o) == TENON_SOURCE_CUDA ? TN_CUDA_PREFIX : "",
           code->kernels[number].name);
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->kernel_find(&o->context, native, name, &kernel);
  status = tn_ordinal_complete(o, errors, "kernel_find", status);
  if (status != TENON_OK) {
    o->table->program_unload(&o->context, native);
    return status;
  }
  p->kernels[number].native = native;
  __atomic_store_n(&p->kernels[number].kernel, kernel, __ATOMIC_RELEASE);
  return TENON_OK;
}

tenon_status_t tn_program_kernel(tn_ordinal_t *o, tenon_code_t *code, uint32_t kernel,
                                 const char *constants, void **out_kernel) {
  uint64_t id = tn_program_id(code);
  tenon_status_t status = TENON_OK;
  if (!constants) constants = "";
  if (kernel >= code->kernel_count)
    return tn_fail(TENON_INVALID, "kernel %u of %s does not exist: it has %u", kernel, code->file,
                   code->kernel_count);
  tn_program_t *p = find_program(o, id, constants);
  if (p && (*out_kernel = __atomic_load_n(&p->kernels[kernel].kernel, __ATOMIC_ACQUIRE)))
    return TENON_OK;
  tn_mutex_lock(&compiling);
  if (!p && !(p = find_program(o, id, constants)))
    status = create_program(o, code, id, constants, &p);
  if (status == TENON_OK) status = create_kernel(o, code, kernel, constants, p);
  tn_mutex_unlock(&compiling);
  if (status == TENON_OK) *out_kernel = p->kernels[kernel].kernel;
  return status;
}

void tn_programs_release(tn_ordinal_t *o) {
  for (tn_program_t *p = o->programs, *next; p; p = next) {
    next = p->next;
    for (uint32_t i = 0; i < p->kernel_count; i++)
      if (p->kernels[i].native) o->table->program_unload(&o->context, p->kernels[i].native);
    tn_release_memory(p);
  }
  o->programs = NULL;
}
