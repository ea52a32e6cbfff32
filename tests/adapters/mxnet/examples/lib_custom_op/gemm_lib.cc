// A matrix product with its gradient, stateless and stateful: the operators of MXNet's example of
// the same name, written for
// this test, which uses them where MXNet's source tree is missing.  Interface VERSION 7 (MXNet 1.7)
// or 11 (MXNet 1.9).
#include <string>
#include <unordered_map>
#include <vector>

#include "lib_api.h"
#if VERSION != 7
using namespace mxnet::ext;
#endif

typedef std::unordered_map<std::string, std::string> Attrs;
typedef std::vector<MXTensor> Tensors;

struct Matrix {
  const float *data;
  int64_t rows, columns, row, column; // the last two: steps in memory
};

static Matrix matrix_of(MXTensor &t) {
  return {t.data<float>(), t.shape[0], t.shape[1], t.shape[1], 1};
}

static Matrix transposed(const Matrix &m) { return {m.data, m.columns, m.rows, m.column, m.row}; }

static void multiply(const Matrix &a, const Matrix &b, float *out) {
  for (int64_t i = 0; i < a.rows; i++)
    for (int64_t j = 0; j < b.columns; j++) {
      float sum = 0;
      for (int64_t k = 0; k < a.columns; k++)
        sum += a.data[i * a.row + k * a.column] * b.data[k * b.row + j * b.column];
      out[i * b.columns + j] = sum;
    }
}

static MXReturnValue forward(const Attrs &, Tensors *in, Tensors *out, const OpResource &) {
  multiply(matrix_of(in->at(0)), matrix_of(in->at(1)), out->at(0).data<float>());
  return MX_SUCCESS;
}

// dC, A, B, C to dA, dB.
static MXReturnValue backward(const Attrs &, Tensors *in, Tensors *out, const OpResource &) {
  Matrix slope = matrix_of(in->at(0)), a = matrix_of(in->at(1)), b = matrix_of(in->at(2));
  multiply(slope, transposed(b), out->at(0).data<float>());
  multiply(transposed(a), slope, out->at(1).data<float>());
  return MX_SUCCESS;
}

static MXReturnValue parse_attrs(const Attrs &, int *inputs, int *outputs) {
  *inputs = 2;
  *outputs = 1;
  return MX_SUCCESS;
}

static MXReturnValue infer_type(const Attrs &, std::vector<int> *in, std::vector<int> *out) {
  if (in->at(0) != kFloat32 || in->at(1) != kFloat32) return MX_FAIL;
  out->at(0) = kFloat32;
  return MX_SUCCESS;
}

static MXReturnValue infer_shape(const Attrs &, std::vector<std::vector<unsigned int>> *in,
                                 std::vector<std::vector<unsigned int>> *out) {
  const std::vector<unsigned int> &a = in->at(0), &b = in->at(1);
  if (a.size() != 2 || b.size() != 2 || a[1] != b[0]) return MX_FAIL;
  out->at(0) = {a[0], b[1]};
  return MX_SUCCESS;
}

REGISTER_OP(my_gemm)
    .setForward(forward, "cpu")
    .setBackward(backward, "cpu")
    .setParseAttrs(parse_attrs)
    .setInferType(infer_type)
    .setInferShape(infer_shape);

class StatefulGemm : public CustomStatefulOp {
public:
  explicit StatefulGemm(const Attrs &attrs) : attrs_(attrs) {}
  MXReturnValue Forward(Tensors *in, Tensors *out, const OpResource &resource) {
    calls_++;
    return forward(attrs_, in, out, resource);
  }
  MXReturnValue Backward(Tensors *in, Tensors *out, const OpResource &resource) {
    // the state must be the one that went forward
    return calls_ ? backward(attrs_, in, out, resource) : MX_FAIL;
  }

private:
  Attrs attrs_;
  int calls_ = 0;
};

#if VERSION == 7
static MXReturnValue create_state(const Attrs &attrs, CustomStatefulOp **out) {
#else
static MXReturnValue create_state(const Attrs &attrs, const MXContext &,
                                  const std::vector<std::vector<unsigned int>> &,
                                  const std::vector<int>, CustomStatefulOp **out) {
#endif
  *out = new StatefulGemm(attrs);
  return MX_SUCCESS;
}

REGISTER_OP(state_gemm)
    .setParseAttrs(parse_attrs)
    .setInferType(infer_type)
    .setInferShape(infer_shape)
    .setCreateOpState(create_state, "cpu");

MXReturnValue initialize(int version) { return version >= 10700 ? MX_SUCCESS : MX_FAIL; }
