/* Copies between the host and devices, and fills.
 *
 * A copy to the host waits, because TensorFlow has no other place at which a device can report that
 * earlier work failed: it ends the process if an event or a stream says so. */
#include "plugin.h"

typedef struct range_t {
  const void *address;
  bool is_host;
} range_t;

/* Makes a tensor of bytes over a range. `room` is the tensor of a range in host memory. */
static tenon_status_t view_range(range_t range, int64_t *bytes, int64_t *strides,
                                 tenon_tensor_t *room, tenon_tensor_t **out_view) {
  const tenon_dtype_t byte = tenon_dtype(TENON_U8);
  if (!range.is_host) return memory_view(range.address, byte, 1, bytes, out_view);
  *out_view = room;
  return tenon_tensor_view(room, (void *)(uintptr_t)range.address, byte, 1, bytes, NULL, strides);
}

/* Enqueues a copy in the stream that this thread uses. */
static tenon_status_t enqueue_copy(range_t from, range_t to, uint64_t count) {
  int64_t bytes = (int64_t)count;
  int64_t strides[2] = {1, 1};
  tenon_tensor_t rooms[2];
  tenon_tensor_t *source = NULL;
  tenon_tensor_t *destination = NULL;
  tenon_status_t status = view_range(from, &bytes, &strides[0], &rooms[0], &source);
  if (status == TENON_OK) status = view_range(to, &bytes, &strides[1], &rooms[1], &destination);
  if (status == TENON_OK) status = tenon_tensor_copy_async(source, destination);
  if (source && !from.is_host) tenon_tensor_release(source);
  if (destination && !to.is_host) tenon_tensor_release(destination);
  return status;
}

/* Runs a copy in a stream. Waits for it if `is_now`. */
static tenon_status_t copy_in_stream(stream_t *stream, range_t from, range_t to, uint64_t bytes,
                                     bool is_now) {
  tenon_stream_t *before = NULL;
  tenon_stream_t *used = NULL;
  if (bytes == 0) return TENON_OK;
  tenon_status_t status = enter_stream(stream, &before);
  if (status != TENON_OK) return status;
  status = enqueue_copy(from, to, bytes);
  if (is_now && tenon_stream_of(stream->device->device, &used) == TENON_OK)
    (void)tenon_stream_synchronize(used);
  leave_stream(stream, before);
  if (!is_now && status == TENON_OK) return TENON_OK;
  const tenon_status_t failure = renew_streams(stream->device);
  return failure != TENON_OK ? failure : status;
}

static void copy_out(const se_device_t *se, se_stream_t stream, void *to, const se_memory_t *from,
                     uint64_t bytes, tf_status_t *out_status) {
  (void)se;
  set_status(out_status, copy_in_stream(stream, (range_t){from->address, false},
                                        (range_t){to, true}, bytes, true));
}

static void copy_in(const se_device_t *se, se_stream_t stream, se_memory_t *to, const void *from,
                    uint64_t bytes, tf_status_t *out_status) {
  (void)se;
  set_status(out_status, copy_in_stream(stream, (range_t){from, true},
                                        (range_t){to->address, false}, bytes, false));
}

static void copy_within(const se_device_t *se, se_stream_t stream, se_memory_t *to,
                        const se_memory_t *from, uint64_t bytes, tf_status_t *out_status) {
  (void)se;
  set_status(out_status, copy_in_stream(stream, (range_t){from->address, false},
                                        (range_t){to->address, false}, bytes, false));
}

/* ---- without a stream ------------------------------------------------------------------------ */

static void copy_now(const se_device_t *se, range_t from, range_t to, uint64_t bytes,
                     tf_status_t *out_status) {
  device_t *device = device_of(se);
  tenon_status_t status = bytes == 0 ? TENON_OK : enqueue_copy(from, to, bytes);
  const tenon_status_t waited = tenon_device_synchronize(device->device);
  const tenon_status_t failure = renew_streams(device);
  if (status == TENON_OK) status = failure != TENON_OK ? failure : waited;
  set_status(out_status, status);
}

static void copy_out_now(const se_device_t *se, void *to, const se_memory_t *from, uint64_t bytes,
                         tf_status_t *out_status) {
  copy_now(se, (range_t){from->address, false}, (range_t){to, true}, bytes, out_status);
}

static void copy_in_now(const se_device_t *se, se_memory_t *to, const void *from, uint64_t bytes,
                        tf_status_t *out_status) {
  copy_now(se, (range_t){from, true}, (range_t){to->address, false}, bytes, out_status);
}

static void copy_within_now(const se_device_t *se, se_memory_t *to, const se_memory_t *from,
                            uint64_t bytes, tf_status_t *out_status) {
  copy_now(se, (range_t){from->address, false}, (range_t){to->address, false}, bytes, out_status);
}

/* ---- fills ----------------------------------------------------------------------------------- */

static void fill_in_stream(stream_t *stream, const se_memory_t *to, uint32_t dtype,
                           const void *element, uint64_t bytes, tf_status_t *out_status) {
  const tenon_dtype_t element_dtype = tenon_dtype(dtype);
  const int64_t count = (int64_t)(bytes * 8 / element_dtype.bits);
  tenon_tensor_t *view = NULL;
  tenon_stream_t *before = NULL;
  tenon_status_t status = TENON_OK;
  if (count > 0) status = memory_view(to->address, element_dtype, 1, &count, &view);
  if (view && status == TENON_OK && (status = enter_stream(stream, &before)) == TENON_OK) {
    status = tenon_tensor_fill(view, element);
    leave_stream(stream, before);
  }
  tenon_tensor_release(view);
  set_status(out_status, status);
}

static void fill_bytes(const se_device_t *se, se_stream_t stream, se_memory_t *to, uint8_t pattern,
                       uint64_t bytes, tf_status_t *out_status) {
  (void)se;
  fill_in_stream(stream, to, TENON_U8, &pattern, bytes, out_status);
}

static void fill_zero(const se_device_t *se, se_stream_t stream, se_memory_t *to, uint64_t bytes,
                      tf_status_t *out_status) {
  fill_bytes(se, stream, to, 0, bytes, out_status);
}

static void fill_words(const se_device_t *se, se_stream_t stream, se_memory_t *to, uint32_t pattern,
                       uint64_t bytes, tf_status_t *out_status) {
  (void)se;
  fill_in_stream(stream, to, TENON_U32, &pattern, bytes, out_status);
}

void fill_copy_functions(se_executor_t *executor) {
  executor->copy_out = copy_out;
  executor->copy_in = copy_in;
  executor->copy_within = copy_within;
  executor->copy_out_now = copy_out_now;
  executor->copy_in_now = copy_in_now;
  executor->copy_within_now = copy_within_now;
  executor->fill_zero = fill_zero;
  executor->fill_bytes = fill_bytes;
  executor->fill_words = fill_words;
}
