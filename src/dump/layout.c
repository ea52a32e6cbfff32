/* Offsets for debuggers, which tools/gdb/tenon-gdb.py reads from a process, a core file, or a
 * library without debug information. Structures of op.h never change, so only the host's own
 * structures are here. */
#include <stddef.h>

#include "dispatch/services.h"
#include "operator/library.h"

typedef struct layout_t {
  char magic[16];
  /* The address that follows size and phase in every structure passed to functions of libraries. */
  const void *host;
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
