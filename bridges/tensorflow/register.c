/* Registers the operators of libraries with TensorFlow, from Python and from C. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hold.h"
#include "gradient.h"
#include "operator.h"
#include "xla.h"

#define EXPORT __attribute__((visibility("default")))

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
  if (!namespaces && !gradient_define(why, sizeof why))
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

/* Registers the operators of a namespace with TensorFlow until the process ends.
 *
 * Arguments: `out_report`: a line for each operator, its fields separated by tabs: its name, its
 * name in TensorFlow ("": it was left out), why it was left out, and 1 if shapes of inputs alone
 * determine those of its results. NULL: not wanted.
 * Returns: NULL, or the reason of a failure, which is valid until the thread's next call.
 * Ownership: the report stays valid.
 * Threads: any. */
EXPORT const char *tenon_tensorflow_register(const char *library, const char **out_report);
EXPORT const char *tenon_tensorflow_register(const char *library, const char **out_report) {
  static _Thread_local char error[800];
  tenon_status_t status = TENON_OK;
  if (!tf_open(error, sizeof error)) return error;
  pthread_mutex_lock(&lock);
  namespace_t *found = find_namespace(library);
  if (!found) status = register_namespace(library, &found);
  if (status == TENON_OK && out_report) *out_report = found->report;
  pthread_mutex_unlock(&lock);
  if (status == TENON_OK) return NULL;
  snprintf(error, sizeof error, "%s", tenon_error());
  return error;
}
