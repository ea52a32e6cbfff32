// The operator of scale.c written directly against MXNet's lib_api.h, for bench/mxnet_export.py.
#include "mxnet/lib_api.h"

using namespace mxnet::ext;
using texts = std::unordered_map<std::string, std::string>;

static void scale(const float *x, float *y, int64_t count, float by) {
  for (int64_t i = 0; i < count; i++)
    y[i] = x[i] * by;
}

static MXReturnValue run(const texts &attrs, MXTensor &x, MXTensor &y) {
  scale(x.data<float>(), y.data<float>(), y.size(), std::stof(attrs.at("by")));
  return MX_SUCCESS;
}

static MXReturnValue forward(const texts &attrs, std::vector<MXTensor> *in,
                             std::vector<MXTensor> *out, const OpResource &) {
  return run(attrs, in->at(0), out->at(0));
}

static MXReturnValue backward(const texts &attrs, std::vector<MXTensor> *in,
                              std::vector<MXTensor> *out, const OpResource &) {
  // The input is the gradient of the output.
  return run(attrs, in->at(0), out->at(0));
}

static MXReturnValue parse(const texts &attrs, int *in, int *out) {
  if (!attrs.count("by")) return MX_FAIL;
  *in = *out = 1;
  return MX_SUCCESS;
}

static MXReturnValue types(const texts &, std::vector<int> *in, std::vector<int> *out) {
  if (in->at(0) != kFloat32) return MX_FAIL;
  out->at(0) = in->at(0);
  return MX_SUCCESS;
}

static MXReturnValue shapes(const texts &, std::vector<std::vector<unsigned>> *in,
                            std::vector<std::vector<unsigned>> *out) {
  out->at(0) = in->at(0);
  return MX_SUCCESS;
}

REGISTER_OP(direct_scale)
    .setForward(forward, "cpu")
    .setBackward(backward, "cpu")
    .setParseAttrs(parse)
    .setInferType(types)
    .setInferShape(shapes);

MXReturnValue initialize(int version) { return version >= 10900 ? MX_SUCCESS : MX_FAIL; }
