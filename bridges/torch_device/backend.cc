// The devices of the backend, its streams, events and random number generators, and the interfaces
// by which PyTorch reaches them.
#include "backend.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <tenon/device.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

namespace tenon_torch {

void check_status(tenon_status_t status) {
  if (C10_LIKELY(status == TENON_OK)) return;
  const std::string message = tenon_error();
  if (status == TENON_MEMORY) TORCH_CHECK_WITH(OutOfMemoryError, false, message);
  if (status == TENON_UNIMPLEMENTED) TORCH_CHECK_NOT_IMPLEMENTED(false, message);
  if (status == TENON_RANGE) TORCH_CHECK_INDEX(false, message);
  TORCH_CHECK(false, message);
}

// ---- devices -----------------------------------------------------------------------------------

namespace {

constexpr size_t pool_most = 32;

struct Device {
  std::once_flag opened;
  tenon_device_t device = {};
  bool has_addresses = false;
  bool compiles = false;
  tenon_stream_t *first = nullptr; // the default stream
  // The streams of the pool live as long as the process, as in PyTorch. Those that are not made yet
  // are NULL.
  std::array<std::atomic<tenon_stream_t *>, pool_most> pool = {};
  std::atomic<size_t> next{0};
  std::once_flag seeded;
  at::Generator generator;
};

std::string &name = *new std::string;
std::atomic<int> count{0};
Device *const devices = new Device[devices_most]; // never destroyed: tensors outlive static objects
thread_local c10::DeviceIndex current = 0;

c10::DeviceIndex index_of(c10::DeviceIndex index) { return index < 0 ? current : index; }

// A device that compiles source kernels has Tenon's own kernel for copies between strides.
bool compiles_copies() {
  const tenon_op_t *op = nullptr;
  tenon_slot_info_t slot = {.size = sizeof slot};
  check_status(tenon_op_find("core::contiguous", &op));
  check_status(tenon_op_slot(op, name.c_str(), &slot));
  return !slot.is_missing && slot.library && !strcmp(slot.library, "core") &&
         strcmp(slot.rule, "fallback") != 0;
}

Device &device_at(c10::DeviceIndex index) {
  index = check_index(index);
  Device &d = devices[index];
  std::call_once(d.opened, [&] {
    tenon_stream_t *before = nullptr;
    check_status(tenon_device_find(name.c_str(), index, &d.device));
    tenon_device_info_t info = {.size = sizeof info};
    check_status(tenon_device_info(d.device, &info));
    d.has_addresses = info.features & TENON_DEVICE_ADDRESSES;
    d.compiles = compiles_copies();
    check_status(tenon_stream_use(d.device, nullptr, &before));
    check_status(tenon_stream_of(d.device, &d.first));
    check_status(tenon_stream_use(d.device, before, nullptr));
  });
  return d;
}

} // namespace

int64_t open_backend(const std::string &wanted) {
  int32_t found = 0;
  TORCH_CHECK(!is_open() || wanted == name,
              "PyTorch has one PrivateUse1 device in a process: it is ",
              "already Tenon's backend '", name, "', so '", wanted, "' needs a process of its own");
  check_status(tenon_device_count(wanted.c_str(), &found));
  TORCH_CHECK(found > 0, "backend ", wanted, " has no device on this machine");
  TORCH_CHECK(found <= devices_most, "backend ", wanted, " has ", found,
              " devices, and PyTorch can use at most ", devices_most,
              ": hide the others by the settings of its driver");
  name = wanted;
  count = found;
  return count;
}

bool is_open() { return count > 0; }
const std::string &backend_name() { return name; }
std::string device_name() { return c10::get_privateuse1_backend(); }
c10::DeviceIndex device_count() noexcept { return (c10::DeviceIndex)count.load(); }
c10::DeviceIndex current_device() noexcept { return current; }
c10::DeviceIndex check_index(int64_t index) {
  TORCH_CHECK(is_open(), "no Tenon device is enabled: call tenon.torch.device.enable");
  if (index == -1) return current;
  TORCH_CHECK(index >= 0 && index < device_count(), "device ", device_name(), ":", index,
              " does not exist: this machine has ", (int)device_count(),
              " device(s) of this backend, with the indices 0 to ", (int)device_count() - 1);
  return (c10::DeviceIndex)index;
}
// Starts the device. A failure is left to the first call that uses it: PyTorch's threads for
// gradients set every device, also those that nobody uses, and an exception there ends the process.
void set_device(c10::DeviceIndex index) {
  if (index < 0) return;
  current = check_index(index);
  try {
    (void)device_at(index);
  } catch (const c10::Error &) {
  }
}
c10::DeviceIndex exchange_device(c10::DeviceIndex index) noexcept {
  const c10::DeviceIndex before = current;
  if (index >= 0) current = index;
  return before;
}
tenon_device_t tenon_device_of(c10::DeviceIndex index) { return device_at(index).device; }
bool has_addresses(c10::DeviceIndex index) { return device_at(index).has_addresses; }
bool compiles_kernels(c10::DeviceIndex index) { return device_at(index).compiles; }
c10::DeviceIndex index_of_tenon(tenon_device_t device) {
  const tenon_device_t first = device_at(0).device;
  TORCH_CHECK(device.type == first.type && device.id >= first.id &&
                  device.id < first.id + device_count(),
              "the result is on a Tenon device of another backend than ", backend_name());
  return (c10::DeviceIndex)(device.id - first.id);
}

// ---- streams -----------------------------------------------------------------------------------

// The id of a stream is the address of the Tenon stream; 0 is the device's default stream.
namespace {

c10::Stream torch_stream(c10::DeviceIndex index, const Device &d, tenon_stream_t *stream) {
  const c10::StreamId id = stream == d.first ? 0 : (c10::StreamId)(uintptr_t)stream;
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(device_type, index), id);
}

} // namespace

tenon_stream_t *current_stream(c10::DeviceIndex index) {
  tenon_stream_t *stream = nullptr;
  check_status(tenon_stream_of(tenon_device_of(index), &stream));
  return stream;
}

// A program can make a stream of any number, so that an id is looked up before it is used.
tenon_stream_t *tenon_stream_of_torch(const c10::Stream &stream) {
  const Device &d = device_at(stream.device_index());
  if (!stream.id()) return d.first;
  auto *wanted = (tenon_stream_t *)(uintptr_t)stream.id();
  for (const auto &made : d.pool)
    if (made == wanted) return wanted;
  // The program may have selected a stream of its own by tenon_stream_use.
  TORCH_CHECK(wanted == current_stream(stream.device_index()), "device ", device_name(), ":",
              (int)stream.device_index(), " has no stream with the id ", stream.id(),
              ": streams are made by torch.Stream(device)");
  return wanted;
}

c10::Stream stream_of_pool(c10::DeviceIndex index) {
  index = index_of(index);
  Device &d = device_at(index);
  std::atomic<tenon_stream_t *> &place = d.pool[d.next++ % pool_most];
  tenon_stream_t *stream = place;
  if (stream) return torch_stream(index, d, stream);
  tenon_stream_t *made = nullptr;
  check_status(tenon_stream_create(d.device, &made));
  if (place.compare_exchange_strong(stream, made)) return torch_stream(index, d, made);
  tenon_stream_release(made); // another thread has made one
  return torch_stream(index, d, stream);
}

// ---- random numbers ----------------------------------------------------------------------------

// A generator of the device draws its numbers on a generator of the CPU, which it contains. With
// equal seeds, an operator that runs on the CPU gives the same numbers as for CPU tensors; an
// operator that runs on the device is seeded from it.
namespace {

struct Generator final : c10::GeneratorImpl {
  at::Generator inner;
  Generator(c10::DeviceIndex index, at::Generator cpu)
      : GeneratorImpl(c10::Device(device_type, index),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        inner(std::move(cpu)) {}
  // Kernels of the CPU lock the inner generator while they draw, and callers lock this one.
  template <typename Function> auto locked(Function &&function) const {
    const std::lock_guard<std::mutex> guard(inner.unsafeGetGeneratorImpl()->mutex_);
    return function(inner.unsafeGetGeneratorImpl());
  }
  void set_current_seed(uint64_t seed) override {
    locked([&](GeneratorImpl *g) { g->set_current_seed(seed); });
  }
  void set_offset(uint64_t offset) override {
    locked([&](GeneratorImpl *g) { g->set_offset(offset); });
  }
  uint64_t get_offset() const override {
    return locked([](GeneratorImpl *g) { return g->get_offset(); });
  }
  uint64_t current_seed() const override {
    return locked([](GeneratorImpl *g) { return g->current_seed(); });
  }
  uint64_t seed() override {
    return locked([](GeneratorImpl *g) { return g->seed(); });
  }
  void set_state(const c10::TensorImpl &state) override {
    locked([&](GeneratorImpl *g) { g->set_state(state); });
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return locked([](GeneratorImpl *g) { return g->get_state(); });
  }
  Generator *clone_impl() const override {
    return new Generator(device().index(),
                         locked([](GeneratorImpl *g) { return at::Generator(g->clone()); }));
  }
};

at::Generator make_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(index_of(index), at::detail::createCPUGenerator());
}

} // namespace

const at::Generator &default_generator(c10::DeviceIndex index) {
  Device &d = devices[check_index(index)];
  std::call_once(d.seeded, [&] {
    d.generator = make_generator(index_of(index));
    (void)d.generator.seed();
  });
  return d.generator;
}

at::Generator cpu_generator_of(const std::optional<at::Generator> &generator) {
  if (!generator || !generator->defined())
    return static_cast<Generator *>(default_generator(-1).unsafeGetGeneratorImpl())->inner;
  TORCH_CHECK(generator->device().type() == device_type, "expected a generator of device ",
              device_name(), ", found one of ", generator->device());
  return static_cast<Generator *>(generator->unsafeGetGeneratorImpl())->inner;
}

// ---- guard -------------------------------------------------------------------------------------

namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return device_type; }
  c10::Device getDevice() const override { return {device_type, current}; }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    (void)exchange_device(device.index());
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    set_device(device.index());
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override;

  c10::Stream getStream(c10::Device device) const override {
    const c10::DeviceIndex index = index_of(device.index());
    return torch_stream(index, device_at(index), current_stream(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    const c10::DeviceIndex index = index_of(device.index());
    return torch_stream(index, device_at(index), device_at(index).first);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream_of_pool(device.index());
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return stream_of_pool(device.index());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    check_status(tenon_stream_use(tenon_device_of(stream.device_index()),
                                  tenon_stream_of_torch(stream), nullptr));
    return before;
  }
  void *getStreamNativeHandle(const c10::Stream stream) const override {
    return tenon_stream_of_torch(stream);
  }
  bool queryStream(const c10::Stream &stream) const override {
    const tenon_status_t status = tenon_stream_query(tenon_stream_of_torch(stream));
    if (status != TENON_UNAVAILABLE) check_status(status);
    return status == TENON_OK;
  }
  void synchronizeStream(const c10::Stream &stream) const override {
    check_status(tenon_stream_synchronize(tenon_stream_of_torch(stream)));
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    check_status(tenon_device_synchronize(tenon_device_of(index)));
  }

  void record(void **event, const c10::Stream &stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index < 0 || index == stream.device_index(), "the event belongs to device ",
                (int)index, " and cannot be recorded in a stream of device ",
                (int)stream.device_index());
    if (!*event) {
      tenon_event_t *made = nullptr;
      const bool is_timed = flag == c10::EventFlag::BACKEND_DEFAULT;
      const uint32_t flags = is_timed ? (uint32_t)TENON_EVENT_TIMED : 0u;
      check_status(tenon_event_create(tenon_device_of(stream.device_index()), flags, &made));
      *event = made;
    }
    check_status(tenon_event_record((tenon_event_t *)*event, tenon_stream_of_torch(stream)));
  }
  void block(void *event, const c10::Stream &stream) const override {
    if (event)
      check_status(tenon_stream_wait_event(tenon_stream_of_torch(stream), (tenon_event_t *)event));
  }
  bool queryEvent(void *event) const override {
    const tenon_status_t status = event ? tenon_event_query((tenon_event_t *)event) : TENON_OK;
    if (status != TENON_UNAVAILABLE) check_status(status);
    return status == TENON_OK;
  }
  void synchronizeEvent(void *event) const override {
    if (event) check_status(tenon_event_synchronize((tenon_event_t *)event));
  }
  void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override {
    tenon_event_release((tenon_event_t *)event);
  }
  double elapsedTime(void *begin, void *end, const c10::DeviceIndex) const override {
    int64_t nanoseconds = 0;
    TORCH_CHECK(begin && end, "both events must be recorded before the time between them is known");
    check_status(tenon_event_elapsed((tenon_event_t *)begin, (tenon_event_t *)end, &nanoseconds));
    return (double)nanoseconds / 1e6;
  }
};

c10::DeviceCapability Guard::getDeviceCapability(c10::Device) const {
  // Every dtype works: the device's own kernels serve some, and the CPU serves the others.
  return {};
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// ---- hooks -------------------------------------------------------------------------------------

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return is_open(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return is_open(); }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex before = current;
    set_device(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  const at::Generator &getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return make_generator(check_index(index));
  }
  at::Device getDeviceFromPtr(void *data) const override {
    return {device_type, device_of_address(data)};
  }
  bool isPinnedPtr(const void *data) const override { return is_pinned(data); }
  at::Allocator *getPinnedMemoryAllocator() const override {
    return at::getHostAllocator(device_type);
  }
  void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

} // namespace

void register_hooks() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

} // namespace tenon_torch
