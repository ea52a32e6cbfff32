// The operator of scale.c written by hand: for TORCH_LIBRARY, with an autograd::Function, and on
// the stable interface.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/torch.h>

static void run(const float *x, float *y, int64_t n, float by) {
  for (int64_t i = 0; i < n; i++)
    y[i] = x[i] * by;
}

static at::Tensor scale(const at::Tensor &x, double by) {
  at::Tensor dense = x.contiguous(), y = at::empty_like(dense);
  run(dense.const_data_ptr<float>(), y.mutable_data_ptr<float>(), dense.numel(),
      static_cast<float>(by));
  return y;
}

struct Scale : torch::autograd::Function<Scale> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &x, double by) {
    ctx->saved_data["by"] = by;
    at::AutoDispatchBelowADInplaceOrView guard;
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("peer::scale", "")
                         .typed<at::Tensor(const at::Tensor &, double)>();
    return op.call(x, by);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 torch::autograd::variable_list grads) {
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("peer::scale", "")
                         .typed<at::Tensor(const at::Tensor &, double)>();
    return {op.call(grads[0], ctx->saved_data["by"].toDouble()), at::Tensor()};
  }
};
static at::Tensor scale_autograd(const at::Tensor &x, double by) { return Scale::apply(x, by); }

TORCH_LIBRARY(peer, m) { m.def("scale(Tensor x, float by) -> Tensor"); }
TORCH_LIBRARY_IMPL(peer, CPU, m) { m.impl("scale", scale); }
TORCH_LIBRARY_IMPL(peer, Autograd, m) { m.impl("scale", scale_autograd); }

static torch::stable::Tensor scale_stable(const torch::stable::Tensor &x, double by) {
  torch::stable::Tensor y = torch::stable::empty_like(x);
  run(static_cast<const float *>(x.const_data_ptr()), static_cast<float *>(y.mutable_data_ptr()),
      x.numel(), static_cast<float>(by));
  return y;
}
STABLE_TORCH_LIBRARY(peer_stable, m) { m.def("scale(Tensor x, float by) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(peer_stable, CPU, m) { m.impl("scale", TORCH_BOX(&scale_stable)); }
