/* The part of XLA's foreign function interface that a handler needs. The structures have had this
 * layout since version 0.1 (JAX 0.4.32), and versions up to 0.4 accept a handler that states 0.1.
 * Fields that newer versions added at the end are left out.
 * Source: the facts in xla/ffi/api/c_api.h, written anew. */
#ifndef BRIDGES_JAX_XLA_H
#define BRIDGES_JAX_XLA_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_EXTENSION_METADATA = 1 };
enum { XLA_STAGE_EXECUTE = 3 };
enum { XLA_ARGUMENT_BUFFER = 1 };
enum { XLA_ATTRIBUTE_STRING = 4 };
enum { XLA_FRAME_SIZE = 168, XLA_METADATA_SIZE = 36 };
enum { XLA_COMMAND_BUFFER_COMPATIBLE = 1 }; /* a trait of a handler */

/* Dtypes: numbers of XLA's PrimitiveType. */
enum {
  XLA_PRED = 1,
  XLA_S8 = 2,
  XLA_S16 = 3,
  XLA_S32 = 4,
  XLA_S64 = 5,
  XLA_U8 = 6,
  XLA_U16 = 7,
  XLA_U32 = 8,
  XLA_U64 = 9,
  XLA_F16 = 10,
  XLA_F32 = 11,
  XLA_F64 = 12,
  XLA_C64 = 15,
  XLA_BF16 = 16,
  XLA_C128 = 18,
  XLA_F8E5M2 = 19,
  XLA_F8E4M3FN = 20,
  XLA_F8E4M3B11FNUZ = 23,
  XLA_F8E5M2FNUZ = 24,
  XLA_F8E4M3FNUZ = 25,
  XLA_F8E4M3 = 28,
  XLA_F8E3M4 = 29,
  XLA_F8E8M0 = 33
};

typedef struct xla_error_t xla_error_t;     /* an error of XLA; opaque */
typedef struct xla_context_t xla_context_t; /* what XLA executes; opaque */

typedef struct xla_extension_t {
  size_t size;
  int32_t type;
  struct xla_extension_t *next;
} xla_extension_t;

typedef struct xla_version_t {
  size_t size;
  xla_extension_t *extension;
  int32_t major;
  int32_t minor;
} xla_version_t;

typedef struct xla_metadata_t {
  size_t size;
  xla_version_t version;
  uint32_t traits;
} xla_metadata_t;

typedef struct xla_metadata_extension_t {
  xla_extension_t base;
  xla_metadata_t *metadata;
} xla_metadata_extension_t;

typedef struct xla_error_create_t {
  size_t size;
  xla_extension_t *extension;
  const char *message;
  int32_t code;
} xla_error_create_t;

typedef struct xla_error_destroy_t {
  size_t size;
  xla_extension_t *extension;
  xla_error_t *error;
} xla_error_destroy_t;

typedef struct xla_stream_get_t {
  size_t size;
  xla_extension_t *extension;
  xla_context_t *context;
  void *stream; /* the result: a CUstream */
} xla_stream_get_t;

typedef struct xla_ordinal_get_t {
  size_t size;
  xla_extension_t *extension;
  xla_context_t *context;
  int32_t ordinal; /* the result */
} xla_ordinal_get_t;

typedef struct xla_schedule_t {
  size_t size;
  xla_extension_t *extension;
  xla_context_t *context;
  void (*task)(void *data);
  void *data;
} xla_schedule_t;

typedef struct xla_thread_count_t {
  size_t size;
  xla_extension_t *extension;
  xla_context_t *context;
  int64_t *count;
} xla_thread_count_t;

typedef struct xla_error_message_t {
  size_t size;
  xla_extension_t *extension;
  xla_error_t *error;
  const char *message; /* set by the call */
} xla_error_message_t;

struct xla_frame_t;
typedef xla_error_t *(*xla_handler_fn)(struct xla_frame_t *frame);

typedef struct xla_handler_register_t {
  size_t size;
  xla_extension_t *extension;
  const char *name;
  size_t name_size;
  const char *platform; /* "Host" */
  size_t platform_size;
  xla_handler_fn instantiate; /* may be NULL */
  xla_handler_fn prepare;     /* may be NULL */
  xla_handler_fn initialize;  /* may be NULL */
  xla_handler_fn execute;
  uint32_t traits;
} xla_handler_register_t;

typedef struct xla_api_t {
  size_t size;
  xla_extension_t *extension;
  xla_version_t version;
  const void *internal;
  xla_error_t *(*error_create)(xla_error_create_t *arguments);
  void (*error_message)(xla_error_message_t *arguments);
  void (*error_destroy)(xla_error_destroy_t *arguments);
  xla_error_t *(*handler_register)(xla_handler_register_t *arguments);
  xla_error_t *(*stream_get)(xla_stream_get_t *arguments); /* not on the CPU */
  const void *unused[6];
  xla_error_t *(*schedule)(xla_schedule_t *arguments);
  /* Only from version 0.2 on: 0.1 had two layouts after `schedule`. */
  xla_error_t *(*thread_count)(xla_thread_count_t *arguments);
  const void *unused_too[4];
  /* Only if `size` includes it, which is right from JAX 0.6.0 on. */
  xla_error_t *(*ordinal_get)(xla_ordinal_get_t *arguments);
} xla_api_t;

typedef struct xla_buffer_t {
  size_t size;
  xla_extension_t *extension;
  int32_t dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} xla_buffer_t;

typedef struct xla_buffers_t { /* the operands, or the results */
  size_t size;
  xla_extension_t *extension;
  int64_t count;
  int32_t *types;
  void **items;
} xla_buffers_t;

typedef struct xla_bytes_t { /* not terminated by a zero byte */
  const char *data;
  size_t size;
} xla_bytes_t;

typedef struct xla_attributes_t {
  size_t size;
  xla_extension_t *extension;
  int64_t count;
  int32_t *types;
  xla_bytes_t **names; /* in ascending order */
  void **items;
} xla_attributes_t;

typedef struct xla_frame_t {
  size_t size;
  xla_extension_t *extension;
  const xla_api_t *api; /* NULL in the metadata query of version 0.1 */
  xla_context_t *context;
  int32_t stage;
  xla_buffers_t operands;
  xla_buffers_t results;
  xla_attributes_t attributes;
} xla_frame_t;

#define XLA_AT(type, field, offset)                                                                \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " lies elsewhere")
XLA_AT(xla_frame_t, operands, 40);
XLA_AT(xla_frame_t, results, 80);
XLA_AT(xla_frame_t, attributes, 120);
_Static_assert(sizeof(xla_frame_t) == XLA_FRAME_SIZE, "xla_frame_t has another size");
XLA_AT(xla_api_t, error_create, 48);
XLA_AT(xla_api_t, error_destroy, 64);
XLA_AT(xla_api_t, handler_register, 72);
XLA_AT(xla_api_t, stream_get, 80);
XLA_AT(xla_api_t, schedule, 136);
XLA_AT(xla_handler_register_t, execute, 72);
XLA_AT(xla_api_t, thread_count, 144);
XLA_AT(xla_api_t, ordinal_get, 184);
XLA_AT(xla_stream_get_t, stream, 24);
XLA_AT(xla_ordinal_get_t, ordinal, 24);
XLA_AT(xla_metadata_t, traits, 32);
XLA_AT(xla_buffer_t, dims, 40);

#endif
