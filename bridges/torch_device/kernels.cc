// Operators of PyTorch, computed by operators of Tenon on the device.
//
// A plan says how: "CALL op operand...", one line for each call of a Tenon operator, with one
// operand for each argument of its schema, in the schema's order.  tenon/torch/device/operators.py
// writes plans.  Operands:
//   A3     argument 3 of PyTorch's operator; as a tensor it takes part in type promotion
//   a3     the same without promotion
//   C1     the result of call 1 of the plan
//   O3     a list of one int, argument 3
//   P3     the list of ints in argument 3, twice: padding before and after each axis
//   M3     minus the length of the list in argument 3
//   D3     the dtype of argument 3
//   I5 F0.5 L1,2 Stext   an int, a float, a list of ints, a text
//   N      nothing: the default
// Lines before the calls: "WHEN 3 VALUE" the plan serves calls whose argument 3 has this value, or,
// with "!VALUE", another one; "WHEN 3 none" tests for an omitted argument.
// "FLOAT" integers are promoted to the default float dtype.
// If several plans exist for an operator, the first that serves a call computes it.  Calls that no
// plan serves, and calls for which the device has no kernel, run on the CPU.
#include "backend.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <torch/library.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <forward_list>
#include <map>
#include <sstream>

#include "functions.h"

namespace tenon_torch {
namespace {

struct Operand {
  char kind = 'N';
  size_t index = 0;
  int64_t number = 0;
  double real = 0;
  std::string text;
  std::vector<int64_t> list;
};

struct Call {
  const tenon_op_t *op = nullptr;
  std::vector<tenon_argument_t> parameters; // inputs, then attributes
  std::vector<Operand> operands;
  size_t output_count = 0;

  // Is the value of this operand an element of the computation, and not a number for the host?
  bool takes_tensor(size_t operand) const {
    return parameters[operand].role == TENON_ARGUMENT_INPUT && !parameters[operand].is_host;
  }
};

} // namespace

// The plan serves calls whose argument has this value; `is_negated`: another value.
struct Condition {
  size_t index = 0;
  std::string value;
  bool is_negated = false;
  bool is_int = false;
  int64_t number = 0; // is_int
};

struct Plan {
  std::vector<Condition> conditions;
  std::vector<Call> calls;
  std::vector<size_t> promoted; // arguments of PyTorch's operator
  bool is_float = false;
};

namespace {

[[noreturn]] void refuse_plan(const std::string &plan, const std::string &why) {
  TORCH_CHECK(false, "a plan for device ", device_name(), " is not valid: ", why, ": ", plan);
}

// Parses a number with a point, whatever the locale is.
double parse_real(const std::string &text) {
  double number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Operand parse_operand(const std::string &word, const std::string &plan) {
  Operand o;
  o.kind = word[0];
  const std::string rest = word.substr(1);
  switch (o.kind) {
  case 'A':
  case 'a':
  case 'C':
  case 'D':
  case 'O':
  case 'P':
  case 'M':
    o.index = std::stoul(rest);
    break;
  case 'I':
    o.number = std::stoll(rest);
    break;
  case 'F':
    o.real = parse_real(rest);
    break;
  case 'S':
    o.text = rest;
    break;
  case 'N':
    break;
  case 'L': {
    std::istringstream numbers(rest);
    for (std::string number; std::getline(numbers, number, ',');)
      o.list.push_back(std::stoll(number));
    break;
  }
  default:
    refuse_plan(plan, "unknown operand '" + word + "'");
  }
  return o;
}

Call parse_call(std::istringstream &words, const std::string &plan) {
  Call call;
  std::string name;
  words >> name;
  check_status(tenon_op_find(name.c_str(), &call.op));
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(call.op, &info);
  // The plan needs the operator as long as the process, so its library stays loaded.
  if (info.library_path && *info.library_path)
    check_status(tenon_library_load(info.library_path, 0, nullptr));
  for (uint32_t role : {TENON_ARGUMENT_INPUT, TENON_ARGUMENT_ATTR}) {
    const int32_t count = role == TENON_ARGUMENT_INPUT ? info.input_count : info.attr_count;
    for (int32_t i = 0; i < count; i++) {
      tenon_argument_t argument = {.size = sizeof argument};
      check_status(tenon_op_argument(call.op, role, i, &argument));
      call.parameters.push_back(argument);
    }
  }
  call.output_count = (size_t)info.output_count;
  for (std::string word; words >> word;)
    call.operands.push_back(parse_operand(word, plan));
  if (call.operands.size() > call.parameters.size())
    refuse_plan(plan, "operator " + name + " has " + std::to_string(call.parameters.size()) +
                          " arguments, found " + std::to_string(call.operands.size()));
  return call;
}

// Can this operand be the value of this argument of Tenon's operator?  Values of arguments of
// PyTorch's operator are checked at the call.
bool fits_argument(const Operand &o, const tenon_argument_t &to) {
  const bool is_input = to.role == TENON_ARGUMENT_INPUT;
  const bool is_ints = to.kind == TENON_KIND_INTS || to.kind == TENON_KIND_DIMS;
  const bool is_int = to.kind == TENON_KIND_INT || to.kind == TENON_KIND_DIM;
  switch (o.kind) {
  case 'C':
    return is_input && to.kind == TENON_KIND_TENSOR;
  case 'D':
    return !is_input && to.kind == TENON_KIND_DTYPE;
  case 'O':
  case 'P':
  case 'L':
    return is_input ? to.is_host != 0 : is_ints;
  case 'M':
    return !is_input && is_int;
  case 'I':
    return is_input || is_int || to.kind == TENON_KIND_BOOL || to.kind == TENON_KIND_FLOAT;
  case 'F':
    return is_input || to.kind == TENON_KIND_FLOAT;
  case 'S':
    return !is_input && (to.kind == TENON_KIND_STR || to.kind == TENON_KIND_CHOICE ||
                         to.kind == TENON_KIND_DTYPE);
  default:
    return true;
  }
}

void check_call(const Call &call, const std::string &plan) {
  if (!call.output_count) refuse_plan(plan, "a call has no result");
  for (const tenon_argument_t &argument : call.parameters)
    if (argument.is_written)
      refuse_plan(plan, std::string("a call writes to its argument ") + argument.name);
  for (size_t i = 0; i < call.operands.size(); i++)
    if (!fits_argument(call.operands[i], call.parameters[i]))
      refuse_plan(plan, std::string("the value of ") + call.parameters[i].name +
                            " is of another kind than the argument");
}

Condition parse_condition(size_t index, const std::string &text) {
  Condition c;
  c.index = index;
  c.is_negated = text[0] == '!';
  c.value = text.substr(c.is_negated);
  const char *end = c.value.data() + c.value.size();
  c.is_int = std::from_chars(c.value.data(), end, c.number).ptr == end;
  return c;
}

Plan parse_plan(const std::string &text, size_t argument_count) {
  Plan plan;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "FLOAT") {
      plan.is_float = true;
    } else if (word == "WHEN") {
      size_t index = 0;
      std::string value;
      words >> index >> value;
      if (!words || index >= argument_count) refuse_plan(text, "WHEN names no argument");
      plan.conditions.push_back(parse_condition(index, value));
    } else if (word == "CALL") {
      plan.calls.push_back(parse_call(words, text));
      check_call(plan.calls.back(), text);
    } else {
      refuse_plan(text, "unknown line '" + line + "'");
    }
  }
  if (plan.calls.empty()) refuse_plan(text, "it has no CALL");
  std::vector<bool> is_seen(argument_count);
  for (size_t i = 0; i < plan.calls.size(); i++) {
    for (size_t operand = 0; operand < plan.calls[i].operands.size(); operand++) {
      const Operand &o = plan.calls[i].operands[operand];
      const bool is_argument = std::string("AaDOPM").find(o.kind) != std::string::npos;
      if (is_argument && o.index >= argument_count) refuse_plan(text, "there is no such argument");
      if (o.kind == 'C' && o.index >= i) refuse_plan(text, "a call uses the result of a later one");
      if (o.kind != 'A' || is_seen[o.index] || !plan.calls[i].takes_tensor(operand)) continue;
      plan.promoted.push_back(o.index);
      is_seen[o.index] = true;
    }
  }
  return plan;
}

// ---- one call ----------------------------------------------------------------------------------

// One call of PyTorch's operator while a plan computes it.
struct Frame {
  const Plan &plan;
  c10::ArrayRef<c10::IValue> arguments;
  at::ScalarType common = at::ScalarType::Undefined; // the dtype that arguments are promoted to
  c10::SmallVector<TensorRef, 4> held;               // views of arguments
  c10::SmallVector<at::Tensor, 2> tensors;           // converted arguments, which the views need
  c10::SmallVector<TensorRef, 4> firsts;             // the first result of each call but the last
  c10::SmallVector<TensorRef, 4> results;            // of the last call
  std::forward_list<std::vector<int64_t>> ints;
  std::forward_list<std::vector<tenon_tensor_t *>> lists;
  std::forward_list<std::string> texts;
  bool is_served = true;         // false: Tenon has no such dtype or rank
  bool is_unimplemented = false; // after a refusal: in this way, and not because of an argument

  // Returns a view of a tensor that lives as long as the frame.
  tenon_tensor_t *view(const at::Tensor &t) {
    held.push_back(shared_view(t));
    is_served = is_served && held.back();
    return held.back().get();
  }
  tenon_tensor_t *hold(at::Tensor t) {
    tensors.push_back(std::move(t));
    return view(tensors.back());
  }
};

bool has_value(const c10::IValue &value, const Condition &condition) {
  const std::string &wanted = condition.value;
  if (value.isNone()) return wanted == "none";
  if (value.isBool()) return wanted == (value.toBool() ? "true" : "false");
  if (value.isInt()) return condition.is_int && value.toInt() == condition.number;
  if (value.isDouble())
    return wanted.find_first_of("0123456789") == 0 && value.toDouble() == parse_real(wanted);
  if (value.isString()) return value.toStringRef() == wanted;
  if (value.isIntList()) {
    std::string text;
    for (int64_t i : value.toIntVector())
      text += (text.empty() ? "" : ",") + std::to_string(i);
    return text == wanted;
  }
  if (value.isTensor()) return wanted == "tensor" && value.toTensor().defined();
  return false;
}

bool serves(const Plan &plan, c10::ArrayRef<c10::IValue> arguments) {
  for (const Condition &c : plan.conditions)
    if (has_value(arguments[c.index], c) == c.is_negated) return false;
  return true;
}

// Finds the dtype to which PyTorch promotes the arguments of a pointwise operator.
at::ScalarType common_type(const Plan &plan, c10::ArrayRef<c10::IValue> arguments) {
  at::native::ResultTypeState state = {};
  for (size_t i : plan.promoted) {
    const c10::IValue &value = arguments[i];
    if (value.isTensor() && value.toTensor().defined())
      state = at::native::update_result_type_state(value.toTensor(), state);
    else if (value.isTensorList())
      for (const at::Tensor &t : value.toTensorVector())
        state = at::native::update_result_type_state(t, state);
    else if (value.isScalar())
      state = at::native::update_result_type_state(value.toScalar(), state);
  }
  const at::ScalarType type = at::native::result_type(state);
  if (plan.is_float && c10::isIntegralType(type, true))
    return c10::typeMetaToScalarType(c10::get_default_dtype());
  return type;
}

tenon_tensor_t *input_tensor(Frame &f, const at::Tensor &t, bool is_promoted) {
  const bool converts = is_promoted && t.scalar_type() != f.common;
  return converts ? f.hold(t.to(f.common)) : f.view(t);
}

// Returns a number as a tensor. A number that the dtype cannot hold becomes infinite, as in
// PyTorch's own kernels.
at::Tensor number_tensor(const at::Scalar &number, at::ScalarType type) {
  at::ScalarType widest = at::kDouble;
  if (number.isComplex()) widest = at::kComplexDouble;
  if (number.isIntegral(true)) widest = at::kLong;
  return at::scalar_tensor(number, at::dtype(widest)).to(type);
}

// Sets the value of a tensor argument of Tenon's operator.
void set_input(Frame &f, const Operand &o, const tenon_argument_t &to, tenon_value_t *out) {
  const c10::IValue &value = f.arguments[o.index];
  const bool is_promoted = o.kind == 'A';
  out->kind = TENON_KIND_TENSOR;
  if (value.isNone() || (value.isTensor() && !value.toTensor().defined())) {
    out->kind = TENON_KIND_NONE;
  } else if (value.isTensor()) {
    out->as.tensor = input_tensor(f, value.toTensor(), is_promoted);
  } else if (value.isTensorList()) {
    auto &list = f.lists.emplace_front();
    for (const at::Tensor &t : value.toTensorVector())
      list.push_back(input_tensor(f, t, is_promoted));
    out->kind = TENON_KIND_TENSORS;
    out->count = (uint32_t)list.size();
    out->as.tensors = list.data();
  } else if (value.isScalar()) {
    const auto type = to.is_host ? at::ScalarType::Long : f.common;
    out->as.tensor = f.hold(number_tensor(value.toScalar(), type));
  } else if (value.isIntList()) {
    out->as.tensor = f.hold(at::tensor(value.toIntVector(), at::dtype(at::kLong)));
  } else {
    f.is_served = false;
  }
}

void set_text(Frame &f, const std::string &text, const tenon_argument_t &to, tenon_value_t *out) {
  if (to.kind == TENON_KIND_CHOICE) {
    uint32_t i = 0;
    while (i < to.choice_count && text != to.choices[i])
      i++;
    f.is_served = f.is_served && i < to.choice_count;
    out->as.i = i;
    return;
  }
  f.texts.push_front(text);
  out->count = (uint32_t)text.size();
  out->as.s = f.texts.front().c_str();
}

// Sets a list of ints.
void set_list(Frame &f, std::vector<int64_t> list, const tenon_argument_t &to, tenon_value_t *out) {
  if (to.role == TENON_ARGUMENT_INPUT) {
    out->kind = TENON_KIND_TENSOR;
    out->as.tensor = f.hold(at::tensor(list, at::dtype(at::kLong)));
    return;
  }
  f.ints.push_front(std::move(list));
  out->kind = to.kind;
  out->count = (uint32_t)f.ints.front().size();
  out->as.ints = f.ints.front().data();
}

std::vector<int64_t> ints_of(const c10::IValue &value) {
  return value.isIntList() ? value.toIntVector() : std::vector<int64_t>{value.toInt()};
}

std::vector<int64_t> twice(std::vector<int64_t> list) {
  list.reserve(2 * list.size());
  list.insert(list.end(), list.begin(), list.begin() + (ptrdiff_t)list.size());
  return list;
}

// Sets the value of an attribute of Tenon's operator from an argument of PyTorch's.
void set_attribute(Frame &f, const c10::IValue &value, const tenon_argument_t &to,
                   tenon_value_t *out) {
  out->kind = to.kind;
  if (value.isNone()) {
    out->kind = TENON_KIND_NONE;
    return;
  }
  const bool is_number = value.isScalar();
  switch (to.kind) {
  case TENON_KIND_BOOL:
  case TENON_KIND_INT:
  case TENON_KIND_DIM: {
    if (is_number && !value.toScalar().isFloatingPoint())
      out->as.i = value.toScalar().toLong();
    else
      f.is_served = false;
    break;
  }
  case TENON_KIND_FLOAT:
    if (is_number && !value.toScalar().isComplex())
      out->as.f = value.toScalar().toDouble();
    else
      f.is_served = false;
    break;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
    if (value.isIntList() || value.isInt())
      set_list(f, ints_of(value), to, out);
    else
      f.is_served = false;
    break;
  case TENON_KIND_STR:
  case TENON_KIND_CHOICE:
    if (value.isString())
      set_text(f, value.toStringRef(), to, out);
    else
      f.is_served = false;
    break;
  case TENON_KIND_DTYPE:
    f.is_served = f.is_served && value.isInt() &&
                  dtype_to_tenon((at::ScalarType)value.toInt(), &out->as.dtype);
    break;
  default:
    f.is_served = false;
  }
}

// Sets the value of a constant of the plan.
void set_constant(Frame &f, const Operand &o, const tenon_argument_t &to, tenon_value_t *out) {
  const bool is_input = to.role == TENON_ARGUMENT_INPUT;
  out->kind = is_input ? (uint32_t)TENON_KIND_TENSOR : to.kind;
  if (o.kind == 'L') {
    set_list(f, o.list, to, out);
  } else if (is_input) {
    const at::Scalar number = o.kind == 'I' ? at::Scalar(o.number) : at::Scalar(o.real);
    const auto type = to.is_host ? at::ScalarType::Long : f.common;
    const bool has_fraction = o.kind == 'F' && c10::isIntegralType(type, true);
    f.is_served = f.is_served && !has_fraction;
    if (!has_fraction) out->as.tensor = f.hold(at::scalar_tensor(number, at::dtype(type)));
  } else if (o.kind == 'I' && to.kind == TENON_KIND_FLOAT) {
    out->as.f = (double)o.number;
  } else if (o.kind == 'I') {
    out->as.i = o.number;
  } else if (o.kind == 'F') {
    out->as.f = o.real;
  } else if (to.kind == TENON_KIND_DTYPE) {
    check_status(tenon_dtype_parse(o.text.c_str(), &out->as.dtype));
  } else {
    set_text(f, o.text, to, out);
  }
}

void set_value(Frame &f, const Operand &o, const tenon_argument_t &to, tenon_value_t *out) {
  const bool is_input = to.role == TENON_ARGUMENT_INPUT;
  if (o.kind == 'N') {
    out->kind = TENON_KIND_NONE;
  } else if (o.kind == 'C') {
    out->kind = TENON_KIND_TENSOR;
    out->as.tensor = f.firsts[o.index].get();
  } else if (o.kind == 'D') {
    out->kind = TENON_KIND_DTYPE;
    const at::ScalarType type = f.arguments[o.index].toTensor().scalar_type();
    f.is_served = f.is_served && dtype_to_tenon(type, &out->as.dtype);
  } else if (o.kind == 'O') {
    set_list(f, {f.arguments[o.index].toInt()}, to, out);
  } else if (o.kind == 'P') {
    set_list(f, twice(ints_of(f.arguments[o.index])), to, out);
  } else if (o.kind == 'M') {
    out->kind = to.kind;
    out->as.i = -(int64_t)f.arguments[o.index].toIntVector().size();
  } else if (o.kind != 'A' && o.kind != 'a') {
    set_constant(f, o, to, out);
  } else if (is_input) {
    set_input(f, o, to, out);
  } else {
    set_attribute(f, f.arguments[o.index], to, out);
  }
}

// Runs one call of the plan.  `out`: memory for the first result; NULL: it is created.
tenon_status_t run_call(Frame &f, const Call &call, tenon_tensor_t *out) {
  c10::SmallVector<tenon_value_t, 8> values(call.operands.size());
  for (size_t i = 0; i < values.size(); i++)
    set_value(f, call.operands[i], call.parameters[i], &values[i]);
  if (!f.is_served) return TENON_UNIMPLEMENTED;
  c10::SmallVector<tenon_tensor_t *, 4> made(call.output_count);
  made[0] = out;
  const tenon_status_t status =
      tenon_op_call_values(call.op, values.data(), (uint32_t)values.size(), made.data(), 0);
  for (size_t i = 0; i < made.size() && status == TENON_OK; i++)
    f.results.emplace_back(made[i] == out ? nullptr : made[i]);
  return status;
}

// ---- the kernel --------------------------------------------------------------------------------

// Are all tensors alike: dense floats of one shape on one device, so that nothing is promoted or
// broadcast, and the result is dense?
bool are_tensors_alike(c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor *first = nullptr;
  for (const c10::IValue &value : arguments) {
    if (value.isTensorList()) return false;
    if (!value.isTensor()) continue;
    const at::Tensor &t = value.toTensor();
    if (!t.defined() || !t.is_contiguous() || t.is_cpu() || !t.numel()) return false;
    if (!first && !at::isFloatingType(t.scalar_type())) return false;
    const bool is_same = !first || (t.sizes() == first->sizes() && t.device() == first->device() &&
                                    t.scalar_type() == first->scalar_type());
    if (!is_same) return false;
    if (!first) first = &t;
  }
  return first;
}

// A refusal is the reason of this call alone: another plan may serve it after all.
struct RefusalsOfCall {
  bool is_any = false;
  ~RefusalsOfCall() {
    if (is_any) forget_refusal();
  }
};

// The kernel of one operator of PyTorch: computes it by the first plan that serves the call.
struct Kernel final : c10::OperatorKernel {
  std::vector<Plan> plans;
  size_t return_count = 0;
  // The operator returns a new tensor, and PyTorch computes it by a call with `out`.  The plans are
  // a shortcut for calls of which it is plain what the result looks like.
  bool is_shortcut = false;
  std::vector<size_t> written; // the arguments that the operator writes to: `out`, or `self`
  bool is_pointwise = false;
  // What computes calls that no plan serves: several calls in C++, or the CPU.
  std::optional<c10::SafeKernelFunction> next;

  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys,
                  torch::jit::Stack *stack) {
    const size_t count = op.schema().arguments().size();
    const auto arguments = c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - count);
    RefusalsOfCall refusals;
    check_written(op, arguments);
    if (!is_shortcut || are_tensors_alike(arguments))
      for (const Plan &plan : plans) {
        if (!serves(plan, arguments)) continue;
        if (run(plan, arguments, stack)) return;
        refusals.is_any = true;
      }
    if (next)
      next->callBoxed(op, keys, stack);
    else
      run_on_cpu(op, stack);
  }

  bool run(const Plan &plan, c10::ArrayRef<c10::IValue> arguments, torch::jit::Stack *stack) const;

  // The tensors that the operator writes to must be on the device of its arguments, and must not
  // share a part of their memory with themselves or with another argument.
  void check_written(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) const {
    for (const size_t w : written) {
      const at::Tensor &out = arguments[w].toTensor();
      at::assert_no_internal_overlap(out);
      for (const c10::IValue &value : arguments) {
        if (value.isTensorList())
          for (const at::Tensor &t : value.toTensorVector())
            at::assert_no_overlap(out, t);
        if (!value.isTensor() || !value.toTensor().defined()) continue;
        const at::Tensor &t = value.toTensor();
        const bool is_number = t.device().is_cpu() && !t.dim();
        TORCH_CHECK(t.device() == out.device() || (is_number && !out.device().is_cpu()),
                    op.schema().name(),
                    ": Expected all tensors to be on the same device, but found ", t.device(),
                    " and ", out.device());
        at::assert_no_partial_overlap(out, t);
      }
    }
  }

  // Returns the strides that a result of this shape has.  Pointwise operators keep the order of the
  // strides of their first argument of the shape.  Empty: the result is contiguous.
  std::vector<int64_t> strides_of_result(c10::ArrayRef<c10::IValue> arguments,
                                         at::IntArrayRef sizes) const {
    for (size_t i = 0; i < arguments.size() && is_pointwise; i++) {
      const bool is_input = std::find(written.begin(), written.end(), i) == written.end();
      if (!is_input || !arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
      const at::Tensor &t = arguments[i].toTensor();
      if (t.sizes() != sizes) continue;
      if (t.is_contiguous()) return {};
      return at::infer_dense_strides(sizes, t.strides());
    }
    return {};
  }
};

// Runs the calls of a plan.  Returns false if the device does not serve one of them.
// PyTorch has checked the arguments, so what Tenon refuses as invalid is beyond its declarations.
bool run_calls(Frame &f, tenon_tensor_t *out) {
  f.common = common_type(f.plan, f.arguments);
  for (size_t i = 0; i < f.plan.calls.size(); i++) {
    const bool is_last = i + 1 == f.plan.calls.size();
    if (i) f.firsts.push_back(std::move(f.results[0]));
    f.results.clear();
    const tenon_status_t status = run_call(f, f.plan.calls[i], is_last ? out : nullptr);
    if (status == TENON_UNIMPLEMENTED || status == TENON_INVALID) {
      if (f.is_served) keep_refusal();
      f.is_unimplemented = status == TENON_UNIMPLEMENTED;
      return false;
    }
    check_status(status);
  }
  return true;
}

// Returns whether a result may be written to the memory of `out` at once: Tenon compares its dtype
// and shape with those of the result.
bool takes_result(const at::Tensor &out) {
  return out.numel() && !out.is_conj() && !out.is_neg() && out.is_contiguous();
}

bool Kernel::run(const Plan &plan, c10::ArrayRef<c10::IValue> arguments,
                 torch::jit::Stack *stack) const {
  Frame f{plan, arguments};
  TensorRef direct;
  if (written.size() == 1 && takes_result(arguments[written[0]].toTensor()))
    direct = view_of(arguments[written[0]].toTensor());
  if (!run_calls(f, direct.get())) {
    if (!direct || f.is_unimplemented) return false;
    // The result may have another dtype or shape than `out`.
    direct = TensorRef();
    f.held.clear();
    f.firsts.clear();
    f.results.clear();
    if (!run_calls(f, nullptr)) return false;
  }
  c10::SmallVector<c10::IValue, 2> returned;
  for (size_t i = 0; i < return_count && !direct; i++) {
    at::Tensor made = tensor_over(std::move(f.results[i]));
    if (!written.empty()) {
      const at::Tensor out = arguments[written[i]].toTensor();
      if (out.scalar_type() != made.scalar_type()) return false;
      const bool is_resized =
          out.sizes() != made.sizes() && at::native::resize_output(out, made.sizes());
      const auto strides = strides_of_result(arguments, made.sizes());
      if (is_resized && !strides.empty()) out.as_strided_(made.sizes(), strides);
      out.copy_(made);
      made = out;
    } else if (const auto strides = strides_of_result(arguments, made.sizes()); !strides.empty()) {
      made = at::empty_strided(made.sizes(), strides, made.options()).copy_(made);
    }
    returned.emplace_back(made);
  }
  if (direct) returned.emplace_back(arguments[written[0]].toTensor());
  torch::jit::drop(*stack, arguments.size());
  for (c10::IValue &value : returned)
    stack->push_back(std::move(value));
  return true;
}

} // namespace

CorePlan::CorePlan(const char *text, size_t argument_count)
    : plan_(std::make_shared<const Plan>(parse_plan(text, argument_count))) {}

std::vector<at::Tensor> CorePlan::call(c10::ArrayRef<c10::IValue> arguments) const {
  Frame f{*plan_, arguments};
  std::vector<at::Tensor> made;
  if (!run_calls(f, nullptr)) return made;
  for (TensorRef &result : f.results)
    made.push_back(tensor_over(std::move(result)));
  return made;
}

bool device_has(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    const tenon_op_t *op = nullptr;
    check_status(tenon_op_find(name, &op));
    tenon_slot_info_t slot = {.size = sizeof slot};
    check_status(tenon_op_slot(op, backend_name().c_str(), &slot));
    if (slot.is_missing || !strcmp(slot.rule, "fallback")) return false;
  }
  return true;
}

namespace {

// Returns the kernel of an operator that is computed in C++: by composites.cc, or by PyTorch with a
// call of its variant with `out`.  It is looked up before the first plans of the operator take its
// place.
std::optional<c10::SafeKernelFunction> kernel_in_cpp(const std::string &aten,
                                                     const c10::OperatorHandle &op) {
  static auto &found = *new std::map<std::string, std::optional<c10::SafeKernelFunction>>;
  const auto known = found.find(aten);
  if (known != found.end()) return known->second;
  std::optional<c10::SafeKernelFunction> kernel;
  if (op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) ||
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional))
    kernel = op.getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
  return found.emplace(aten, kernel).first->second;
}

} // namespace

void add_plans(const std::string &aten, const std::string &text) {
  static auto *library = new torch::Library(torch::Library::IMPL, "aten",
                                            c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  const size_t dot = aten.find('.');
  const std::string name = aten.substr(0, dot);
  const std::string overload = dot == std::string::npos ? "" : aten.substr(dot + 1);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  const auto &schema = op.schema();
  auto kernel = std::make_unique<Kernel>();
  kernel->next = kernel_in_cpp(aten, op);
  kernel->is_shortcut =
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  // PyTorch differentiates the parts of such an operator, and not the operator.
  const bool is_composite =
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !kernel->is_shortcut;
  TORCH_CHECK(
      !is_composite, aten,
      " consists of other operators of PyTorch, and would have no gradient: give those rows");
  kernel->return_count = schema.returns().size();
  kernel->is_pointwise = op.hasTag(at::Tag::pointwise);
  for (size_t i = 0; i < schema.arguments().size(); i++) {
    const auto *alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) kernel->written.push_back(i);
  }
  TORCH_CHECK(kernel->written.empty() || kernel->written.size() == kernel->return_count, aten,
              " writes to arguments that it does not return, which a plan cannot do");
  std::istringstream plans(text);
  std::string plan;
  const auto add = [&] {
    if (plan.empty()) return;
    kernel->plans.push_back(parse_plan(plan, schema.arguments().size()));
    if (kernel->plans.back().calls.back().output_count < kernel->return_count)
      refuse_plan(plan, "its last call has fewer results than " + aten);
    plan.clear();
  };
  for (std::string line; std::getline(plans, line);) {
    if (line.empty())
      add();
    else
      plan += line + "\n";
  }
  add();
  library->impl(aten.substr(aten.find("::") + 2).c_str(),
                torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
}

} // namespace tenon_torch
