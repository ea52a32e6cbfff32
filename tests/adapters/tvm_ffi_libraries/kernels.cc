// Functions of tvm-ffi of every kind, for tests/adapters/tvm_ffi_test.py, which builds them with
// the headers of the installed package.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include <cstdlib>

namespace ffi = tvm::ffi;
using ffi::Array;
using ffi::Optional;
using ffi::String;
using ffi::Tensor;
using ffi::TensorView;

#define EXPORT(name) TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, name##_)

static float *floats(const TensorView &x) { return static_cast<float *>(x.data_ptr()); }
static float *floats(const Tensor &x) { return static_cast<float *>(x.data_ptr()); }
static int64_t count(const TensorView &x) {
  int64_t n = 1;
  for (int i = 0; i < x.ndim(); i++)
    n *= x.size(i);
  return n;
}
static Tensor like(const TensorView &x) {
  return Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
}

// Functions that write to tensors.
void add_one_(TensorView x, TensorView y) {
  if (x.ndim() != 1) TVM_FFI_THROW(ValueError) << "x must have one axis, found " << x.ndim();
  for (int64_t i = 0; i < count(x); i++)
    floats(y)[i] = floats(x)[i] + 1;
}
EXPORT(add_one)
void scale_into_(TensorView out, TensorView x, double by) {
  for (int64_t i = 0; i < count(x); i++)
    floats(out)[i] = floats(x)[i] * static_cast<float>(by);
}
EXPORT(scale_into)
void add3_(TensorView a, TensorView b, TensorView c, TensorView out) {
  for (int64_t i = 0; i < count(a); i++)
    floats(out)[i] = floats(a)[i] + floats(b)[i] + floats(c)[i];
}
EXPORT(add3)
void sum_into_(Array<Tensor> xs, TensorView out) {
  for (int64_t i = 0; i < count(out); i++)
    floats(out)[i] = 0;
  for (Tensor x : xs)
    for (int64_t i = 0; i < count(out); i++)
      floats(out)[i] += floats(x)[i];
}
EXPORT(sum_into)
void into_object_(Tensor x, Tensor out) {
  for (int64_t i = 0; i < count(out); i++)
    floats(out)[i] = -floats(x)[i];
}
EXPORT(into_object)

// Functions that return tensors.
Tensor scaled_(TensorView x, double by) {
  Tensor out = like(x);
  for (int64_t i = 0; i < count(x); i++)
    floats(out)[i] = floats(x)[i] * static_cast<float>(by);
  return out;
}
EXPORT(scaled)
struct Malloc {
  void AllocData(DLTensor *t) { t->data = std::malloc(ffi::GetDataSize(*t)); }
  void FreeData(DLTensor *t) { std::free(t->data); }
};
Tensor own_memory_(TensorView x) {
  Tensor out = Tensor::FromNDAlloc(Malloc(), x.shape(), x.dtype(), x.device());
  for (int64_t i = 0; i < count(x); i++)
    floats(out)[i] = floats(x)[i] + 100;
  return out;
}
EXPORT(own_memory)
Tensor identity_(Tensor x) { return x; }
EXPORT(identity)
Tensor first_(Array<Tensor> xs) { return xs[0]; }
EXPORT(first)
ffi::Tuple<Tensor, Tensor> split_(TensorView x) {
  Tensor a = like(x), b = like(x);
  for (int64_t i = 0; i < count(x); i++) {
    floats(a)[i] = floats(x)[i] / 2;
    floats(b)[i] = floats(x)[i] - floats(x)[i] / 2;
  }
  ffi::Tuple<Tensor, Tensor> both(a, b);
  return both;
}
EXPORT(split)
Array<Tensor> swap_(Tensor a, Tensor b) {
  Array<Tensor> both = {b, a};
  return both;
}
EXPORT(swap)
Tensor as_int_(TensorView x) {
  return Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), DLDataType{kDLInt, 32, 1},
                              x.device());
}
EXPORT(as_int)
Tensor no_rows_(TensorView x) {
  return Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::Shape({0, 3}), x.dtype(), x.device());
}
EXPORT(no_rows)

// Other values.
int64_t add_ints_(int64_t a, int64_t b) { return a + b; }
EXPORT(add_ints)
double mul_floats_(double a, double b) { return a * b; }
EXPORT(mul_floats)
bool negate_(bool a) { return !a; }
EXPORT(negate)
String greet_(String name) { return String("hi ") + name; }
EXPORT(greet)
int64_t length_(String text) { return static_cast<int64_t>(text.size()); }
EXPORT(length)
int64_t maybe_(Optional<int64_t> a) { return a.has_value() ? a.value() : -1; }
EXPORT(maybe)
int64_t maybe_tensor_(Optional<Tensor> x) { return x.has_value() ? x.value().ndim() : -1; }
EXPORT(maybe_tensor)
int64_t dtype_bits_(DLDataType dtype) { return dtype.bits; }
EXPORT(dtype_bits)
int64_t device_type_(DLDevice device) { return device.device_type; }
EXPORT(device_type)
int64_t sum_ints_(Array<int64_t> xs) {
  int64_t n = 0;
  for (int64_t x : xs)
    n += x;
  return n;
}
EXPORT(sum_ints)
int64_t shape_product_(ffi::Shape shape) {
  int64_t n = 1;
  for (int64_t x : shape)
    n *= x;
  return n;
}
EXPORT(shape_product)
double sum_floats_(Array<double> xs) {
  double n = 0;
  for (double x : xs)
    n += x;
  return n;
}
EXPORT(sum_floats)
String join_(Array<String> xs) {
  String all("");
  for (String x : xs)
    all = all + x;
  return all;
}
EXPORT(join)
ffi::Tuple<int64_t, double> numbers_(int64_t a) {
  ffi::Tuple<int64_t, double> both(a, a * 0.5);
  return both;
}
EXPORT(numbers)
void nothing_() {}
EXPORT(nothing)
int64_t many_(TensorView x, int64_t a, double b, bool c, String d, DLDataType e, DLDevice f,
              Optional<int64_t> g) {
  return count(x) + a + static_cast<int64_t>(b) + c + static_cast<int64_t>(d.size()) + e.bits +
         f.device_type + (g.has_value() ? g.value() : 0);
}
EXPORT(many)
int64_t stream_(TensorView x) {
  return reinterpret_cast<int64_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
}
EXPORT(stream)

// Errors.
void fail_(String kind, String text) {
  if (kind == "ValueError") TVM_FFI_THROW(ValueError) << text;
  if (kind == "TypeError") TVM_FFI_THROW(TypeError) << text;
  if (kind == "IndexError") TVM_FFI_THROW(IndexError) << text;
  if (kind == "std") throw std::runtime_error(std::string(text));
  TVM_FFI_THROW(RuntimeError) << text;
}
EXPORT(fail)
static Optional<Tensor> kept;
void keep_(Tensor x) { kept = x; }
EXPORT(keep)
int64_t kept_is_empty_() { return kept.has_value() && kept.value().data_ptr() == nullptr; }
EXPORT(kept_is_empty)

// Tenon cannot call this one.
int64_t apply_(ffi::Function f) { return f(1).cast<int64_t>(); }
EXPORT(apply)
#ifdef WITH_GLOBAL
// Calls a function that Python has registered.
int64_t call_global_(String name, Tensor x) {
  return ffi::Function::GetGlobalRequired(name)(x).cast<int64_t>();
}
EXPORT(call_global)
#endif
