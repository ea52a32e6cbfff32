// Memory: PyTorch's allocators over Tenon's, and tensors of one as tensors of the other.
#include "backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

namespace tenon_torch {

// ---- dtypes ------------------------------------------------------------------------------------

namespace {

constexpr struct {
  at::ScalarType torch;
  uint32_t tenon;
} dtypes[] = {
    {at::kFloat, TENON_F32},
    {at::kLong, TENON_I64},
    {at::kBool, TENON_BOOL},
    {at::kInt, TENON_I32},
    {at::kHalf, TENON_F16},
    {at::kBFloat16, TENON_BF16},
    {at::kDouble, TENON_F64},
    {at::kByte, TENON_U8},
    {at::kChar, TENON_I8},
    {at::kShort, TENON_I16},
    {at::kUInt16, TENON_U16},
    {at::kUInt32, TENON_U32},
    {at::kUInt64, TENON_U64},
    {at::kComplexFloat, TENON_C64},
    {at::kComplexDouble, TENON_C128},
    {at::kFloat8_e5m2, TENON_F8E5M2},
    {at::kFloat8_e4m3fn, TENON_F8E4M3FN},
    {at::kFloat8_e5m2fnuz, TENON_F8E5M2FNUZ},
    {at::kFloat8_e4m3fnuz, TENON_F8E4M3FNUZ},
    {at::kFloat8_e8m0fnu, TENON_F8E8M0},
};

} // namespace

bool dtype_to_tenon(at::ScalarType type, tenon_dtype_t *out_dtype) {
  for (const auto &dtype : dtypes)
    if (dtype.torch == type) {
      *out_dtype = tenon_dtype(dtype.tenon);
      return true;
    }
  return false;
}

bool dtype_from_tenon(tenon_dtype_t dtype, at::ScalarType *out_type) {
  for (const auto &d : dtypes)
    if (d.tenon == tenon_dtype_id(dtype)) {
      *out_type = d.torch;
      return true;
    }
  return false;
}

// ---- device memory -----------------------------------------------------------------------------

namespace {

// The context of a storage.  A device whose memory has no addresses gives its storages addresses
// that nothing may read: they tell storages and their parts apart, as PyTorch needs it.
struct Block {
  Block(tenon_tensor_t *memory, void *data, size_t bytes, c10::DeviceIndex index)
      : memory(memory), data(data), bytes(bytes), index(index) {}
  tenon_tensor_t *memory; // u8, all of the storage
  void *data;             // its address, as PyTorch sees it
  size_t bytes;
  c10::DeviceIndex index; // -1: pinned host memory
  // The first view of the memory from its beginning (shared_view), or NULL.
  std::atomic<tenon_tensor_t *> view{nullptr};
};

using Statistics = c10::CachingDeviceAllocator::DeviceStats;
// Protects the statistics and the blocks.
std::mutex blocks_lock;
// This and the maps below are never destroyed: tensors may be released after static objects are.
Statistics *const statistics = new Statistics[devices_most];

Statistics &statistics_of(c10::DeviceIndex index) { return statistics[check_index(index)]; }

constexpr size_t aggregate = (size_t)c10::CachingAllocator::StatType::AGGREGATE;

// Call it with the lock.
void count_block(const Block &block, bool is_new) {
  Statistics &s = statistics[block.index];
  for (auto *stat : {&s.allocation, &s.active}) {
    if (is_new)
      (*stat)[aggregate].increase(1);
    else
      (*stat)[aggregate].decrease(1);
  }
  for (auto *stat : {&s.allocated_bytes, &s.active_bytes, &s.requested_bytes}) {
    if (is_new)
      (*stat)[aggregate].increase(block.bytes);
    else
      (*stat)[aggregate].decrease(block.bytes);
  }
}

// The blocks of all devices by address.  PyTorch hands memory on under another owner, for example
// through DLPack: such a storage is found by its address, so that Tenon orders the work on it.
auto &blocks = *new std::multimap<uintptr_t, const Block *>;

// Addresses that nothing may read, for blocks of devices whose memory has none.
char *reserved_begin, *reserved_end, *reserved_next;

void reserve_addresses() {
  rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  size_t bytes = (size_t)1 << 44;
  // Most of a limited address space is left to the program.
  if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
    while (bytes > limit.rlim_cur / 8)
      bytes /= 2;
  for (; !reserved_begin && bytes >= (size_t)1 << 28; bytes /= 4) {
    void *made =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) continue;
    reserved_begin = (char *)made;
    reserved_next = reserved_begin;
    reserved_end = reserved_begin + bytes;
  }
}

// Returns the next reserved addresses that no block has; NULL: there are none. Call it with the
// lock.
char *free_addresses(size_t bytes) {
  constexpr size_t alignment = 64;
  const size_t wanted = (bytes + alignment - 1) / alignment * alignment;
  if (!reserved_begin) reserve_addresses();
  char *at = reserved_next;
  for (int wraps = 0; wraps < 2;) {
    if (wanted > (size_t)(reserved_end - at)) {
      at = reserved_begin;
      wraps++;
      continue;
    }
    const auto after = blocks.lower_bound((uintptr_t)at + wanted);
    const Block *last = after == blocks.begin() ? nullptr : std::prev(after)->second;
    const bool is_free = !last || (char *)last->data + last->bytes <= at;
    if (is_free) {
      reserved_next = at + wanted;
      return at;
    }
    at = (char *)last->data + (last->bytes + alignment - 1) / alignment * alignment;
  }
  return nullptr;
}

// Gives the block its address, counts it, and adds it to those that are found by address.
void add_block(Block *block, void *address) {
  std::lock_guard<std::mutex> guard(blocks_lock);
  block->data = address ? address : free_addresses(block->bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, block->data, "no ", block->bytes,
                   " bytes of addresses are left in the process for a tensor on ", device_name());
  blocks.emplace((uintptr_t)block->data, block);
  count_block(*block, true);
}

void remove_block(const Block *block) {
  std::lock_guard<std::mutex> guard(blocks_lock);
  auto [at, end] = blocks.equal_range((uintptr_t)block->data);
  while (at != end && at->second != block)
    at++;
  if (at != end) blocks.erase(at);
  count_block(*block, false);
}

// Returns the block that contains an address, and the offset of the address in it; NULL: none.
// A block may lie in a larger one, if a tensor of Tenon views the memory of another.
const Block *block_at(const void *address, size_t *out_offset) {
  std::lock_guard<std::mutex> guard(blocks_lock);
  auto at = blocks.upper_bound((uintptr_t)address);
  while (at != blocks.begin()) {
    at--;
    *out_offset = (uintptr_t)address - at->first;
    if (*out_offset < at->second->bytes) return at->second;
  }
  return nullptr;
}

void free_block(void *context) {
  auto *block = (Block *)context;
  remove_block(block);
  tenon_tensor_release(block->view);
  tenon_tensor_release(block->memory);
  delete block;
}

// Returns the pointer of a storage over this memory, which it takes over.
c10::DataPtr pointer_over(TensorRef memory, size_t bytes, c10::DeviceIndex index) {
  std::unique_ptr<Block> block(new Block(memory.get(), nullptr, bytes, index));
  add_block(block.get(), has_addresses(index) ? memory.get()->data : nullptr);
  (void)memory.take();
  void *data = block->data;
  return {data, block.release(), free_block, c10::Device(device_type, index)};
}

c10::DataPtr allocate_on(c10::DeviceIndex index, size_t bytes) {
  if (!bytes) return {nullptr, c10::Device(device_type, index)};
  TensorRef memory;
  const auto extent = (int64_t)bytes;
  const tenon_status_t status = tenon_tensor_create_on(
      tenon_device_of(index), tenon_dtype(TENON_U8), 1, &extent, memory.receive());
  if (status == TENON_MEMORY) {
    std::lock_guard<std::mutex> guard(blocks_lock);
    statistics[index].num_ooms++;
  }
  check_status(status);
  return pointer_over(std::move(memory), bytes, index);
}

const Block *block_of(const c10::DataPtr &pointer);

struct DeviceMemory final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return allocate_on(current_device(), bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void *, const void *, size_t) const override {
    TORCH_CHECK(false, "memory of a device is copied by tensor.copy_, not by its address");
  }
  bool initialized() override { return is_open(); }
  void emptyCache(c10::MempoolId_t) override {
    for (c10::DeviceIndex i = 0; i < device_count(); i++)
      check_status(tenon_memory_trim(tenon_device_of(i)));
  }
  // Tenon knows which streams use which memory.
  void recordStream(const c10::DataPtr &, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override;
  void resetAccumulatedStats(c10::DeviceIndex index) override;
  void resetPeakStats(c10::DeviceIndex index) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    tenon_device_info_t info = {.size = sizeof info};
    check_status(tenon_device_info(tenon_device_of(index), &info));
    return {info.memory_free, info.memory};
  }
};

DeviceMemory &device_memory = *new DeviceMemory;
REGISTER_ALLOCATOR(device_type, &device_memory);

tenon_memory_stats_t tenon_stats(c10::DeviceIndex index) {
  tenon_memory_stats_t stats = {.size = sizeof stats};
  check_status(tenon_memory_stats(tenon_device_of(index), &stats));
  return stats;
}

c10::CachingDeviceAllocator::DeviceStats DeviceMemory::getDeviceStats(c10::DeviceIndex index) {
  const tenon_memory_stats_t tenon = tenon_stats(index);
  Statistics &s = statistics_of(index);
  std::lock_guard<std::mutex> guard(blocks_lock);
  auto stats = s;
  stats.reserved_bytes[aggregate].current = (int64_t)tenon.reserved;
  stats.reserved_bytes[aggregate].peak = (int64_t)tenon.reserved_peak;
  stats.segment[aggregate].current = tenon.segments;
  stats.num_alloc_retries = (int64_t)tenon.flushes;
  stats.num_device_alloc = (int64_t)tenon.device_allocations;
  return stats;
}

void DeviceMemory::resetAccumulatedStats(c10::DeviceIndex index) {
  Statistics &s = statistics_of(index);
  std::lock_guard<std::mutex> guard(blocks_lock);
  for (auto *stat :
       {&s.allocation, &s.active, &s.allocated_bytes, &s.active_bytes, &s.requested_bytes})
    (*stat)[aggregate].reset_accumulated();
  s.num_ooms = 0;
}

void DeviceMemory::resetPeakStats(c10::DeviceIndex index) {
  Statistics &s = statistics_of(index);
  std::lock_guard<std::mutex> guard(blocks_lock);
  for (auto *stat :
       {&s.allocation, &s.active, &s.allocated_bytes, &s.active_bytes, &s.requested_bytes})
    (*stat)[aggregate].reset_peak();
}

// ---- pinned host memory ------------------------------------------------------------------------

std::mutex pinned_lock;
auto &pinned = *new std::map<uintptr_t, size_t>; // address: bytes
at::HostStats pinned_stats;

void free_pinned(void *context) {
  auto *block = (Block *)context;
  {
    std::lock_guard<std::mutex> guard(pinned_lock);
    pinned.erase((uintptr_t)block->memory->data);
  }
  tenon_tensor_release(block->memory);
  delete block;
}

struct PinnedMemory final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (!bytes) return {nullptr, c10::Device(c10::DeviceType::CPU)};
    TensorRef memory;
    const auto extent = (int64_t)bytes;
    check_status(tenon_tensor_create_pinned(tenon_device_of(-1), tenon_dtype(TENON_U8), 1, &extent,
                                            memory.receive()));
    auto *block = new Block(memory.take(), nullptr, bytes, -1);
    void *data = block->memory->data;
    std::lock_guard<std::mutex> guard(pinned_lock);
    pinned[(uintptr_t)data] = bytes;
    return {data, block, free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  // Tenon knows which copies use which memory.
  bool record_event(void *, void *, c10::Stream) override { return true; }
  void empty_cache() override { device_memory.emptyCache({0, 0}); }
  at::HostStats get_stats() override { return pinned_stats; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

PinnedMemory &pinned_memory = *new PinnedMemory;
at::HostAllocatorRegistry<device_type> pinned_registry(&pinned_memory);

// Returns the context of a storage that this file allocated; NULL: it is somebody else's.
const Block *block_of(const c10::DataPtr &pointer) {
  const bool is_own = pointer.get_deleter() == free_block || pointer.get_deleter() == free_pinned;
  return is_own ? (const Block *)pointer.get_context() : nullptr;
}

} // namespace

c10::DeviceAllocator &device_allocator() { return device_memory; }

c10::DeviceIndex device_of_address(const void *address) {
  size_t offset = 0;
  const Block *block = block_at(address, &offset);
  return block ? block->index : current_device();
}

// The child of a fork has only the thread that forked: what others have locked would stay locked.
namespace {

void lock_all() {
  blocks_lock.lock();
  pinned_lock.lock();
}

void unlock_all() {
  pinned_lock.unlock();
  blocks_lock.unlock();
}

[[maybe_unused]] const int lock_at_forks = pthread_atfork(lock_all, unlock_all, unlock_all);

} // namespace

bool is_pinned(const void *data) {
  std::lock_guard<std::mutex> guard(pinned_lock);
  auto after = pinned.upper_bound((uintptr_t)data);
  if (after == pinned.begin()) return false;
  const auto &[begin, bytes] = *std::prev(after);
  return (uintptr_t)data < begin + bytes;
}

namespace {

// The same for memory of the device under another owner, which may begin inside of a block.
const Block *block_of_storage(const c10::DataPtr &pointer, size_t *out_offset) {
  const Block *own = block_of(pointer);
  if (own || pointer.device().is_cpu()) return own;
  return block_at(pointer.get(), out_offset);
}

} // namespace

bool owns_pinned(const at::Tensor &t) {
  return t.storage().data_ptr().get_deleter() == free_pinned;
}

void resize_storage(const c10::Storage &storage, size_t bytes) {
  if (bytes == storage.nbytes()) return;
  TORCH_CHECK(storage.resizable(), "the storage of a tensor on ", device_name(),
              " belongs to another owner and cannot be resized");
  size_t offset = 0;
  const c10::DeviceIndex index = storage.device().index();
  c10::DataPtr pointer = allocate_on(index, bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  const Block *from = block_of_storage(storage.data_ptr(), &offset);
  if (kept && from) {
    const auto extent = (int64_t)kept;
    TensorRef old_part, new_part;
    check_status(tenon_tensor_part(from->memory, tenon_dtype(TENON_U8), offset, 1, &extent, nullptr,
                                   old_part.receive()));
    check_status(tenon_tensor_part(block_of(pointer)->memory, tenon_dtype(TENON_U8), 0, 1, &extent,
                                   nullptr, new_part.receive()));
    check_status(tenon_tensor_copy_async(old_part.get(), new_part.get()));
  }
  storage.set_data_ptr_noswap(std::move(pointer));
  storage.set_nbytes(bytes);
}

// ---- tensors -----------------------------------------------------------------------------------

namespace {

// Returns a view with a dtype of Tenon's.
TensorRef view_as(const at::Tensor &t, tenon_dtype_t dtype) {
  TensorRef view;
  const auto ndim = (int32_t)t.dim();
  const int64_t *shape = t.sizes().data();
  const int64_t *strides = t.strides().data();
  const bool is_on_cpu = t.device().is_cpu();
  size_t offset = 0;
  TORCH_CHECK(is_on_cpu || t.device().type() == device_type, "expected a tensor on ", device_name(),
              " or on the CPU, found one on ", t.device());
  if (!t.numel() && is_on_cpu)
    check_status(tenon_tensor_create(dtype, ndim, shape, view.receive()));
  else if (!t.numel())
    check_status(tenon_tensor_create_on(tenon_device_of(t.device().index()), dtype, ndim, shape,
                                        view.receive()));
  else if (const Block *block = block_of_storage(t.storage().data_ptr(), &offset))
    check_status(tenon_tensor_part(block->memory, dtype,
                                   offset + (uint64_t)t.storage_offset() * t.itemsize(), ndim,
                                   shape, strides, view.receive()));
  else if (is_on_cpu)
    check_status(tenon_tensor_borrow((void *)t.const_data_ptr(), dtype, ndim, shape, strides,
                                     nullptr, nullptr, view.receive()));
  else
    check_status(tenon_tensor_borrow_on(tenon_device_of(t.device().index()),
                                        (void *)t.const_data_ptr(), dtype, ndim, shape, strides,
                                        nullptr, nullptr, view.receive()));
  return view;
}

} // namespace

namespace {

// Returns whether Tenon has tensors of this dtype and rank.
bool is_known(const at::Tensor &t, tenon_dtype_t *out_dtype) {
  return t.dim() <= TENON_RANK_MAX && dtype_to_tenon(t.scalar_type(), out_dtype);
}

} // namespace

TensorRef view_of(const at::Tensor &t) {
  tenon_dtype_t dtype;
  return is_known(t, &dtype) ? view_as(t, dtype) : TensorRef();
}

namespace {

bool is_same_view(const tenon_tensor_t *view, const at::Tensor &t, tenon_dtype_t dtype) {
  const auto count = (size_t)view->ndim;
  return tenon_dtype_id(view->dtype) == tenon_dtype_id(dtype) && t.sizes().size() == count &&
         std::equal(view->shape, view->shape + count, t.sizes().begin()) &&
         std::equal(view->strides, view->strides + count, t.strides().begin());
}

} // namespace

TensorRef shared_view(const at::Tensor &t) {
  tenon_dtype_t dtype;
  const c10::DataPtr &pointer = t.storage().data_ptr();
  if (pointer.get_deleter() != free_block || t.storage_offset()) return view_of(t);
  auto *block = (Block *)pointer.get_context();
  if (!is_known(t, &dtype)) return TensorRef();
  tenon_tensor_t *known = block->view.load(std::memory_order_acquire);
  if (known && is_same_view(known, t, dtype)) {
    tenon_tensor_retain(known);
    return TensorRef(known);
  }
  TensorRef made = view_as(t, dtype);
  if (!known && t.numel()) {
    tenon_tensor_retain(made.get());
    if (!block->view.compare_exchange_strong(known, made.get())) tenon_tensor_release(made.get());
  }
  return made;
}

TensorRef bits_of(const at::Tensor &t) {
  tenon_dtype_t dtype;
  if (dtype_to_tenon(t.scalar_type(), &dtype)) return view_as(t, dtype);
  switch (t.itemsize()) {
  case 1:
    return view_as(t, tenon_dtype(TENON_U8));
  case 2:
    return view_as(t, tenon_dtype(TENON_U16));
  case 4:
    return view_as(t, tenon_dtype(TENON_U32));
  case 8:
    return view_as(t, tenon_dtype(TENON_U64));
  default:
    return view_as(t, tenon_dtype(TENON_C128));
  }
}

at::Tensor tensor_over(TensorRef tensor) {
  const tenon_tensor_t *t = tensor.get();
  at::ScalarType type;
  TORCH_CHECK(dtype_from_tenon(t->dtype, &type), "PyTorch has no dtype for Tenon's ",
              tenon_dtype_name(t->dtype));
  const at::IntArrayRef sizes(t->shape, (size_t)t->ndim);
  const at::IntArrayRef strides(t->strides, (size_t)t->ndim);
  const c10::DeviceIndex index = index_of_tenon(t->device);
  const size_t bytes =
      tenon_count(t) ? at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)) : 0;
  c10::DataPtr pointer(nullptr, c10::Device(device_type, index));
  c10::DimVector own_sizes(sizes.begin(), sizes.end());
  c10::DimVector own_strides(strides.begin(), strides.end());
  if (bytes) pointer = pointer_over(std::move(tensor), bytes, index);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(pointer), &device_memory,
                       true);
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(type);
  using Impl = c10::TensorImpl;
  Impl *impl = new Impl(std::move(storage), keys, meta);
  at::Tensor made(c10::intrusive_ptr<Impl>::unsafe_steal_from_new(impl));
  made.unsafeGetTensorImpl()->set_sizes_and_strides(own_sizes, own_strides);
  return made;
}

} // namespace tenon_torch
