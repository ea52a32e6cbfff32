/* Libraries made from source, kept in the cache of files for as long as nothing that they were made
 * from changes. */
#ifndef TN_TOOLCHAIN_BUILT_H
#define TN_TOOLCHAIN_BUILT_H

#include "toolchain/toolchain.h"

typedef struct tn_built_t {
  char path[4200];   /* of the library: in the cache, or in `folder` */
  char folder[4096]; /* a temporary one, which goes with tn_built_release; "": none */
  bool is_reused;
} tn_built_t;

/* Makes a library that exports `entry`, or finds the one that was made before.  `output`: its name,
 * for messages; `text`: as in tn_toolchain_t. */
tenon_status_t tn_build(const tenon_build_t *build, const char *output, const char *entry,
                        const tn_text_t *text, tn_built_t *out_built);
void tn_built_release(tn_built_t *built);

#endif
