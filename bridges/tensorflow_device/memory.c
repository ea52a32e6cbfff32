/* Memory of devices and pinned memory. An allocation of TensorFlow is a tensor of Tenon, found
 * again by its address. A device without addresses gets addresses that are reserved and
 * unreadable. */
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tenon/device.h>

#include "plugin.h"

typedef struct block_t {
  const char *begin; /* as TensorFlow sees it */
  uint64_t bytes;    /* 0 only in a question: which block contains `begin`? */
  tenon_tensor_t *memory;
  bool is_reserved; /* `begin` is the block's own reservation of addresses */
} block_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *blocks; /* a tree of block_t, of all devices and of pinned memory */

/* Compares blocks by address. Blocks that overlap are equal. */
static int compare_blocks(const void *left, const void *right) {
  const block_t *a = left;
  const block_t *b = right;
  if (a->begin + a->bytes + (a->bytes == 0) <= b->begin) return -1;
  return b->begin + b->bytes + (b->bytes == 0) <= a->begin;
}

static const block_t *block_at(const void *address) {
  const block_t question = {.begin = address};
  pthread_mutex_lock(&lock);
  void *found = tfind(&question, &blocks, compare_blocks);
  const block_t *block = found ? *(block_t **)found : NULL;
  pthread_mutex_unlock(&lock);
  return block;
}

static bool add_block(block_t *block) {
  pthread_mutex_lock(&lock);
  void *at = tsearch(block, &blocks, compare_blocks);
  pthread_mutex_unlock(&lock);
  return at && *(block_t **)at == block;
}

static void free_block(block_t *block) {
  if (block->is_reserved) (void)munmap((void *)(uintptr_t)block->begin, block->bytes);
  tenon_tensor_release(block->memory);
  free(block);
}

/* Gives a block its address. */
static bool set_address(block_t *block, bool has_addresses) {
  block->begin = block->memory->data;
  if (has_addresses) return true;
  void *made =
      mmap(NULL, block->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  block->begin = made == MAP_FAILED ? NULL : made;
  block->is_reserved = block->begin != NULL;
  return block->is_reserved;
}

/* Returns the address of a new block over this memory, which it takes over; NULL: no memory. */
static void *keep_memory(tenon_tensor_t *memory, uint64_t bytes, bool has_addresses) {
  block_t *block = calloc(1, sizeof *block);
  if (!block) {
    tenon_tensor_release(memory);
    return NULL;
  }
  block->memory = memory;
  block->bytes = bytes;
  if (set_address(block, has_addresses) && add_block(block)) return (void *)(uintptr_t)block->begin;
  free_block(block);
  return NULL;
}

static void drop_memory(const void *address) {
  const block_t question = {.begin = address};
  block_t *block = NULL;
  if (!address) return;
  pthread_mutex_lock(&lock);
  void *found = tfind(&question, &blocks, compare_blocks);
  if (found) {
    block = *(block_t **)found;
    (void)tdelete(block, &blocks, compare_blocks);
  }
  pthread_mutex_unlock(&lock);
  if (block) free_block(block);
}

tenon_status_t memory_view(const void *address, tenon_dtype_t dtype, int32_t ndim,
                           const int64_t *shape, tenon_tensor_t **out_view) {
  const block_t *block = block_at(address);
  if (!block)
    return tenon_error_set(TENON_INVALID,
                           "TensorFlow passed memory that no device of Tenon allocated: a tensor "
                           "of another device was expected in host memory, or the reverse");
  return tenon_tensor_part(block->memory, dtype, (uint64_t)((const char *)address - block->begin),
                           ndim, shape, NULL, out_view);
}

bool memory_is_whole(const void *address, const tenon_tensor_t *tensor) {
  const block_t *block = block_at(address);
  return block && block->begin == address && tensor->data == block->memory->data &&
         tensor->byte_offset == block->memory->byte_offset;
}

/* ---- functions of the executor --------------------------------------------------------------- */

static void allocate(const se_device_t *se, uint64_t bytes, int64_t space, se_memory_t *out) {
  const device_t *device = device_of(se);
  const int64_t extent = (int64_t)bytes;
  tenon_tensor_t *memory = NULL;
  (void)space;
  *out = (se_memory_t){.size = SE_SIZE(se_memory_t, payload)};
  if (bytes == 0 || bytes > INT64_MAX) return;
  /* Kernels make Tenon allocate by TensorFlow; this is where TensorFlow allocates. */
  const tenon_allocator_t *before = tenon_allocator_use(NULL);
  (void)tenon_tensor_create_on(device->device, tenon_dtype(TENON_U8), 1, &extent, &memory);
  (void)tenon_allocator_use(before);
  if (!memory) return;
  out->address = keep_memory(memory, bytes, (device->info.features & TENON_DEVICE_ADDRESSES) != 0);
  out->byte_size = out->address ? bytes : 0;
}

static void deallocate(const se_device_t *se, se_memory_t *memory) {
  (void)se;
  drop_memory(memory->address);
  memory->address = NULL;
}

static void *host_allocate(const se_device_t *se, uint64_t bytes) {
  const device_t *device = device_of(se);
  const int64_t extent = (int64_t)bytes;
  tenon_tensor_t *memory = NULL;
  if (bytes == 0 || bytes > INT64_MAX) return NULL;
  if (tenon_tensor_create_pinned(device->device, tenon_dtype(TENON_U8), 1, &extent, &memory) !=
      TENON_OK)
    return NULL;
  return keep_memory(memory, bytes, true);
}

static void host_deallocate(const se_device_t *se, void *memory) {
  (void)se;
  drop_memory(memory);
}

static uint8_t allocator_stats(const se_device_t *se, se_allocator_stats_t *out) {
  const device_t *device = device_of(se);
  tenon_memory_stats_t stats = {.size = sizeof stats};
  if (tenon_memory_stats(device->device, &stats) != TENON_OK) return 0;
  *out = (se_allocator_stats_t){.size = SE_SIZE(se_allocator_stats_t, largest_free_block),
                                .allocation_count = (int64_t)stats.allocations,
                                .bytes_in_use = (int64_t)stats.live_bytes,
                                .peak_bytes_in_use = (int64_t)stats.live_bytes_peak,
                                .bytes_reserved = (int64_t)stats.reserved,
                                .peak_bytes_reserved = (int64_t)stats.reserved_peak,
                                .has_limit = device->info.memory > 0,
                                .limit = (int64_t)device->info.memory};
  return 1;
}

static uint8_t memory_usage(const se_device_t *se, int64_t *out_free, int64_t *out_total) {
  tenon_device_info_t info = {.size = sizeof info};
  if (tenon_device_info(device_of(se)->device, &info) != TENON_OK) return 0;
  *out_free = (int64_t)info.memory_free;
  *out_total = (int64_t)info.memory;
  return 1;
}

void fill_memory_functions(se_executor_t *executor) {
  executor->allocate = allocate;
  executor->deallocate = deallocate;
  executor->host_allocate = host_allocate;
  executor->host_deallocate = host_deallocate;
  executor->allocator_stats = allocator_stats;
  executor->memory_usage = memory_usage;
}
