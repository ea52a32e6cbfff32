// The transpose of a sparse matrix (csr), stateless and stateful: the operators of MXNet's example
// of the same name, written for
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

static MXReturnValue forward(const Attrs &, Tensors *in, Tensors *out, const OpResource &resource) {
  if (in->at(0).stype != kCSRStorage || out->at(0).stype != kCSRStorage) return MX_FAIL;
  const MXSparse *from = in->at(0).data<MXSparse>();
  MXSparse *to = out->at(0).data<MXSparse>();
  int64_t rows = in->at(0).shape[0], columns = in->at(0).shape[1];
  resource.alloc_sparse(to, 0, static_cast<int>(from->data_len), static_cast<int>(columns + 1));
  // where the next element of each column goes
  std::vector<int64_t> next(static_cast<size_t>(columns + 1), 0);
  for (int64_t i = 0; i < from->data_len; i++)
    next[from->indices[i] + 1]++;
  for (int64_t c = 0; c < columns; c++)
    next[c + 1] += next[c];
  for (int64_t c = 0; c <= columns; c++)
    to->indptr[c] = next[c];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = from->indptr[r]; i < from->indptr[r + 1]; i++) {
      int64_t place = next[from->indices[i]]++;
      static_cast<float *>(to->data)[place] = static_cast<const float *>(from->data)[i];
      to->indices[place] = r;
    }
  return MX_SUCCESS;
}

static MXReturnValue parse_attrs(const Attrs &, int *inputs, int *outputs) {
  *inputs = 1;
  *outputs = 1;
  return MX_SUCCESS;
}

static MXReturnValue infer_type(const Attrs &, std::vector<int> *in, std::vector<int> *out) {
  if (in->at(0) != kFloat32) return MX_FAIL;
  out->at(0) = kFloat32;
  return MX_SUCCESS;
}

static MXReturnValue infer_storage(const Attrs &, std::vector<int> *in, std::vector<int> *out) {
  if (in->at(0) != kCSRStorage) return MX_FAIL;
  out->at(0) = kCSRStorage;
  return MX_SUCCESS;
}

static MXReturnValue infer_shape(const Attrs &, std::vector<std::vector<unsigned int>> *in,
                                 std::vector<std::vector<unsigned int>> *out) {
  const std::vector<unsigned int> &a = in->at(0);
  if (a.size() != 2) return MX_FAIL;
  out->at(0) = {a[1], a[0]};
  return MX_SUCCESS;
}

REGISTER_OP(my_transposecsr)
    .setForward(forward, "cpu")
    .setParseAttrs(parse_attrs)
    .setInferType(infer_type)
    .setInferSType(infer_storage)
    .setInferShape(infer_shape);

class StatefulTranspose : public CustomStatefulOp {
public:
  explicit StatefulTranspose(const Attrs &attrs) : attrs_(attrs) {}
  MXReturnValue Forward(Tensors *in, Tensors *out, const OpResource &resource) {
    return forward(attrs_, in, out, resource);
  }

private:
  Attrs attrs_;
};

#if VERSION == 7
static MXReturnValue create_state(const Attrs &attrs, CustomStatefulOp **out) {
#else
static MXReturnValue create_state(const Attrs &attrs, const MXContext &,
                                  const std::vector<std::vector<unsigned int>> &,
                                  const std::vector<int>, CustomStatefulOp **out) {
#endif
  *out = new StatefulTranspose(attrs);
  return MX_SUCCESS;
}

REGISTER_OP(my_state_transposecsr)
    .setParseAttrs(parse_attrs)
    .setInferType(infer_type)
    .setInferSType(infer_storage)
    .setInferShape(infer_shape)
    .setCreateOpState(create_state, "cpu");

MXReturnValue initialize(int version) { return version >= 10700 ? MX_SUCCESS : MX_FAIL; }
