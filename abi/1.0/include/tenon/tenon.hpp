/* tenon/tenon.hpp: tenon.h for C++17 and later, header-only: handles that release themselves,
 * exceptions instead of statuses, and operators and kernels as lambdas.
 *
 *   tenon::registration scale =
 *       tenon::op("demo::scale(Tensor x, *, float by=2.0) -> Tensor")
 *           .types("x: f32; out = x")
 *           .pointwise([](float x, tenon::attribute<double> by) { return x * float(by); })
 *           .gradient("x: scale(grad, by=by)")
 *           .add();
 *   tenon::tensor y = tenon::call("demo::scale", x, tenon::attr("by", 3.0));
 *
 * Errors: a failure throws tenon::error, with the status and the message of tenon_error().  An
 * exception in a lambda becomes a status with its message.
 * Ownership: undo registrations before tenon_shutdown, not after.
 * Threads: several threads may call a lambda at the same time.  A handle belongs to one thread at a
 * time, and may be moved between threads. */
#ifndef TENON_TENON_HPP
#define TENON_TENON_HPP

#include <algorithm>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <tenon/tenon.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon {

/* ---- errors ---------------------------------------------------------------------------------- */

/* A failure of a function of tenon.h. */
class error : public std::runtime_error {
public:
  error(tenon_status_t status, const std::string &what)
      : std::runtime_error(what), status_(status) {}
  tenon_status_t status() const noexcept { return status_; }

private:
  tenon_status_t status_;
};

/* Throws the failure of the last call, unless `status` is TENON_OK. */
inline void check(tenon_status_t status) {
  if (status != TENON_OK) throw error(status, tenon_error());
}

namespace detail {

/* Runs code of the program for a C function, and turns an exception into a failure of `context`. */
template <class C, class F> tenon_status_t guard(C *context, F &&f) noexcept {
  try {
    f();
    return TENON_OK;
  } catch (const error &e) {
    return context->host->fail(context, e.status(), "%s", e.what());
  } catch (const std::bad_alloc &) {
    return context->host->fail(context, TENON_MEMORY, "out of memory");
  } catch (const std::exception &e) {
    return context->host->fail(context, TENON_INTERNAL, "%s", e.what());
  } catch (...) {
    return context->host->fail(context, TENON_INTERNAL, "an exception that is no std::exception");
  }
}

} // namespace detail

/* ---- dtypes ---------------------------------------------------------------------------------- */

/* The dtype of a C++ type: dtype_id<float> is TENON_F32.  Does not compile for types without a
 * dtype. */
template <class T> constexpr uint32_t dtype_of() {
  using U = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<U> && sizeof(U) <= 8, "no dtype is of this type");
  if constexpr (std::is_same_v<U, bool>)
    return TENON_BOOL;
  else
    return (std::is_floating_point_v<U> ? 2u
            : std::is_unsigned_v<U>     ? 1u
                                        : 0u) |
           uint32_t(sizeof(U)) * 8 << 8 | 1u << 16;
}
template <class T> constexpr uint32_t dtype_id = dtype_of<T>();

/* Contiguous elements. */
template <class T> class span {
public:
  span(T *data, int64_t size) : data_(data), size_(size) {}
  T *data() const { return data_; }
  int64_t size() const { return size_; }
  T *begin() const { return data_; }
  T *end() const { return data_ + size_; }
  T &operator[](int64_t i) const { return data_[i]; }

private:
  T *data_;
  int64_t size_;
};

namespace detail {

/* The elements of a dense tensor in host memory.  Throws if their dtype is not that of T. */
template <class T> span<T> elements(const tenon_tensor_t *t, const char *what) {
  if (!t) throw error(TENON_INVALID, std::string(what) + " is absent");
  if (tenon_dtype_id(t->dtype) != dtype_id<T>)
    throw error(TENON_INVALID, std::string(what) + ": expected dtype " +
                                   tenon_dtype_name(tenon_dtype(dtype_id<T>)) + ", found " +
                                   tenon_dtype_name(t->dtype));
  int64_t dense = 1;
  for (int32_t d = t->ndim - 1; d >= 0; dense *= t->shape[d--])
    if (t->shape[d] > 1 && t->strides[d] != dense)
      throw error(TENON_INVALID, std::string(what) + " is not row-major: use its strides");
  return {static_cast<T *>(t->data), dense};
}

} // namespace detail

/* ---- handles --------------------------------------------------------------------------------- */

/* A reference to a tensor, or empty.  Copies share the tensor. */
class tensor {
public:
  tensor() = default;
  /* Takes over a reference. */
  explicit tensor(tenon_tensor_t *taken) : tensor_(taken) {}
  tensor(const tensor &other) : tensor_(other.tensor_) { tenon_tensor_retain(tensor_); }
  tensor(tensor &&other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  tensor &operator=(tensor other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~tensor() { tenon_tensor_release(tensor_); }

  /* Creates a dense tensor in host memory, with undefined elements. */
  static tensor empty(tenon_dtype_t dtype, const std::vector<int64_t> &shape) {
    tensor made;
    check(tenon_tensor_create(dtype, int32_t(shape.size()), shape.data(), &made.tensor_));
    return made;
  }
  /* Creates a tensor in host memory with these elements, in row-major order. */
  template <class T>
  static tensor of(const std::vector<int64_t> &shape, std::initializer_list<T> values) {
    tensor made = empty(tenon_dtype(dtype_id<T>), shape);
    span<T> to = made.data<T>();
    if (to.size() != int64_t(values.size()))
      throw error(TENON_INVALID, std::to_string(values.size()) + " values for a tensor of " +
                                     std::to_string(to.size()));
    std::copy(values.begin(), values.end(), to.begin());
    return made;
  }

  explicit operator bool() const { return tensor_ != nullptr; }
  tenon_tensor_t *get() const { return tensor_; }
  /* Gives the reference to the caller. */
  tenon_tensor_t *release() { return std::exchange(tensor_, nullptr); }
  const tenon_tensor_t *operator->() const { return tensor_; }
  std::vector<int64_t> shape() const { return {tensor_->shape, tensor_->shape + tensor_->ndim}; }
  int64_t count() const { return tenon_count(tensor_); }
  /* The elements of a dense tensor in host memory.  Throws if their dtype is not that of T. */
  template <class T> span<T> data() const {
    if (tensor_ && tensor_->device.type != 1)
      throw error(TENON_INVALID, "the tensor is on a device: copy it with to()");
    return detail::elements<T>(tensor_, "the tensor");
  }
  /* Creates a dense copy on a device. */
  tensor to(tenon_device_t device) const {
    tensor made;
    check(tenon_tensor_copy_to(tensor_, device, &made.tensor_));
    return made;
  }

  const tensor &require_grad(bool is_on = true) const {
    check(tenon_tensor_require_grad(tensor_, is_on));
    return *this;
  }
  void backward(uint32_t flags = 0) const { check(tenon_backward(&tensor_, nullptr, 1, flags)); }
  /* The accumulated gradient; empty if there is none. */
  tensor grad() const {
    tensor lent(tenon_tensor_grad(tensor_));
    tenon_tensor_retain(lent.tensor_);
    return lent;
  }

private:
  tenon_tensor_t *tensor_ = nullptr;
};

namespace detail {
template <class T, void (*Release)(T *)> struct releaser {
  void operator()(T *handle) const { Release(handle); }
};
template <class T, void (*Release)(T *)> using handle = std::unique_ptr<T, releaser<T, Release>>;
} // namespace detail

/* A registration that its destructor undoes.  After keep(), it stays until shutdown. */
class registration {
public:
  registration() = default;
  explicit registration(tenon_registration_t *taken) : handle_(taken) {}
  void undo() { handle_.reset(); }
  void keep() { (void)handle_.release(); }
  explicit operator bool() const { return handle_ != nullptr; }

private:
  detail::handle<tenon_registration_t, tenon_registration_release> handle_;
};

/* A reference to a loaded library. */
class library {
public:
  explicit library(const std::string &path, uint32_t flags = 0) {
    tenon_library_t *loaded = nullptr;
    check(tenon_library_load(path.c_str(), flags, &loaded));
    handle_.reset(loaded);
  }
  /* Builds a library from its source, or takes it from the cache, and loads it. */
  static library from_source(const std::string &path, uint32_t flags = 0) {
    tenon_library_t *loaded = nullptr;
    check(tenon_library_load_source(path.c_str(), flags, &loaded));
    return library(loaded);
  }
  tenon_library_t *get() const { return handle_.get(); }
  std::string name() const { return tenon_library_name(get()); }
  std::string version() const { return tenon_library_version(get()); }
  void unload() {
    check(tenon_library_unload(get()));
    (void)handle_.release();
  }

private:
  explicit library(tenon_library_t *taken) : handle_(taken) {}
  detail::handle<tenon_library_t, tenon_library_release> handle_;
};

/* ---- calling --------------------------------------------------------------------------------- */

/* A named attribute in the arguments of a call. */
class attr {
public:
  attr(std::string name, bool value) : name_(std::move(name)) {
    value_.kind = TENON_KIND_BOOL;
    value_.as.i = value;
  }
  template <class I, std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>, int> = 0>
  attr(std::string name, I value) : name_(std::move(name)) {
    value_.kind = TENON_KIND_INT;
    value_.as.i = int64_t(value);
  }
  attr(std::string name, double value) : name_(std::move(name)) {
    value_.kind = TENON_KIND_FLOAT;
    value_.as.f = value;
  }
  attr(std::string name, tenon_dtype_t value) : name_(std::move(name)) {
    value_.kind = TENON_KIND_DTYPE;
    value_.as.dtype = value;
  }
  attr(std::string name, tenon_device_t value) : name_(std::move(name)) {
    value_.kind = TENON_KIND_DEVICE;
    value_.as.device = value;
  }
  attr(std::string name, std::string value) : name_(std::move(name)), text_(std::move(value)) {
    value_.kind = TENON_KIND_STR;
  }
  attr(std::string name, const char *value) : attr(std::move(name), std::string(value)) {}
  attr(std::string name, std::vector<int64_t> value)
      : name_(std::move(name)), ints_(std::move(value)) {
    value_.kind = TENON_KIND_INTS;
  }

  /* Sets the attribute in `attrs`. */
  void set(tenon_attrs_t *attrs) const {
    tenon_value_t value = value_;
    if (value.kind == TENON_KIND_STR) {
      value.count = uint32_t(text_.size());
      value.as.s = text_.c_str();
    }
    if (value.kind == TENON_KIND_INTS) {
      value.count = uint32_t(ints_.size());
      value.as.ints = ints_.data();
    }
    check(tenon_attrs_set(attrs, name_.c_str(), &value));
  }

private:
  std::string name_;
  std::string text_;
  std::vector<int64_t> ints_;
  tenon_value_t value_ = {TENON_KIND_NONE, 0, {0}};
};

/* An operator, found by name. */
class callable {
public:
  explicit callable(const std::string &name) {
    check(tenon_op_find(name.c_str(), &op_));
    info_.size = sizeof info_;
    tenon_op_info(op_, &info_);
  }
  const tenon_op_t *get() const { return op_; }

  /* Calls the operator and returns all results.
   *
   * Arguments: tensors in the schema's order, and attributes at any position.  nullptr omits a
   * tensor, a number becomes a tensor without dimensions, and a vector of tensors is a list. */
  template <class... A> std::vector<tensor> all(const A &...arguments) const {
    call_t call;
    (add(call, arguments), ...);
    if (call.inputs.size() > size_t(info_.input_count))
      throw error(TENON_INVALID,
                  std::string(info_.name) + ": " + std::to_string(call.inputs.size()) +
                      " tensors, expected at most " + std::to_string(info_.input_count));
    call.inputs.resize(size_t(info_.input_count) + 1);
    std::vector<tenon_tensor_t *> inputs;
    std::vector<tenon_tensor_t *> outputs(size_t(info_.output_count) + 1);
    for (const tensor &t : call.inputs)
      inputs.push_back(t.get());
    const tenon_value_t *values = nullptr;
    if (call.attrs) check(tenon_attrs_values(call.attrs.get(), &values));
    check(tenon_op_call(op_, values, inputs.data(), outputs.data(), 0));
    outputs.pop_back();
    std::vector<tensor> results;
    for (tenon_tensor_t *&t : outputs)
      results.emplace_back(t);
    return results;
  }
  /* Calls the operator and returns the first result. */
  template <class... A> tensor operator()(const A &...arguments) const {
    std::vector<tensor> results = all(arguments...);
    return results.empty() ? tensor() : std::move(results[0]);
  }

private:
  struct call_t {
    std::vector<tensor> inputs;
    detail::handle<tenon_attrs_t, tenon_attrs_release> attrs;
  };
  void add(call_t &call, const tensor &t) const { call.inputs.push_back(t); }
  void add(call_t &call, std::nullptr_t) const { call.inputs.emplace_back(); }
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  void add(call_t &call, T number) const {
    call.inputs.push_back(tensor::of<T>({}, {number}));
  }
  void add(call_t &call, const std::vector<tensor> &list) const {
    std::vector<tenon_tensor_t *> items;
    tenon_tensor_t *made = nullptr;
    for (const tensor &t : list)
      items.push_back(t.get());
    check(tenon_tensor_list(items.data(), int32_t(items.size()), &made));
    call.inputs.emplace_back(made);
  }
  void add(call_t &call, const attr &attribute) const {
    tenon_attrs_t *made = call.attrs.get();
    if (!made) {
      check(tenon_attrs_create(op_, &made));
      call.attrs.reset(made);
    }
    attribute.set(made);
  }

  const tenon_op_t *op_ = nullptr;
  tenon_op_info_t info_ = {};
};

/* Calls an operator by name and returns the first result: tenon::call("core::add", a, b). */
template <class... A> tensor call(const std::string &name, const A &...arguments) {
  return callable(name)(arguments...);
}

/* ---- arguments of lambdas -------------------------------------------------------------------- */

/* An attribute as a parameter of a pointwise lambda: a bool, an integer or a floating-point
 * number. */
template <class T> class attribute {
public:
  explicit attribute(const tenon_value_t &value)
      : value_(value.kind == TENON_KIND_FLOAT ? static_cast<T>(value.as.f)
                                              : static_cast<T>(value.as.i)) {}
  operator T() const { return value_; }

private:
  T value_;
};

/* A call of a kernel, layer or fallback. */
class kernel_call {
public:
  explicit kernel_call(tenon_call_t *call) : call_(call) {}
  tenon_call_t *get() const { return call_; }
  /* The i-th input; nullptr if it was omitted. */
  const tenon_tensor_t *input(int i) const { return call_->inputs[i]; }
  /* The i-th output; nullptr if it is not wanted. */
  tenon_tensor_t *output(int i) const { return call_->outputs[i]; }
  /* The elements of an input or output.  Throws if the tensor is not dense, or has another
   * dtype. */
  template <class T> span<const T> in(int i) const {
    span<T> found = detail::elements<T>(input(i), "an input");
    return {found.data(), found.size()};
  }
  template <class T> span<T> out(int i) const { return detail::elements<T>(output(i), "a result"); }
  template <class T> T attr(int i) const { return attribute<T>(call_->attrs[i]); }
  const tenon_value_t &value(int i) const { return call_->attrs[i]; }
  /* Passes the call on; see tenon_call_next. */
  void next() const { check(tenon_call_next(call_)); }
  /* Calls part(begin, end) for parts of [0, count) of at least `grain`, on several threads. */
  template <class F> void parallel(int64_t count, int64_t grain, F &&part) const {
    check(call_->host->parallel(
        call_, count, grain,
        [](tenon_call_t *call, void *f, int64_t begin, int64_t end) {
          return detail::guard(
              call, [&] { (*static_cast<std::remove_reference_t<F> *>(f))(begin, end); });
        },
        const_cast<void *>(static_cast<const void *>(&part))));
  }

private:
  tenon_call_t *call_;
};

/* The argument of infer: metas of inputs and results; see tenon_infer_t. */
class infer_call {
public:
  explicit infer_call(tenon_infer_t *infer) : infer_(infer) {}
  tenon_infer_t *get() const { return infer_; }
  const tenon_meta_t *input(int i) const { return infer_->inputs[i]; }
  tenon_meta_t *output(int i) const { return infer_->outputs[i]; }
  const tenon_value_t &value(int i) const { return infer_->attrs[i]; }
  tenon_dim_t dim(uint32_t operation, tenon_dim_t a, tenon_dim_t b) const {
    return tenon_dim(infer_, operation, a, b);
  }
  /* Sets the shape of a result. */
  void shape(int result, std::initializer_list<tenon_dim_t> dims) const {
    if (!output(result)) return;
    output(result)->ndim = int32_t(dims.size());
    std::copy(dims.begin(), dims.end(), output(result)->dims);
  }
  /* Sets the shape of a result to that of an input. */
  void like(int result, int of) const {
    if (!output(result)) return;
    output(result)->ndim = input(of)->ndim;
    std::copy(input(of)->dims, input(of)->dims + input(of)->ndim, output(result)->dims);
  }

private:
  tenon_infer_t *infer_;
};

/* ---- registering ----------------------------------------------------------------------------- */

namespace detail {

using kernel_fn = std::function<void(kernel_call &)>;
template <class P> void destroy(void *context) { delete static_cast<P *>(context); }

inline tenon_status_t run_kernel(tenon_call_t *call) {
  return guard(call, [&] {
    kernel_call c(call);
    (*static_cast<const kernel_fn *>(call->context))(c);
  });
}

/* The parameters and the result of a lambda. */
template <class F> struct signature : signature<decltype(&F::operator())> {};
template <class R, class... A> struct signature<R (*)(A...)> {
  static constexpr size_t count = sizeof...(A);
  using result = R;
  using arguments = std::tuple<std::decay_t<A>...>;
};
template <class C, class R, class... A>
struct signature<R (C::*)(A...) const> : signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct signature<R (C::*)(A...) const noexcept> : signature<R (*)(A...)> {};
template <class T> struct is_attribute : std::false_type {};
template <class T> struct is_attribute<attribute<T>> : std::true_type {};

/* A pointwise lambda: the text of its loop ("f32, f32 -> f32") and the loop. */
template <class F> struct pointwise {
  using S = signature<F>;
  template <size_t I> using argument = std::tuple_element_t<I, typename S::arguments>;
  /* The number of attributes among the first I parameters. */
  template <size_t I, size_t... K> static constexpr size_t attributes(std::index_sequence<K...>) {
    return (size_t(0) + ... + size_t(K < I && is_attribute<argument<K>>::value));
  }
  template <size_t I>
  static constexpr size_t before = attributes<I>(std::make_index_sequence<S::count>());
  static constexpr size_t inputs = S::count - before<S::count>;

  /* The attribute or the elements that the I-th parameter is read from. */
  template <size_t I> static auto source(const tenon_loop_t *loop) {
    if constexpr (is_attribute<argument<I>>::value)
      return argument<I>(loop->attrs[before<I>]);
    else
      return static_cast<const argument<I> *>(loop->data[I - before<I>]);
  }
  template <class T> static T at(const T *data, int64_t i) { return data[i]; }
  template <class T> static attribute<T> at(const attribute<T> &value, int64_t) { return value; }

  template <size_t... I>
  static void run(const F &f, const tenon_loop_t *loop, std::index_sequence<I...>) {
    auto sources = std::make_tuple(source<I>(loop)...);
    auto *out = static_cast<typename S::result *>(loop->data[inputs]);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] = f(at(std::get<I>(sources), i)...);
  }
  template <size_t I> static void name(std::string &text) {
    if constexpr (!is_attribute<argument<I>>::value)
      text += (text.empty() ? "" : ", ") +
              std::string(tenon_dtype_name(tenon_dtype(dtype_id<argument<I>>)));
  }
  template <size_t... I> static std::string text(std::index_sequence<I...>) {
    std::string made;
    (name<I>(made), ...);
    return made + " -> " + tenon_dtype_name(tenon_dtype(dtype_id<typename S::result>));
  }
};

/* The functions of an operator.  A C function finds its lambda by its index. */
struct functions {
  std::vector<kernel_fn> kernels;
  std::vector<std::function<void(const tenon_loop_t *)>> loops;
  std::function<void(infer_call &)> infer;
};
enum : size_t {
  functions_most = 16
};
template <size_t I> tenon_status_t kernel_at(tenon_call_t *call) {
  return guard(call, [&] {
    kernel_call c(call);
    static_cast<const functions *>(call->context)->kernels[I](c);
  });
}
template <size_t I> tenon_status_t loop_at(const tenon_loop_t *loop) {
  return guard(loop, [&] { static_cast<const functions *>(loop->context)->loops[I](loop); });
}
inline tenon_status_t run_infer(tenon_infer_t *infer) {
  return guard(infer, [&] {
    infer_call i(infer);
    static_cast<const functions *>(infer->context)->infer(i);
  });
}
/* The index of the C function for the count-th kernel, or loop. */
inline size_t place(size_t count) {
  if (count <= functions_most) return count - 1;
  throw error(TENON_RANGE,
              "an operator with more than 16 kernels or loops: add the others with tenon::on");
}
template <size_t... I> tenon_any_fn kernel_number(size_t count, std::index_sequence<I...>) {
  static constexpr tenon_run_fn all[] = {kernel_at<I>...};
  return reinterpret_cast<tenon_any_fn>(all[place(count)]);
}
template <size_t... I> tenon_any_fn loop_number(size_t count, std::index_sequence<I...>) {
  static constexpr tenon_loop_fn all[] = {loop_at<I>...};
  return reinterpret_cast<tenon_any_fn>(all[place(count)]);
}

} // namespace detail

/* An operator that the program defines.  Its declarations are those of op.h (docs/contract.md);
 * add() registers it. */
class op {
public:
  explicit op(const std::string &schema) : functions_(new detail::functions) {
    item(TENON_TAG_OP, schema);
  }
  op &doc(const std::string &text) { return item(TENON_TAG_DOC, text); }
  op &types(const std::string &text) { return item(TENON_TAG_TYPES, text); }
  op &shapes(const std::string &text) { return item(TENON_TAG_SHAPES, text); }
  op &where(const std::string &text) { return item(TENON_TAG_WHERE, text); }
  op &gradient(const std::string &text) { return item(TENON_TAG_GRADIENT, text); }
  op &batching(const std::string &text) { return item(TENON_TAG_BATCHING, text); }
  op &reuse(const std::string &text) { return item(TENON_TAG_REUSE, text); }
  /* The last call counts. */
  op &traits(int64_t bits) { return item(TENON_TAG_TRAITS, "", nullptr, bits); }
  op &infer(std::function<void(infer_call &)> function) {
    functions_->infer = std::move(function);
    return item(TENON_TAG_INFER, "", reinterpret_cast<tenon_any_fn>(detail::run_infer));
  }
  /* Adds a kernel.
   *
   * Arguments: `where`: the words of TENON_KERNEL: "cpu", "npu f32", "composite", "autograd", ...;
   * `function`: function(kernel_call &). */
  op &kernel(const std::string &where, detail::kernel_fn function) {
    functions_->kernels.push_back(std::move(function));
    return item(TENON_TAG_KERNEL, where,
                detail::kernel_number(functions_->kernels.size(), numbers()));
  }
  /* Adds a loop.
   *
   * Arguments: `types`: as in TENON_LOOP; `function`: function(const tenon_loop_t *). */
  op &loop(const std::string &types, std::function<void(const tenon_loop_t *)> function) {
    functions_->loops.push_back(std::move(function));
    return item(TENON_TAG_LOOP, types, detail::loop_number(functions_->loops.size(), numbers()));
  }
  /* Adds a loop that calls a lambda for each element, and sets the traits of pointwise operators.
   *
   * Arguments: the parameters of the lambda are elements, in the order of the tensor arguments, and
   * attribute<T>, in the order of the attributes.  Their types determine the dtypes of the loop. */
  template <class F> op &pointwise(F function) {
    using loop_of = detail::pointwise<F>;
    constexpr auto parameters = std::make_index_sequence<loop_of::S::count>();
    return traits(TENON_PURE | TENON_POINTWISE)
        .loop(loop_of::text(parameters),
              [f = std::move(function), parameters](const tenon_loop_t *loop) {
                loop_of::run(f, loop, parameters);
              });
  }
  /* Registers the operator.  This object cannot be used afterwards. */
  registration add() {
    tenon_registration_t *made = nullptr;
    item(TENON_TAG_END, "");
    check(tenon_op_add(items_.data(), functions_.get(), detail::destroy<detail::functions>, 0,
                       &made));
    (void)functions_.release();
    return registration(made);
  }

private:
  using numbers = std::make_index_sequence<detail::functions_most>;
  op &item(uint32_t tag, const std::string &text, tenon_any_fn function = nullptr,
           int64_t number = 0) {
    texts_.push_back(text); /* A deque: the other texts keep their addresses. */
    items_.push_back(
        {tag, 0, number, text.empty() && function ? nullptr : texts_.back().c_str(), function});
    return *this;
  }

  std::deque<std::string> texts_;
  std::vector<tenon_item_t> items_;
  std::unique_ptr<detail::functions> functions_;
};

/* Adds kernels to an existing operator: tenon::on("core::add").kernel("npu", function). */
class on {
public:
  explicit on(std::string name) : name_(std::move(name)) {}
  registration kernel(const std::string &where, detail::kernel_fn function,
                      uint32_t flags = 0) const {
    auto context = std::make_unique<detail::kernel_fn>(std::move(function));
    registration made =
        add(where, detail::run_kernel, context.get(), detail::destroy<detail::kernel_fn>, flags);
    (void)context.release();
    return made;
  }
  registration fallthrough(const std::string &key, uint32_t flags = 0) const {
    return add(key + " fallthrough", nullptr, nullptr, nullptr, flags);
  }
  /* Makes the operator fall back to the CPU. */
  registration fallback(const std::string &backend, uint32_t flags = 0) const {
    return add(backend, tenon_fallback_cpu, nullptr, nullptr, flags);
  }

private:
  registration add(const std::string &where, tenon_run_fn run, void *context, tenon_free_fn destroy,
                   uint32_t flags) const {
    tenon_registration_t *made = nullptr;
    check(tenon_kernel_add(name_.c_str(), where.c_str(), run, context, destroy, flags, &made));
    return registration(made);
  }

  std::string name_;
};

/* Registers the fallback of a backend or layer: the CPU's kernels, or a function. */
inline registration fallback(const std::string &key, uint32_t flags = 0) {
  tenon_registration_t *made = nullptr;
  check(tenon_fallback_add(key.c_str(), tenon_fallback_cpu, nullptr, nullptr, flags, &made));
  return registration(made);
}
inline registration fallback(const std::string &key, detail::kernel_fn function,
                             uint32_t flags = 0) {
  tenon_registration_t *made = nullptr;
  auto context = std::make_unique<detail::kernel_fn>(std::move(function));
  check(tenon_fallback_add(key.c_str(), detail::run_kernel, context.get(),
                           detail::destroy<detail::kernel_fn>, flags, &made));
  (void)context.release();
  return registration(made);
}

} // namespace tenon

#endif
