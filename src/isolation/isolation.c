/* Settings, opening and closing of isolated libraries. The loader calls this file; everything else
 * in this folder serves the proxy that it creates. */
#include "isolation/isolation.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/processors.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "dispatch/result.h"
#include "isolation/proxy.h"

enum {
  DEADLINE_MS = 10000,
  SPIN_US = 50,
  MICROSECOND = 1000,
  MILLISECOND = 1000000,
};
#define MEMORY ((uint64_t)4 << 30)  /* memory of a worker process, beyond what Tenon needs in it */
#define SHARED ((uint64_t)16 << 30) /* address space for tensors in shared memory */

tenon_status_t (*tn_isolation_load)(const char *, uint32_t, tenon_library_t **);

static tenon_status_t put_folders(const char *const *folders, uint32_t count, char *out) {
  size_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (!folders || !folders[i] || folders[i][0] != '/')
      return tn_fail(TENON_INVALID, "isolation: folder %u is %s: expected an absolute path", i,
                     folders && folders[i] ? folders[i] : "NULL");
    const size_t size = strlen(folders[i]) + 1;
    if (at + size + 1 > TN_ISOLATE_FOLDERS)
      return tn_fail(
          TENON_RANGE,
          "isolation: the names of the folders are too long: expected at most 8191 bytes in all");
    memcpy(out + at, folders[i], size);
    at += size;
  }
  return TENON_OK;
}

/* Translates the program's settings into the control block. Every setting is read once. */
static tenon_status_t read_settings(const tenon_isolation_t *given, tn_control_t *control,
                                    int64_t *out_deadline) {
  static const uint32_t known = TENON_ALLOW_READ | TENON_ALLOW_WRITE | TENON_ALLOW_NETWORK |
                                TENON_ALLOW_PROCESSES | TENON_ALLOW_EXTEND;
  tenon_isolation_t s = {.size = sizeof s};
  if (given && given->size < offsetof(tenon_isolation_t, allow) + sizeof given->allow)
    return tn_fail(
        TENON_INVALID,
        "isolation: tenon_isolation_t.size is not set: expected sizeof(tenon_isolation_t)");
  if (given) memcpy(&s, given, given->size < sizeof s ? given->size : sizeof s);
  if (s.allow & ~known)
    return tn_fail(TENON_INVALID,
                   "isolation: unknown bits 0x%x in `allow`: expected TENON_ALLOW_...",
                   s.allow & ~known);
  if (s.child_count > TN_CHANNELS)
    return tn_fail(TENON_RANGE,
                   "isolation: `child_count` is %u: expected at most %d processes for one library",
                   s.child_count, (int)TN_CHANNELS);
  if (s.call_count > TN_CHANNEL_ENTRIES)
    return tn_fail(
        TENON_RANGE,
        "isolation: `call_count` is %u: expected at most %d calls at once in one process",
        s.call_count, (int)TN_CHANNEL_ENTRIES);
  TN_TRY(put_folders(s.readable, s.readable_count, control->readable));
  TN_TRY(put_folders(s.writable, s.writable_count, control->writable));
  const uint32_t deadline = s.deadline_ms ? s.deadline_ms : DEADLINE_MS;
  const uint32_t spin = s.spin_us ? s.spin_us : SPIN_US;
  *out_deadline = deadline == TENON_ISOLATION_NONE ? 0 : (int64_t)deadline * MILLISECOND;
  control->spin =
      spin == TENON_ISOLATION_NONE || tn_processors().count < 2 ? 0 : (int64_t)spin * MICROSECOND;
  control->allow = s.allow;
  if (s.readable_count || s.writable_count) control->has_folders = 1;
  control->child_count = s.child_count ? s.child_count : 1;
  control->entry_count = s.call_count ? s.call_count : TN_CHANNEL_ENTRIES;
  control->thread_count = s.thread_count ? s.thread_count : (uint32_t)tn_parallel_threads();
  control->memory = s.memory ? s.memory : MEMORY;
  control->mailbox_size = (s.shared ? s.shared : SHARED) / 4096 * 4096;
  return TENON_OK;
}

static tenon_status_t create_shared_result(const tn_library_t *library, tenon_dtype_t dtype,
                                           int32_t ndim, const int64_t *shape,
                                           tenon_tensor_t **out_tensor) {
  return tn_isolation_tensor(library->context, dtype, ndim, shape, out_tensor);
}

static uint64_t view_limit(const tn_library_t *library) {
  return ((const tn_proxy_t *)library->context)->client->wanted.memory;
}

tenon_status_t tn_isolation_open(const char *path, const tn_file_identity_t *identity,
                                 uint32_t flags, const tenon_isolation_t *isolation,
                                 const tenon_descriptor_t **out_descriptor, void **out_context) {
  tn_control_t *control = tn_allocate_zero(1, sizeof *control);
  tn_proxy_t *proxy = tn_allocate_zero(1, sizeof *proxy);
  int64_t deadline = 0;
  tenon_status_t status = control && proxy ? read_settings(isolation, control, &deadline)
                                           : tn_no_memory("an isolated library", sizeof *control);
  if (status == TENON_OK) {
    control->flags = flags & TENON_LOAD_STRICT;
    snprintf(control->path, sizeof control->path, "%s", path);
    status = tn_client_create(control, identity, deadline, &proxy->client);
  }
  tn_release_memory(control);
  if (status == TENON_OK) status = tn_proxy_describe(proxy);
  if (status != TENON_OK) {
    if (proxy) tn_isolation_close(proxy);
    return status;
  }
  __atomic_store_n(&tn_result_view_limit, view_limit, __ATOMIC_RELEASE);
  __atomic_store_n(&tn_result_create_shared, create_shared_result, __ATOMIC_RELEASE);
  *out_descriptor = &proxy->descriptor;
  *out_context = proxy;
  return TENON_OK;
}

void tn_isolation_close(void *context) {
  tn_proxy_t *proxy = context;
  tn_client_release(proxy->client);
  tn_map_clear(&proxy->names);
  tn_arena_clear(&proxy->arena);
  tn_release_memory(proxy);
}

bool tn_isolation_same(const void *context, const tenon_isolation_t *isolation) {
  const tn_client_t *client = ((const tn_proxy_t *)context)->client;
  int64_t deadline = 0;
  if (!isolation) return true;
  tn_control_t *control = tn_allocate_zero(1, sizeof *control);
  bool same = control && read_settings(isolation, control, &deadline) == TENON_OK &&
              deadline == client->deadline;
  if (same) {
    control->flags = client->wanted.flags;
    memcpy(control->path, client->wanted.path, sizeof control->path);
    same = !memcmp(control, &client->wanted, sizeof *control);
  }
  tn_release_memory(control);
  return same;
}

tenon_status_t tn_isolation_tensor(void *context, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *shape, tenon_tensor_t **out_tensor) {
  tn_share_t *share = ((tn_proxy_t *)context)->client->share;
  uint64_t size = 0;
  uint64_t offset;
  void *block;
  const int64_t count = ndim >= 0 && ndim <= TENON_RANK_MAX ? tn_shape_count(ndim, shape) : -1;
  const bool fits = share && count > 0 && tn_dtype_bytes(dtype, count, &size) &&
                    !tn_dtype_is(dtype, TENON_STRING) && !tn_dtype_is(dtype, TENON_LIST);
  if (!fits || !(offset = tn_heap_allocate(&share->heap, size)))
    return tenon_tensor_create(dtype, ndim, shape, out_tensor);
  tenon_status_t status = tn_proxy_block(share, offset, size, &block);
  if (status != TENON_OK) {
    tn_heap_free(&share->heap, offset, size);
    return status;
  }
  status = tenon_tensor_borrow((char *)share->base + offset, dtype, ndim, shape, NULL,
                               tn_proxy_block_release, block, out_tensor);
  if (status != TENON_OK) tn_proxy_block_release(block);
  return status;
}

void tn_isolation_report(tn_text_t *text) {
  char path[4096];
  const tenon_status_t status = tn_supervisor_find(path, sizeof path);
  if (status == TENON_OK)
    tn_text_add(text, "isolation        yes, by %s\n", path);
  else
    tn_text_add(text, "isolation        no: %s\n", tn_error());
}

void tn_isolation_in_child(void) { tn_clients_in_child(); }
