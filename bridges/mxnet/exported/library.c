/* The C interface of MXNet's operator libraries, version 11 (MXNet 1.9): the functions that MXNet
 * looks up by name. MXNet passes back the pointers that it received as "functions of the author";
 * here they are the entries of operators. Each call returns 1, or 0 with a message. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "common/manifest.h"
#include "infer.h"
#include "message.h"

#define EXPORT __attribute__((visibility("default")))
/* clang-format off: signatures as in the lib_api.h of MXNet */
/* clang-format off */
#define KV const char *const *keys, const char *const *values, int count
#define COMPUTE                                                                                    \
  const int64_t **in_shapes, int *in_ranks, void **in_data, int *in_types, size_t *in_versions,    \
      const char **in_devices, int *in_ids, int in_count, const int64_t **out_shapes,              \
      int *out_ranks, void **out_data, int *out_types, size_t *out_versions,                       \
      const char **out_devices, int *out_ids, int out_count, void *(*cpu_allocate)(void *, int),   \
      void *cpu_handle, void *(*gpu_allocate)(void *, int), void *gpu_handle, void *stream,        \
      void (*sparse_allocate)(void *, int, int, int, void **, int64_t **, int64_t **),             \
      void *sparse_handle, int *in_storage, int *out_storage, void **in_indices,                   \
      void **out_indices, void **in_starts, void **out_starts, int64_t *in_index_counts,           \
      int64_t *out_index_counts, int64_t *in_start_counts, int64_t *out_start_counts,              \
      void *cpu_random, void *gpu_random
#define BLOCK                                                                                      \
  (void)in_versions;                                                                               \
  (void)in_ids;                                                                                    \
  (void)out_versions;                                                                              \
  (void)out_ids;                                                                                   \
  (void)cpu_allocate;                                                                              \
  (void)cpu_handle;                                                                                \
  (void)gpu_allocate;                                                                              \
  (void)gpu_handle;                                                                                \
  (void)stream;                                                                                    \
  (void)sparse_allocate;                                                                           \
  (void)sparse_handle;                                                                             \
  (void)in_storage;                                                                                \
  (void)out_storage;                                                                               \
  (void)in_indices;                                                                                \
  (void)out_indices;                                                                               \
  (void)in_starts;                                                                                 \
  (void)out_starts;                                                                                \
  (void)in_index_counts;                                                                           \
  (void)out_index_counts;                                                                          \
  (void)in_start_counts;                                                                           \
  (void)out_start_counts;                                                                          \
  (void)gpu_random;                                                                                \
  const block_t block = {{in_shapes, in_ranks, in_types, in_data, in_devices, in_count},           \
                         {out_shapes, out_ranks, out_types, out_data, out_devices, out_count},     \
                         cpu_random}
/* clang-format on */

enum { VERSION = 11 };

/* the library */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static operator_t **operators; /* set once, when the library is opened */
static int operator_count;
/* A line for each operator: its name in MXNet, a tab, its name in Tenon, a tab, and why it was left
 * out. */
static char *report;
static size_t report_size;

static bool report_add(const char *name, const char *full, const char *why) {
  size_t size = strlen(name) + strlen(full) + strlen(why) + 4;
  char *grown = realloc(report, report_size + size);
  if (!grown) return message_set("out of memory");
  report = grown;
  report_size += (size_t)snprintf(report + report_size, size, "%s\t%s\t%s\n", name, full, why);
  return true;
}

static bool name_check(const operator_t *fresh) {
  const char *const *names;
  for (int i = 0; i < operator_count; i++)
    if (strcmp(operators[i]->name, fresh->name) == 0)
      return message_set("%s and %s would both be %s in MXNet: export one of them",
                         operators[i]->full, fresh->full, fresh->name);
  for (uint32_t count = host_names(&names), i = 0; i < count; i++)
    if (strcmp(names[i], fresh->name) == 0)
      return message_set("MXNet already has an operator %s, which %s would replace: export the "
                         "library with another --prefix",
                         fresh->name, fresh->full);
  return true;
}

/* Adds an operator. If MXNet cannot have it, the operator is left out, unless the manifest asks for
 * it by name. */
static bool add_operator(const tenon_op_t *op, const char *prefix, bool is_named) {
  operator_t *fresh = operator_new(op, prefix);
  if (!fresh && is_named) return false;
  if (!fresh) {
    tenon_op_info_t info = {.size = sizeof info};
    host.tenon_op_info(op, &info);
    bool is_added = report_add("", info.name, message_get());
    message_clear();
    return is_added;
  }
  operator_t **grown = NULL;
  if (!name_check(fresh) || !report_add(fresh->name, fresh->full, "") ||
      !(grown = realloc(operators, ((size_t)operator_count + 1) * sizeof(operator_t *)))) {
    operator_free(fresh);
    return message_get() ? false : message_set("out of memory");
  }
  operators = grown;
  operators[operator_count++] = fresh;
  return true;
}

static bool library_open(const manifest_t *m, tenon_library_t **out_library) {
  char room[4096];
  const char *path = host_file(m->library, room, sizeof room);
  if (!path)
    return message_set(
        "the operator library was not found: expected it at %s, where it was when this library was "
        "exported, or as a file of the same name beside this library",
        m->library);
  return host.tenon_library_load(path, 0, out_library) == TENON_OK || message_of_host();
}

static bool load(void) {
  tenon_library_t *library; /* It stays loaded until the process ends. */
  const manifest_t *m = manifest_read();
  if (!m) return message_set("out of memory");
  if (!m->tenon || !m->library)
    return message_set(
        "this library exports no operators: use a copy made by `tenon export --mxnet LIB.so`");
  if (!host_open(m->tenon) || !library_open(m, &library)) return false;
  for (uint32_t i = 0; i < m->op_count; i++) {
    const tenon_op_t *op;
    if (host.tenon_op_find(m->ops[i], &op) != TENON_OK) return message_of_host();
    if (!add_operator(op, m->prefix, true)) return false;
  }
  for (int32_t i = 0; i < host.tenon_library_op_count(library) && !m->op_count; i++)
    if (!add_operator(host.tenon_library_op(library, i), m->prefix, false)) return false;
  return operator_count > 0 || message_set("%s has no operator that MXNet supports:\n%s",
                                           m->library, report ? report : "");
}

static void forget(void) {
  while (operator_count > 0)
    operator_free(operators[--operator_count]);
  free(operators);
  free(report);
  operators = NULL;
  report = NULL;
  report_size = 0;
}

EXPORT int initialize(int version);
EXPORT int initialize(int version) {
  static bool is_open;
  message_clear();
  pthread_mutex_lock(&lock);
  if (version < 10900 || version >= 20000)
    message_set("MXNet %d.%d is not supported: expected 1.9", version / 10000, version / 100 % 100);
  else if (!is_open && !(is_open = load()))
    forget();
  pthread_mutex_unlock(&lock);
  return message_get() == NULL;
}

/* Returns the lines of the report for `tenon export`, after `initialize`. */
EXPORT const char *tenon_export_report(void);
EXPORT const char *tenon_export_report(void) { return report ? report : ""; }

EXPORT int _opVersion(void);
EXPORT int _opVersion(void) { return VERSION; }
EXPORT int _msgSize(void);
EXPORT int _msgSize(void) { return message_get() != NULL; }
EXPORT void _msgGet(int index, const char **out_text);
EXPORT void _msgGet(int index, const char **out_text) {
  const char *text = index == 0 ? message_get() : NULL;
  *out_text = text ? text : "";
}

EXPORT int _opRegSize(void);
EXPORT int _opRegSize(void) { return operator_count; }

EXPORT void _opRegGet(int index, const char **name, int *is_subgraph, const char ***forward_devices,
                      const entry_t ***forwards, int *forward_count, const char ***backward_devices,
                      const entry_t ***backwards, int *backward_count, const char ***state_devices,
                      const entry_t ***states, int *state_count, const entry_t **parse,
                      const entry_t **type, const entry_t **storage, const entry_t **shape,
                      const entry_t **mutate);
EXPORT void _opRegGet(int index, const char **name, int *is_subgraph, const char ***forward_devices,
                      const entry_t ***forwards, int *forward_count, const char ***backward_devices,
                      const entry_t ***backwards, int *backward_count, const char ***state_devices,
                      const entry_t ***states, int *state_count, const entry_t **parse,
                      const entry_t **type, const entry_t **storage, const entry_t **shape,
                      const entry_t **mutate) {
  static const char *cpu[] = {"cpu"};
  operator_t *self = operators[index];
  *name = self->name;
  *is_subgraph = 0;
  *forward_devices = *backward_devices = *state_devices = cpu;
  *forwards = *states = self->forwards;
  *backwards = self->backwards;
  *forward_count = !self->is_stateful;
  *state_count = self->is_stateful;
  *backward_count = !self->is_stateful;
  *parse = *type = *storage = *shape = &self->forward;
  *mutate = self->writes ? &self->forward : NULL;
}

EXPORT void _opCallFree(void *block);
EXPORT void _opCallFree(void *block) { free(block); }

/* queries */

static node_t *entry_node(const entry_t *entry, KV) {
  message_clear();
  return node_get(entry->self, keys, values, count);
}

EXPORT int _opCallParseAttrs(const entry_t *entry, KV, int *in_count, int *out_count);
EXPORT int _opCallParseAttrs(const entry_t *entry, KV, int *in_count, int *out_count) {
  node_t *node = entry_node(entry, keys, values, count);
  if (!node) return 0;
  *in_count = node->input_count;
  *out_count = node->output_count;
  node_release(node);
  return 1;
}

EXPORT int _opCallInferType(const entry_t *entry, KV, int *in, int in_count, int *out,
                            int out_count);
EXPORT int _opCallInferType(const entry_t *entry, KV, int *in, int in_count, int *out,
                            int out_count) {
  node_t *node = entry_node(entry, keys, values, count);
  bool is_fine = node && infer_types(node, in, in_count, out, out_count);
  node_release(node);
  return is_fine;
}

EXPORT int _opCallInferSType(const entry_t *entry, KV, int *in, int in_count, int *out,
                             int out_count);
EXPORT int _opCallInferSType(const entry_t *entry, KV, int *in, int in_count, int *out,
                             int out_count) {
  (void)keys;
  (void)values;
  (void)count;
  message_clear();
  for (int i = 0; i < in_count; i++) {
    /* Storage type 1 is row_sparse, 2 is CSR. */
    if (in[i] > 0)
      return message_set("%s: array %d is sparse, but the operator expects a dense array: call "
                         "x.tostype('default')",
                         entry->self->full, i);
    /* -1: MXNet does not know the storage type yet. */
    in[i] = 0;
  }
  for (int i = 0; i < out_count; i++)
    out[i] = 0;
  return 1;
}

EXPORT int _opCallInferShape(const entry_t *entry, KV, unsigned **in, int *in_ranks, int in_count,
                             unsigned ***out_in, int **out_in_ranks, unsigned ***out,
                             int **out_ranks, int out_count);
EXPORT int _opCallInferShape(const entry_t *entry, KV, unsigned **in, int *in_ranks, int in_count,
                             unsigned ***out_in, int **out_in_ranks, unsigned ***out,
                             int **out_ranks, int out_count) {
  shapes_t inputs = {NULL, NULL};
  shapes_t results = {NULL, NULL};
  node_t *node = entry_node(entry, keys, values, count);
  bool is_fine = node && infer_shapes(node, in, in_ranks, in_count, out_count, &inputs, &results);
  node_release(node);
  *out_in = inputs.extents;
  *out_in_ranks = inputs.ranks;
  *out = results.extents;
  *out_ranks = results.ranks;
  return is_fine;
}

EXPORT int _opCallMutateInputs(const entry_t *entry, KV, int **out_indices, int *out_count);
EXPORT int _opCallMutateInputs(const entry_t *entry, KV, int **out_indices, int *out_count) {
  node_t *node = entry_node(entry, keys, values, count);
  int *indices = node ? malloc(((size_t)node->input_count + 1) * sizeof *indices) : NULL;
  *out_indices = indices;
  *out_count = 0;
  for (int32_t i = 0; indices && i < entry->self->input_count; i++)
    for (int32_t k = 0; k < node->inputs[i].count && entry->self->inputs[i].is_written; k++)
      indices[(*out_count)++] = node->inputs[i].first + k;
  node_release(node);
  return indices != NULL;
}

/* calls */

EXPORT int _opCallFCompute(const entry_t *entry, KV, COMPUTE);
EXPORT int _opCallFCompute(const entry_t *entry, KV, COMPUTE) {
  BLOCK;
  node_t *node = entry_node(entry, keys, values, count);
  bool is_fine =
      node && (entry == &entry->self->backward ? call_backward : call_forward)(node, NULL, &block);
  node_release(node);
  return is_fine;
}

/* MXNet takes the states for C++ objects and looks at two of their bytes. */
typedef struct state_t {
  void *table;
  uint8_t is_quiet;
  uint8_t is_made;
  node_t *node;
  tenon_bound_t *bound;
} state_t;
_Static_assert(offsetof(state_t, is_quiet) == 8 && offsetof(state_t, is_made) == 9,
               "where MXNet looks");

static void state_free(state_t *state) {
  if (!state) return;
  host.tenon_bound_release(state->bound);
  node_release(state->node);
  free(state);
}

EXPORT void _opCallDestroyOpState(void *state);
EXPORT void _opCallDestroyOpState(void *state) { state_free(state); }

EXPORT int _opCallCreateOpState(const entry_t *entry, KV, const char *device, int device_id,
                                unsigned **in, int *in_ranks, int in_count, const int *in_types,
                                void **out_state);
EXPORT int _opCallCreateOpState(const entry_t *entry, KV, const char *device, int device_id,
                                unsigned **in, int *in_ranks, int in_count, const int *in_types,
                                void **out_state) {
  (void)device;
  (void)device_id;
  (void)in;
  (void)in_ranks;
  (void)in_count;
  (void)in_types;
  state_t *state = calloc(1, sizeof *state);
  *out_state = NULL;
  node_t *node = entry_node(entry, keys, values, count);
  if (!state || !node) {
    free(state);
    node_release(node);
    return node ? message_set("out of memory") : 0;
  }
  state->is_quiet = state->is_made = 1;
  state->node = node;
  if (host.tenon_bound_create(entry->self->op, node->values, &state->bound) != TENON_OK) {
    message_of_host();
    state_free(state);
    return 0;
  }
  *out_state = state;
  return 1;
}

EXPORT int _opCallFStatefulCompute(int is_forward, state_t *state, COMPUTE);
EXPORT int _opCallFStatefulCompute(int is_forward, state_t *state, COMPUTE) {
  BLOCK;
  message_clear();
  return (is_forward ? call_forward : call_backward)(state->node, state->bound, &block);
}
