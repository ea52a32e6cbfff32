/* Where a debugger finds names: read by tools/gdb/tenon-gdb.py, from a process, a core file, or a
 * library without debug information.  Structures of op.h are frozen, so that only the host's own
 * are here. */
#include <stddef.h>

#include "dispatch/services.h"
#include "operator/library.h"

typedef struct layout_t {
  char magic[16];
  const void *
      /* what every structure that functions of libraries are given points to, behind size and
       * phase */
      host;
  uint32_t count;
  uint32_t offsets[14];
} layout_t;

__attribute__((visibility("default"))) extern const layout_t tenon_debug_layout;
const layout_t tenon_debug_layout = {
    "tenon debug 1",
    &tn_host,
    14,
    {offsetof(tenon_op_t, name), offsetof(tenon_op_t, schema.text),
     offsetof(tenon_op_t, schema.input_count), offsetof(tenon_op_t, schema.inputs),
     offsetof(tenon_op_t, schema.attr_count), offsetof(tenon_op_t, schema.attrs),
     offsetof(tenon_op_t, schema.output_count), offsetof(tenon_op_t, schema.outputs),
     sizeof(tn_argument_t), offsetof(tenon_op_t, library), offsetof(tn_library_t, path),
     offsetof(tn_argument_t, choices), offsetof(tenon_op_t, uses),
     offsetof(tenon_op_t, use_count)}};
