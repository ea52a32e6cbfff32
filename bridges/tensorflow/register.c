/* Registers the operators of libraries with TensorFlow, from Python and from C; see
 * tenon/tensorflow.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensorflow.h>

#include "common/hold.h"
#include "gradient.h"
#include "graph.h"
#include "operator.h"
#include "xla.h"

/* A namespace that is registered, with the report of its registration. */
typedef struct namespace_t {
  struct namespace_t *next;
  char *report;
  char name[];
} namespace_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static namespace_t *namespaces;

static namespace_t *find_namespace(const char *name) {
  namespace_t *n = namespaces;
  while (n && strcmp(n->name, name) != 0)
    n = n->next;
  return n;
}

/* Registers one operator, and writes its line of the report. */
static void report_operator(FILE *report, const tenon_op_t *op, const char *name) {
  char why[600] = "";
  const operator_t *self = operator_describe(op, why, sizeof why);
  if (self && !operator_define(self, why, sizeof why)) self = NULL;
  if (self)
    fprintf(report, "%s\t%s\t\t%d\n", name, self->own, self->has_plain_shapes);
  else
    fprintf(report, "%s\t\t%s\t0\n", name, why);
}

static tenon_status_t add_operators(FILE *report, const char *library) {
  const tenon_op_t *const *ops = NULL;
  const size_t size = strlen(library);
  int32_t count = 0;
  const tenon_status_t status = tenon_ops_list(&ops, &count);
  if (status != TENON_OK) return status;
  for (int32_t i = 0; i < count; i++) {
    tenon_op_info_t info = {.size = sizeof info};
    tenon_op_info(ops[i], &info);
    if (strncmp(info.name, library, size) == 0 && strncmp(info.name + size, "::", 2) == 0)
      report_operator(report, ops[i], info.name);
  }
  tenon_ops_release(ops);
  return TENON_OK;
}

static tenon_status_t register_namespace(const char *library, namespace_t **out) {
  char why[600];
  tenon_status_t status = hold_namespace(library);
  if (status != TENON_OK) return status;
  if (!namespaces && !(gradient_define(why, sizeof why) && graph_define(why, sizeof why)))
    return tenon_error_set(TENON_PRECONDITION, why);
  if (!namespaces) (void)xla_register(); /* Functions that are not compiled work without it. */
  namespace_t *made = calloc(1, sizeof *made + strlen(library) + 1);
  size_t size = 0;
  FILE *report = made ? open_memstream(&made->report, &size) : NULL;
  if (!report) {
    free(made);
    return tenon_error_set(TENON_MEMORY, "out of memory");
  }
  strcpy(made->name, library);
  status = add_operators(report, library);
  (void)fclose(report);
  made->next = namespaces;
  namespaces = made; /* Also after a failure: what is registered stays so. */
  *out = made;
  return status;
}

static tenon_status_t find_or_register(const char *library, const char **out_report) {
  char error[600];
  tenon_status_t status = TENON_OK;
  if (!tf_open(error, sizeof error)) return tenon_error_set(TENON_UNAVAILABLE, error);
  pthread_mutex_lock(&lock);
  namespace_t *found = find_namespace(library);
  if (!found) status = register_namespace(library, &found);
  if (status == TENON_OK && out_report) *out_report = found->report;
  pthread_mutex_unlock(&lock);
  return status;
}

/* Registers each namespace of the operators that are loaded. */
static tenon_status_t register_all(void) {
  const tenon_op_t *const *ops = NULL;
  int32_t count = 0;
  char before[200] = "";
  tenon_status_t status = tenon_ops_list(&ops, &count);
  for (int32_t i = 0; i < count && status == TENON_OK; i++) {
    tenon_op_info_t info = {.size = sizeof info};
    char name[200];
    tenon_op_info(ops[i], &info);
    const size_t size = strcspn(info.name, ":");
    if (size >= sizeof name) continue;
    memcpy(name, info.name, size);
    name[size] = 0;
    if (strcmp(name, before) == 0) continue; /* Operators are sorted by name. */
    memcpy(before, name, sizeof before);
    status = find_or_register(name, NULL);
  }
  tenon_ops_release(ops);
  return status;
}

/* Copies the message of a failure to memory that stays until the thread's next call. */
static tenon_status_t report_error(tenon_status_t status, const char **out_error) {
  static _Thread_local char error[800];
  if (status == TENON_OK || !out_error) return status;
  snprintf(error, sizeof error, "%s", tenon_error());
  *out_error = error;
  return status;
}

TENON_API tenon_status_t tenon_tensorflow_register(const char *library, const char **out_report,
                                                   const char **out_error) {
  const tenon_status_t status = library ? find_or_register(library, out_report) : register_all();
  return report_error(status, out_error);
}

TENON_API tenon_status_t tenon_tensorflow_load(const char *path, const char **out_error) {
  tenon_library_t *library = NULL; /* never released */
  tenon_status_t status = tenon_library_load(path, 0, &library);
  if (status == TENON_OK) status = register_all();
  return report_error(status, out_error);
}
