/* The objects behind PJRT's handles, and what the units of the plug-in share.
 *
 * A client stands for one backend of Tenon, and its devices for the ordinals of the backend. Each
 * device has one memory. Work is complete when a function returns, so that all events are ready.
 *
 * Threads: any function may be called by any thread. Clients, devices and memories do not change. A
 * buffer and an executable have a lock of their own. */
#ifndef BRIDGES_PJRT_PLUGIN_H
#define BRIDGES_PJRT_PLUGIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <tenon/tenon.h>

#include "functions.h"
#include "pjrt.h"

enum { PLUGIN_DEVICES_MOST = 16, PLUGIN_NAME_SIZE = 40, PLUGIN_TEXT_SIZE = 160 };

typedef struct client_t client_t;

typedef struct device_t { /* also its own description, and its own memory */
  client_t *client;
  tenon_device_t device;
  int32_t id; /* the index among the client's devices, and the ordinal */
  char kind[PLUGIN_TEXT_SIZE];
  char text[PLUGIN_TEXT_SIZE];
  char memory_text[PLUGIN_TEXT_SIZE];
  struct device_t *itself; /* a list of one device, or of its memory */
} device_t;

struct client_t {
  char backend[PLUGIN_NAME_SIZE];
  char platform[PLUGIN_NAME_SIZE]; /* "tenon_" and the backend */
  char version[PLUGIN_NAME_SIZE];
  tenon_registration_t *fallback; /* to the CPU; NULL on the CPU, or if it existed before */
  int32_t device_count;
  device_t devices[PLUGIN_DEVICES_MOST];
  device_t *list[PLUGIN_DEVICES_MOST];
};

typedef struct buffer_t {
  device_t *device;
  int32_t type; /* PJRT_... */
  int32_t ndim;
  int64_t dims[TENON_RANK_MAX];
  int64_t minor_to_major[TENON_RANK_MAX];
  size_t size; /* in bytes */
  pthread_mutex_t lock;
  tenon_tensor_t *tensor; /* NULL: the buffer is deleted */
  tenon_tensor_t *held;   /* what callers outside of PJRT use; NULL: none */
  int32_t hold_count;
} buffer_t;

typedef struct output_t {
  int32_t type; /* PJRT_... */
  int32_t ndim;
  tenon_dtype_t dtype;
  int64_t dims[TENON_RANK_MAX];
} output_t;

/* A compiled program. PJRT's executables and loaded executables are both of this type, and share
 * the object. */
typedef struct executable_t {
  atomic_int references;
  device_t *device;
  pthread_mutex_t lock;
  tenon_executable_t *compiled; /* NULL: deleted */
  char name[PLUGIN_TEXT_SIZE];
  char fingerprint[24];
  char *options; /* serialised, as the program was compiled */
  size_t options_size;
  int32_t input_count;
  int32_t output_count;
  bool *donated; /* for each input: the caller gives it up; NULL: none */
  int64_t input_size;
  int64_t output_size;
  output_t *outputs;
  int32_t *types; /* of the outputs */
  int64_t *dims;  /* of all outputs, one after another */
  size_t *ranks;
  const char **kinds; /* of memories, for as many values as inputs and outputs */
  size_t *kind_sizes;
  pjrt_named_t cost;
} executable_t;

/* ---- errors ---------------------------------------------------------------------------------- */

/* Makes an error. Returns a constant one if memory is short; never NULL. */
pjrt_error_t *fail_call(tenon_status_t code, const char *format, ...) TENON_FORMAT(2, 3);
/* Makes an error of a status with this thread's message; NULL if the status is TENON_OK. */
pjrt_error_t *error_of(tenon_status_t status);

/* ---- dtypes and layouts ---------------------------------------------------------------------- */

/* Finds the dtype of an element type. Errors: UNIMPLEMENTED. */
tenon_status_t dtype_of(int32_t type, tenon_dtype_t *out_dtype);
int32_t element_type_of(tenon_dtype_t dtype); /* 0: PJRT has none */
/* Returns the bytes of a tensor; -1: more than 2^62, or a negative extent. */
int64_t array_bytes(tenon_dtype_t dtype, int32_t ndim, const int64_t *dims);
/* Accepts rows one after another, the only layout here. NULL is accepted. */
tenon_status_t check_layout(const pjrt_layout_t *layout, int32_t ndim);

/* ---- buffers --------------------------------------------------------------------------------- */

/* Makes a buffer over a tensor of the device. Ownership: takes over the tensor, also after an
 * error. */
tenon_status_t buffer_create(device_t *device, tenon_tensor_t *tensor, buffer_t **out_buffer);
/* Retains the tensor of a buffer. Errors: PRECONDITION: the buffer is deleted. */
tenon_status_t buffer_use(buffer_t *buffer, tenon_tensor_t **out_tensor);
void buffer_drop(buffer_t *buffer); /* as PJRT_Buffer_Delete */
void buffer_end(buffer_t *buffer);  /* as PJRT_Buffer_Destroy */
/* Waits until the device has done what this thread enqueued. */
tenon_status_t device_wait(const device_t *device);

/* ---- executables ----------------------------------------------------------------------------- */

/* What a serialised CompileOptionsProto says that matters here. */
typedef struct options_t {
  int64_t replicas;
  int64_t partitions;
  int64_t device; /* -1: not stated */
} options_t;
/* Errors: INVALID: the bytes are damaged. */
tenon_status_t options_read(const char *bytes, size_t size, options_t *out_options);

void executable_release(executable_t *executable);

/* ---- functions of the table ------------------------------------------------------------------ */

#define PLUGIN_DECLARE(name, function, structure, last) pjrt_error_t *function(void *arguments);
#define PLUGIN_SKIP(name)
PJRT_FUNCTIONS(PLUGIN_DECLARE, PLUGIN_SKIP)

#endif
