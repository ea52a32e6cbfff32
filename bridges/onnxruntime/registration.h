/* What a library registers: domains with operators. */
#ifndef BRIDGES_ONNXRUNTIME_REGISTRATION_H
#define BRIDGES_ONNXRUNTIME_REGISTRATION_H

#include <stdbool.h>

#include "common/ort_interface.h"

struct OrtCustomOpDomain {
  char *name;
  const OrtCustomOp **ops;
  size_t count;
  OrtSessionOptions *options; /* those that it was added to; NULL: none yet */
};

/* The options of a session that never is: they collect the domains of one library. */
struct OrtSessionOptions {
  OrtCustomOpDomain **domains;
  size_t count;
  bool is_early; /* The library has released a domain before RegisterCustomOps returned. */
};

void registration_clear(OrtSessionOptions *options);

OrtStatus *ort_CreateCustomOpDomain(const char *name, OrtCustomOpDomain **out);
OrtStatus *ort_CustomOpDomain_Add(OrtCustomOpDomain *domain, const OrtCustomOp *op);
OrtStatus *ort_AddCustomOpDomain(OrtSessionOptions *options, OrtCustomOpDomain *domain);
void ort_ReleaseCustomOpDomain(OrtCustomOpDomain *domain);

#endif
