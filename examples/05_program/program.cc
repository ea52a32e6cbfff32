// A program that defines operators itself, as lambdas, without a library: a pointwise operator with
// a gradient, an operator with a kernel, and a kernel for an existing operator, which is removed
// again. It also saves and restores the state of the random numbers.
#include <array>
#include <cmath>
#include <cstdio>
#include <tenon/tenon.hpp>

static void print(const char *name, const tenon::tensor &t) {
  std::printf("%s", name);
  for (float x : t.data<float>())
    std::printf(" %.9g", double(x));
  std::printf("\n");
}

int main() try {
  // A lambda from elements to an element: the host does broadcasting, strides and threads. The
  // gradient is an operator too.
  auto backward =
      tenon::op("program::bend_backward(Tensor grad, Tensor x, *, float by=1.0) -> Tensor")
          .types("grad, x: f32; out = x")
          .pointwise([](float grad, float x, tenon::attribute<float> by) {
            return grad * (1 + by * std::cos(by * x));
          })
          .add();
  auto bend =
      tenon::op("program::bend(Tensor x, *, float by=1.0) -> Tensor")
          .doc("x + sin(by x)")
          .types("x: f32; out = x")
          .pointwise([](float x, tenon::attribute<float> by) { return x + std::sin(by * x); })
          .gradient("x: bend_backward(grad, x, by=by)")
          .add();
  auto x = tenon::tensor::of<float>({2, 3}, {-2, -1, -0.5, 0.5, 1, 2});
  x.require_grad();
  tenon::tensor y = tenon::call("program::bend", x, tenon::attr("by", 3));
  print("bend", y);
  tenon::call("core::reduce_sum", y, nullptr, tenon::attr("keepdims", false)).backward();
  print("gradient", x.grad());
  x.require_grad(false);

  // A kernel sees whole tensors and splits its work itself. An exception that it throws becomes the
  // error of the call.
  auto distances = tenon::op("program::distances(Tensor a, Tensor b) -> Tensor")
                       .types("a, b: f32; out = a")
                       .shapes("a: [n, d]; b: [m, d]; out: [n, m]")
                       .kernel("cpu",
                               [](tenon::kernel_call &call) {
                                 auto a = call.in<float>(0), b = call.in<float>(1);
                                 auto out = call.out<float>(0);
                                 int64_t d = call.input(0)->shape[1], m = call.input(1)->shape[0];
                                 call.parallel(out.size(), 64, [&](int64_t begin, int64_t end) {
                                   for (int64_t i = begin; i < end; i++) {
                                     float sum = 0;
                                     for (int64_t k = 0; k < d; k++)
                                       sum += (a[i / m * d + k] - b[i % m * d + k]) *
                                              (a[i / m * d + k] - b[i % m * d + k]);
                                     out[i] = std::sqrt(sum);
                                   }
                                 });
                               })
                       .add();
  print("distances",
        tenon::call("program::distances", x, tenon::tensor::of<float>({1, 3}, {0, 1, 2})));

  // Another kernel for an existing operator, as long as this block lasts.
  {
    auto leaky = tenon::on("core::relu")
                     .kernel(
                         "cpu f32",
                         [](tenon::kernel_call &call) {
                           auto in = call.in<float>(0);
                           auto out = call.out<float>(0);
                           for (int64_t i = 0; i < in.size(); i++)
                             out[i] = in[i] < 0 ? 0.1f * in[i] : in[i];
                         },
                         TENON_OVERRIDE);
    print("leaky", tenon::call("core::relu", x));
  }
  print("relu", tenon::call("core::relu", x));

  // The same seed and position give the same numbers, on every device.
  tenon_generator_t *generator;
  std::array<unsigned char, TENON_GENERATOR_STATE> state;
  tenon::check(tenon_generator_of({1, 0}, &generator));
  tenon_generator_seed_set(generator, 2024);
  tenon::check(tenon_generator_save(generator, state.data(), state.size()));
  print("noise", tenon::call("core::randn", tenon::attr("shape", std::vector<int64_t>{4})));
  tenon::check(tenon_generator_restore(generator, state.data(), state.size()));
  print("again", tenon::call("core::randn", tenon::attr("shape", std::vector<int64_t>{4})));
  return 0;
} catch (const tenon::error &error) {
  std::fprintf(stderr, "program: %s\n", error.what());
  return 1;
}
