// The times of operators on the device for torch.autograd.profiler.profile(use_device=...): events
// before and after each operator, in the stream that its thread uses on the current device.
//
// PyTorch calls `record` on every thread, and `elapsed` later on the thread that reads the profile.
#include "backend.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

namespace tenon_torch {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

void release_event(void *event) { tenon_event_release((tenon_event_t *)event); }

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex *device, ProfilerVoidEventStub *event,
              int64_t *cpu_ns) const override {
    const c10::DeviceIndex index = current_device();
    tenon_event_t *made = nullptr;
    // On a device without times the profile has none.
    if (tenon_event_create(tenon_device_of(index), TENON_EVENT_TIMED, &made) != TENON_OK)
      check_status(tenon_event_create(tenon_device_of(index), 0, &made));
    *event = ProfilerVoidEventStub(made, release_event);
    check_status(tenon_event_record(made, current_stream(index)));
    if (device) *device = index;
    if (cpu_ns) *cpu_ns = c10::getTime();
  }

  // Returns microseconds; 0 if there are no times between the events.
  float elapsed(const ProfilerVoidEventStub *begin,
                const ProfilerVoidEventStub *end) const override {
    if (!*begin || !*end) return 0;
    auto *first = (tenon_event_t *)begin->get();
    auto *last = (tenon_event_t *)end->get();
    check_status(tenon_event_synchronize(first));
    check_status(tenon_event_synchronize(last));
    int64_t nanoseconds = 0;
    // An operator may have changed the device: its events are then on different ones.
    if (tenon_event_elapsed(first, last, &nanoseconds) != TENON_OK) return 0;
    return (float)((double)nanoseconds / 1e3);
  }

  // A Tenon device has no timeline of its own to which names could be added.
  void mark(const char *) const override {}
  void rangePush(const char *) const override {}
  void rangePop() const override {}
  bool enabled() const override { return is_open(); }

  void onEachDevice(std::function<void(int)> call) const override {
    for (c10::DeviceIndex i = 0; i < device_count(); i++) {
      const c10::DeviceGuard guard(c10::Device(device_type, i));
      call(i);
    }
  }
  void synchronize() const override {
    check_status(tenon_device_synchronize(tenon_device_of(current_device())));
  }
};

const bool is_registered = [] {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  return true;
}();

} // namespace
} // namespace tenon_torch
