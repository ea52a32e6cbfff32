/* The mapping between devices of PyTorch and devices of Tenon, and the streams of these devices;
 * see device.h. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/foreign_stream.h"

/* Gets the stream by PyTorch's interface for any accelerator: a reference to the stream, and its
 * native handle. */
static int32_t stream_of_any(int32_t index, void **out_native) {
  torch_stream_t stream = NULL;
  if (torch.aoti_torch_get_current_stream(index, &stream)) return 1;
  int32_t bad = torch.torch_stream_native_handle(stream, out_native);
  (void)torch.aoti_torch_delete_stream(stream);
  return bad;
}

/* Types of devices. The first two report their streams by functions of libraries that the CPU build
 * of PyTorch does not have. */
static struct kind_t {
  const char *name;
  const char *library;
  const char *function;
  char backend[64]; /* Tenon's backend; "": not mapped */
} kinds[] = {{"cuda", "libtorch_cuda.so", "aoti_torch_get_current_cuda_stream", "cuda"},
             {"xpu", "libtorch_xpu.so", "aoti_torch_get_current_xpu_stream", ""},
             {"privateuseone", NULL, NULL, ""}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int32_t code_of(const struct kind_t *kind) {
  int32_t (*const codes[])(void) = {torch.aoti_torch_device_type_cuda,
                                    torch.aoti_torch_device_type_xpu,
                                    torch.aoti_torch_device_type_privateuse1};
  return codes[kind - kinds]();
}

const char *torch_device_name(int32_t type, int32_t index, char *out, size_t capacity) {
  const struct kind_t *kind = kinds;
  while (kind < kinds + KINDS && code_of(kind) != type)
    kind++;
  if (kind < kinds + KINDS)
    snprintf(out, capacity, "%s:%d", kind->name, (int)index);
  else
    snprintf(out, capacity, "a device of type %d, index %d", (int)type, (int)index);
  return out;
}

tenon_status_t torch_device_map(const char *type, const char *backend, char *why, size_t capacity) {
  struct kind_t *kind = kinds;
  int32_t count = 0;
  while (kind < kinds + KINDS && strcmp(kind->name, type) != 0)
    kind++;
  if (kind == kinds + KINDS) {
    snprintf(why, capacity, "device type '%s': expected cuda, xpu or privateuseone", type);
    return TENON_INVALID;
  }
  if (*kind->backend && strcmp(kind->backend, backend) != 0) {
    snprintf(why, capacity,
             "device type %s is already mapped to Tenon's backend %s and cannot be mapped to %s",
             type, kind->backend, backend);
    return TENON_EXISTS;
  }
  if (strlen(backend) >= sizeof kind->backend) {
    snprintf(why, capacity, "the name of the backend is too long: expected at most %zu bytes",
             sizeof kind->backend - 1);
    return TENON_INVALID;
  }
  tenon_status_t status = tenon_device_count(backend, &count);
  if (status == TENON_OK)
    strcpy(kind->backend, backend);
  else
    snprintf(why, capacity, "device type %s cannot be mapped to Tenon's backend %s: %s", type,
             backend, tenon_error());
  return status;
}

static const tenon_torch_backend_t *own_backend; /* of PrivateUse1 */

tenon_status_t torch_device_own(const tenon_torch_backend_t *own, char *why, size_t capacity) {
  tenon_status_t status = torch_device_map("privateuseone", own->backend, why, capacity);
  if (status == TENON_OK) own_backend = own;
  return status;
}

static torch_device_t *devices; /* atomic; the newest first */

static const torch_device_t *find_known(int32_t type, int32_t index) {
  const torch_device_t *p = __atomic_load_n(&devices, __ATOMIC_ACQUIRE);
  while (p && (p->type != type || p->index != index))
    p = p->next;
  return p;
}

/* Returns a function that reports streams, if there is one that works. */
static torch_device_stream_fn streams_of(const struct kind_t *kind, int32_t index) {
  torch_device_stream_fn function = NULL;
  void *native;
  if (kind->library)
    *(void **)&function = torch_find(kind->library, kind->function);
  else if (torch.torch_stream_native_handle && torch.aoti_torch_get_current_stream)
    function = stream_of_any;
  return function && !function(index, &native) ? function : NULL;
}

static const char *list_kinds(char *out, size_t capacity) {
  size_t used = 0;
  *out = 0;
  for (int i = 0; i < KINDS && used < capacity; i++)
    if (*kinds[i].backend)
      used += (size_t)snprintf(out + used, capacity - used, "%s%s to %s", used ? ", " : "",
                               kinds[i].name, kinds[i].backend);
  return out;
}

static const torch_device_t *add_torch_device(struct kind_t *kind, int32_t type, int32_t index,
                                              char *why, size_t capacity) {
  char name[64];
  tenon_device_t device;
  if (tenon_device_find(kind->backend, index, &device) != TENON_OK) {
    snprintf(why, capacity, "the tensor is on %s, which Tenon cannot use: %s",
             torch_device_name(type, index, name, sizeof name), tenon_error());
    return NULL;
  }
  torch_device_t *made = calloc(1, sizeof *made);
  if (!made) {
    snprintf(why, capacity, "out of memory");
    return NULL;
  }
  *made = (torch_device_t){.next = devices, .type = type, .index = index, .device = device};
  const bool is_private = kind == &kinds[KINDS - 1];
  if (is_private && own_backend)
    made->own = own_backend;
  else
    made->current = streams_of(kind, index);
  __atomic_store_n(&devices, made, __ATOMIC_RELEASE);
  return made;
}

const torch_device_t *torch_device_find(int32_t type, int32_t index, char *why, size_t capacity) {
  char name[64], all[200];
  int32_t current = 0;
  if (index < 0 && torch.aoti_torch_get_current_device_index &&
      !torch.aoti_torch_get_current_device_index(&current))
    index = current;
  else if (index < 0)
    index = 0;
  const torch_device_t *found = find_known(type, index);
  if (found) return found;
  torch_lock();
  struct kind_t *kind = kinds;
  while (kind < kinds + KINDS && !(*kind->backend && code_of(kind) == type))
    kind++;
  if (kind == kinds + KINDS)
    snprintf(why, capacity,
             "the tensor is on %s, which is not mapped to a Tenon device: map it with "
             "tenon.torch.device (in C tenon_torch_device) or move the tensor to the CPU; mapped "
             "so far: %s",
             torch_device_name(type, index, name, sizeof name), list_kinds(all, sizeof all));
  else if (!(found = find_known(type, index)))
    found = add_torch_device(kind, type, index, why, capacity);
  torch_unlock();
  return found;
}

const torch_device_t *torch_device_of(tenon_device_t device, char *why, size_t capacity) {
  const torch_device_t *p = __atomic_load_n(&devices, __ATOMIC_ACQUIRE);
  while (p && (p->device.type != device.type || p->device.id != device.id))
    p = p->next;
  for (int k = 0; k < KINDS && !p; k++) {
    char backend[sizeof kinds->backend];
    int32_t count = 0;
    torch_lock();
    memcpy(backend, kinds[k].backend, sizeof backend);
    torch_unlock();
    if (*backend && tenon_device_count(backend, &count) != TENON_OK) count = 0;
    for (int32_t i = 0; i < count && !p; i++) {
      const torch_device_t *one = torch_device_find(code_of(&kinds[k]), i, why, capacity);
      if (one && one->device.type == device.type && one->device.id == device.id) p = one;
    }
  }
  if (!p)
    snprintf(why, capacity,
             "the result is on a Tenon device that is not mapped to a PyTorch device: map it with "
             "tenon.torch.device (in C tenon_torch_device)");
  return p;
}

tenon_stream_t *torch_device_stream(const torch_device_t *torch_device, char *why,
                                    size_t capacity) {
  tenon_stream_t *stream = NULL;
  void *native = NULL;
  if (torch_device->own) {
    const char *reason = "";
    stream = torch_device->own->stream(torch_device->index, &reason);
    if (!stream) snprintf(why, capacity, "%s", reason);
    return stream;
  }
  if (!torch_device->current) {
    if (tenon_stream_of(torch_device->device, &stream) != TENON_OK)
      snprintf(why, capacity, "%s", tenon_error());
    return stream;
  }
  if (torch_device->current(torch_device->index, &native)) {
    snprintf(why, capacity, "PyTorch does not report its current stream: %s", torch_what());
    return NULL;
  }
  if (foreign_stream_find(torch_device->device, native, &stream) != TENON_OK)
    snprintf(why, capacity, "Tenon cannot use PyTorch's stream: %s", tenon_error());
  return stream;
}
