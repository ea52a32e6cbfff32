// The gradient formulas of an operator, as a plan that the autograd node evaluates.
//
// python/tenon/torch/node.py writes plans, one line for each step.  The folder is compiled against
// one release of PyTorch, because PyTorch has no C interface for autograd nodes.
//
//   POINTWISE              the operator is pointwise: results without a gradient count as zeros
//   FORMULA 0,2 A0 R1 Z2   begins a formula: it computes the gradients of arguments 0 and 2, and
//                          reads argument 0, result 1 and the shape of argument 2
//   NONE | ERROR           the arguments have no gradient | asking for it is an error
//   CALL name overload operand...
//                          calls an operator, with one operand for each argument of its schema
//   IDENTITY|EXPAND|RESHAPE|SUM_TO operand [Z2]
//                          a function of PyTorch, with the shape of argument 2
//   GIVES operand          the value of a formula that is no call
//
// A formula without NONE, ERROR and GIVES has the results of its last CALL as its values.
//
// Operands:
//   A3  R0   argument 3 and result 0 of the operator
//   G0       the gradient of result 0
//   C1       the result of step 1 of the formula
//   I5 F0.5 B1 Stext L1,2 l0.5,1.0
//            a constant: an int, a float, a bool, a text, a list of ints, a list of floats
//   W        the requested values of the formula, as bits
//   N        nothing: the default
// An "h" before an operand says that the argument is read on the host.
#ifndef BRIDGES_TORCH_AUTOGRAD_PLAN_H
#define BRIDGES_TORCH_AUTOGRAD_PLAN_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace tenon_torch_autograd {

// What a formula reads: kind 'A' is an argument of the operator, 'R' a result, and 'Z' the shape of
// an argument.
struct Read {
  char kind = 'A';
  size_t index = 0;

  bool operator==(const Read &other) const { return kind == other.kind && index == other.index; }
};

struct Operand {
  char kind = 'N';  // see above; 'K' is a constant
  size_t index = 0; // of the slot in Plan::reads, the result or the step
  bool is_host = false;
  c10::IValue value;              // a constant
  std::vector<at::Tensor> floats; // the value as a tensor, one for each of Plan's float dtypes
};

// How a value becomes the argument of a called operator.
enum class Target { Tensor, Int, Ints, Float, Floats, Other };

struct Parameter {
  Target target = Target::Other;
  bool is_keyword = false;
  bool is_optional = false;
  std::optional<c10::IValue> standard; // the default
};

enum class Action { Call, Identity, Expand, Reshape, SumTo, Give };

struct Step {
  Action action = Action::Call;
  std::optional<c10::OperatorHandle> op;
  std::vector<Parameter> parameters;
  std::vector<Operand> operands;
  size_t shape = 0; // the slot of the shape
};

struct Formula {
  std::vector<size_t> wanted; // arguments
  std::vector<size_t> reads;  // slots
  bool is_none = false;
  bool is_error = false;
  std::vector<Step> steps;
};

struct Plan {
  bool is_pointwise = false;
  std::vector<Formula> formulas;
  std::vector<Read> reads; // each once: the slots
};

// Parses a plan.  The steps may be left out: the formulas then say what they read, and no more.
// Throws if the text is not valid or a called operator does not exist.
Plan parse_plan(const std::string &text, const std::string &name);

Target target_of_argument(const c10::Argument &argument);

// Returns a number or a list of numbers as a tensor of the CPU.  Ints become int64, other numbers
// `type`.
at::Tensor number_tensor(const c10::IValue &value, at::ScalarType type);

// The dtypes for which Operand::floats has the value of a constant.
constexpr at::ScalarType float_types[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};

} // namespace tenon_torch_autograd

#endif
