/* Source kernels compiled for ordinals: once for each text, set of constants and device, or loaded
 * from the file cache. Called by launches. Invariant: a program that was returned stays valid until
 * its ordinal stops. */
#ifndef TN_DEVICE_PROGRAM_H
#define TN_DEVICE_PROGRAM_H

#include <tenon/source.h>

#include "device/plugin.h"

/* The maximum number of parameters, as in source.h. */
enum {
  TN_SOURCE_PARAMETERS = 12,
  TN_POINTWISE_PARAMETERS = 8,
};
/* Prefix of kernel names in CUDA C++, where they would otherwise conflict with CUDA's own functions
 * (norm, y0, ...). */
#define TN_CUDA_PREFIX "tenon_k_"

/* Adds the words of source.h in a language. */
void tn_prelude(uint32_t language, tn_text_t *text);
/* Changes the words for the members of a fused kernel, whose texts follow: TENON_SOURCE_n defines
 * NAME_call, which runs the kernel for one element and takes a pointer for each parameter. */
void tn_prelude_members(uint32_t language, tn_text_t *text);
/* Defines TENON_SOURCE_n again for `count` parameters, of which there may be more than
 * TN_SOURCE_PARAMETERS. Returns the first arguments of NAME_call in the kernel. */
const char *tn_prelude_entry(uint32_t language, int count, tn_text_t *text);
/* Adds the text that a device compiles for one kernel. If `kernel` equals the number of kernels,
 * for all of them. */
void tn_program_text(uint32_t language, const tenon_code_t *code, uint32_t kernel,
                     const char *constants, tn_text_t *text);
/* Adds the constants as definitions, then the author's text with #line directives for the author's
 * file. */
void tn_program_source(const tenon_code_t *code, const char *constants, tn_text_t *text);
/* The language that a device compiles; 0: none. */
uint32_t tn_program_language(const tn_ordinal_t *ordinal);
/* Returns an identifier of the text. It depends on the contents, not on the address, so a library
 * that is loaded again finds its programs. */
uint64_t tn_program_id(tenon_code_t *code);
/* Returns the plug-in's kernel. Errors: no compiler, the compiler's messages, a kernel that the
 * text lacks. */
tenon_status_t tn_program_kernel(tn_ordinal_t *ordinal, tenon_code_t *code, uint32_t kernel,
                                 const char *constants, void **out_kernel);
/* The key of an ordinal's compiled code, except for its source, and the name of its file in the
 * cache. */
enum { TN_CODE_NAME = 64 };
void tn_code_key(tn_text_t *key, const tn_ordinal_t *ordinal);
void tn_code_name(const tn_text_t *key, const char *ending, char out_name[TN_CODE_NAME]);
typedef struct tn_sink_t { /* collects what a plug-in writes; the caller frees `data` */
  tenon_sink_t sink;
  void *data; /* NULL: nothing was written */
  size_t size;
} tn_sink_t;
tn_sink_t tn_sink(void);
void tn_programs_release(tn_ordinal_t *ordinal);
void tn_programs_in_child(void);
/* How many programs of the process were compiled, and how many were read from files; for tests and
 * benchmarks. */
typedef struct tn_program_counts_t {
  uint64_t compiled;
  uint64_t read;
} tn_program_counts_t;
extern tn_program_counts_t tn_program_counts;

#endif
