// autograd.cpp: what recording a call for gradients costs, beside PyTorch's C++ on the same chain
// of operators. bench/autograd.py runs it and prints the table. The four cases take turns in
// blocks, so that other work on the machine affects all of them alike.
//
//   autograd time BLOCKS
//       for each case: name, nanoseconds of one operator: median, 10th percentile
//
//   autograd count CASE CHAINS
//       runs chains of one case inside measured(), to count instructions under valgrind
//
// A chain is 100 pointwise operators on 16 floats: x * w, + b, tanh, neg, 25 times. Going forward
// and freeing what was recorded, which happens between chains, are timed separately.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tenon/tenon.h>
#include <vector>

#ifdef WITH_TORCH
#include <torch/torch.h>
#endif

namespace {
constexpr int kLength = 100; // operators of a chain
constexpr int kChains = 50;  // chains of a block

struct Timing {
  double forward = 0;
  double release = 0;
};

double Now() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Check(tenon_status_t status, const char *what) {
  if (status == TENON_OK) return;
  std::fprintf(stderr, "autograd: %s: %s\n", what, tenon_error());
  std::exit(1);
}

const tenon_op_t *Find(const char *name) {
  const tenon_op_t *op = nullptr;
  Check(tenon_op_find(name, &op), name);
  return op;
}

tenon_tensor_t *Make(float first) {
  tenon_tensor_t *made = nullptr;
  const int64_t shape[1] = {16};
  Check(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &made), "a tensor");
  for (int i = 0; i < 16; i++)
    static_cast<float *>(made->data)[i] = first + 0.01f * static_cast<float>(i);
  return made;
}

struct Tenon {
  const tenon_op_t *mul = Find("core::mul"), *add = Find("core::add"), *tanh = Find("core::tanh"),
                   *neg = Find("core::neg");
  tenon_tensor_t *x = Make(0.5f), *w = Make(0.9f), *b = Make(0.1f);

  static tenon_tensor_t *Step(const tenon_op_t *op, tenon_tensor_t *in, tenon_tensor_t *second) {
    tenon_tensor_t *inputs[2] = {in, second}, *out = nullptr;
    if (tenon_op_call(op, nullptr, inputs, &out, 0) != TENON_OK) Check(TENON_INTERNAL, "a call");
    tenon_tensor_release(in);
    return out;
  }
  tenon_tensor_t *Forward() const {
    tenon_tensor_t *t = x;
    tenon_tensor_retain(t);
    for (int i = 0; i < kLength / 4; i++) {
      t = Step(mul, t, w);
      t = Step(add, t, b);
      t = Step(tanh, t, nullptr);
      t = Step(neg, t, nullptr);
    }
    return t;
  }
};

Timing RunTenon(const Tenon &tenon, bool records, int chains) {
  Timing timing;
  Check(tenon_tensor_require_grad(tenon.x, records), "a leaf");
  for (int i = 0; i < chains; i++) {
    const double begin = Now();
    tenon_tensor_t *out = tenon.Forward();
    const double middle = Now();
    tenon_tensor_release(out);
    timing.forward += middle - begin;
    timing.release += Now() - middle;
  }
  return timing;
}

#ifdef WITH_TORCH
struct Torch {
  torch::Tensor x = torch::full({16}, 0.5f), w = torch::full({16}, 0.9f),
                b = torch::full({16}, 0.1f);

  torch::Tensor Forward() const {
    torch::Tensor t = x;
    for (int i = 0; i < kLength / 4; i++) {
      t = t * w;
      t = t + b;
      t = torch::tanh(t);
      t = torch::neg(t);
    }
    return t;
  }
};

Timing RunTorch(Torch &torch, bool records, int chains) {
  Timing timing;
  torch.x.requires_grad_(records);
  for (int i = 0; i < chains; i++) {
    const double begin = Now();
    torch::Tensor out = torch.Forward();
    const double middle = Now();
    out = torch::Tensor();
    timing.forward += middle - begin;
    timing.release += Now() - middle;
  }
  return timing;
}
#endif

void Print(const char *name, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  std::printf("%s %.2f %.2f\n", name, times[times.size() / 2], times[times.size() / 10]);
}
} // namespace

extern "C" __attribute__((noinline)) void measured(const void *tenon, int chains) {
  for (int i = 0; i < chains; i++) {
    tenon_tensor_t *out = static_cast<const Tenon *>(tenon)->Forward();
    tenon_tensor_release(out);
  }
}

int main(int argc, char **argv) {
  Check(tenon_start(), "start");
  tenon_threads_set(1);
  Tenon tenon;
  if (argc == 4 && std::strcmp(argv[1], "count") == 0) {
    Check(tenon_tensor_require_grad(tenon.x, std::strcmp(argv[2], "on") == 0), "a leaf");
    tenon_tensor_t *warm = tenon.Forward();
    tenon_tensor_release(warm);
    measured(&tenon, std::atoi(argv[3]));
    return 0;
  }
  const int blocks = argc == 3 && std::strcmp(argv[1], "time") == 0 ? std::atoi(argv[2]) : 0;
  if (blocks < 1) {
    std::fprintf(stderr, "usage: autograd time BLOCKS | count on|off CHAINS\n");
    return 2;
  }
  std::vector<std::vector<double>> times(8);
#ifdef WITH_TORCH
  torch::set_num_threads(1);
  Torch torch;
#endif
  // The first three blocks warm up.
  for (int i = -3; i < blocks; i++)
    for (int k = 0; k < 4; k++) {
      Timing timing;
      if (k < 2) timing = RunTenon(tenon, k == 1, kChains);
#ifdef WITH_TORCH
      else
        timing = RunTorch(torch, k == 3, kChains);
#endif
      if (i < 0) continue;
      times[static_cast<size_t>(2 * k)].push_back(timing.forward / (kLength * kChains));
      times[static_cast<size_t>(2 * k + 1)].push_back(timing.release / (kLength * kChains));
    }
  const char *names[] = {"tenon_off", "tenon_off_release", "tenon_on", "tenon_on_release",
                         "torch_off", "torch_off_release", "torch_on", "torch_on_release"};
#ifdef WITH_TORCH
  const size_t count = 8;
#else
  const size_t count = 4;
#endif
  for (size_t i = 0; i < count; i++)
    Print(names[i], times[i]);
  return 0;
}
