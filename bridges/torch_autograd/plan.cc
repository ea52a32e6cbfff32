#include "plan.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ScalarOps.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace tenon_torch_autograd {
namespace {

[[noreturn]] void refuse_plan(const std::string &name, const std::string &why) {
  TORCH_CHECK(false, "the plan of the gradients of ", name, " is not valid: ", why);
}

// Parses a number with a point, whatever the locale is.
double parse_real(const std::string &text) {
  double number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

template <typename T, typename Parse>
c10::List<T> parse_list(const std::string &text, Parse parse) {
  c10::List<T> list;
  std::istringstream numbers(text);
  for (std::string number; std::getline(numbers, number, ',');)
    list.push_back(parse(number));
  return list;
}

int64_t parse_int(const std::string &text) { return std::stoll(text); }

std::optional<c10::IValue> parse_constant(char kind, const std::string &text) {
  switch (kind) {
  case 'I':
    return parse_int(text);
  case 'F':
    return parse_real(text);
  case 'B':
    return text == "1";
  case 'S':
    return text;
  case 'L':
    return parse_list<int64_t>(text, parse_int);
  case 'l':
    return parse_list<double>(text, parse_real);
  default:
    return std::nullopt;
  }
}

size_t index_of_read(const Plan &plan, Read read, const std::string &name) {
  const auto found = std::find(plan.reads.begin(), plan.reads.end(), read);
  if (found == plan.reads.end()) refuse_plan(name, "a step reads what its formula does not list");
  return (size_t)(found - plan.reads.begin());
}

Operand parse_operand(const Plan &plan, std::string word, const std::string &name) {
  Operand o;
  if (word[0] == 'h') {
    o.is_host = true;
    word.erase(0, 1);
  }
  o.kind = word[0];
  const std::string rest = word.substr(1);
  if (o.kind == 'A' || o.kind == 'R') {
    o.index = index_of_read(plan, {o.kind, std::stoul(rest)}, name);
    o.kind = 'A';
  } else if (o.kind == 'G' || o.kind == 'C') {
    o.index = std::stoul(rest);
  } else if (auto constant = parse_constant(o.kind, rest)) {
    o.kind = 'K';
    o.value = std::move(*constant);
  } else if (o.kind != 'W' && o.kind != 'N') {
    refuse_plan(name, "unknown operand '" + word + "'");
  }
  return o;
}

const c10::Type &without_optional(const c10::Type &type) {
  const auto *optional = type.castRaw<c10::OptionalType>();
  return optional ? *optional->getElementType() : type;
}

c10::List<double> real_list(const std::vector<int64_t> &list) {
  c10::List<double> reals;
  for (const int64_t i : list)
    reals.push_back((double)i);
  return reals;
}

// Prepares a constant for the argument that it becomes, since a call should not convert it again.
void prepare_constant(Operand &o, Target target) {
  if (o.kind != 'K') return;
  const bool is_whole = o.value.isInt() || o.value.isIntList();
  if (target == Target::Tensor && is_whole)
    o.value = number_tensor(o.value, at::kLong);
  else if (target == Target::Tensor && o.value.isDouble())
    for (const at::ScalarType type : float_types)
      o.floats.push_back(number_tensor(o.value, type));
  else if (target == Target::Float && o.value.isInt())
    o.value = (double)o.value.toInt();
  else if (target == Target::Floats && o.value.isIntList())
    o.value = real_list(o.value.toIntVector());
}

Step parse_operator_call(const Plan &plan, std::istringstream &words, const std::string &name) {
  Step step;
  std::string called;
  std::string overload;
  words >> called >> overload;
  if (overload == "default") overload.clear();
  step.op = c10::Dispatcher::singleton().findSchemaOrThrow(called.c_str(), overload.c_str());
  const auto &arguments = step.op->schema().arguments();
  for (std::string word; words >> word;)
    step.operands.push_back(parse_operand(plan, word, name));
  if (step.operands.size() != arguments.size())
    refuse_plan(name, called + " has " + std::to_string(arguments.size()) + " arguments, found " +
                          std::to_string(step.operands.size()));
  for (size_t i = 0; i < arguments.size(); i++) {
    step.parameters.push_back({target_of_argument(arguments[i]), arguments[i].kwarg_only(),
                               arguments[i].type()->kind() == c10::TypeKind::OptionalType,
                               arguments[i].default_value()});
    prepare_constant(step.operands[i], step.parameters[i].target);
  }
  return step;
}

Read parse_read(const std::string &word, const std::string &name) {
  if (word.size() < 2 || std::string("ARZ").find(word[0]) == std::string::npos)
    refuse_plan(name, "a formula cannot read '" + word + "'");
  return {word[0], std::stoul(word.substr(1))};
}

Formula parse_formula(Plan &plan, std::istringstream &words, const std::string &name) {
  Formula formula;
  std::string word;
  words >> word;
  for (const int64_t i : parse_list<int64_t>(word, parse_int))
    formula.wanted.push_back((size_t)i);
  while (words >> word) {
    const Read read = parse_read(word, name);
    if (std::find(plan.reads.begin(), plan.reads.end(), read) == plan.reads.end())
      plan.reads.push_back(read);
    formula.reads.push_back(index_of_read(plan, read, name));
  }
  return formula;
}

std::optional<Action> action_of(const std::string &word) {
  if (word == "IDENTITY") return Action::Identity;
  if (word == "EXPAND") return Action::Expand;
  if (word == "RESHAPE") return Action::Reshape;
  if (word == "SUM_TO") return Action::SumTo;
  if (word == "GIVES") return Action::Give;
  return std::nullopt;
}

Step parse_step(const Plan &plan, Action action, std::istringstream &words,
                const std::string &name) {
  Step step;
  std::string operand;
  std::string shape;
  step.action = action;
  words >> operand >> shape;
  step.operands.push_back(parse_operand(plan, operand, name));
  if (!shape.empty()) step.shape = index_of_read(plan, parse_read(shape, name), name);
  return step;
}

void check_formula(const Formula &formula, const std::string &name) {
  for (size_t i = 0; i < formula.steps.size(); i++)
    for (const Operand &o : formula.steps[i].operands)
      if (o.kind == 'C' && o.index >= i) refuse_plan(name, "a step uses the result of a later one");
}

} // namespace

Target target_of_argument(const c10::Argument &argument) {
  const c10::Type &type = without_optional(*argument.real_type());
  if (const auto *list = type.castRaw<c10::ListType>()) {
    switch (without_optional(*list->getElementType()).kind()) {
    case c10::TypeKind::TensorType:
      return Target::Tensor;
    case c10::TypeKind::IntType:
      return Target::Ints;
    case c10::TypeKind::FloatType:
      return Target::Floats;
    default:
      return Target::Other;
    }
  }
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return Target::Tensor;
  case c10::TypeKind::IntType:
    return Target::Int;
  case c10::TypeKind::FloatType:
    return Target::Float;
  default:
    return Target::Other;
  }
}

at::Tensor number_tensor(const c10::IValue &value, at::ScalarType type) {
  if (value.isInt()) return at::detail::scalar_tensor_static(value.toInt(), at::kLong, at::kCPU);
  if (value.isBool())
    return at::detail::scalar_tensor_static((double)value.toBool(), type, at::kCPU);
  if (value.isDouble()) return at::detail::scalar_tensor_static(value.toDouble(), type, at::kCPU);
  if (value.isIntList()) {
    const std::vector<int64_t> list = value.toIntVector();
    at::Tensor made = at::detail::empty_cpu({(int64_t)list.size()}, at::kLong);
    std::copy(list.begin(), list.end(), made.mutable_data_ptr<int64_t>());
    return made;
  }
  TORCH_CHECK(value.isDoubleList(), "a gradient formula passes a ", value.tagKind(),
              " as a tensor, which is not possible");
  const std::vector<double> list = value.toDoubleVector();
  at::Tensor made = at::detail::empty_cpu({(int64_t)list.size()}, at::kDouble);
  std::copy(list.begin(), list.end(), made.mutable_data_ptr<double>());
  return made.to(type);
}

Plan parse_plan(const std::string &text, const std::string &name) {
  Plan plan;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "POINTWISE") {
      plan.is_pointwise = true;
      continue;
    }
    if (word == "FORMULA") {
      plan.formulas.push_back(parse_formula(plan, words, name));
      continue;
    }
    if (plan.formulas.empty()) refuse_plan(name, "it does not begin with FORMULA");
    Formula &formula = plan.formulas.back();
    if (word == "NONE")
      formula.is_none = true;
    else if (word == "ERROR")
      formula.is_error = true;
    else if (word == "CALL")
      formula.steps.push_back(parse_operator_call(plan, words, name));
    else if (const auto action = action_of(word))
      formula.steps.push_back(parse_step(plan, *action, words, name));
    else
      refuse_plan(name, "unknown line '" + line + "'");
  }
  for (const Formula &formula : plan.formulas)
    check_formula(formula, name);
  return plan;
}

} // namespace tenon_torch_autograd
