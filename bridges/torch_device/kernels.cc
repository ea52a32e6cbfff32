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
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <torch/library.h>

#include <charconv>
#include <cstring>
#include <deque>
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
};

struct Plan {
  std::vector<std::pair<size_t, std::string>> conditions;
  std::vector<Call> calls;
  std::vector<size_t> promoted; // arguments of PyTorch's operator
  bool is_float = false;
};

[[noreturn]] void refuse_plan(const std::string &plan, const std::string &why) {
  TORCH_CHECK(false, "a plan for device ", backend_name(), " is not valid: ", why, ": ", plan);
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
      plan.conditions.emplace_back(index, value);
    } else if (word == "CALL") {
      plan.calls.push_back(parse_call(words, text));
      check_call(plan.calls.back(), text);
    } else {
      refuse_plan(text, "unknown line '" + line + "'");
    }
  }
  if (plan.calls.empty()) refuse_plan(text, "it has no CALL");
  std::vector<bool> is_seen(argument_count);
  for (size_t i = 0; i < plan.calls.size(); i++)
    for (const Operand &o : plan.calls[i].operands) {
      const bool is_argument = std::string("AaDOPM").find(o.kind) != std::string::npos;
      if (is_argument && o.index >= argument_count) refuse_plan(text, "there is no such argument");
      if (o.kind == 'C' && o.index >= i) refuse_plan(text, "a call uses the result of a later one");
      if (o.kind == 'A' && !is_seen[o.index]) plan.promoted.push_back(o.index);
      if (o.kind == 'A') is_seen[o.index] = true;
    }
  return plan;
}

// ---- one call ----------------------------------------------------------------------------------

// One call of PyTorch's operator while a plan computes it.
struct Frame {
  const Plan &plan;
  c10::ArrayRef<c10::IValue> arguments;
  at::ScalarType common = at::ScalarType::Undefined; // the dtype that arguments are promoted to
  std::vector<TensorRef> held;                       // views of arguments
  std::vector<at::Tensor> tensors;                   // converted arguments, which the views need
  std::vector<std::vector<TensorRef>> results;       // of each call
  std::deque<std::vector<int64_t>> ints;
  std::deque<std::vector<double>> floats;
  std::deque<std::vector<tenon_tensor_t *>> lists;
  std::deque<std::string> texts;
  bool is_served = true; // false: Tenon has no such dtype

  tenon_tensor_t *hold(const at::Tensor &t) {
    tensors.push_back(t);
    TensorRef view = view_of(t);
    is_served = is_served && view;
    held.push_back(std::move(view));
    return held.back().get();
  }
};

bool has_value(const c10::IValue &value, const std::string &wanted) {
  if (value.isNone()) return wanted == "none";
  if (value.isBool()) return wanted == (value.toBool() ? "true" : "false");
  if (value.isInt()) return std::to_string(value.toInt()) == wanted;
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
  for (const auto &[index, value] : plan.conditions) {
    const bool is_negated = value[0] == '!';
    if (has_value(arguments[index], is_negated ? value.substr(1) : value) == is_negated)
      return false;
  }
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
  return f.hold(converts ? t.to(f.common) : t);
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
    auto &list = f.lists.emplace_back();
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
  f.texts.push_back(text);
  out->count = (uint32_t)text.size();
  out->as.s = f.texts.back().c_str();
}

// Sets a list of ints.
void set_list(Frame &f, std::vector<int64_t> list, const tenon_argument_t &to, tenon_value_t *out) {
  if (to.role == TENON_ARGUMENT_INPUT) {
    out->kind = TENON_KIND_TENSOR;
    out->as.tensor = f.hold(at::tensor(list, at::dtype(at::kLong)));
    return;
  }
  f.ints.push_back(std::move(list));
  out->kind = to.kind;
  out->count = (uint32_t)f.ints.back().size();
  out->as.ints = f.ints.back().data();
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
    out->as.tensor = f.results[o.index][0].get();
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
  std::vector<tenon_value_t> values(call.operands.size());
  for (size_t i = 0; i < values.size(); i++)
    set_value(f, call.operands[i], call.parameters[i], &values[i]);
  if (!f.is_served) return TENON_UNIMPLEMENTED;
  std::vector<tenon_tensor_t *> made(call.output_count);
  made[0] = out;
  const tenon_status_t status =
      tenon_op_call_values(call.op, values.data(), (uint32_t)values.size(), made.data(), 0);
  auto &results = f.results.emplace_back();
  for (size_t i = 0; i < made.size() && status == TENON_OK; i++)
    results.emplace_back(made[i] == out ? nullptr : made[i]);
  return status;
}

// ---- the kernel --------------------------------------------------------------------------------

// The kernel of one operator of PyTorch: computes it by the first plan that serves the call.
struct Kernel final : c10::OperatorKernel {
  std::vector<Plan> plans;
  size_t return_count = 0;
  std::vector<size_t> written; // the arguments that the operator writes to: `out`, or `self`

  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
    const size_t count = op.schema().arguments().size();
    const auto arguments = c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - count);
    for (const Plan &plan : plans)
      if (serves(plan, arguments) && run(plan, arguments, stack)) return;
    run_on_cpu(op, stack);
  }

  bool run(const Plan &plan, c10::ArrayRef<c10::IValue> arguments, torch::jit::Stack *stack) const;
};

// Runs the calls of a plan.  Returns false if the device does not serve one of them.
// PyTorch has checked the arguments, so what Tenon refuses as invalid is beyond its declarations.
bool run_calls(Frame &f, tenon_tensor_t *out) {
  f.common = common_type(f.plan, f.arguments);
  for (size_t i = 0; i < f.plan.calls.size(); i++) {
    const bool is_last = i + 1 == f.plan.calls.size();
    const tenon_status_t status = run_call(f, f.plan.calls[i], is_last ? out : nullptr);
    if (status == TENON_UNIMPLEMENTED || status == TENON_INVALID) return false;
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
    if (!direct) return false;
    // The result may have another dtype or shape than `out`.
    Frame again{plan, arguments};
    direct = TensorRef();
    if (!run_calls(again, nullptr)) return false;
    std::swap(f.results, again.results);
  }
  auto &results = f.results.back();
  std::vector<c10::IValue> returned;
  for (size_t i = 0; i < return_count && !direct; i++) {
    at::Tensor made = tensor_over(std::move(results[i]));
    if (!written.empty()) {
      const at::Tensor out = arguments[written[i]].toTensor();
      if (out.scalar_type() != made.scalar_type()) return false;
      if (out.sizes() != made.sizes()) (void)at::native::resize_output(out, made.sizes());
      out.copy_(made);
      made = out;
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

std::vector<at::Tensor> call_core(const char *text, c10::ArrayRef<c10::IValue> arguments) {
  const Plan plan = parse_plan(text, arguments.size());
  Frame f{plan, arguments};
  std::vector<at::Tensor> made;
  if (!run_calls(f, nullptr)) return made;
  for (TensorRef &result : f.results.back())
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

void add_plans(const std::string &aten, const std::string &text) {
  static auto *library = new torch::Library(torch::Library::IMPL, "aten",
                                            c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  const size_t dot = aten.find('.');
  const std::string name = aten.substr(0, dot);
  const std::string overload = dot == std::string::npos ? "" : aten.substr(dot + 1);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  const auto &schema = op.schema();
  auto kernel = std::make_unique<Kernel>();
  kernel->return_count = schema.returns().size();
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
