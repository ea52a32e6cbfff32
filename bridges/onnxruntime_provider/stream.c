/* Streams of a device as streams of ONNX Runtime, and positions in them that others wait for. ONNX
 * Runtime keys streams by the kind of a device, so what it hands over may be a stream of another
 * device, or of another provider: only streams in the list are used.
 *
 * Invariant: a stream that has failed is replaced when its failure is seen, because ONNX Runtime
 * uses the streams of a run for later runs as well. */
#include <stdlib.h>

#include "base/status.h"
#include "provider.h"

typedef struct ep_stream_t {
  OrtSyncStreamImpl impl; /* first, as ONNX Runtime knows only this */
  struct ep_stream_t *next;
  const factory_t *factory;
  tenon_stream_t *stream;
  tenon_stream_t *failed; /* the one before: work that reads its results must fail as well */
} ep_stream_t;

typedef struct notification_t {
  OrtSyncNotificationImpl impl; /* first, as ONNX Runtime knows only this */
  ep_stream_t *stream;
  tenon_event_t *event;
} notification_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ep_stream_t *ep_streams;

/* ---- uses ------------------------------------------------------------------------------------ */

/* Finds a stream by its handle, and takes a reference. NULL: it is not one of ours. */
static tenon_stream_t *retain_stream(const void *handle, ep_stream_t **out_owner) {
  pthread_mutex_lock(&lock);
  ep_stream_t *owner = ep_streams;
  while (owner && owner != handle)
    owner = owner->next;
  tenon_stream_t *stream = owner ? owner->stream : NULL;
  if (stream) tenon_stream_retain(stream);
  pthread_mutex_unlock(&lock);
  *out_owner = owner;
  return stream;
}

/* Replaces the stream if it has failed. */
static void renew_stream(ep_stream_t *owner, tenon_stream_t *stream) {
  tenon_stream_t *fresh = NULL;
  const tenon_status_t status = tenon_stream_query(stream);
  if (status == TENON_OK || status == TENON_UNAVAILABLE) return;
  if (tenon_stream_create(owner->factory->device, &fresh) != TENON_OK) return;
  pthread_mutex_lock(&lock);
  tenon_stream_t *unused = fresh;
  if (owner->stream == stream) {
    unused = owner->failed;
    owner->failed = stream;
    owner->stream = fresh;
  }
  pthread_mutex_unlock(&lock);
  tenon_stream_release(unused);
}

tenon_status_t stream_begin(const factory_t *factory, void *handle, stream_use_t *out_use) {
  ep_stream_t *owner = NULL;
  tenon_stream_t *stream = retain_stream(handle, &owner);
  tenon_status_t status = TENON_OK;
  *out_use = (stream_use_t){.device = factory->device};
  if (stream && owner->factory == factory) {
    out_use->owner = owner;
  } else {
    if (stream) tenon_stream_release(stream);
    stream = NULL;
    status = tenon_stream_create(factory->device, &stream);
  }
  if (status == TENON_OK) status = tenon_stream_use(factory->device, stream, &out_use->before);
  if (status == TENON_OK)
    out_use->stream = stream;
  else if (stream)
    tenon_stream_release(stream);
  return status;
}

tenon_status_t stream_end(stream_use_t *use, tenon_status_t status, bool waits) {
  if (!use->stream) return status;
  if (status == TENON_OK && (waits || !use->owner)) status = tenon_stream_synchronize(use->stream);
  const tenon_status_t after = tenon_stream_use(use->device, use->before, NULL);
  if (status == TENON_OK) status = after;
  if (status != TENON_OK && use->owner) renew_stream(use->owner, use->stream);
  tenon_stream_release(use->stream);
  return status;
}

/* ---- notifications --------------------------------------------------------------------------- */

static void release_notification(OrtSyncNotificationImpl *self) {
  notification_t *notification = (notification_t *)self;
  tenon_event_release(notification->event);
  free(notification);
}

/* A device may refuse to record an event in a stream that has failed. ONNX Runtime goes on after
 * the error, so that this may be the only time when the failure is seen. */
static OrtStatus *activate(OrtSyncNotificationImpl *self) {
  notification_t *notification = (notification_t *)self;
  ep_stream_t *owner = NULL;
  tenon_stream_t *stream = retain_stream(notification->stream, &owner);
  OrtStatus *status = api_status(tenon_event_record(notification->event, stream), "a notification");
  if (status) renew_stream(owner, stream);
  tenon_stream_release(stream);
  return status;
}

static OrtStatus *wait_on_host(OrtSyncNotificationImpl *self) {
  notification_t *notification = (notification_t *)self;
  ep_stream_t *owner = NULL;
  OrtStatus *status = api_status(tenon_event_synchronize(notification->event), "a wait");
  if (!status) return NULL;
  tenon_stream_t *stream = retain_stream(notification->stream, &owner);
  renew_stream(owner, stream);
  tenon_stream_release(stream);
  return status;
}

/* `consumer` is NULL if the work that follows is that of the processor. */
static OrtStatus *wait_on_device(OrtSyncNotificationImpl *self, OrtSyncStream *consumer) {
  ep_stream_t *owner = NULL;
  tenon_stream_t *stream =
      consumer ? retain_stream(api.SyncStream_GetHandle(consumer), &owner) : NULL;
  if (!stream) return wait_on_host(self);
  const tenon_status_t status = tenon_stream_wait_event(stream, ((notification_t *)self)->event);
  tenon_stream_release(stream);
  return api_status(status, "a wait");
}

/* ---- streams --------------------------------------------------------------------------------- */

static void release_stream(OrtSyncStreamImpl *self) {
  pthread_mutex_lock(&lock);
  ep_stream_t **at = &ep_streams;
  while (*at != (ep_stream_t *)self)
    at = &(*at)->next;
  ep_stream_t *stream = *at;
  *at = stream->next;
  pthread_mutex_unlock(&lock);
  tenon_stream_release(stream->stream);
  tenon_stream_release(stream->failed);
  free(stream);
}

/* The stream itself, so that the handle stays when the stream is replaced. */
static void *handle_of(OrtSyncStreamImpl *self) { return self; }

static OrtStatus *create_notification(OrtSyncStreamImpl *self, OrtSyncNotificationImpl **out) {
  ep_stream_t *stream = (ep_stream_t *)self;
  notification_t *notification = calloc(1, sizeof *notification);
  *out = NULL;
  if (!notification) return api_status(tn_no_memory("a notification", 0), PROVIDER_NAME);
  notification->stream = stream;
  notification->impl = (OrtSyncNotificationImpl){.version = EP_VERSION,
                                                 .Release = release_notification,
                                                 .Activate = activate,
                                                 .WaitOnDevice = wait_on_device,
                                                 .WaitOnHost = wait_on_host};
  const tenon_status_t status =
      tenon_event_create(stream->factory->device, 0, &notification->event);
  if (status == TENON_OK)
    *out = &notification->impl;
  else
    free(notification);
  return api_status(status, "a notification");
}

/* Waits. A failure of the run's work is reported here. */
static OrtStatus *finish_stream(OrtSyncStreamImpl *self) {
  stream_use_t use;
  tenon_status_t status = stream_begin(((ep_stream_t *)self)->factory, self, &use);
  return api_status(stream_end(&use, status, true), "the end of a run");
}

static OrtStatus *create_stream(OrtEpFactory *self, const OrtMemoryDevice *device,
                                const OrtKeyValuePairs *options, OrtSyncStreamImpl **out) {
  const factory_t *factory = (const factory_t *)self;
  ep_stream_t *stream = calloc(1, sizeof *stream);
  (void)device;
  (void)options;
  *out = NULL;
  if (!stream) return api_status(tn_no_memory("a stream", 0), PROVIDER_NAME);
  stream->factory = factory;
  stream->impl = (OrtSyncStreamImpl){.version = EP_VERSION,
                                     .Release = release_stream,
                                     .GetHandle = handle_of,
                                     .CreateNotification = create_notification,
                                     .Flush = finish_stream,
                                     .OnSessionRunEnd = finish_stream};
  const tenon_status_t status = tenon_stream_create(factory->device, &stream->stream);
  if (status != TENON_OK) {
    free(stream);
    return api_status(status, "a stream");
  }
  pthread_mutex_lock(&lock);
  stream->next = ep_streams;
  ep_streams = stream;
  pthread_mutex_unlock(&lock);
  *out = &stream->impl;
  return NULL;
}

static bool has_streams(const OrtEpFactory *self) {
  tenon_device_info_t info = {.size = sizeof info};
  const factory_t *factory = (const factory_t *)self;
  return factory->memory && tenon_device_info(factory->device, &info) == TENON_OK &&
         info.has_streams;
}

void stream_serve(factory_t *factory) {
  factory->factory.IsStreamAware = has_streams;
  factory->factory.CreateSyncStreamForDevice = create_stream;
}
