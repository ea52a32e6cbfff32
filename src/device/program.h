/* Source kernels compiled for ordinals: once for each text, set of constants and device, from the
 * cache of files where it has them.  Called by launches.  Invariant: a program that was given out
 * stays until its ordinal stops. */
#ifndef TN_DEVICE_PROGRAM_H
#define TN_DEVICE_PROGRAM_H

#include <tenon/source.h>

#include "device/plugin.h"

enum {
  TN_SOURCE_PARAMETERS = 12,
  TN_POINTWISE_PARAMETERS = 8,
}; /* at most, in source.h */
/* Of kernels' names in CUDA C++, whose own functions (norm, y0, ...) they would else meet. */
#define TN_CUDA_PREFIX "tenon_k_"

/* The words of source.h in a language. */
void tn_prelude(uint32_t language, tn_text_t *text);
/* What a device is given to compile, for one kernel; `kernel` as many as there are: for all of
 * them. */
void tn_program_text(uint32_t language, const tenon_code_t *code, uint32_t kernel,
                     const char *constants, tn_text_t *text);
/* The constants as definitions, then the text, with lines of the author's file. */
void tn_program_source(const tenon_code_t *code, const char *constants, tn_text_t *text);
/* The text's own number: what it says, not where it lies, so that a library that comes again finds
 * its programs. */
uint64_t tn_program_id(tenon_code_t *code);
/* The plug-in's kernel.  Errors: no compiler, the compiler's messages, a kernel that the text
 * lacks. */
tenon_status_t tn_program_kernel(tn_ordinal_t *ordinal, tenon_code_t *code, uint32_t kernel,
                                 const char *constants, void **out_kernel);
/* What code of an ordinal depends on, whatever it was compiled from; the name of a file of the
 * cache. */
enum { TN_CODE_NAME = 64 };
void tn_code_key(tn_text_t *key, const tn_ordinal_t *ordinal);
void tn_code_name(const tn_text_t *key, const char *ending, char out_name[TN_CODE_NAME]);
typedef struct tn_sink_t { /* what a plug-in writes; the caller frees data */
  tenon_sink_t sink;
  void *data; /* NULL: nothing was written */
  size_t size;
} tn_sink_t;
tn_sink_t tn_sink(void);
void tn_programs_release(tn_ordinal_t *ordinal);
void tn_programs_in_child(void);
/* Compiled, and taken from files: of the process, for tests and benchmarks. */
typedef struct tn_program_counts_t {
  uint64_t compiled;
  uint64_t read;
} tn_program_counts_t;
extern tn_program_counts_t tn_program_counts;

#endif
