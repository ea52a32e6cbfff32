/* Registers operators; see register.h. ONNX Runtime keeps pointers to operators and domains, so
 * they are made once for the process and are never freed. */
#include "register.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The operators that were described; why NULL: ONNX Runtime can have it. */
typedef struct described_t {
  const tenon_op_t *op;
  const operator_t *self;
  char *why;
  struct described_t *next;
} described_t;

/* A domain with a set of operators. */
typedef struct domain_t {
  OrtCustomOpDomain *made;
  const operator_t **ops;
  int32_t count;
  struct domain_t *next;
} domain_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static described_t *described; /* both with the lock */
static domain_t *domains;

/* ---- choosing ---- */

static bool is_meant(const char *name, const char *asked) {
  const size_t size = strlen(asked);
  if (strcmp(name, asked) == 0) return true;
  return strncmp(name, asked, size) == 0 && strncmp(name + size, "::", 2) == 0;
}

tenon_status_t chosen_add(chosen_t *out, const char *name) {
  const tenon_op_t *const *ops = NULL;
  const int32_t before = out->count;
  int32_t count = 0;
  TENON_TRY(host.tenon_ops_list(&ops, &count));
  const tenon_op_t **grown = realloc(out->ops, (size_t)(before + count + 1) * sizeof *grown);
  if (grown) out->ops = grown;
  for (int32_t i = 0; grown && i < count; i++) {
    tenon_op_info_t info = {.size = sizeof info};
    host.tenon_op_info(ops[i], &info);
    if (!name || is_meant(info.name, name)) out->ops[out->count++] = ops[i];
  }
  host.tenon_ops_release(ops);
  if (!grown) return host.tenon_error_set(TENON_MEMORY, "out of memory: the operators");
  if (out->count > before || !name) return TENON_OK;
  const tenon_op_t *op = NULL; /* whose message names what exists */
  tenon_status_t status = host.tenon_op_find(name, &op);
  if (status == TENON_OK) out->ops[out->count++] = op;
  return status;
}

void chosen_free(chosen_t *chosen) {
  free((void *)chosen->ops);
  *chosen = (chosen_t){NULL, 0};
}

/* ---- describing ---- */

static const described_t *find_described(const tenon_op_t *op) {
  char why[600];
  described_t *found = described;
  while (found && found->op != op)
    found = found->next;
  if (found) return found;
  found = calloc(1, sizeof *found);
  if (!found) return NULL;
  found->op = op;
  found->self = operator_describe(op, why, sizeof why);
  if (!found->self) found->why = strdup(why);
  for (int32_t i = 0; found->self && i < found->self->overload_count; i++)
    custom_set(&found->self->overloads[i]);
  found->next = described;
  described = found;
  return found;
}

char *register_report(const chosen_t *chosen) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  if (!file) return NULL;
  for (int32_t i = 0; i < chosen->count; i++) {
    char why[600] = "";
    tenon_op_info_t info = {.size = sizeof info};
    host.tenon_op_info(chosen->ops[i], &info);
    operator_explain(chosen->ops[i], why, sizeof why);
    fprintf(file, "%s\t%s\n", info.name, why);
  }
  if (fclose(file) == 0) return text;
  free(text);
  return NULL;
}

/* ---- domains ---- */

static OrtStatus *make_domain(domain_t *domain, const char *name) {
  ORT_TRY(ort.CreateCustomOpDomain(name, &domain->made));
  for (int32_t i = 0; i < domain->count; i++)
    for (int32_t k = 0; k < domain->ops[i]->overload_count; k++)
      ORT_TRY(ort.CustomOpDomain_Add(domain->made, &domain->ops[i]->overloads[k].custom));
  return NULL;
}

static domain_t *find_domain(const operator_t *const *ops, int32_t count) {
  domain_t *found = domains;
  while (found &&
         (found->count != count || memcmp(found->ops, ops, (size_t)count * sizeof *ops) != 0))
    found = found->next;
  return found;
}

/* Adds a domain with these operators, which all have its name. */
static OrtStatus *add_domain(OrtSessionOptions *options, const operator_t **ops, int32_t count) {
  domain_t *domain = find_domain(ops, count);
  if (domain) return ort.AddCustomOpDomain(options, domain->made);
  domain = calloc(1, sizeof *domain);
  if (domain) domain->ops = calloc((size_t)count, sizeof *ops);
  if (!domain || !domain->ops) {
    free(domain);
    return ort_fail(ORT_FAIL, "Tenon: out of memory: a domain");
  }
  domain->count = count;
  memcpy(domain->ops, ops, (size_t)count * sizeof *ops);
  OrtStatus *status = make_domain(domain, ops[0]->domain);
  if (!status) {
    domain->next = domains;
    domains = domain;
    return ort.AddCustomOpDomain(options, domain->made);
  }
  if (domain->made) ort.ReleaseCustomOpDomain(domain->made);
  free(domain->ops);
  free(domain);
  return status;
}

static int compare_operators(const void *a, const void *b) {
  const operator_t *const *x = a;
  const operator_t *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

/* Adds the operators, which are sorted, so those of a domain follow each other. */
static OrtStatus *add_domains(OrtSessionOptions *options, const operator_t **ops, int32_t count) {
  int32_t first = 0;
  qsort((void *)ops, (size_t)count, sizeof *ops, compare_operators);
  for (int32_t i = 1; i <= count; i++) {
    if (i < count && strcmp(ops[i]->domain, ops[first]->domain) == 0) continue;
    ORT_TRY(add_domain(options, ops + first, i - first));
    first = i;
  }
  return NULL;
}

static OrtStatus *collect_described(const chosen_t *chosen, bool is_strict, const operator_t **ops,
                                    int32_t *out_count) {
  *out_count = 0;
  for (int32_t i = 0; i < chosen->count; i++) {
    const described_t *found = find_described(chosen->ops[i]);
    tenon_op_info_t info = {.size = sizeof info};
    if (!found) return ort_fail(ORT_FAIL, "Tenon: out of memory: an operator");
    host.tenon_op_info(chosen->ops[i], &info);
    if (!found->self && is_strict)
      return ort_fail(ORT_NOT_IMPLEMENTED, "%s cannot be an operator of ONNX Runtime: %s",
                      info.name, found->why ? found->why : "memory is out");
    bool is_new = found->self != NULL;
    for (int32_t k = 0; k < *out_count && is_new; k++)
      is_new = ops[k] != found->self;
    if (is_new) ops[(*out_count)++] = found->self;
  }
  return NULL;
}

OrtStatus *register_operators(OrtSessionOptions *options, const OrtApiBase *base,
                              const chosen_t *chosen, bool is_strict) {
  int32_t count = 0;
  pthread_mutex_lock(&lock);
  OrtStatus *status = ort_open(base);
  const operator_t **ops =
      status || !chosen->count ? NULL : calloc((size_t)chosen->count, sizeof *ops);
  if (!status && chosen->count && !ops) status = ort_fail(ORT_FAIL, "Tenon: out of memory");
  if (ops) status = collect_described(chosen, is_strict, ops, &count);
  if (!status && count) status = add_domains(options, ops, count);
  free(ops);
  pthread_mutex_unlock(&lock);
  return status;
}

OrtStatus *register_failure(const OrtApiBase *base, const char *why) {
  pthread_mutex_lock(&lock);
  OrtStatus *status = ort_open(base);
  pthread_mutex_unlock(&lock);
  return status ? status : ort_fail(ORT_FAIL, "%s", why);
}
