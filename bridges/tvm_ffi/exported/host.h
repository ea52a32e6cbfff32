/* The functions of libtenon that exported operators call. The bridge is linked to libtenon; an
 * exported library opens it when it is first used, because one file must work wherever libtenon is
 * installed, and because a failure can then be reported. */
#ifndef BRIDGES_TVM_FFI_EXPORTED_HOST_H
#define BRIDGES_TVM_FFI_EXPORTED_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/tenon.h>

/* clang-format off: one function an item, as in a table */
/* clang-format off */
#define HOST_FUNCTIONS(X)                                                                          \
  X(tenon_error)                                                                                   \
  X(tenon_library_load) X(tenon_op_find) X(tenon_op_info) X(tenon_op_argument)                     \
      X(tenon_attrs_create) X(tenon_attrs_release) X(tenon_attrs_set) X(tenon_attrs_parse)         \
          X(tenon_attrs_values) X(tenon_tensor_view) X(tenon_tensor_borrow) X(tenon_tensor_import) \
              X(tenon_tensor_list) X(tenon_tensor_copy) X(tenon_tensor_release) X(tenon_op_call)   \
                  X(tenon_op_call_into) X(tenon_stream_import) X(tenon_stream_use)                 \
                      X(tenon_error_set) X(tenon_tensor_retain)
#define HOST_MEMBER_(name) __typeof__(name) *name;
typedef struct host_t {
  HOST_FUNCTIONS(HOST_MEMBER_)
} host_t;
/* clang-format on */

extern host_t host;

#endif
