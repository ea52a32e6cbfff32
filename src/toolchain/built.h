/* Libraries built from source. They are kept in the disk cache and reused while none of their
 * inputs changes. */
#ifndef TN_TOOLCHAIN_BUILT_H
#define TN_TOOLCHAIN_BUILT_H

#include "toolchain/toolchain.h"

typedef struct tn_built_t {
  char path[4200];   /* path of the library, in the cache or in `folder` */
  char folder[4096]; /* temporary folder, removed by tn_built_release; "" if none */
  bool is_reused;
} tn_built_t;

/* Builds a library that exports `entry`, or finds one in the cache. `output` is its name for
 * messages; `text` has the same meaning as in tn_toolchain_t. */
tenon_status_t tn_build(const tenon_build_t *build, const char *output, const char *entry,
                        const tn_text_t *text, tn_built_t *out_built);
void tn_built_release(tn_built_t *built);

#endif
