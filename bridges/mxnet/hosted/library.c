/* Opens a library and reads its functions, its version and its registrations. Each registration is
 * read only once, because every reading makes the library append to it. The library stays open:
 * what C++ libraries leave behind keeps them mapped anyway. Called by bridge.c alone, because
 * this file calls the files for all that a library registers. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "describe.h"
#include "loaded.h"
#include "message.h"
#include "transforms.h"

#define TWISTER                                                                                    \
  "_ZNSt23mersenne_twister_"                                                                       \
  "engineImLm32ELm624ELm397ELm31ELm2567483615ELm11ELm4294967295ELm7ELm2636928640ELm15"             \
  "ELm4022730752ELm18ELm1812433253EE"

/* functions and version */

static bool find_functions(hosted_t *l, char *why, size_t capacity) {
  size_t used = (size_t)snprintf(
      why, capacity, "the library has version %d of MXNet's library interface, but lacks",
      l->version);
  bool good = true;
#define FIND(result, name, since, parameters)                                                      \
  if (!(*(void **)&l->abi.name = dlsym(l->handle, #name)) && l->version >= since &&                \
      used < capacity) {                                                                           \
    used += (size_t)snprintf(why + used, capacity - used, "%s %s", good ? "" : ",", #name);        \
    good = false;                                                                                  \
  }
  ABI(FIND)
  return good;
}

/* Returns the version number of MXNet that is passed to `initialize`; 0: not supported. */
static int supported(int version) {
  switch (version) {
  case 7:
    return 10700;
  case 10:
    return 10800;
  case 11:
    return 10901;
  default:
    return 0;
  }
}

typedef struct initialize_t {
  const hosted_t *library;
  int number;
} initialize_t;

static int initialize(void *argument) {
  const initialize_t *i = argument;
  return i->library->abi.initialize(i->number);
}

static bool check_number(const char *text, int *number) {
  char *end;
  if (!text || !*text) return true;
  long value = strtol(text, &end, 10);
  if (*end || value < 10000 || value > 9999999) return false;
  *number = (int)value;
  return true;
}

static tenon_status_t start_library(hosted_t *l, char *why, size_t capacity) {
  int (*version)(void) = NULL;
  *(void **)&version = dlsym(l->handle, "_opVersion");
  l->version = version ? version() : 0;
  int number = supported(l->version);
  if (!number) {
    snprintf(why, capacity,
             "the library has version %d of MXNet's library interface: expected 7 (MXNet 1.7), 10 "
             "(1.8) or 11 (1.9, 2.0): build it with the lib_api.h of one of these",
             l->version);
    return TENON_UNIMPLEMENTED;
  }
  if (!find_functions(l, why, capacity)) return TENON_INVALID;
  if (!check_number(secure_getenv("TENON_MXNET_VERSION"), &number)) {
    snprintf(why, capacity, "TENON_MXNET_VERSION='%s': expected a number such as 10901 for 1.9.1",
             secure_getenv("TENON_MXNET_VERSION"));
    return TENON_INVALID;
  }
  int result = guard_call(initialize, &(initialize_t){l, number}, why, capacity);
  if (result > 0) return TENON_OK;
  if (result == 0)
    snprintf(why, capacity,
             "its initialize(%d) rejected this version of MXNet: set TENON_MXNET_VERSION (for "
             "example 20000) to announce another version",
             number);
  hosted_messages(l, why, capacity);
  return TENON_PRECONDITION;
}

/* registrations */

/* If a library registers several functions for one device, the last one is used, as in MXNet. */
static bool sort(functions_t *out, const char **devices, author_fn *functions, int count,
                 const char *op, char *why, size_t capacity) {
  for (int i = 0; i < count; i++) {
    if (strcmp(devices[i], "cpu") == 0)
      out->cpu = functions[i];
    else if (strcmp(devices[i], "gpu") == 0)
      out->gpu = functions[i];
    else {
      snprintf(why, capacity, "operator %s has a function for device '%s': expected cpu or gpu", op,
               devices[i]);
      return false;
    }
  }
  return true;
}

static bool check_op(const hosted_op_t *op, char *why, size_t capacity) {
  const struct {
    const char *name;
    bool is_there;
  } needed[] = {{"parseAttrs", op->parse}, {"inferType", op->dtypes}, {"inferShape", op->shapes}};
  for (const char *c = op->name; *c; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
          (c > op->name && *c >= '0' && *c <= '9'))) {
      snprintf(why, capacity, "operator '%s': expected a name of letters, digits and '_'",
               op->name);
      return false;
    }
  if (!*op->name) {
    snprintf(why, capacity, "an operator has no name");
    return false;
  }
  for (int i = 0; i < 3 && !op->is_subgraph; i++)
    if (!needed[i].is_there) {
      snprintf(why, capacity, "operator %s has no function %s", op->name, needed[i].name);
      return false;
    }
  const bool is_stateful = op->create.cpu || op->create.gpu;
  if (!is_stateful && (op->is_subgraph || !(op->forward.cpu || op->forward.gpu))) {
    snprintf(why, capacity, "operator %s has %s", op->name,
             op->is_subgraph ? "no function createOpState" : "neither forward nor createOpState");
    return false;
  }
  return true;
}

static bool read_op(hosted_t *l, int index, hosted_op_t *op, char *why, size_t capacity) {
  const char *name = NULL;
  const char **devices[3] = {NULL};
  author_fn *functions[3] = {NULL};
  int counts[3] = {0};
  int is_subgraph = 0;
  l->abi._opRegGet(index, &name, &is_subgraph, &devices[0], &functions[0], &counts[0], &devices[1],
                   &functions[1], &counts[1], &devices[2], &functions[2], &counts[2], &op->parse,
                   &op->dtypes, &op->storages, &op->shapes, &op->mutates);
  op->library = l;
  op->is_subgraph = is_subgraph != 0;
  op->in_count = op->out_count = -1;
  if (!(op->name = strdup(name ? name : ""))) {
    snprintf(why, capacity, "out of memory");
    return false;
  }
  return sort(&op->forward, devices[0], functions[0], counts[0], op->name, why, capacity) &&
         sort(&op->backward, devices[1], functions[1], counts[1], op->name, why, capacity) &&
         sort(&op->create, devices[2], functions[2], counts[2], op->name, why, capacity) &&
         check_op(op, why, capacity);
}

static bool read_ops(hosted_t *l, char *why, size_t capacity) {
  l->op_count = l->abi._opRegSize();
  if (l->op_count < 0 || l->op_count > 1 << 16) {
    snprintf(why, capacity, "the library reports %d operators, which is not possible", l->op_count);
    l->op_count = 0;
    return false;
  }
  l->ops = calloc((size_t)l->op_count + 1, sizeof *l->ops);
  if (!l->ops) {
    snprintf(why, capacity, "out of memory");
    return false;
  }
  for (int i = 0; i < l->op_count; i++)
    if (!read_op(l, i, &l->ops[i], why, capacity)) return false;
  return true;
}

/* the library */

static void release(hosted_t *l) {
  for (int i = 0; i < l->op_count && l->ops; i++)
    free((char *)(uintptr_t)l->ops[i].name);
  for (size_t i = 0; i < l->text_count; i++)
    free(l->texts[i]);
  transforms_free(l);
  free(l->ops);
  free(l->texts);
  free(l->items);
  free(l->path);
  free(l->ns);
  if (l->handle) dlclose(l->handle);
  pthread_mutex_destroy(&l->messages);
  free(l);
}

/* Makes a namespace from the name of a file: "libgemm-2.so" becomes gemm_2. */
static char *namespace_of(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  if (strncmp(name, "lib", 3) == 0 && name[3] && name[3] != '.') name += 3;
  const size_t size = strcspn(name, ".");
  char *ns = malloc(size + 2);
  char *out = ns;
  if (!ns) return NULL;
  if (size == 0 || (*name >= '0' && *name <= '9')) *out++ = '_';
  for (size_t i = 0; i < size; i++) {
    const char c = name[i];
    const bool is_fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    *out++ = is_fine ? c : '_';
  }
  *out = 0;
  return ns;
}

static tenon_status_t read_all(hosted_t *l, char *why, size_t capacity) {
  /* The symbols must not become global, because libraries share names. */
  l->handle = dlopen(l->path, RTLD_LAZY | RTLD_LOCAL);
  if (!l->handle) {
    const char *reason = dlerror();
    const char *hint = "";
    if (reason && strstr(reason, "libmxnet"))
      hint = " (it is linked against MXNet itself, so it runs only there)";
    snprintf(why, capacity, "the system cannot load it: %s%s", reason ? reason : "no reason given",
             hint);
    return TENON_UNAVAILABLE;
  }
  tenon_status_t status = start_library(l, why, capacity);
  if (status != TENON_OK) return status;
  l->is_random = dlsym(l->handle, TWISTER "clEv") || dlsym(l->handle, TWISTER "11_M_gen_randEv");
  if (!read_ops(l, why, capacity) || !transforms_read(l, why, capacity) ||
      !hosted_describe(l, why, capacity))
    return TENON_INVALID;
  return TENON_OK;
}

tenon_status_t hosted_open(const char *path, hosted_t **out, char *why, size_t capacity) {
  *out = loaded_find(path);
  if (*out) return TENON_OK;
  hosted_t *l = calloc(1, sizeof *l);
  if (!l) {
    snprintf(why, capacity, "out of memory");
    return TENON_MEMORY;
  }
  pthread_mutex_init(&l->messages, NULL);
  tenon_status_t status = TENON_MEMORY;
  snprintf(why, capacity, "out of memory");
  if ((l->path = strdup(path)) && (l->ns = namespace_of(path))) status = read_all(l, why, capacity);
  if (status != TENON_OK) {
    release(l);
    return status;
  }
  loaded_add(l);
  *out = l;
  return TENON_OK;
}
