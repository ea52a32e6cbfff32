/* Registers the operators of a library with PyTorch; see tenon/torch.h. A registration stays until
 * the process ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/torch.h>

#include "device.h"
#include "operator.h"

typedef struct report_t {
  char *text;
  size_t size;
  bool failed;
} report_t;

static void report_operator(report_t *report, const char *a, const char *b, const char *c,
                            const char *d, const char *e) {
  const char *const parts[] = {a, "\t", b, "\t", c, "\t", d, "\t", e, "\n"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    size_t size = strlen(parts[i]);
    char *grown = report->failed ? NULL : realloc(report->text, report->size + size + 1);
    if (!grown)
      report->failed = true;
    else {
      memcpy((report->text = grown) + report->size, parts[i], size + 1);
      report->size += size;
    }
  }
}

/* Keys of PyTorch's dispatcher. A kernel is registered for each of them and looks at the devices of
 * its tensors. One kernel for all backends would take precedence over PyTorch's own handling of
 * tensors without memory. */
#define BACKENDS(X) X(CPU) X(CUDA) X(XPU) X(PrivateUse1)
#define COUNT(key) +1
#define NAME(key) #key,
#define AUTOGRAD(key) "Autograd" #key,
enum { BACKENDS_ALL = 0 BACKENDS(COUNT) };
static const char *const backends[] = {BACKENDS(NAME)};
static const char *const autograds[] = {BACKENDS(AUTOGRAD)};

typedef struct registration_t { /* one registered library; it stays until the process ends */
  torch_library_t definitions;
  torch_library_t kernels[BACKENDS_ALL];
  torch_library_t quantised;
  /* kernels of operators without tensor arguments, which select no backend */
  torch_library_t creators;
  torch_library_t autograd[BACKENDS_ALL]; /* NULL: only Python handles autograd */
  report_t report;
} registration_t;

static int32_t define_schema(torch_library_t library, const operator_t *self, const char *schema) {
  int32_t tags[3];
  int32_t count = 0;
  if (!torch.torch_library_def_with_tags) return torch.aoti_torch_library_def(library, schema);
  tags[count++] = torch.torch_tag_pt2_compliant_tag();
  if (self->traits & TENON_POINTWISE && !self->is_gradient)
    tags[count++] = torch.torch_tag_pointwise();
  if (self->traits & TENON_RANDOM) tags[count++] = torch.torch_tag_nondeterministic_seeded();
  return torch.torch_library_def_with_tags(library, schema, tags, count);
}

static bool rejected_schema(const char *schema, char *why, size_t capacity) {
  snprintf(why, capacity, "PyTorch rejects %s: %s", schema, torch_what());
  for (char *c = why; *c; c++)
    /* Tabs and line ends separate the fields of the report. */
    if (*c == '\n' || *c == '\t') *c = ' ';
  return false;
}

/* Registers one function in several libraries. */
static bool implement_schema(const torch_library_t *libraries, int count, const operator_t *self,
                             const char *schema, char *why, size_t capacity) {
  char name[300];
  const torch_kernel_fn thunk = thunk_new(self);
  if (!thunk) {
    snprintf(why, capacity, "at most %d operators can be registered with PyTorch in one process",
             OPERATORS_MOST);
    return false;
  }
  snprintf(name, sizeof name, "%.*s", (int)strcspn(schema, "("), schema);
  for (int i = 0; i < count; i++)
    if (torch.torch_library_impl(libraries[i], name, thunk, torch_build_version))
      return rejected_schema(schema, why, capacity);
  return true;
}

static bool implement_call(const registration_t *r, form_t form, const operator_t *self,
                           const char *schema, char *why, size_t capacity) {
  torch_library_t at[BACKENDS_ALL + 1];
  if (!self->input_count) return implement_schema(&r->creators, 1, self, schema, why, capacity);
  memcpy(at, r->kernels, sizeof r->kernels);
  at[BACKENDS_ALL] = r->quantised;
  return implement_schema(at, BACKENDS_ALL + (form == FORM_CALL), self, schema, why, capacity);
}

static bool define_new(registration_t *r, const tenon_op_t *op, form_t form, char **out_schema,
                       char *why, size_t capacity) {
  snprintf(why, capacity, "out of memory");
  operator_t *self = operator_new(op, form, why, capacity);
  *out_schema = self ? operator_schema(self, false) : NULL;
  bool good = *out_schema &&
              (!define_schema(r->definitions, self, *out_schema) ||
               rejected_schema(*out_schema, why, capacity)) &&
              implement_call(r, form, self, *out_schema, why, capacity);
  if (!good) operator_free(self); /* Nothing calls its thunk, if it has one. */
  return good;
}

/* Registers a kernel for autograd, and the operator that it calls. Operators with lists of tensors
 * are handled in Python. */
static bool add_autograd(registration_t *r, const tenon_op_t *op, const char *schema, char *why,
                         size_t capacity) {
  operator_t *self = operator_new(op, FORM_AUTOGRAD, why, capacity);
  char *called = self ? operator_schema(self, true) : NULL;
  bool good =
      called &&
      (!define_schema(r->definitions, self, called) || rejected_schema(called, why, capacity)) &&
      implement_schema(r->autograd, BACKENDS_ALL, self, schema, why, capacity);
  free(called);
  if (!good) operator_free(self);
  return good;
}

typedef struct kinds_t {
  bool is_written;
  bool has_own_autograd; /* is_written: the operator writes to an argument */
} kinds_t;

/* Arguments that an autograd kernel in C cannot pass on: lists of tensors, which it would have to
 * search; extents, whose symbols arrive as numbers; strings, since PyTorch 2.13 leaks 48 bytes for
 * each string that is passed to its dispatcher. */
static kinds_t kinds_of(const tenon_op_t *op, const tenon_op_info_t *info) {
  kinds_t kinds = {false, info->input_count && info->output_count};
  const int32_t counts[] = {info->input_count, info->attr_count, info->output_count};
  for (uint32_t role = 0; role < 3; role++)
    for (int32_t i = 0; i < counts[role]; i++) {
      tenon_argument_t a = {.size = sizeof a};
      if (tenon_op_argument(op, role, i, &a) != TENON_OK) continue;
      kinds.is_written = kinds.is_written || (role == TENON_ARGUMENT_INPUT && a.is_written);
      if (a.kind == TENON_KIND_TENSORS || a.kind == TENON_KIND_DIM || a.kind == TENON_KIND_DIMS ||
          a.kind == TENON_KIND_STR || a.kind == TENON_KIND_CHOICE || a.kind == TENON_KIND_STRS ||
          (a.is_keyword && a.kind == TENON_KIND_TENSOR))
        kinds.has_own_autograd = false;
    }
  kinds.has_own_autograd = kinds.has_own_autograd && !kinds.is_written;
  return kinds;
}

static const char *text_or_empty(const char *text) { return text ? text : ""; }

/* Registers one operator. An operator without a gradient formula may still have a gradient through
 * the operators that it calls, which Tenon's tape records. */
static void add_operator(registration_t *r, const tenon_op_t *op) {
  char why[1000];
  char *schema = NULL;
  char *second = NULL;
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  const kinds_t kinds = kinds_of(op, &info);
  /* A formula that reads the state of the call, which PyTorch does not keep, is evaluated by
   * Tenon's tape. */
  const bool has_formula = info.gradient && *info.gradient && !strstr(info.gradient, "@state");
  const bool has_own_autograd = r->autograd[0] && kinds.has_own_autograd;
  bool good = define_new(r, op, FORM_CALL, &schema, why, sizeof why);
  if (good && !has_formula && !kinds.is_written && info.input_count && info.output_count)
    good = define_new(r, op, FORM_GRADIENT, &second, why, sizeof why);
  if (good && has_own_autograd) good = add_autograd(r, op, schema, why, sizeof why);
  const char *autograd = has_own_autograd ? "autograd" : "";
  if (good) *why = 0;
  report_operator(&r->report, info.name, why, text_or_empty(schema), text_or_empty(second),
                  autograd);
  free(schema);
  free(second);
}

/* Keeps a library loaded, since PyTorch can call its operators. */
static tenon_status_t hold_library(const tenon_op_t *op) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  if (!info.library_path || !*info.library_path) return TENON_OK;
  /* The handle is never released. */
  tenon_library_t *library = NULL;
  return tenon_library_load(info.library_path, 0, &library);
}

typedef struct registered_t { /* stays until the process ends */
  struct registered_t *next;
  registration_t registration;
  char name[];
} registered_t;

static registered_t *registered; /* protected by torch_lock */
static _Thread_local char error[1000];

static tenon_status_t fail_registration(tenon_status_t status, const char *reason) {
  snprintf(error, sizeof error, "%s", reason);
  return status;
}

/* Registers each operator of a namespace, and adds it to the report. */
static tenon_status_t add_all(registration_t *r, const char *library) {
  const tenon_op_t *const *ops = NULL;
  int32_t count = 0;
  int32_t found = 0;
  const size_t size = strlen(library);
  tenon_status_t status = tenon_ops_list(&ops, &count);
  for (int32_t i = 0; i < count && status == TENON_OK; i++) {
    tenon_op_info_t info = {.size = sizeof info};
    tenon_op_info(ops[i], &info);
    if (strncmp(info.name, library, size) != 0 || strncmp(info.name + size, "::", 2) != 0) continue;
    if (!found++) status = hold_library(ops[i]);
    if (status == TENON_OK) add_operator(r, ops[i]);
  }
  tenon_ops_release(ops);
  if (status != TENON_OK) return fail_registration(status, tenon_error());
  if (found) return r->report.failed ? fail_registration(TENON_MEMORY, "out of memory") : TENON_OK;
  snprintf(error, sizeof error,
           "no loaded library has operators in the namespace '%s': load it first", library);
  return TENON_NOT_FOUND;
}

/* Registers the operators for models, in a namespace that belongs to no library. */
static tenon_status_t add_models(registration_t *r) {
  for (int i = 0; i < MODEL_FORMS; i++) {
    const operator_t *self = model_operator(i);
    const char *schema = model_schema(i);
    if ((define_schema(r->definitions, self, schema) &&
         !rejected_schema(schema, error, sizeof error)) ||
        !implement_schema(r->kernels, BACKENDS_ALL, self, schema, error, sizeof error))
      return TENON_UNKNOWN;
    report_operator(&r->report, self->name, "", schema, "", "");
  }
  return r->report.failed ? fail_registration(TENON_MEMORY, "out of memory") : TENON_OK;
}

static void release_library(torch_library_t library) {
  if (library) (void)torch.aoti_torch_delete_library_object(library);
}

static void release_libraries(registration_t *r) {
  for (int i = 0; i < BACKENDS_ALL; i++)
    release_library(r->kernels[i]);
  for (int i = 0; i < BACKENDS_ALL; i++)
    release_library(r->autograd[i]);
  release_library(r->quantised);
  release_library(r->creators);
  release_library(r->definitions);
  free(r->report.text);
}

/* Opens one library for each key. Returns false if PyTorch fails; `out` then has the libraries that
 * were opened, for release_libraries. */
static bool open_libraries(const char *library, const char *const *keys, int count,
                           torch_library_t *out) {
  for (int i = 0; i < count; i++)
    if (torch.aoti_torch_library_init_impl(library, keys[i], __FILE__, __LINE__, &out[i]))
      return false;
  return true;
}

static tenon_status_t register_new(const char *library, uint32_t autograd_key,
                                   registered_t **out_made) {
  registration_t r = {.definitions = NULL};
  registered_t *made = malloc(sizeof *made + strlen(library) + 1);
  if (!made) return fail_registration(TENON_MEMORY, "out of memory");
  strcpy(made->name, library);
  tenon_status_t status = tenon_start();
  if (status != TENON_OK)
    fail_registration(status, tenon_error());
  else if (torch.aoti_torch_library_init_fragment(library, __FILE__, __LINE__, &r.definitions) ||
           !open_libraries(library, backends, BACKENDS_ALL, r.kernels) ||
           !open_libraries(library, (const char *const[]){"QuantizedCPU"}, 1, &r.quantised) ||
           !open_libraries(library, (const char *const[]){"CompositeExplicitAutograd"}, 1,
                           &r.creators)) {
    status = TENON_UNKNOWN;
    snprintf(error, sizeof error, "PyTorch does not create the library '%s': %s", library,
             torch_what());
  }
  if (autograd_key) operator_autograd_key = (uint16_t)autograd_key;
  if (status == TENON_OK && autograd_key && torch_sees_gradients() &&
      !open_libraries(library, autograds, BACKENDS_ALL, r.autograd)) {
    status = TENON_UNKNOWN;
    snprintf(error, sizeof error, "PyTorch does not create the library '%s': %s", library,
             torch_what());
  }
  if (status == TENON_OK)
    status = strcmp(library, "tenon") == 0 ? add_models(&r) : add_all(&r, library);
  made->registration = r;
  if (status != TENON_OK) {
    release_libraries(&r);
    free(made);
  } else {
    made->next = registered;
    registered = made;
    *out_made = made;
  }
  return status;
}

static tenon_status_t register_library(const char *library, uint32_t autograd_key,
                                       char **out_report) {
  if (!torch_open(error, sizeof error)) return TENON_UNAVAILABLE;
  registered_t *found = registered;
  while (found && strcmp(found->name, library) != 0)
    found = found->next;
  tenon_status_t status = found ? TENON_OK : register_new(library, autograd_key, &found);
  if (status != TENON_OK || !out_report) return status;
  const report_t *report = &found->registration.report;
  if (!(*out_report = malloc(report->size + 1)))
    return fail_registration(TENON_MEMORY, "out of memory");
  memcpy(*out_report, report->text, report->size + 1);
  return TENON_OK;
}

tenon_status_t tenon_torch_register(const char *library, uint32_t autograd_key, char **out_report,
                                    const char **out_error) {
  if (out_report) *out_report = NULL;
  *out_error = error;
  torch_lock();
  tenon_status_t status = register_library(library, autograd_key, out_report);
  torch_unlock();
  return status;
}

tenon_status_t tenon_torch_device(const char *type, const char *backend, const char **out_error) {
  *out_error = error;
  torch_lock();
  tenon_status_t status = torch_open(error, sizeof error)
                              ? torch_device_map(type, backend, error, sizeof error)
                              : TENON_UNAVAILABLE;
  torch_unlock();
  return status;
}

tenon_status_t tenon_torch_backend(const tenon_torch_backend_t *backend, const char **out_error) {
  *out_error = error;
  if (!TENON_HAS(backend, stream))
    return fail_registration(TENON_INVALID, "tenon_torch_backend_t is too small");
  torch_lock();
  tenon_status_t status = torch_open(error, sizeof error)
                              ? torch_device_own(backend, error, sizeof error)
                              : TENON_UNAVAILABLE;
  torch_unlock();
  return status;
}

tenon_status_t tenon_torch_load(const char *path, const char **out_error) {
  tenon_library_t *library = NULL;
  *out_error = error;
  tenon_status_t status = tenon_library_load(path, 0, &library);
  if (status != TENON_OK) return fail_registration(status, tenon_error());
  /* Otherwise the library only adds kernels to operators of others. */
  if (tenon_library_op_count(library))
    status = tenon_torch_register(tenon_library_name(library), 0, NULL, out_error);
  if (status == TENON_OK) status = tenon_torch_register("tenon", 0, NULL, out_error);
  tenon_library_release(library);
  return status;
}

tenon_status_t tenon_torch_model(const char *path, const char *device, const char **out_error) {
  *out_error = error;
  tenon_status_t status = tenon_torch_register("tenon", 0, NULL, out_error);
  return status == TENON_OK ? model_compile(path, device, error, sizeof error) : status;
}

void tenon_torch_release(char *report) { free(report); }
