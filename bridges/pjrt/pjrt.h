/* The part of XLA's plug-in interface PJRT that this plug-in uses: version 0.105 of its C form,
 * which jaxlib 0.10 accepts. A plug-in exports one function, GetPjrtApi, which returns a table of
 * functions. Each function takes the address of a structure that begins with its size, and writes
 * its results to that structure. Newer versions append fields and functions and change none.
 *
 * Many of these structures have the same layout; they share one type here. Handles are untyped, as
 * the caller never looks into them. Function names are in functions.h.
 * Source: the facts in xla/pjrt/c/pjrt_c_api.h, written anew. */
#ifndef BRIDGES_PJRT_PJRT_H
#define BRIDGES_PJRT_PJRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PJRT_MAJOR = 0, PJRT_MINOR = 105 };

/* Element types of buffers. Those below a byte are not supported here. */
enum {
  PJRT_PRED = 1,
  PJRT_S8 = 2,
  PJRT_S16 = 3,
  PJRT_S32 = 4,
  PJRT_S64 = 5,
  PJRT_U8 = 6,
  PJRT_U16 = 7,
  PJRT_U32 = 8,
  PJRT_U64 = 9,
  PJRT_F16 = 10,
  PJRT_F32 = 11,
  PJRT_F64 = 12,
  PJRT_BF16 = 13,
  PJRT_C64 = 14,
  PJRT_C128 = 15,
  PJRT_F8E5M2 = 16,
  PJRT_F8E4M3FN = 17,
  PJRT_F8E4M3B11FNUZ = 18,
  PJRT_F8E5M2FNUZ = 19,
  PJRT_F8E4M3FNUZ = 20,
  PJRT_F8E4M3 = 26,
  PJRT_F8E3M4 = 27,
  PJRT_F8E8M0 = 28
};

enum { PJRT_VALUE_STRING = 0, PJRT_VALUE_INT = 1, PJRT_VALUE_INTS = 2 };
enum { PJRT_LAYOUT_TILED = 0, PJRT_LAYOUT_STRIDES = 1 };

typedef struct pjrt_error_t pjrt_error_t; /* an error of the plug-in; the caller destroys it */

typedef struct pjrt_extension_t {
  size_t size;
  int32_t type;
  struct pjrt_extension_t *next;
} pjrt_extension_t;

/* What every structure begins with. */
typedef struct pjrt_arguments_t {
  size_t size; /* as the caller knows the structure */
  pjrt_extension_t *extension;
} pjrt_arguments_t;

typedef struct pjrt_named_t { /* a named value */
  size_t size;
  pjrt_extension_t *extension;
  const char *name;
  size_t name_size;
  int32_t type; /* PJRT_VALUE_... */
  union {
    const char *text;
    int64_t number;
    const int64_t *numbers;
  } as;
  size_t value_size; /* characters of a text, elements of a list, else 1 */
} pjrt_named_t;

/* ---- layouts that many functions share ------------------------------------------------------- */

typedef struct pjrt_object_t { /* a function that has no results */
  size_t size;
  pjrt_extension_t *extension;
  void *object;
} pjrt_object_t;

typedef struct pjrt_result_t { /* a function that returns an address */
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  void *result;
} pjrt_result_t;

typedef struct pjrt_number_t {
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  int32_t number;
} pjrt_number_t;

typedef struct pjrt_flag_t {
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  bool flag;
} pjrt_flag_t;

typedef struct pjrt_count_t { /* also of functions that return a signed number of 64 bits */
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  uint64_t count;
} pjrt_count_t;

typedef struct pjrt_list_t { /* also of functions that return a text */
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  const void *items; /* owned by the object */
  size_t count;
} pjrt_list_t;

typedef struct pjrt_counted_t { /* as pjrt_list_t in another order */
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  size_t count;
  const void *items;
} pjrt_counted_t;

typedef struct pjrt_lists_t { /* two lists; `count` is the length of `sizes` */
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  size_t count;
  const void *items;
  const size_t *sizes;
} pjrt_lists_t;

typedef struct pjrt_bytes_t { /* bytes that the caller gives back by `release` */
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  const char *bytes;
  size_t byte_count;
  void *owner;
  void (*release)(void *owner);
} pjrt_bytes_t;

typedef struct pjrt_copy_t { /* a function that makes a buffer elsewhere */
  size_t size;
  pjrt_extension_t *extension;
  void *object;
  void *target;
  void *result;
} pjrt_copy_t;

/* ---- single functions ------------------------------------------------------------------------ */

typedef struct pjrt_plugin_t {
  size_t size;
  pjrt_extension_t *extension;
  const pjrt_named_t *attributes;
  size_t count;
} pjrt_plugin_t;

typedef struct pjrt_ready_t {
  size_t size;
  pjrt_extension_t *extension;
  void *event;
  void (*call)(pjrt_error_t *error, void *state); /* the function owns the error */
  void *state;
} pjrt_ready_t;

typedef struct pjrt_create_t {
  size_t size;
  pjrt_extension_t *extension;
  const pjrt_named_t *options;
  size_t option_count;
  void *unused[4]; /* a store that processes share */
  void *client;
} pjrt_create_t;

typedef struct pjrt_lookup_t {
  size_t size;
  pjrt_extension_t *extension;
  void *client;
  int32_t id;
  void *device;
} pjrt_lookup_t;

typedef struct pjrt_program_t {
  size_t size;
  pjrt_extension_t *extension;
  const char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
} pjrt_program_t;

typedef struct pjrt_compile_t {
  size_t size;
  pjrt_extension_t *extension;
  void *client;
  const pjrt_program_t *program;
  const char *options; /* a serialised CompileOptionsProto */
  size_t options_size;
  void *executable;
} pjrt_compile_t;

typedef struct pjrt_assignment_t {
  size_t size;
  pjrt_extension_t *extension;
  void *client;
  int32_t replicas;
  int32_t partitions;
  size_t room;
  int32_t *devices; /* an array of `room` elements */
} pjrt_assignment_t;

typedef struct pjrt_layout_t {
  size_t size;
  pjrt_extension_t *extension;
  union {
    struct {
      size_t size;
      pjrt_extension_t *extension;
      const int64_t *minor_to_major;
      size_t rank;
      const int64_t *tiles;
      const size_t *tile_ranks;
      size_t tile_count;
    } tiled;
    struct {
      size_t size;
      pjrt_extension_t *extension;
      const int64_t *byte_strides;
      size_t rank;
    } strides;
  } as;
  int32_t type; /* PJRT_LAYOUT_... */
} pjrt_layout_t;

typedef struct pjrt_from_host_t {
  size_t size;
  pjrt_extension_t *extension;
  void *client;
  const void *data;
  int32_t type;
  const int64_t *dims;
  size_t rank;
  const int64_t *byte_strides;
  size_t stride_count; /* 0: dense */
  int32_t semantics;   /* how long the caller keeps `data`; at least until the function returns */
  void *device;
  void *memory; /* NULL: that of `device` */
  const pjrt_layout_t *layout;
  void *event; /* when the caller may change `data` */
  void *buffer;
} pjrt_from_host_t;

typedef struct pjrt_to_host_t {
  size_t size;
  pjrt_extension_t *extension;
  void *buffer;
  const pjrt_layout_t *layout;
  void *data; /* NULL: the caller asks for `data_size` */
  size_t data_size;
  void *event;
} pjrt_to_host_t;

typedef struct pjrt_raw_t {
  size_t size;
  pjrt_extension_t *extension;
  void *buffer;
  void *data;
  int64_t offset;
  int64_t byte_count;
  void *event;
} pjrt_raw_t;

typedef struct pjrt_buffer_layout_t {
  size_t size;
  pjrt_extension_t *extension;
  void *buffer;
  pjrt_layout_t layout;
} pjrt_buffer_layout_t;

typedef struct pjrt_tracking_t {
  size_t size;
  pjrt_extension_t *extension;
  void *device;
  const char *text;
  size_t text_size;
  void *event; /* NULL: the device tracks nothing */
} pjrt_tracking_t;

typedef struct pjrt_attributes_t {
  size_t size;
  pjrt_extension_t *extension;
  void *device;
  const pjrt_named_t *attributes;
  size_t count;
  void *owner;
  void (*release)(void *owner); /* never NULL */
} pjrt_attributes_t;

typedef struct pjrt_statistic_t {
  int64_t value;
  bool is_set;
} pjrt_statistic_t;

typedef struct pjrt_memory_stats_t {
  size_t size;
  pjrt_extension_t *extension;
  void *device;
  int64_t bytes_in_use;
  pjrt_statistic_t peak_bytes_in_use;
  pjrt_statistic_t allocations;
  pjrt_statistic_t largest_allocation;
  pjrt_statistic_t bytes_limit;
  pjrt_statistic_t others[6];
} pjrt_memory_stats_t;

typedef struct pjrt_logical_id_t {
  int32_t replica;
  int32_t partition;
} pjrt_logical_id_t;

typedef struct pjrt_execute_options_t {
  size_t size;
  pjrt_extension_t *extension;
  void *send_callbacks;
  void *receive_callbacks;
  size_t send_count;
  size_t receive_count;
  int32_t launch_id;
  const int64_t *kept; /* inputs that must not be donated */
  size_t kept_count;
} pjrt_execute_options_t;

typedef struct pjrt_execute_t {
  size_t size;
  pjrt_extension_t *extension;
  void *executable;
  const pjrt_execute_options_t *options;
  void *const *const *arguments; /* for each device, for each argument */
  size_t device_count;
  size_t argument_count;
  void **const *outputs; /* for each device, an array for the outputs */
  void **events;         /* for each device; NULL: not wanted */
  void *device;          /* NULL: that of the compilation */
} pjrt_execute_t;

typedef struct pjrt_program_memory_t {
  size_t size;
  pjrt_extension_t *extension;
  void *executable;
  int64_t code;
  int64_t arguments;
  int64_t outputs;
  int64_t others[12];
} pjrt_program_memory_t;

typedef struct pjrt_version_t {
  size_t size;
  pjrt_extension_t *extension;
  int32_t major;
  int32_t minor;
} pjrt_version_t;

/* Two functions of the table return nothing; the others an error, or NULL. */
typedef pjrt_error_t *(*pjrt_function_t)(void *arguments);

/* ---- layouts --------------------------------------------------------------------------------- */

#define PJRT_AT(type, field, offset)                                                               \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " lies elsewhere")
PJRT_AT(pjrt_named_t, as, 40);
PJRT_AT(pjrt_named_t, value_size, 48);
PJRT_AT(pjrt_create_t, client, 64);
PJRT_AT(pjrt_lookup_t, device, 32);
PJRT_AT(pjrt_program_t, format_size, 40);
PJRT_AT(pjrt_compile_t, executable, 48);
PJRT_AT(pjrt_assignment_t, devices, 40);
PJRT_AT(pjrt_layout_t, as.tiled.tile_count, 64);
PJRT_AT(pjrt_layout_t, as.strides.rank, 40);
PJRT_AT(pjrt_layout_t, type, 72);
PJRT_AT(pjrt_from_host_t, semantics, 72);
PJRT_AT(pjrt_from_host_t, buffer, 112);
PJRT_AT(pjrt_to_host_t, event, 48);
PJRT_AT(pjrt_raw_t, event, 48);
PJRT_AT(pjrt_buffer_layout_t, layout, 24);
PJRT_AT(pjrt_tracking_t, event, 40);
PJRT_AT(pjrt_attributes_t, release, 48);
PJRT_AT(pjrt_memory_stats_t, peak_bytes_in_use, 32);
PJRT_AT(pjrt_memory_stats_t, others, 96);
PJRT_AT(pjrt_bytes_t, release, 48);
PJRT_AT(pjrt_execute_options_t, kept, 56);
PJRT_AT(pjrt_execute_t, device, 72);
PJRT_AT(pjrt_program_memory_t, others, 48);
_Static_assert(sizeof(pjrt_memory_stats_t) == 192, "pjrt_memory_stats_t has another size");
_Static_assert(sizeof(pjrt_program_memory_t) == 144, "pjrt_program_memory_t has another size");
_Static_assert(sizeof(pjrt_version_t) == 24, "pjrt_version_t has another size");

#endif
