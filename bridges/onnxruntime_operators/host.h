/* The functions of libtenon that the operators call in ONNX Runtime. The library of a process that
 * uses Tenon is linked to libtenon; an exported library opens it when it is registered, because one
 * file must work wherever libtenon is installed, and because a failure can then be reported. */
#ifndef BRIDGES_ONNXRUNTIME_OPERATORS_HOST_H
#define BRIDGES_ONNXRUNTIME_OPERATORS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/tenon.h>

/* clang-format off: one function an item, as in a table */
/* clang-format off */
#define HOST_FUNCTIONS(X)                                                                          \
  X(tenon_error) X(tenon_error_set) X(tenon_library_load) X(tenon_library_op_count) X(tenon_library_op) X(tenon_op_find) X(tenon_op_info)        \
  X(tenon_op_argument) X(tenon_op_kernel) X(tenon_ops_list) X(tenon_ops_release)                   \
  X(tenon_attrs_create) X(tenon_attrs_release) X(tenon_attrs_set) X(tenon_attrs_parse)             \
  X(tenon_attrs_values) X(tenon_dtype_name) X(tenon_dtype_parse) X(tenon_tensor_create)            \
  X(tenon_tensor_view) X(tenon_tensor_borrow) X(tenon_tensor_list) X(tenon_tensor_retain)          \
  X(tenon_tensor_release) X(tenon_tensor_copy_async) X(tenon_tensor_set_string)                    \
  X(tenon_tensor_detail_set) X(tenon_tensor_layout) X(tenon_bound_create)                          \
  X(tenon_bound_create_on) X(tenon_bound_release) X(tenon_bound_run) X(tenon_bound_call_into)      \
  X(tenon_bound_call) X(tenon_types_infer) X(tenon_shapes_create) X(tenon_shapes_release)          \
  X(tenon_shapes_symbol) X(tenon_shapes_infer) X(tenon_shapes_part) X(tenon_generator_create)      \
  X(tenon_generator_use) X(tenon_generator_release)
#define HOST_MEMBER_(name) __typeof__(name) *name;
typedef struct host_t {
  HOST_FUNCTIONS(HOST_MEMBER_)
} host_t;
/* clang-format on */

extern host_t host;

#endif
