// Operators of PyTorch that have no counterpart in Tenon, computed by several that have one. If the
// device lacks one of these, the whole operator runs on the CPU.
#include "backend.h"

#include <ATen/ATen.h>
#include <ATen/Operators.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/native/layer_norm.h>
#include <torch/library.h>

namespace tenon_torch {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

#define ON_CPU(name, ...)                                                                          \
  at::native::call_fallback_fn<&run_on_cpu, ATEN_OP(name)>::call(__VA_ARGS__)
#define ON_CPU2(name, overload, ...)                                                               \
  at::native::call_fallback_fn<&run_on_cpu, ATEN_OP2(name, overload)>::call(__VA_ARGS__)

bool is_given(const OptionalTensor &t) { return t && t->defined(); }
bool is_f32(const Tensor &t) { return t.scalar_type() == at::kFloat; }

// Writes a result to a tensor of the caller, which gets its shape.
void write(const Tensor &out, const Tensor &made) {
  (void)at::native::resize_output(out, made.sizes());
  out.copy_(made);
}

// ---- filling -----------------------------------------------------------------------------------

// Returns a view with each element of an expanded tensor once: these may be filled.
Tensor without_repeats(Tensor t) {
  for (int64_t i = t.dim() - 1; i >= 0; i--)
    if (t.stride(i) == 0 && t.size(i) > 1) t = t.select(i, 0);
  return t;
}

Tensor &fill(Tensor &self, const at::Scalar &value) {
  if (!self.numel()) return self;
  const Tensor once = without_repeats(self);
  const Tensor element = at::scalar_tensor(value, self.options().device(at::kCPU));
  if (TensorRef there = once.dim() <= TENON_RANK_MAX ? bits_of(once) : TensorRef())
    check_status(tenon_tensor_fill(there.get(), element.const_data_ptr()));
  else
    once.copy_(element.expand_as(once));
  return self;
}
Tensor &fill_tensor(Tensor &self, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "fill_ takes a tensor without dimensions, found one with ",
              value.dim());
  const Tensor once = without_repeats(self);
  once.copy_(value.expand_as(once));
  return self;
}
Tensor &zero(Tensor &self) { return fill(self, 0); }

// ---- convolution -------------------------------------------------------------------------------

Tensor convolution(const Tensor &input, const Tensor &weight, const OptionalTensor &bias,
                   at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                   bool is_transposed, at::IntArrayRef output_padding, int64_t groups) {
  const c10::IValue arguments[] = {input,    weight,        bias,           stride, padding,
                                   dilation, is_transposed, output_padding, groups};
  static const CorePlan forward("CALL core::conv A0 A1 A2 N A3 P4 A5 N A8", 9);
  static const CorePlan transposed("CALL core::conv_transpose A0 A1 A2 A3 P4 A5 N A8 A7", 9);
  auto made = (is_transposed ? transposed : forward).call(arguments);
  if (!made.empty()) return made[0];
  return convolution_on_cpu(input, weight, bias, stride, padding, dilation, is_transposed,
                            output_padding, groups);
}

// The gradient of the weights is a convolution of the input with the gradient, in which images and
// channels change places, and so do strides and dilations.
Tensor weight_gradient(const Tensor &grad, const Tensor &input, const Tensor &weight,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  Tensor made = at::convolution(input.transpose(0, 1), grad.transpose(0, 1), {}, dilation, padding,
                                stride, false, std::vector<int64_t>(stride.size()), 1);
  for (int64_t axis = 2; axis < weight.dim(); axis++)
    made = made.narrow(axis, 0, weight.size(axis));
  return made.transpose(0, 1).contiguous();
}

// The gradient of the input is a transposed convolution of the gradient. Rows of the input that the
// last stride did not reach are added by the output padding.
Tensor input_gradient(const Tensor &grad, const Tensor &input, const Tensor &weight,
                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  std::vector<int64_t> rest;
  for (size_t i = 0; i < stride.size(); i++) {
    const auto axis = (int64_t)i + 2;
    const int64_t reached = (grad.size(axis) - 1) * stride[i] - 2 * padding[i] +
                            dilation[i] * (weight.size(axis) - 1) + 1;
    rest.push_back(input.size(axis) - reached);
  }
  return at::convolution(grad, weight, {}, stride, padding, dilation, true, rest, 1);
}

std::tuple<Tensor, Tensor, Tensor>
convolution_backward(const Tensor &grad, const Tensor &input, const Tensor &weight,
                     at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                     bool is_transposed, at::IntArrayRef output_padding, int64_t groups,
                     std::array<bool, 3> mask) {
  const bool is_served = !is_transposed && groups == 1 && is_f32(input) && grad.numel() &&
                         device_has({"core::conv", "core::conv_transpose", "core::reduce_sum"});
  if (!is_served)
    return convolution_backward_on_cpu(grad, input, weight, stride, padding, dilation,
                                       is_transposed, output_padding, groups, mask);
  Tensor dx, dw, db;
  if (mask[0]) dx = input_gradient(grad, input, weight, stride, padding, dilation);
  if (mask[1]) dw = weight_gradient(grad, input, weight, stride, padding, dilation);
  if (mask[2]) {
    std::vector<int64_t> axes = {0};
    for (int64_t axis = 2; axis < grad.dim(); axis++)
      axes.push_back(axis);
    db = grad.sum(axes);
  }
  return {dx, dw, db};
}

// ---- pooling -----------------------------------------------------------------------------------

// Tenon counts the indices of a maximum over the whole tensor, and PyTorch over one plane of it.
Tensor plane_starts(const Tensor &input) {
  const int64_t plane = input.size(-1) * input.size(-2);
  const int64_t count = input.size(0) * input.size(1);
  return (at::arange(count) * plane).view({input.size(0), input.size(1), 1, 1}).to(input.device());
}

std::tuple<Tensor &, Tensor &> max_pool2d(const Tensor &input, at::IntArrayRef kernel,
                                          at::IntArrayRef stride, at::IntArrayRef padding,
                                          at::IntArrayRef dilation, bool is_ceil, Tensor &out,
                                          Tensor &indices) {
  static const CorePlan plan("CALL core::max_pool A0 A1 A2 P3 A4", 5);
  std::vector<Tensor> made;
  const bool is_pair = kernel.size() == 2 && padding.size() == 2 && dilation.size() == 2;
  const at::IntArrayRef step = stride.empty() ? kernel : stride;
  const bool is_served = input.dim() == 4 && is_pair && step.size() == 2 && !is_ceil &&
                         device_has({"core::max_pool", "core::sub"});
  if (is_served) made = plan.call({{input.contiguous(), kernel, step, padding, dilation}});
  if (made.empty())
    return ON_CPU2(max_pool2d_with_indices, out, input, kernel, stride, padding, dilation, is_ceil,
                   out, indices);
  write(out, made[0]);
  write(indices, made[1] - plane_starts(input));
  return {out, indices};
}

Tensor &max_pool2d_backward(const Tensor &grad, const Tensor &input, at::IntArrayRef kernel,
                            at::IntArrayRef stride, at::IntArrayRef padding,
                            at::IntArrayRef dilation, bool is_ceil, const Tensor &indices,
                            Tensor &grad_input) {
  const bool is_served = input.dim() == 4 && is_f32(input) && grad.numel() &&
                         device_has({"core::scatter_elements", "core::add"});
  if (!is_served)
    return ON_CPU2(max_pool2d_with_indices_backward, grad_input, grad, input, kernel, stride,
                   padding, dilation, is_ceil, indices, grad_input);
  const Tensor flat = at::zeros({input.numel()}, input.options());
  const Tensor places = (indices + plane_starts(input)).reshape(-1);
  const Tensor sums = flat.scatter_add(0, places, grad.reshape(-1));
  write(grad_input, sums.view(input.sizes()));
  return grad_input;
}

// ---- normalisation -----------------------------------------------------------------------------

std::vector<int64_t> channel_shape(const Tensor &input) {
  std::vector<int64_t> shape((size_t)input.dim(), 1);
  shape[1] = input.size(1);
  return shape;
}

std::vector<int64_t> axes_without_channels(const Tensor &input) {
  std::vector<int64_t> axes = {0};
  for (int64_t axis = 2; axis < input.dim(); axis++)
    axes.push_back(axis);
  return axes;
}

bool serves_norm(const Tensor &input) {
  return is_f32(input) && input.numel() &&
         device_has({"core::reduce_mean", "core::reduce_sum", "core::mul", "core::sub", "core::add",
                     "core::rsqrt"});
}

std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor &input, const OptionalTensor &weight,
                                              const OptionalTensor &bias,
                                              const OptionalTensor &running_mean,
                                              const OptionalTensor &running_var, bool is_training,
                                              double momentum, double epsilon) {
  const bool is_mean_given = is_given(running_mean) && is_given(running_var);
  if (!serves_norm(input) || input.dim() < 2 || (!is_training && !is_mean_given))
    return ON_CPU(native_batch_norm, input, weight, bias, running_mean, running_var, is_training,
                  momentum, epsilon);
  const auto shape = channel_shape(input);
  const auto axes = axes_without_channels(input);
  const Tensor mean = is_training ? input.mean(axes) : *running_mean;
  const Tensor centred = input - mean.view(shape);
  const Tensor variance = is_training ? (centred * centred).mean(axes) : *running_var;
  const Tensor inverse = (variance + epsilon).rsqrt();
  Tensor out = centred * inverse.view(shape);
  if (is_given(weight)) out = out * weight->view(shape);
  if (is_given(bias)) out = out + bias->view(shape);
  if (!is_training) return {out, at::empty({0}, mean.options()), at::empty({0}, mean.options())};
  if (is_mean_given) {
    const auto count = (double)(input.numel() / input.size(1));
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    Tensor old_mean = *running_mean;
    Tensor old_variance = *running_var;
    old_mean.copy_(old_mean * (1 - momentum) + mean * momentum);
    old_variance.copy_(old_variance * (1 - momentum) + variance * (momentum * unbiased));
  }
  return {out, mean, inverse};
}

std::tuple<Tensor, Tensor, Tensor>
batch_norm_backward(const Tensor &grad, const Tensor &input, const OptionalTensor &weight,
                    const OptionalTensor &running_mean, const OptionalTensor &running_var,
                    const OptionalTensor &save_mean, const OptionalTensor &save_inverse,
                    bool is_training, double epsilon, std::array<bool, 3> mask) {
  const bool has_saved = is_given(save_mean) && is_given(save_inverse);
  const bool has_running = is_given(running_mean) && is_given(running_var);
  if (!serves_norm(input) || !serves_norm(grad) || input.dim() < 2 ||
      !(is_training ? has_saved : has_running))
    return ON_CPU(native_batch_norm_backward, grad, input, weight, running_mean, running_var,
                  save_mean, save_inverse, is_training, epsilon, mask);
  const auto shape = channel_shape(input);
  const auto axes = axes_without_channels(input);
  const Tensor mean = is_training ? *save_mean : *running_mean;
  const Tensor inverse = is_training ? *save_inverse : (*running_var + epsilon).rsqrt();
  const Tensor normal = (input - mean.view(shape)) * inverse.view(shape);
  const Tensor scale = is_given(weight) ? inverse * *weight : inverse;
  Tensor dx;
  if (mask[0] && is_training)
    dx = (grad - grad.mean(axes).view(shape) - normal * (grad * normal).mean(axes).view(shape)) *
         scale.view(shape);
  else if (mask[0])
    dx = grad * scale.view(shape);
  return {dx, mask[1] ? (grad * normal).sum(axes) : Tensor(), mask[2] ? grad.sum(axes) : Tensor()};
}

std::vector<int64_t> last_axes(int64_t count) {
  std::vector<int64_t> axes;
  for (int64_t i = -count; i < 0; i++)
    axes.push_back(i);
  return axes;
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor &input, at::IntArrayRef shape,
                                              const OptionalTensor &weight,
                                              const OptionalTensor &bias, double epsilon) {
  static const CorePlan plan("CALL core::layer_norm A0 A1 A2 M3 A4", 5);
  (void)at::native::_check_layer_norm_inputs(input, shape, weight.value_or(Tensor()),
                                             bias.value_or(Tensor()));
  std::vector<Tensor> made;
  if (input.numel() && is_f32(input)) made = plan.call({{input, weight, bias, shape, epsilon}});
  if (made.empty()) return ON_CPU(native_layer_norm, input, shape, weight, bias, epsilon);
  return {made[0], made[1], made[2]};
}

std::tuple<Tensor, Tensor, Tensor>
layer_norm_backward(const Tensor &grad, const Tensor &input, at::IntArrayRef shape,
                    const Tensor &mean, const Tensor &inverse, const OptionalTensor &weight,
                    const OptionalTensor &bias, std::array<bool, 3> mask) {
  if (!serves_norm(input) || !serves_norm(grad))
    return ON_CPU(native_layer_norm_backward, grad, input, shape, mean, inverse, weight, bias,
                  mask);
  const auto axes = last_axes((int64_t)shape.size());
  std::vector<int64_t> outer;
  for (int64_t i = 0; i < input.dim() - (int64_t)shape.size(); i++)
    outer.push_back(i);
  const auto over_outer = [&](const Tensor &t) { return outer.empty() ? t : t.sum(outer); };
  const Tensor normal = (input - mean) * inverse;
  const Tensor scaled = is_given(weight) ? grad * *weight : grad;
  Tensor dx;
  if (mask[0])
    dx = (scaled - scaled.mean(axes, true) - normal * (scaled * normal).mean(axes, true)) * inverse;
  return {dx, mask[1] ? over_outer(grad * normal) : Tensor(),
          mask[2] ? over_outer(grad) : Tensor()};
}

// ---- losses and embeddings ---------------------------------------------------------------------

bool serves_loss(const Tensor &input, const OptionalTensor &weight) {
  return is_f32(input) && input.dim() == 2 && input.numel() && !is_given(weight) &&
         device_has({"core::gather_elements", "core::where", "core::equal", "core::not",
                     "core::neg", "core::cast", "core::reduce_sum", "core::div"});
}

// The classes of the rows of a loss.
struct Classes {
  Tensor is_ignored;
  Tensor column; // with 0 in place of those to ignore
};

Classes classes_of(const Tensor &target, int64_t ignored) {
  const Tensor is_ignored = target.eq(ignored);
  const Tensor zero = at::zeros({}, target.options());
  return {is_ignored, at::where(is_ignored, zero, target).unsqueeze(1)};
}

std::tuple<Tensor &, Tensor &> nll_loss(const Tensor &input, const Tensor &target,
                                        const OptionalTensor &weight, int64_t reduction,
                                        int64_t ignored, Tensor &out, Tensor &total) {
  if (!serves_loss(input, weight))
    return ON_CPU2(nll_loss_forward, output, input, target, weight, reduction, ignored, out, total);
  const Classes classes = classes_of(target, ignored);
  const Tensor count = classes.is_ignored.logical_not().to(input.scalar_type()).sum();
  const Tensor zero = at::zeros({}, input.options());
  const Tensor picked = input.gather(1, classes.column).squeeze(1).neg();
  const Tensor losses = at::where(classes.is_ignored, zero, picked);
  if (reduction == at::Reduction::None)
    write(out, losses);
  else if (reduction == at::Reduction::Sum)
    write(out, losses.sum());
  else
    write(out, losses.sum() / count);
  write(total, reduction == at::Reduction::None ? zero : count);
  return {out, total};
}

Tensor &nll_loss_backward(const Tensor &grad, const Tensor &input, const Tensor &target,
                          const OptionalTensor &weight, int64_t reduction, int64_t ignored,
                          const Tensor &total, Tensor &grad_input) {
  if (!serves_loss(input, weight) || !device_has({"core::scatter_elements"}))
    return ON_CPU2(nll_loss_backward, grad_input, grad, input, target, weight, reduction, ignored,
                   total, grad_input);
  const Classes classes = classes_of(target, ignored);
  const Tensor zero = at::zeros({}, input.options());
  const Tensor scaled = reduction == at::Reduction::Mean ? grad.neg() / total : grad.neg();
  const Tensor each = at::where(classes.is_ignored, zero, scaled);
  write(grad_input, at::zeros_like(input).scatter(1, classes.column, each.unsqueeze(1)));
  return grad_input;
}

Tensor embedding_backward(const Tensor &grad, const Tensor &indices, int64_t count, int64_t padding,
                          bool is_scaled) {
  const bool is_served = !is_scaled && is_f32(grad) && grad.numel() &&
                         device_has({"core::scatter_elements", "core::where", "core::equal"});
  if (!is_served) return ON_CPU(embedding_dense_backward, grad, indices, count, padding, is_scaled);
  const int64_t width = grad.size(-1);
  Tensor rows = grad.reshape({-1, width});
  const Tensor places = indices.reshape({-1, 1}).to(at::kLong);
  if (padding >= 0) rows = at::where(places.eq(padding), at::zeros({}, rows.options()), rows);
  const Tensor sums = at::zeros({count, width}, grad.options());
  return sums.scatter_add(0, places.expand({-1, width}).contiguous(), rows);
}

// ---- cells of recurrent networks ---------------------------------------------------------------

// The CPU has no kernels of these: PyTorch computes them otherwise there.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor &input_gates, const Tensor &hidden_gates,
                                             const Tensor &cx, const OptionalTensor &input_bias,
                                             const OptionalTensor &hidden_bias) {
  Tensor gates = input_gates + hidden_gates;
  if (is_given(input_bias)) gates = gates + *input_bias;
  if (is_given(hidden_bias)) gates = gates + *hidden_bias;
  const auto parts = gates.chunk(4, 1);
  const Tensor i = parts[0].sigmoid();
  const Tensor f = parts[1].sigmoid();
  const Tensor g = parts[2].tanh();
  const Tensor o = parts[3].sigmoid();
  const Tensor cy = f * cx + i * g;
  return {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor &grad_hy,
                                                      const OptionalTensor &grad_cy,
                                                      const Tensor &cx, const Tensor &cy,
                                                      const Tensor &workspace, bool has_bias) {
  if (!is_given(grad_hy) && !is_given(grad_cy)) return {};
  const auto parts = workspace.chunk(4, 1);
  const Tensor &i = parts[0], &f = parts[1], &g = parts[2], &o = parts[3];
  const Tensor tanh_cy = cy.tanh();
  const Tensor dh = is_given(grad_hy) ? *grad_hy : at::zeros_like(cy);
  Tensor dc = dh * o * (1 - tanh_cy * tanh_cy);
  if (is_given(grad_cy)) dc = dc + *grad_cy;
  const Tensor dgates = at::cat({dc * g * i * (1 - i), dc * cx * f * (1 - f), dc * i * (1 - g * g),
                                 dh * tanh_cy * o * (1 - o)},
                                1);
  return {dgates, dc * f, has_bias ? dgates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor &input_gates, const Tensor &hidden_gates,
                                    const Tensor &hx, const OptionalTensor &input_bias,
                                    const OptionalTensor &hidden_bias) {
  const Tensor input = is_given(input_bias) ? input_gates + *input_bias : input_gates;
  const Tensor hidden = is_given(hidden_bias) ? hidden_gates + *hidden_bias : hidden_gates;
  const auto i = input.chunk(3, 1);
  const auto h = hidden.chunk(3, 1);
  const Tensor reset = (i[0] + h[0]).sigmoid();
  const Tensor update = (i[1] + h[1]).sigmoid();
  const Tensor fresh = (i[2] + reset * h[2]).tanh();
  const Tensor hy = (hx - fresh) * update + fresh;
  return {hy, at::cat({reset, update, fresh, hx, h[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>
gru_cell_backward(const Tensor &grad, const Tensor &workspace, bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2];
  const Tensor &hx = parts[3], &hidden = parts[4];
  const Tensor d_update = grad * (hx - fresh) * update * (1 - update);
  const Tensor d_fresh = grad * (1 - update) * (1 - fresh * fresh);
  const Tensor d_reset = d_fresh * hidden * reset * (1 - reset);
  const Tensor d_input = at::cat({d_reset, d_update, d_fresh}, 1);
  const Tensor d_hidden = at::cat({d_reset, d_update, d_fresh * reset}, 1);
  if (!has_bias) return {d_input, d_hidden, grad * update, Tensor(), Tensor()};
  return {d_input, d_hidden, grad * update, d_input.sum(0), d_hidden.sum(0)};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", fill);
  m.impl("fill_.Tensor", fill_tensor);
  m.impl("zero_", zero);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  m.impl("max_pool2d_with_indices.out", max_pool2d);
  m.impl("max_pool2d_with_indices_backward.grad_input", max_pool2d_backward);
  m.impl("native_batch_norm", batch_norm);
  m.impl("native_batch_norm_backward", batch_norm_backward);
  m.impl("native_layer_norm", layer_norm);
  m.impl("native_layer_norm_backward", layer_norm_backward);
  m.impl("nll_loss_forward.output", nll_loss);
  m.impl("nll_loss_backward.grad_input", nll_loss_backward);
  m.impl("embedding_dense_backward", embedding_backward);
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

} // namespace tenon_torch
