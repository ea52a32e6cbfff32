/* The functions of libtenon that an exported library calls. libtenon is opened when MXNet loads the
 * library, because one file must work wherever libtenon is installed, and because a failure can be
 * reported at this time. No symbol of libtenon becomes global, so MXNet's own oneDNN and OpenBLAS
 * are not affected. */
#ifndef BRIDGES_MXNET_EXPORTED_HOST_H
#define BRIDGES_MXNET_EXPORTED_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/tenon.h>

/* clang-format off: one function a line, as in a table */
/* clang-format off */
#define HOST_FUNCTIONS(X)                                                                          \
  X(tenon_error)                                                                                   \
  X(tenon_library_load) X(tenon_library_op_count) X(tenon_library_op) X(tenon_op_find)             \
      X(tenon_op_info) X(tenon_op_argument) X(tenon_op_slot) X(tenon_attrs_create)                 \
          X(tenon_attrs_release) X(tenon_attrs_parse) X(tenon_attrs_text) X(tenon_attrs_set)       \
              X(tenon_attrs_values) X(tenon_dtype_name) X(tenon_tensor_view)                       \
                  X(tenon_tensor_borrow) X(tenon_tensor_list) X(tenon_tensor_copy_async)           \
                      X(tenon_tensor_release) X(tenon_op_call) X(tenon_op_call_into)               \
                          X(tenon_bound_create) X(tenon_bound_release) X(tenon_bound_call)         \
                              X(tenon_bound_call_into) X(tenon_types_infer) X(tenon_shapes_create) \
                                  X(tenon_shapes_release) X(tenon_shapes_infer)                    \
                                      X(tenon_generator_create) X(tenon_generator_use)             \
                                          X(tenon_generator_release) X(tenon_layer_create)         \
                                              X(tenon_layer_enable) X(tenon_call_next)             \
                                                  X(tenon_tensor_require_grad) X(tenon_gradients)
#define HOST_MEMBER_(name) __typeof__(name) *name;
typedef struct host_t {
  HOST_FUNCTIONS(HOST_MEMBER_)
} host_t;
/* clang-format on */

extern host_t host;

/* Opens libtenon: the one that is loaded already, else the file at `path`, the one beside this
 * library, or the one that the system finds (LD_LIBRARY_PATH). Returns false with a message that
 * says what to do. */
bool host_open(const char *path);
/* Returns `path` if this file exists, else the file of the same name beside this library, in
 * `room`. Returns NULL if neither file exists. */
const char *host_file(const char *path, char *room, size_t capacity);
/* Gets the names of MXNet's operators; the result is 0 if MXNet is not loaded in this process. */
uint32_t host_names(const char *const **out_names);

#endif
