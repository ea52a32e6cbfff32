/* Copies of bytes of mapped files, see file_copy.h. */
#include "core/file_copy.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

typedef struct file_copy_t {
  tn_storage_t *file;
  const unsigned char *bytes;
  unsigned char *data;
  size_t size;
  bool is_given_up;
  bool is_kept;
} file_copy_t;

/* Guards is_given_up and is_kept of all copies. */
static tn_mutex_t lock = TN_MUTEX_INIT;

tn_mutex_t *tn_file_copies_mutex(void) { return &lock; }

static void release_file_copy(void *context) {
  file_copy_t *copy = context;
  tn_storage_release(copy->file);
  tn_release_aligned(copy->data);
  tn_release_memory(copy);
}

/* Copies in pieces, and forgets the file behind them: otherwise the process would have all weights
 * in memory twice. */
static void copy_bytes(const file_copy_t *copy) {
  enum { PIECE = 1 << 20 };
  for (size_t at = 0; at < copy->size; at += PIECE) {
    const size_t size = copy->size - at < PIECE ? copy->size - at : PIECE;
    memcpy(copy->data + at, copy->bytes + at, size);
    tn_file_forget(copy->bytes + at, size);
  }
}

tenon_status_t tn_file_copy_create(tn_storage_t *file, const void *bytes, uint64_t size,
                                   tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                   tenon_tensor_t **out_tensor) {
  tn_storage_t *storage;
  file_copy_t *copy = tn_allocate_zero(1, sizeof *copy);
  if (!copy) return tn_no_memory("a tensor", sizeof *copy);
  tn_storage_retain(file);
  *copy = (file_copy_t){.file = file, .bytes = bytes, .size = (size_t)size};
  copy->data = tn_allocate_aligned(copy->size + 1);
  tenon_status_t status = copy->data ? TENON_OK : tn_no_memory("a tensor", copy->size);
  if (status == TENON_OK)
    status = tn_storage_create(copy->data, size, release_file_copy, copy, &storage);
  if (status != TENON_OK) {
    release_file_copy(copy);
    return status;
  }
  storage->is_file_copy = true;
  copy_bytes(copy);
  status = tn_tensor_over(storage, copy->data, dtype, ndim, shape, NULL, out_tensor);
  tn_storage_release(storage);
  return status;
}

static file_copy_t *file_copy_of(const tenon_tensor_t *tensor) {
  if (!tensor || !tn_tensor_is_owned(tensor)) return NULL;
  const tn_storage_t *storage = ((const tn_tensor_t *)tensor)->storage;
  return storage && storage->is_file_copy ? storage->context : NULL;
}

void tn_file_copy_give_up(const tenon_tensor_t *tensor, int32_t holders) {
  const tn_tensor_t *t = (const tn_tensor_t *)tensor;
  file_copy_t *copy = file_copy_of(tensor);
  if (!copy) return;
  tn_mutex_lock(&lock);
  const bool is_held = __atomic_load_n(&t->references, __ATOMIC_ACQUIRE) != holders ||
                       __atomic_load_n(&t->storage->references, __ATOMIC_ACQUIRE) != 1;
  if (!is_held && !copy->is_kept && !copy->is_given_up) {
    tn_pages_discard(copy->data, copy->size);
    copy->is_given_up = true;
  }
  tn_mutex_unlock(&lock);
}

static void recall(file_copy_t *copy, bool is_kept) {
  tn_mutex_lock(&lock);
  if (copy->is_given_up) copy_bytes(copy);
  copy->is_given_up = false;
  copy->is_kept |= is_kept;
  tn_mutex_unlock(&lock);
}

void tn_file_copy_recall(const tenon_tensor_t *tensor) {
  file_copy_t *copy = file_copy_of(tensor);
  if (copy) recall(copy, false);
}

void tn_file_copy_keep(const tenon_tensor_t *tensor) {
  file_copy_t *copy = file_copy_of(tensor);
  if (copy) recall(copy, true);
}
