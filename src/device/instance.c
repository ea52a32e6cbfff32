/* Compiles kernels of source texts for the CPU with constants that their library lacks. The text is
 * compiled with the CPU part of source.h into a library with one function, which returns the
 * kernel. Invariant: list entries are only added, so calls walk the list without a lock. */
#include "device/instance.h"

#include <string.h>

#include "base/dynlib.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/program.h"
#include "toolchain/built.h"

#define ENTRY "tenon_instance"
typedef tenon_source_fn (*entry_fn)(void);

typedef struct instance_t {
  struct instance_t *next;
  uint64_t id; /* of the text */
  const char *kernel;
  const char *constants;
  tenon_source_fn run;
  tn_dynlib_t *library;
  char texts[];
} instance_t;

static instance_t *first; /* atomic */
static tn_mutex_t compiling = TN_MUTEX_INIT;

static const instance_t *find_instance(uint64_t id, const char *kernel, const char *constants) {
  const instance_t *i = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
  while (i &&
         (i->id != id || strcmp(i->kernel, kernel) != 0 || strcmp(i->constants, constants) != 0))
    i = i->next;
  return i;
}

static void write_text(const tenon_code_t *code, const char *kernel, const char *constants,
                       tn_text_t *text) {
  tn_text_add(text, "#include <tenon/source.h>\n#define TENON_ON_DEVICE 1\n#undef INSTANCE\n"
                    "#define INSTANCE(name, type) name\n");
  tn_program_source(code, constants, text);
  tn_text_add(text,
              "\n#line 1 \"the end of it\"\n"
              "__attribute__((visibility(\"default\"))) tenon_source_fn " ENTRY "(void);\n"
              "tenon_source_fn " ENTRY "(void) { return %s; }\n",
              kernel);
}

static tenon_status_t build_library(const tenon_code_t *code, const char *kernel,
                                    const char *constants, tn_dynlib_t **out_library) {
  static const char *const options[] = {"-w", "-ffp-contract=off"};
  const tenon_build_t asked = {.size = sizeof asked, .option_count = 2, .options = options};
  tn_text_t text = {0};
  tn_built_t built;
  write_text(code, kernel, constants, &text);
  tenon_status_t status = text.failed ? tn_no_memory("the text of a kernel", text.size)
                                      : tn_build(&asked, kernel, ENTRY, &text, &built);
  tn_text_clear(&text);
  TN_TRY(status);
  status = tn_dynlib_open(built.path, out_library);
  tn_built_release(&built);
  return status;
}

static tenon_status_t create_instance(const tenon_code_t *code, uint64_t id, const char *kernel,
                                      const char *constants, const instance_t **out_instance) {
  const size_t name = strlen(kernel) + 1;
  const size_t size = strlen(constants) + 1;
  instance_t *i = tn_allocate_zero(1, sizeof *i + name + size);
  if (!i) return tn_no_memory("a kernel's instance", sizeof *i + name + size);
  tenon_status_t status = build_library(code, kernel, constants, &i->library);
  entry_fn entry = status == TENON_OK ? (entry_fn)tn_dynlib_function(i->library, ENTRY) : NULL;
  if (entry) i->run = entry();
  if (!i->run) {
    tn_dynlib_close(i->library);
    tn_release_memory(i);
    if (status == TENON_OK)
      return tn_fail(TENON_INTERNAL, "%s: the compiled library returned no kernel", kernel);
    if (status == TENON_MEMORY) return status;
    return tn_fail(TENON_UNIMPLEMENTED,
                   "kernel '%s' of %s is not in its library for %s and cannot be compiled here: %s",
                   kernel, code->file, *constants ? constants : "the CPU", tn_error());
  }
  i->id = id;
  i->next = first;
  i->kernel = memcpy(i->texts, kernel, name);
  i->constants = memcpy(i->texts + name, constants, size);
  __atomic_store_n(&first, i, __ATOMIC_RELEASE);
  *out_instance = i;
  return TENON_OK;
}

/* Searches by address. A compiler merges equal texts of a file, so a launch usually compares no
 * characters. */
static tenon_source_fn run_by_address(const tenon_code_t *code, const tenon_code_kernel_t *k,
                                      const char *constants) {
  for (uint32_t i = 0; i < code->kernel_count; i++) {
    const tenon_code_kernel_t *other = &code->kernels[i];
    if (other->constants == constants && other->name == k->name && other->run) return other->run;
  }
  return NULL;
}

/* Searches the library for the kernel with these constants, otherwise compiled without constants,
 * which is valid for all. */
static tenon_source_fn run_of_library(const tenon_code_t *code, const tenon_code_kernel_t *k,
                                      const char *constants) {
  tenon_source_fn any = NULL;
  for (uint32_t i = 0; i < code->kernel_count; i++) {
    const tenon_code_kernel_t *other = &code->kernels[i];
    const char *own = other->constants ? other->constants : "";
    if (!other->run || (other != k && strcmp(other->name, k->name) != 0)) continue;
    if (strcmp(own, constants) == 0) return other->run;
    if (!*own) any = other->run;
  }
  return any;
}

tenon_status_t tn_instance(tenon_code_t *code, uint32_t kernel, const char *constants,
                           tenon_source_fn *out_run) {
  const tenon_code_kernel_t *k = &code->kernels[kernel];
  if (k->run && k->constants == constants) {
    /* the usual case */
    *out_run = k->run;
    return TENON_OK;
  }
  if (constants && (*out_run = run_by_address(code, k, constants))) return TENON_OK;
  if (!constants) constants = "";
  if ((*out_run = run_of_library(code, k, constants))) return TENON_OK;
  const uint64_t id = tn_program_id(code);
  tenon_status_t status = TENON_OK;
  const instance_t *found = find_instance(id, k->name, constants);
  if (!found) {
    tn_mutex_lock(&compiling);
    if (!(found = find_instance(id, k->name, constants)))
      status = create_instance(code, id, k->name, constants, &found);
    tn_mutex_unlock(&compiling);
  }
  if (status == TENON_OK) *out_run = found->run;
  return status;
}

void tn_instances_release(void) {
  for (instance_t *i = first, *next; i; i = next) {
    next = i->next;
    tn_dynlib_close(i->library);
    tn_release_memory(i);
  }
  first = NULL;
}

void tn_instances_in_child(void) { compiling = (tn_mutex_t)TN_MUTEX_INIT; }
