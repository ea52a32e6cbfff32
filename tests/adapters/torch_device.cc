// A backend of PyTorch's for tests, PrivateUse1, with memory and streams of sim's own: of sim's
// table, as of a vendor's runtime, and
// not by way of Tenon.  Blocks are cached by stream, as CUDA's are, so work that is out of order is
// a race that sim finds.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <cstdarg>
#include <map>
#include <mutex>

#include "sim/sim.h"

namespace {

constexpr auto kind = c10::DeviceType::PrivateUse1;
constexpr int ordinals = 2, streams = 4;

// sim

std::string reason;
tenon_status_t fail(const void *, tenon_status_t status, const char *format, ...) {
  char text[600];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  reason = text;
  return status;
}

const tenon_device_table_t *table;
tenon_host_t host;
tenon_device_context_t contexts[ordinals];
void *natives[ordinals][streams]; // with streams; without, all is in the ordinal's own first one
bool has_streams;
std::mutex lock;
std::map<std::tuple<int, int, size_t>, std::vector<void *>> cache; // by ordinal, stream and size
// wanted: the bytes of the blocks that were requested last
int64_t allocations, live, wanted;
thread_local int device, current[ordinals];

void check(tenon_status_t status) { TORCH_CHECK(status == TENON_OK, "sim: ", reason); }
void *stream_of(int ordinal) { return natives[ordinal][current[ordinal]]; }

// Call this after Tenon has opened the device.
void open(const std::string &path, bool with_streams) {
  void *library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  auto *entry =
      library ? (const tenon_descriptor_t *(*)())dlsym(library, "tenon_library") : nullptr;
  TORCH_CHECK(entry, path, " is not loaded");
  const tenon_item_t *item = entry()->items;
  while (item->tag != TENON_TAG_DEVICE)
    item++;
  table = (const tenon_device_table_t *)item->text;
  has_streams = with_streams;
  host.size = sizeof host;
  host.fail = fail;
  for (int i = 0; i < ordinals; i++) {
    contexts[i].size = sizeof contexts[i];
    contexts[i].host = &host;
    contexts[i].ordinal = i;
    for (int k = 0; k < streams && has_streams; k++)
      check(table->stream_create(&contexts[i], &natives[i][k]));
  }
}

// memory

struct block_t {
  std::tuple<int, int, size_t> key;
  void *memory;
};

void let_go(void *context) {
  auto *block = (block_t *)context;
  std::lock_guard<std::mutex> guard(lock);
  cache[block->key].push_back(block->memory);
  live--;
  delete block;
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device here(kind, (c10::DeviceIndex)device);
    if (!bytes) return {nullptr, here};
    auto *block = new block_t{{device, current[device], (bytes + 511) / 512 * 512}, nullptr};
    std::lock_guard<std::mutex> guard(lock);
    auto &free = cache[block->key];
    if (!free.empty()) {
      block->memory = free.back();
      free.pop_back();
    } else {
      check(table->allocate(&contexts[device], std::get<2>(block->key), &block->memory));
    }
    allocations++;
    live++;
    wanted = (int64_t)bytes;
    return {block->memory, block, let_go, here};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void *, const void *, size_t) const override { TORCH_CHECK(false, "not needed"); }
} memory;
REGISTER_ALLOCATOR(kind, &memory);

// Copies whole storages, and waits for the copy.
void move(const at::Tensor &of, void *cpu, bool is_in) {
  const auto &storage = of.storage();
  if (!storage.nbytes()) return;
  const int ordinal = of.device().index();
  void *stream = stream_of(ordinal);
  tenon_copy_t copy = {};
  copy.size = sizeof copy;
  copy.bytes = storage.nbytes();
  copy.direction = is_in ? TENON_COPY_IN : TENON_COPY_OUT;
  tenon_memory_t there = {(void *)storage.data(), 0};
  tenon_memory_t here = {cpu, 0};
  copy.from = is_in ? here : there;
  copy.to = is_in ? there : here;
  tenon_fault_t fault = {};
  fault.size = sizeof fault;
  check(table->copy(&contexts[ordinal], stream, &copy));
  check(table->stream_synchronize(&contexts[ordinal], stream, &fault));
}

// The same storage on the CPU, and the tensor in it.
at::Tensor mirror(const at::Tensor &t) {
  at::Tensor bytes = at::empty({(int64_t)t.storage().nbytes()}, at::kByte);
  move(t, bytes.data_ptr(), false);
  return at::empty({0}, t.options().device(at::kCPU))
      .set_(bytes.storage(), t.storage_offset(), t.sizes(), t.strides());
}

at::Tensor copy_from(const at::Tensor &self, const at::Tensor &to, bool) {
  at::Tensor from = self.is_cpu() ? self : mirror(self);
  if (to.is_cpu()) {
    to.copy_(from);
    return to;
  }
  at::Tensor there = mirror(to);
  there.copy_(from);
  move(to, there.storage().mutable_data(), true);
  return to;
}

struct Here { // on that device
  int before = device;
  explicit Here(std::optional<at::Device> on) {
    if (on && on->has_index()) device = on->index();
  }
  ~Here() { device = before; }
};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> on, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  Here here(on);
  return at::detail::empty_generic(size, &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   at::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> on, std::optional<bool>) {
  Here here(on);
  return at::detail::empty_strided_generic(size, stride, &memory,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           at::dtype_or_default(dtype));
}

at::Tensor copy_and_resize(const at::Tensor &self, const at::Tensor &to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_and_resize);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("resize_", at::native::resize_);
  m.impl("view", at::native::view);
}

void on_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  at::native::cpu_fallback(op, stack);
}
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

// devices and streams

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kind; }
  c10::Device getDevice() const override { return {kind, (c10::DeviceIndex)device}; }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    device = d.has_index() ? d.index() : device;
  }
  void setDevice(c10::Device d) const override { uncheckedSetDevice(d); }
  c10::Device exchangeDevice(c10::Device d) const override {
    c10::Device before = getDevice();
    uncheckedSetDevice(d);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return table ? ordinals : 0; }
  c10::Stream at(c10::Device d, int k) const {
    return c10::Stream(c10::Stream::UNSAFE, d.has_index() ? d : getDevice(), (c10::StreamId)k);
  }
  c10::Stream getStream(c10::Device d) const override {
    return at(d, current[d.has_index() ? d.index() : device]);
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return at(d, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override {
    static int next;
    return at(d, has_streams ? 1 + next++ % (streams - 1) : 0);
  }
  c10::Stream getNewStream(c10::Device d, int) const override {
    return getStreamFromGlobalPool(d, false);
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    c10::Stream before = getStream(s.device());
    current[s.device_index()] = (int)s.id();
    return before;
  }
  void *getStreamNativeHandle(const c10::Stream s) const override {
    return has_streams ? natives[s.device_index()][s.id()]
                       : DeviceGuardImplInterface::getStreamNativeHandle(s);
  }
  void destroyEvent(void *event, const c10::DeviceIndex index) const noexcept override {
    if (event) table->event_destroy(&contexts[index], event);
  }
  void record(void **event, const c10::Stream &s, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (!*event) check(table->event_create(&contexts[s.device_index()], event));
    check(table->event_record(&contexts[s.device_index()], *event,
                              natives[s.device_index()][s.id()]));
  }
  void block(void *event, const c10::Stream &s) const override {
    const auto *on = &contexts[s.device_index()];
    if (event) check(table->stream_wait(on, natives[s.device_index()][s.id()], on, event));
  }
  bool queryEvent(void *event) const override {
    return !event || table->event_query(&contexts[0], event) == TENON_OK;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return table; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  // for storages without contents
  void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override {
    TORCH_CHECK(!storage.nbytes(), "a storage that is not empty");
    Here here(storage.device());
    storage.set_data_ptr_noswap(memory.allocate(bytes));
    storage.set_nbytes(bytes);
  }
} hooks;

// functions for tests

int64_t races() {
  auto *sim = (const sim_table_t *)table->native(&contexts[0], "sim", nullptr);
  return (int64_t)sim->races(&contexts[0], nullptr, 0);
}

void synchronize() {
  for (auto &context : contexts)
    check(table->synchronize(&context));
}

void set(const std::string &settings) {
  auto *sim = (const sim_table_t *)table->native(&contexts[0], "sim", nullptr);
  check(sim->set(&contexts[0], settings.c_str()));
}

TORCH_LIBRARY(sim_backend, m) {
  at::RegisterPrivateUse1HooksInterface(&hooks);
  m.def("open(str path, bool streams) -> ()", open);
  m.def("races() -> int", races);
  m.def("set(str settings) -> ()", set);
  m.def("synchronize() -> ()", synchronize);
  m.def("counts() -> int[]", [] { return std::vector<int64_t>{allocations, live, wanted}; });
}

} // namespace
