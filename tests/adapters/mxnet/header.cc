// A library against MXNet's own header, as authors write it: of interface VERSION 7 (MXNet 1.7) or
// 11 (1.9).
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib_api.h"
#if VERSION != 7
using namespace mxnet::ext;
#define SAY(text) MX_ERROR_MSG << text
#else
#include <iostream>
#define SAY(text) std::cout << text << std::endl
#endif

typedef std::unordered_map<std::string, std::string> Attrs;
typedef std::vector<MXTensor> Tensors;

static MXReturnValue one_one(const Attrs &, int *in, int *out) {
  *in = 1;
  *out = 1;
  return MX_SUCCESS;
}
static MXReturnValue float32(const Attrs &, std::vector<int> *in, std::vector<int> *out) {
  if (in->at(0) != kFloat32) {
    SAY("float32 alone");
    return MX_FAIL;
  }
  out->at(0) = kFloat32;
  return MX_SUCCESS;
}
static MXReturnValue same(const Attrs &, std::vector<std::vector<unsigned int>> *in,
                          std::vector<std::vector<unsigned int>> *out) {
  out->at(0) = in->at(0);
  return MX_SUCCESS;
}

// relu, with its gradient
static MXReturnValue relu(const Attrs &, Tensors *in, Tensors *out, const OpResource &) {
  const float *x = in->at(0).data<float>();
  float *y = out->at(0).data<float>();
  for (int64_t i = 0; i < in->at(0).size(); i++)
    y[i] = x[i] > 0 ? x[i] : 0;
  return MX_SUCCESS;
}
static MXReturnValue relu_back(const Attrs &, Tensors *in, Tensors *out, const OpResource &) {
  const float *dy = in->at(0).data<float>(), *x = in->at(1).data<float>();
  float *dx = out->at(0).data<float>();
  for (int64_t i = 0; i < in->at(1).size(); i++)
    dx[i] = x[i] > 0 ? dy[i] : 0;
  return MX_SUCCESS;
}
REGISTER_OP(h_relu)
    .setForward(relu, "cpu")
    .setBackward(relu_back, "cpu")
    .setParseAttrs(one_one)
    .setInferType(float32)
    .setInferShape(same);

// noise
static MXReturnValue noise(const Attrs &, Tensors *in, Tensors *out, const OpResource &resource) {
  std::normal_distribution<float> normal;
  mx_cpu_rand_t *states = resource.get_cpu_rand_states();
  for (int64_t i = 0; i < in->at(0).size(); i++)
    out->at(0).data<float>()[i] = in->at(0).data<float>()[i] + normal(states[i % 3]);
  return MX_SUCCESS;
}
REGISTER_OP(h_noise)
    .setForward(noise, "cpu")
    .setParseAttrs(one_one)
    .setInferType(float32)
    .setInferShape(same);

// memory: a state that keeps the input of the forward call
class Memory : public CustomStatefulOp {
public:
  explicit Memory(const Attrs &attrs)
      : power_(attrs.count("power") ? std::stoi(attrs.at("power")) : 2) {}
  MXReturnValue Forward(Tensors *in, Tensors *out, const OpResource &) {
    const float *x = in->at(0).data<float>();
    seen_.assign(x, x + in->at(0).size());
    for (size_t i = 0; i < seen_.size(); i++) {
      out->at(0).data<float>()[i] = 1;
      for (int p = 0; p < power_; p++)
        out->at(0).data<float>()[i] *= seen_[i];
    }
    return MX_SUCCESS;
  }
  MXReturnValue Backward(Tensors *in, Tensors *out, const OpResource &) {
    for (size_t i = 0; i < seen_.size(); i++) {
      float slope = static_cast<float>(power_);
      for (int p = 1; p < power_; p++)
        slope *= seen_[i];
      out->at(0).data<float>()[i] = in->at(0).data<float>()[i] * slope;
    }
    return MX_SUCCESS;
  }

private:
  int power_;
  std::vector<float> seen_;
};
#if VERSION == 7
static MXReturnValue memory(const Attrs &attrs, CustomStatefulOp **out) {
#else
static MXReturnValue memory(const Attrs &attrs, const MXContext &,
                            const std::vector<std::vector<unsigned int>> &, const std::vector<int>,
                            CustomStatefulOp **out) {
#endif
  *out = new Memory(attrs);
  return MX_SUCCESS;
}
REGISTER_OP(h_memory)
    .setParseAttrs(one_one)
    .setInferType(float32)
    .setInferShape(same)
    .setCreateOpState(memory, "cpu");

// operators that throw
static MXReturnValue thrower(const Attrs &attrs, Tensors *, Tensors *, const OpResource &) {
  if (attrs.count("what")) throw 7;
  throw std::runtime_error("thrown from forward");
}
REGISTER_OP(h_throws)
    .setForward(thrower, "cpu")
    .setParseAttrs(one_one)
    .setInferType(float32)
    .setInferShape(same);
static MXReturnValue number(const Attrs &attrs, int *in, int *out) {
  if (attrs.count("n")) (void)std::stoi(attrs.at("n")); // throws if the text is not a number
  return one_one(attrs, in, out);
}
REGISTER_OP(h_number)
    .setForward(relu, "cpu")
    .setParseAttrs(number)
    .setInferType(float32)
    .setInferShape(same);

MXReturnValue initialize(int version) { return version >= 10700 ? MX_SUCCESS : MX_FAIL; }
