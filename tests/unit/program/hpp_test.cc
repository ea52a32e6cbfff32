// tenon.hpp as a program uses it: lambdas as operators, kernels and fallbacks, errors as exceptions
// in both directions, and handles that release what they hold. The file has a test framework of its
// own, since check.h is C.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <tenon/tenon.hpp>

static int failures, passed, failed;

#define CHECK(condition)                                                                           \
  ((condition)                                                                                     \
       ? (void)0                                                                                   \
       : (void)(failures++, std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition)))

static void test(const char *sentence, const std::function<void()> &run) {
  failures = 0;
  try {
    run();
  } catch (const std::exception &e) {
    failures++;
    std::fprintf(stderr, "thrown: %s\n", e.what());
  }
  failures ? failed++ : passed++;
  if (failures) std::fprintf(stderr, "FAILED: %s\n", sentence);
}

// The call must throw tenon::error with that status and that text.
static void refused(tenon_status_t status, const char *part, const std::function<void()> &run) {
  try {
    run();
  } catch (const tenon::error &e) {
    if (e.status() == status && std::string(e.what()).find(part) != std::string::npos) return;
    std::fprintf(stderr, "found: status %d: %s\n", int(e.status()), e.what());
    failures++;
    return;
  }
  failures++;
  std::fprintf(stderr, "nothing was thrown; expected: %s\n", part);
}

static bool holds(const tenon::tensor &t, const std::vector<double> &expected) {
  if (!t || size_t(t.count()) != expected.size()) return false;
  for (size_t i = 0; i < expected.size(); i++) {
    double found =
        t->dtype.bits == 64 ? t.data<double>()[int64_t(i)] : double(t.data<float>()[int64_t(i)]);
    if (std::abs(found - expected[i]) > 1e-6) return false;
  }
  return true;
}

// Counts the live copies of a lambda.
struct token {
  explicit token(std::atomic<int> &count) : count_(&count) { count++; }
  token(const token &other) : count_(other.count_) { (*count_)++; }
  token &operator=(const token &) = delete;
  ~token() { (*count_)--; }
  std::atomic<int> *count_;
};

static tenon::registration scale(double extra = 0) {
  return tenon::op("demo::scale(Tensor x, *, float by=2.0) -> Tensor")
      .doc("x times by.")
      .types("x: f32|f64; out = x")
      .pointwise(
          [extra](float x, tenon::attribute<double> by) { return x * float(by) + float(extra); })
      .pointwise([extra](double x, tenon::attribute<double> by) noexcept { return x * by + extra; })
      .gradient("x: scale(grad, by=by)")
      .add();
}

static void operators() {
  test("a pointwise lambda is an operator: broadcast by the host, called by name, with attributes "
       "and a gradient",
       [] {
         tenon::registration r = scale();
         auto x = tenon::tensor::of<float>({2, 2}, {1, 2, 3, 4});
         CHECK(holds(tenon::call("demo::scale", x), {2, 4, 6, 8}));
         CHECK(holds(tenon::call("demo::scale", x, tenon::attr("by", 0.5)), {0.5, 1, 1.5, 2}));
         CHECK(holds(
             tenon::call("demo::scale", tenon::tensor::of<double>({1}, {3}), tenon::attr("by", 3)),
             {9}));
         x.require_grad();
         tenon::call("core::reduce_sum", tenon::call("demo::scale", x, tenon::attr("by", 5)),
                     nullptr, tenon::attr("keepdims", false))
             .backward();
         CHECK(holds(x.grad(), {5, 5, 5, 5}));
       });
  test("its parameters may be of several dtypes, with attributes among them", [] {
    auto r = tenon::op("demo::pick(Tensor a, Tensor b, Tensor which, *, int shift=1, bool "
                       "flip=False) -> Tensor")
                 .types("a, b: f32; which: bool; out = f64")
                 .pointwise([](float a, float b, tenon::attribute<int64_t> shift, bool which,
                               tenon::attribute<bool> flip) {
                   return double(which != flip ? a : b) + double(shift);
                 })
                 .add();
    auto a = tenon::tensor::of<float>({2, 1}, {1, 2}), b = tenon::tensor::of<float>({2}, {10, 20});
    auto which = tenon::tensor::of<bool>({2}, {true, false});
    CHECK(holds(tenon::call("demo::pick", a, b, which), {2, 21, 3, 21}));
    CHECK(holds(
        tenon::call("demo::pick", a, b, which, tenon::attr("flip", true), tenon::attr("shift", 0)),
        {10, 1, 10, 2}));
  });
  test("lambdas can be kernels, infer functions and parts on several threads", [] {
    auto r = tenon::op("demo::sums(Tensor x, *, int keep=1) -> (Tensor sums, Tensor? first)")
                 .types("x: f32; sums, first = f32")
                 .infer([](tenon::infer_call &i) {
                   i.shape(0, {i.input(0)->dims[0]});
                   i.like(1, 0);
                 })
                 .kernel("cpu",
                         [](tenon::kernel_call &c) {
                           auto x = c.in<float>(0);
                           auto sums = c.out<float>(0);
                           int64_t columns = sums.size() ? x.size() / sums.size() : 0;
                           c.parallel(sums.size(), 1, [&](int64_t begin, int64_t end) {
                             for (int64_t i = begin; i < end; i++) {
                               sums[i] = 0;
                               for (int64_t k = 0; k < columns; k++)
                                 sums[i] += x[i * columns + k];
                             }
                           });
                           if (c.output(1)) std::copy(x.begin(), x.end(), c.out<float>(1).begin());
                         })
                 .add();
    auto x = tenon::tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
    std::vector<tenon::tensor> all = tenon::callable("demo::sums").all(x);
    CHECK(all.size() == 2 && holds(all[0], {3, 7, 11}) && holds(all[1], {1, 2, 3, 4, 5, 6}));
  });
  test("each kernel of an operator calls its own lambda", [] {
    auto r = tenon::op("demo::which(Tensor x) -> Tensor")
                 .types("x: f32|f64; out = x")
                 .shapes("out = x")
                 .kernel("cpu f32", [](tenon::kernel_call &c) { c.out<float>(0)[0] = 32; })
                 .kernel("cpu f64", [](tenon::kernel_call &c) { c.out<double>(0)[0] = 64; })
                 .add();
    CHECK(holds(tenon::call("demo::which", 0.0f), {32}) &&
          holds(tenon::call("demo::which", 0.0), {64}));
  });
  test("numbers are tensors, vectors are lists, and what is absent is nullptr", [] {
    auto a = tenon::tensor::of<float>({2}, {1, 2}), b = tenon::tensor::of<float>({1}, {3});
    CHECK(holds(tenon::call("core::add", a, 0.5f), {1.5, 2.5}));
    CHECK(
        holds(tenon::call("core::concat", std::vector<tenon::tensor>{a, b}, tenon::attr("axis", 0)),
              {1, 2, 3}));
    CHECK(holds(tenon::call("core::clip", a, nullptr, 1.5f), {1, 1.5}));
    CHECK(holds(tenon::call("core::randn", tenon::attr("shape", std::vector<int64_t>{0})), {}));
  });
}

static void errors() {
  test("a failure is thrown, with its status and its text", [] {
    refused(TENON_NOT_FOUND, "no operator 'core::ad'", [] { tenon::call("core::ad", 1.0f); });
    refused(TENON_INVALID, "core::add: 3 tensors, expected at most 2",
            [] { tenon::call("core::add", 1.0f, 1.0f, 1.0f); });
    refused(TENON_INVALID, "core::add", [] { tenon::call("core::add", 1.0f); });
    refused(TENON_NOT_FOUND, "axes",
            [] { tenon::call("core::softmax", 1.0f, tenon::attr("axes", 1)); });
    refused(TENON_INVALID, "3 values for a tensor of 2", [] {
      tenon::tensor::of<float>({2}, {1, 2, 3});
    });
    refused(TENON_INVALID, "expected dtype f64, found f32",
            [] { tenon::tensor::of<float>({1}, {1}).data<double>(); });
    refused(TENON_INVALID, "no kernel: add KERNEL", [] {
      tenon::op("demo::none(Tensor x) -> Tensor").types("x: f32; out = x").shapes("out = x").add();
    });
    refused(TENON_NOT_FOUND, "overrides nothing", [] {
      tenon::on("core::add")
          .kernel(
              "npu", [](tenon::kernel_call &) {}, TENON_OVERRIDE);
    });
    refused(TENON_NOT_FOUND, "no_such_library", [] { tenon::library("/no_such_library.so"); });
    refused(TENON_NOT_FOUND, "no_such_library",
            [] { tenon::library::from_source("/no_such_library.c"); });
    refused(TENON_RANGE, "more than 16 kernels", [] {
      tenon::op o("demo::many(Tensor x) -> Tensor");
      for (int i = 0; i < 17; i++)
        o.kernel("cpu", [](tenon::kernel_call &) {});
    });
  });
  test("what a lambda throws ends as a status with its message, also from parts and infer", [] {
    static int what;
    auto r = tenon::op("demo::throws(Tensor x) -> Tensor")
                 .types("x: f32; out = x")
                 .infer([](tenon::infer_call &i) {
                   if (what == 4) throw std::runtime_error("no shape today");
                   i.like(0, 0);
                 })
                 .kernel("cpu",
                         [](tenon::kernel_call &c) {
                           if (what == 0) throw tenon::error(TENON_DENIED, "not for you");
                           if (what == 1) throw std::runtime_error("broken");
                           if (what == 2) throw 7;
                           if (what == 3) throw std::bad_alloc();
                           if (what == 5)
                             c.parallel(100, 1, [](int64_t, int64_t) {
                               throw std::runtime_error("in a part");
                             });
                           if (what == 6) tenon::call("core::nothing");
                           if (what == 7) (void)c.in<double>(0);
                         })
                 .add();
    static const struct {
      tenon_status_t status;
      const char *part;
    } expected[] = {{TENON_DENIED, "demo::throws: not for you"},
                    {TENON_INTERNAL, "demo::throws: broken"},
                    {TENON_INTERNAL, "that is no std::exception"},
                    {TENON_MEMORY, "demo::throws: out of memory"},
                    {TENON_INTERNAL, "demo::throws: no shape today"},
                    {TENON_INTERNAL, "demo::throws: in a part"},
                    {TENON_NOT_FOUND, "no operator 'core::nothing'"},
                    {TENON_INVALID, "an input: expected dtype f64, found f32"}};
    for (what = 0; what < 8; what++)
      refused(expected[what].status, expected[what].part,
              [] { tenon::call("demo::throws", 1.0f); });
  });
  test("a lambda of single elements that throws fails the call", [] {
    auto r = tenon::op("demo::root(Tensor x) -> Tensor")
                 .types("x: f32; out = x")
                 .pointwise([](float x) {
                   return x < 0 ? throw std::domain_error("a negative number") : std::sqrt(x);
                 })
                 .add();
    CHECK(holds(tenon::call("demo::root", 9.0f), {3}));
    refused(TENON_INTERNAL, "demo::root: a negative number",
            [] { tenon::call("demo::root", -9.0f); });
  });
}

static void handles() {
  test("a registration is undone when it goes out of scope or by undo, but not after keep", [] {
    const tenon_op_t *op = nullptr;
    {
      tenon::registration r = scale();
      CHECK(tenon_op_find("demo::scale", &op) == TENON_OK);
    }
    CHECK(tenon_op_find("demo::scale", &op) == TENON_NOT_FOUND);
    tenon::registration a = scale(1), b = std::move(a);
    CHECK(!a && b);
    b.undo(), b.undo();
    scale(2).keep();
    CHECK(holds(tenon::call("demo::scale", 1.0f), {4}));
  });
  test("kernels for other libraries' operators override, fall through or are fallbacks", [] {
    auto x = tenon::tensor::of<float>({2}, {1, -2});
    {
      auto r = tenon::on("core::abs")
                   .kernel(
                       "cpu f32",
                       [](tenon::kernel_call &c) {
                         std::fill_n(static_cast<float *>(c.output(0)->data), 2, 7.0f);
                       },
                       TENON_OVERRIDE);
      CHECK(holds(tenon::call("core::abs", x), {7, 7}));
      auto layer = tenon::on("core::abs").kernel("autograd", [](tenon::kernel_call &c) {
        c.next();
        c.out<float>(0)[0] += 1;
      });
      CHECK(holds(tenon::call("core::abs", x), {7, 7})); // nothing requires a gradient
      x.require_grad();
      CHECK(holds(tenon::call("core::abs", x), {8, 7}));
      x.require_grad(false);
    }
    CHECK(holds(tenon::call("core::abs", x), {1, 2}));
    int calls = 0;
    auto any = tenon::fallback("npu", [&](tenon::kernel_call &) { calls++; });
    refused(TENON_EXISTS, "npu has a fallback already", [] { tenon::fallback("npu"); });
    tenon_device_t npu;
    float memory[2] = {0, 0};
    int64_t two = 2;
    tenon_tensor_t *there = nullptr, *out = nullptr;
    tenon::check(tenon_device_find("npu", 0, &npu));
    tenon::check(tenon_tensor_borrow_on(npu, memory, tenon_dtype(TENON_F32), 1, &two, nullptr,
                                        nullptr, nullptr, &there));
    tenon::tensor on_npu(there);
    tenon::check(tenon_tensor_borrow_on(npu, memory, tenon_dtype(TENON_F32), 1, &two, nullptr,
                                        nullptr, nullptr, &out));
    tenon::tensor result(out);
    tenon::callable abs("core::abs");
    tenon::check(tenon_op_run(abs.get(), nullptr, &there, &out));
    CHECK(calls == 1);
    refused(TENON_INVALID, "is on a device", [&] { on_npu.data<float>(); });
    auto passes = tenon::on("core::abs").fallthrough("npu");
    on_npu = tenon::tensor(), result = tenon::tensor();
  });
  test("copies of a tensor share it, and the last one releases it", [] {
    static int released;
    static float memory[3] = {1, 2, 3};
    int64_t three = 3;
    tenon_tensor_t *borrowed = nullptr;
    tenon::check(tenon_tensor_borrow(
        memory, tenon_dtype(TENON_F32), 1, &three, nullptr, [](void *) { released++; }, memory,
        &borrowed));
    {
      tenon::tensor a(borrowed), b = a, c;
      c = b;
      a = tenon::tensor();
      CHECK(!a && released == 0 && c.get() == borrowed && c.shape() == std::vector<int64_t>{3});
      tenon::tensor d = std::move(c);
      CHECK(holds(d, {1, 2, 3}) && !c);
    }
    CHECK(released == 1);
  });
  static std::atomic<int> lambdas{0};
  test("a lambda lives until shutdown when it was registered, and no longer than a registration "
       "that failed",
       [] {
         token t(lambdas);
         refused(TENON_EXISTS, "core::add is there already", [&] {
           tenon::op("core::add(Tensor x) -> Tensor")
               .types("x: f32; out = x")
               .shapes("out = x")
               .kernel("cpu", [t](tenon::kernel_call &) {})
               .add();
         });
         CHECK(lambdas == 1);
         {
           auto r = tenon::on("core::neg").kernel("npu", [t](tenon::kernel_call &) {});
           auto o = tenon::op("demo::kept(Tensor x) -> Tensor")
                        .types("x: f32; out = x")
                        .shapes("out = x")
                        .kernel("cpu", [t](tenon::kernel_call &) {})
                        .add();
           CHECK(lambdas == 3);
         }
         CHECK(lambdas == 3); // a call may still be on its way to one of them
       });
  tenon_shutdown();
  test("after shutdown no lambda of the program is held", [] { CHECK(lambdas == 0); });
}

int main() {
  operators();
  errors();
  handles();
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
