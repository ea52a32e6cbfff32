/* Collects the domains that a library registers. The library owns the domains and releases them
 * when its code is unloaded; the bridge reads them once, before RegisterCustomOps is forgotten. */
#include "registration.h"

#include <stdlib.h>
#include <string.h>

#include "status.h"

OrtStatus *ort_CreateCustomOpDomain(const char *name, OrtCustomOpDomain **out) {
  *out = NULL;
  if (!name) return status_make(ORT_INVALID_ARGUMENT, "CreateCustomOpDomain: the name is NULL");
  OrtCustomOpDomain *domain = calloc(1, sizeof *domain);
  if (domain) domain->name = strdup(name);
  if (domain && domain->name) {
    *out = domain;
    return NULL;
  }
  free(domain);
  return status_make(ORT_FAIL, "out of memory");
}

OrtStatus *ort_CustomOpDomain_Add(OrtCustomOpDomain *domain, const OrtCustomOp *op) {
  if (!domain || !op)
    return status_make(ORT_INVALID_ARGUMENT, "CustomOpDomain_Add: %s is NULL",
                       domain ? "the operator" : "the domain");
  const OrtCustomOp **grown = realloc(domain->ops, (domain->count + 1) * sizeof *grown);
  if (!grown) return status_make(ORT_FAIL, "out of memory");
  grown[domain->count++] = op;
  domain->ops = grown;
  return NULL;
}

OrtStatus *ort_AddCustomOpDomain(OrtSessionOptions *options, OrtCustomOpDomain *domain) {
  if (!options || !domain)
    return status_make(ORT_INVALID_ARGUMENT, "AddCustomOpDomain: %s",
                       options ? "the domain is NULL" : "the options are NULL");
  if (domain->options == options) return NULL;
  OrtCustomOpDomain **grown = realloc(options->domains, (options->count + 1) * sizeof *grown);
  if (!grown) return status_make(ORT_FAIL, "out of memory");
  grown[options->count++] = domain;
  options->domains = grown;
  domain->options = options;
  return NULL;
}

void ort_ReleaseCustomOpDomain(OrtCustomOpDomain *domain) {
  if (!domain) return;
  OrtSessionOptions *options = domain->options;
  for (size_t i = 0; options && i < options->count; i++)
    if (options->domains[i] == domain) {
      options->domains[i] = options->domains[--options->count];
      options->is_early = true;
      break;
    }
  free(domain->ops);
  free(domain->name);
  free(domain);
}

void registration_clear(OrtSessionOptions *options) {
  for (size_t i = 0; i < options->count; i++)
    options->domains[i]->options = NULL;
  free(options->domains);
  *options = (OrtSessionOptions){0};
}
