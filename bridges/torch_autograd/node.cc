// The autograd node of Tenon's operators in torch.ops.
//
// A kernel at PyTorch's keys for autograd, one for each operator, records a call as PyTorch's own
// operators do: it saves what the gradient formulas read, calls the operator below autograd, and
// makes a node the history of the results.  Backward evaluates the formulas by calls through
// PyTorch's dispatcher, which are recorded themselves if create_graph is set.
//
// The first backward of an operator asks for the steps of its formulas, because the library of an
// operator that they call may be loaded after this one.
#include <ATen/ops/lift_fresh.h>
#include <ATen/ops/reshape.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "plan.h"

namespace tenon_torch_autograd {
namespace {

using at::Tensor;
using c10::IValue;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::jit::Stack;

template <typename T> using Few = c10::SmallVector<T, 4>;

// ---- one operator ------------------------------------------------------------------------------

// Returns the plan of an operator with its steps, or "ERROR" and the reason.  The text stays valid.
using PlanFunction = const char *(*)(const char *name);

// Lives until the process ends, as its kernels do.
struct Operator {
  std::string name;
  Plan heads; // without steps
  PlanFunction plan_of = nullptr;
  size_t argument_count = 0;
  size_t result_count = 0;
  std::vector<std::string> argument_names;
  std::vector<size_t> tensors; // the arguments that are tensors or lists of tensors
  mutable std::atomic<const Plan *> plan{nullptr};

  // Returns the plan with its steps.  `plan_of` may wait for Python's lock, so no lock is held:
  // two threads may both parse the plan, and one of them drops what it parsed.
  const Plan &whole_plan() const {
    if (const Plan *found = plan.load(std::memory_order_acquire)) return *found;
    const std::string text = plan_of(name.c_str());
    TORCH_CHECK(text.rfind("ERROR ", 0) != 0, text.substr(6));
    auto made = std::make_unique<const Plan>(parse_plan(text, name));
    TORCH_CHECK(made->reads == heads.reads, "the gradient formulas of ", name, " changed");
    const Plan *other = nullptr;
    if (!plan.compare_exchange_strong(other, made.get())) return *other;
    return *made.release();
  }

  size_t position_of(size_t argument) const {
    const auto found = std::find(tensors.begin(), tensors.end(), argument);
    TORCH_INTERNAL_ASSERT(found != tensors.end());
    return (size_t)(found - tensors.begin());
  }
};

// Calls a function with each tensor of an argument or a result. An undefined tensor stands for
// None.
template <typename Function> void for_each_tensor(const IValue &value, Function &&function) {
  static const Tensor undefined;
  if (value.isTensor())
    function(value.toTensor());
  else if (value.isTensorList())
    for (const Tensor &t : value.toTensorVector())
      function(t);
  else
    function(undefined);
}

// ---- the node ----------------------------------------------------------------------------------

enum class Kept : uint8_t { Nothing, Tensor, Tensors, Value, Shape };

// Where a node keeps what a formula reads.
struct Slot {
  Kept kept = Kept::Nothing;
  uint32_t begin = 0; // in the saved variables, `Layout::values` or the extents
  uint32_t count = 0;
};

// What a node knows of its call, besides tensors and extents.
struct Layout {
  Few<Slot> slots;       // of Plan::reads
  Few<uint32_t> edges;   // the first edge of each tensor argument, and the number of all
  Few<uint32_t> results; // the first gradient of each result, and the number of all
  Few<bool> is_list;     // of each result
  Few<IValue> values;    // arguments that are not tensors
};

struct OperatorNode : Node {
  explicit OperatorNode(const Operator &of) : op(of) { layout.slots.resize(of.heads.reads.size()); }

  std::string name() const override { return op.name + "Backward"; }
  variable_list apply(variable_list &&grads) override;

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable &variable : saved)
      variable.reset_data();
  }

  // For PyTorch's compiled autograd: what the node keeps, and backward as a call in its graph.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs &args) const override;
  variable_list apply_with_saved(const variable_list &grads,
                                 torch::dynamo::autograd::SwapSavedVariables &swapped) override;

  void keep(Slot &slot, const IValue &value, bool is_result) {
    if (value.isTensor() || value.isTensorList()) {
      slot.kept = value.isTensor() ? Kept::Tensor : Kept::Tensors;
      slot.begin = (uint32_t)saved.size();
      for_each_tensor(value, [&](const Tensor &t) { saved.emplace_back(t, is_result); });
      slot.count = (uint32_t)saved.size() - slot.begin;
      is_result_saved.resize(saved.size(), is_result);
    } else {
      slot.kept = Kept::Value;
      slot.begin = (uint32_t)layout.values.size();
      layout.values.push_back(value);
    }
  }

  void keep_shape(Slot &slot, const IValue &value) {
    if (!value.isTensor() || !value.toTensor().defined()) return;
    const c10::SymIntArrayRef shape = value.toTensor().sym_sizes();
    slot = {Kept::Shape, (uint32_t)extents.size(), (uint32_t)shape.size()};
    extents.insert(extents.end(), shape.begin(), shape.end());
  }

  Tensor unpack(size_t i) {
    return saved[i].unpack(is_result_saved[i] ? getptr() : c10::intrusive_ptr<Node>());
  }

  const Operator &op;
  Layout layout;
  std::vector<SavedVariable> saved;
  Few<bool> is_result_saved; // of each saved variable
  std::vector<c10::SymInt> extents;
};

// The number of tensors that a slot keeps.
uint32_t tensors_in(const Slot &slot) {
  return slot.kept == Kept::Tensor || slot.kept == Kept::Tensors ? slot.count : 0;
}

// ---- backward ----------------------------------------------------------------------------------

using torch::autograd::InputMetadata;

// One evaluation of the formulas.
struct Frame {
  const Operator &op;
  const Layout &layout;
  const variable_list &grads;
  variable_list saved; // undefined where no formula reads it
  c10::SymIntArrayRef extents;
  Few<const InputMetadata *> metadata; // of gradients that are not given; NULL: there is none
  Tensor like;                         // the first gradient that is given
  Few<IValue> steps;                   // the first result of each step of this formula
  int64_t wanted = 0;                  // the requested values of this formula
};

c10::SymIntArrayRef shape_of(const Frame &f, size_t slot) {
  TORCH_CHECK(f.layout.slots[slot].kept == Kept::Shape, f.op.name,
              ": its gradient formula reads the shape of an argument that is not given");
  return f.extents.slice(f.layout.slots[slot].begin, f.layout.slots[slot].count);
}

IValue read_slot(const Frame &f, size_t i) {
  const Slot &slot = f.layout.slots[i];
  if (slot.kept == Kept::Value) return f.layout.values[slot.begin];
  if (slot.kept == Kept::Tensor) return f.saved[slot.begin];
  if (slot.kept != Kept::Tensors) return IValue();
  c10::List<Tensor> list;
  for (uint32_t k = 0; k < slot.count; k++)
    list.push_back(f.saved[slot.begin + k]);
  return list;
}

Tensor grad_or_zeros(const Frame &f, uint32_t i) {
  if (f.grads[i].defined()) return f.grads[i];
  if (f.metadata[i]) return f.metadata[i]->zeros_like();
  // The result was not requested, or has no gradient.
  return f.op.heads.is_pointwise ? at::zeros({}, f.like.options()) : Tensor();
}

IValue grad_of(const Frame &f, size_t result) {
  const uint32_t begin = f.layout.results[result];
  if (!f.layout.is_list[result]) {
    Tensor grad = grad_or_zeros(f, begin);
    return grad.defined() ? IValue(std::move(grad)) : IValue();
  }
  c10::List<Tensor> list;
  for (uint32_t i = begin; i < f.layout.results[result + 1]; i++)
    list.push_back(grad_or_zeros(f, i));
  return list;
}

// Makes a new tensor known to what traces calls, as torch.tensor does.
Tensor lifted(Tensor made) {
  const c10::DispatchKeySet tracing({c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
                                     c10::DispatchKey::FuncTorchDynamicLayerFrontMode});
  const auto included = c10::impl::tls_local_dispatch_key_set().included_;
  return included.has_any(tracing) ? at::lift_fresh(made) : made;
}

Tensor constant_tensor(const Operand &o, at::ScalarType type) {
  for (size_t i = 0; i < o.floats.size(); i++)
    if (float_types[i] == type) return o.floats[i];
  return o.value.isTensor() ? o.value.toTensor() : number_tensor(o.value, type);
}

// Moves a tensor with axes from the CPU to the device of the gradient: formulas that use only
// shapes make tensors of the CPU.
Tensor moved(const Tensor &t, const Operand &o, const Tensor &like) {
  const bool stays = o.is_host || !t.defined() || like.is_cpu() || !t.is_cpu() || !t.dim();
  return stays ? t : t.to(like.device());
}

IValue tensor_argument(const Operand &o, IValue value, const Frame &f) {
  if (value.isNone()) return value;
  if (value.isTensor() && o.kind != 'K') {
    const Tensor &t = value.toTensor();
    return t.defined() ? IValue(moved(t, o, f.like)) : IValue();
  }
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor &t : value.toTensorVector())
      list.push_back(moved(t, o, f.like));
    return list;
  }
  const at::ScalarType type = f.like.scalar_type();
  const Tensor made = o.kind == 'K' ? constant_tensor(o, type) : number_tensor(value, type);
  return moved(lifted(made), o, f.like);
}

// Converts a value that is no tensor to the type of an argument.
IValue converted(IValue value, Target target) {
  if (target == Target::Float && value.isInt()) return (double)value.toInt();
  if (target == Target::Int && value.isSymInt())
    return value.toSymInt().guard_int(__FILE__, __LINE__);
  if (target == Target::Int && value.isBool()) return (int64_t)value.toBool();
  if (target == Target::Ints && value.isSymIntList()) {
    c10::List<int64_t> list;
    for (const c10::SymInt &extent : value.toSymIntVector())
      list.push_back(extent.guard_int(__FILE__, __LINE__));
    return list;
  }
  return value;
}

IValue value_of(const Operand &o, const Frame &f) {
  switch (o.kind) {
  case 'A':
    return read_slot(f, o.index);
  case 'G':
    return grad_of(f, o.index);
  case 'C':
    return f.steps[o.index];
  case 'K':
    return o.value;
  case 'W':
    return f.wanted;
  default:
    return IValue();
  }
}

IValue argument_of(const Step &step, size_t i, const Frame &f) {
  const Operand &o = step.operands[i];
  const Parameter &p = step.parameters[i];
  IValue value = value_of(o, f);
  if (p.target == Target::Tensor)
    value = tensor_argument(o, std::move(value), f);
  else
    value = converted(std::move(value), p.target);
  if (!value.isNone()) return value;
  // Keyword arguments without a value are left out.
  if (p.standard && (o.kind == 'N' || p.is_keyword)) return *p.standard;
  TORCH_CHECK(p.is_optional, f.op.name, ": its gradient formula passes nothing as argument ", i + 1,
              " of ", step.op->operator_name(), ", which needs a value");
  return value;
}

// Returns x.sum_to_size(shape).  PyTorch's own function asks of every extent whether it is 1, which
// fails for extents that depend on data.
Tensor summed_to(Tensor x, c10::SymIntArrayRef shape) {
  const auto is_symbolic = [](const c10::SymInt &extent) { return extent.is_symbolic(); };
  const c10::SymIntArrayRef extents = x.sym_sizes();
  if (std::none_of(extents.begin(), extents.end(), is_symbolic) &&
      std::none_of(shape.begin(), shape.end(), is_symbolic))
    return x.sum_to_size_symint(shape);
  const auto leading = x.dim() - (int64_t)shape.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.size(); i++) {
    const auto axis = leading + (int64_t)i;
    if (TORCH_GUARD_OR_FALSE(shape[i].sym_eq(1)))
      axes.push_back(axis);
    else
      TORCH_SYM_CHECK(shape[i].sym_eq(x.sym_size(axis)), "a gradient cannot be summed to ", shape);
  }
  if (!axes.empty()) x = at::sum(x, axes, true);
  axes.clear();
  for (int64_t i = 0; i < leading; i++)
    axes.push_back(i);
  return axes.empty() ? x : at::sum(x, axes);
}

IValue call_torch(const Step &step, const Frame &f) {
  IValue value = value_of(step.operands[0], f);
  if (step.action == Action::Give || step.action == Action::Identity) return value;
  TORCH_CHECK(value.isTensor() && value.toTensor().defined(), f.op.name,
              ": its gradient formula changes the shape of a value that is not given");
  const Tensor &t = value.toTensor();
  const c10::SymIntArrayRef shape = shape_of(f, step.shape);
  if (step.action == Action::Expand) return t.expand_symint(shape);
  if (step.action == Action::Reshape) return at::reshape_symint(t, shape);
  return summed_to(t, shape);
}

Stack run_step(const Step &step, const Frame &f) {
  Stack stack;
  if (step.action != Action::Call) {
    stack.push_back(call_torch(step, f));
    return stack;
  }
  stack.reserve(step.operands.size());
  for (size_t i = 0; i < step.operands.size(); i++)
    stack.push_back(argument_of(step, i, f));
  step.op->callBoxed(stack);
  return stack;
}

// Returns the values of a formula: the gradients of the arguments for which it stands.
Stack evaluate(const Formula &formula, Frame &f) {
  Stack made;
  f.steps.clear();
  for (const Step &step : formula.steps) {
    made = run_step(step, f);
    f.steps.push_back(made.empty() ? IValue() : made.front());
  }
  return made;
}

std::string names_of(const Operator &op, const Formula &formula) {
  std::string names;
  for (const size_t argument : formula.wanted)
    names += (names.empty() ? "" : ", ") + op.argument_names[argument];
  return names;
}

// Returns the arguments of a formula whose gradients this backward needs, as bits.
int64_t wanted_of(const Formula &formula, const OperatorNode &node) {
  int64_t bits = 0;
  if (formula.is_none) return bits;
  for (size_t i = 0; i < formula.wanted.size(); i++) {
    const size_t position = node.op.position_of(formula.wanted[i]);
    for (uint32_t edge = node.layout.edges[position]; edge < node.layout.edges[position + 1];
         edge++)
      if (node.task_should_compute_output(edge)) bits |= int64_t(1) << i;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!formula.is_error || !bits, node.op.name,
                              " declares that it has no gradient for ", names_of(node.op, formula),
                              ": detach this input");
  return bits;
}

// The same for all formulas.  Empty: this backward needs none.
Few<int64_t> all_wanted(const OperatorNode &node, const variable_list &grads) {
  Few<int64_t> wanted;
  bool is_any_wanted = false;
  for (const Formula &formula : node.op.heads.formulas) {
    wanted.push_back(wanted_of(formula, node));
    is_any_wanted = is_any_wanted || wanted.back();
  }
  const auto is_defined = [](const Tensor &grad) { return grad.defined(); };
  if (!is_any_wanted || std::none_of(grads.begin(), grads.end(), is_defined)) wanted.clear();
  return wanted;
}

void give_gradients(const Stack &made, const Formula &formula, const Frame &f, variable_list &out) {
  for (size_t i = 0; i < formula.wanted.size() && i < made.size(); i++) {
    if (!(f.wanted >> i & 1)) continue;
    const size_t position = f.op.position_of(formula.wanted[i]);
    uint32_t edge = f.layout.edges[position];
    for_each_tensor(made[i], [&](const Tensor &t) {
      if (edge < f.layout.edges[position + 1]) out[edge++] = t;
    });
  }
}

variable_list evaluate_all(Frame &f, const Few<int64_t> &wanted) {
  variable_list out(f.layout.edges.back());
  const Plan &plan = f.op.whole_plan();
  f.like =
      *std::find_if(f.grads.begin(), f.grads.end(), [](const Tensor &t) { return t.defined(); });
  for (size_t i = 0; i < wanted.size(); i++) {
    if (!wanted[i]) continue;
    f.wanted = wanted[i];
    give_gradients(evaluate(plan.formulas[i], f), plan.formulas[i], f, out);
  }
  return out;
}

const InputMetadata *metadata_or_null(const OperatorNode &node, size_t i) {
  const InputMetadata &metadata = node.input_metadata(i);
  return metadata.was_default_constructed() ? nullptr : &metadata;
}

variable_list OperatorNode::apply(variable_list &&grads) {
  const Few<int64_t> wanted = all_wanted(*this, grads);
  if (wanted.empty()) return variable_list(num_outputs());
  Frame f{op, layout, grads, variable_list(saved.size()), extents};
  for (size_t i = 0; i < grads.size(); i++)
    f.metadata.push_back(metadata_or_null(*this, i));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < wanted.size(); i++)
      for (const size_t slot : op.heads.formulas[i].reads)
        for (uint32_t k = 0; wanted[i] && k < tensors_in(layout.slots[slot]); k++) {
          Tensor &t = f.saved[layout.slots[slot].begin + k];
          if (!t.defined()) t = unpack(layout.slots[slot].begin + k);
        }
  }
  return evaluate_all(f, wanted);
}

// ---- compiled autograd -------------------------------------------------------------------------

void OperatorNode::compiled_args(torch::dynamo::autograd::CompiledNodeArgs &args) const {
  args.collect(op.name);
  for (const Slot &slot : layout.slots) {
    args.collect((uint64_t)slot.kept);
    args.collect((uint64_t)slot.count);
  }
  for (const uint32_t edge : layout.edges)
    args.collect((uint64_t)edge);
  for (const uint32_t result : layout.results)
    args.collect((uint64_t)result);
  for (const IValue &value : layout.values)
    args.collect(value, true); // a part of the key
  for (size_t i = 0; i < saved.size(); i++)
    args.collect(saved[i], is_result_saved[i]);
  args.collect(extents);
  for (uint32_t i = 0; i < num_inputs(); i++)
    if (const InputMetadata *metadata = metadata_or_null(*this, i)) args.collect(*metadata);
  for (uint32_t edge = 0; edge < num_outputs(); edge++)
    args.collect(task_should_compute_output(edge));
}

// The function in the graph: its arguments are the saved tensors, the extents, and the metadata of
// gradients that are not given.
variable_list apply_packed(const Operator &op, const Layout &layout, const Few<int64_t> &wanted,
                           size_t saved_count, const variable_list &grads,
                           const std::vector<IValue> &arguments) {
  torch::dynamo::autograd::PackedArgs packed(arguments);
  variable_list saved;
  for (size_t i = 0; i < saved_count; i++)
    saved.push_back(packed.unpack<Tensor>());
  const auto extents = packed.unpack<std::vector<c10::SymInt>>();
  std::vector<std::optional<InputMetadata>> metadata;
  for (const Tensor &grad : grads)
    metadata.push_back(grad.defined() ? std::nullopt
                                      : packed.unpack<std::optional<InputMetadata>>());
  Frame f{op, layout, grads, std::move(saved), extents};
  for (const auto &each : metadata)
    f.metadata.push_back(each ? &*each : nullptr);
  return evaluate_all(f, wanted);
}

struct Packed {
  torch::dynamo::autograd::PackedArgs arguments;
  std::vector<at::TypePtr> types;

  template <typename T> void add(const T &value) {
    arguments.pack(value);
    types.push_back(torch::dynamo::autograd::IValuePacker<T>::packed_type());
  }
};

// Passes what the node keeps to `change`, which puts other tensors and symbols in its place or
// restores it.
template <typename Change> void change_kept(OperatorNode &node, Change &&change) {
  change(node.saved);
  change(node.extents);
  for (uint32_t i = 0; i < node.num_inputs(); i++)
    if (metadata_or_null(node, i)) change(node.mutable_input_metadata(i));
}

variable_list OperatorNode::apply_with_saved(const variable_list &grads,
                                             torch::dynamo::autograd::SwapSavedVariables &swapped) {
  const Few<int64_t> wanted = all_wanted(*this, grads);
  if (wanted.empty()) return variable_list(num_outputs());
  change_kept(*this, [&](auto &kept) { swapped.before(kept); });
  Packed packed;
  for (size_t i = 0; i < saved.size(); i++)
    packed.add(unpack(i));
  packed.add(extents);
  for (uint32_t i = 0; i < grads.size(); i++) {
    const InputMetadata *metadata = metadata_or_null(*this, i);
    if (!grads[i].defined())
      packed.add(metadata ? std::optional<InputMetadata>(*metadata) : std::nullopt);
  }
  std::string function = op.name;
  std::replace_if(
      function.begin(), function.end(), [](char c) { return c == ':' || c == '.'; }, '_');
  const auto &python = torch::dynamo::autograd::getPyCompilerInterface();
  function = python->bind_function(
      swapped.get_py_compiler(), function,
      [&op = op, layout = layout, wanted,
       count = saved.size()](const variable_list &given, const std::vector<IValue> &arguments) {
        return apply_packed(op, layout, wanted, count, given, arguments);
      },
      packed.types, true, true);
  const auto edges_metadata = torch::dynamo::autograd::get_input_metadata(next_edges());
  variable_list made = python->call_function(
      swapped.get_py_compiler(), "apply_functional", function, grads, packed.arguments.vec(),
      torch::dynamo::autograd::IValuePacker<std::vector<std::optional<InputMetadata>>>::pack(
          edges_metadata));
  change_kept(*this, [&](auto &kept) { swapped.after(kept); });
  return made;
}

// ---- forward -----------------------------------------------------------------------------------

using Arguments = c10::ArrayRef<IValue>;

bool needs_gradient(const Operator &op, Arguments arguments) {
  bool needs = false;
  for (const size_t i : op.tensors)
    for_each_tensor(arguments[i], [&](const Tensor &t) {
      if (!t.defined()) return;
      needs = needs || t.requires_grad();
      TORCH_CHECK_NOT_IMPLEMENTED(!t._fw_grad(0).defined(), op.name,
                                  " has no forward-mode gradient (jvp): use reverse mode (vjp, "
                                  "grad, jacrev)");
    });
  return needs && at::GradMode::is_enabled();
}

void add_edges(OperatorNode &node, Arguments arguments) {
  torch::autograd::edge_list edges;
  edges.reserve(node.op.tensors.size());
  for (const size_t i : node.op.tensors) {
    node.layout.edges.push_back((uint32_t)edges.size());
    for_each_tensor(arguments[i], [&](const Tensor &t) {
      edges.push_back(t.defined() ? torch::autograd::impl::gradient_edge(t)
                                  : torch::autograd::Edge());
    });
  }
  node.layout.edges.push_back((uint32_t)edges.size());
  node.set_next_edges(std::move(edges));
}

// Does anything that needs a gradient get it from this formula?
bool is_used(const Formula &formula, const OperatorNode &node) {
  for (const size_t argument : formula.wanted) {
    const size_t position = node.op.position_of(argument);
    for (uint32_t edge = node.layout.edges[position]; edge < node.layout.edges[position + 1];
         edge++)
      if (node.should_compute_output(edge)) return true;
  }
  return false;
}

// Saves what the formulas that are used read: arguments before the call, results after it.
void keep_reads(OperatorNode &node, Arguments from, bool is_result) {
  const Plan &plan = node.op.heads;
  for (const Formula &formula : plan.formulas) {
    if (formula.reads.empty() || !is_used(formula, node)) continue;
    for (const size_t i : formula.reads) {
      const Read read = plan.reads[i];
      Slot &slot = node.layout.slots[i];
      if (slot.kept != Kept::Nothing || (read.kind == 'R') != is_result) continue;
      if (read.kind == 'Z')
        node.keep_shape(slot, from[read.index]);
      else
        node.keep(slot, from[read.index], is_result);
    }
  }
}

void add_history(const c10::intrusive_ptr<OperatorNode> &node, Arguments results) {
  for (const IValue &result : results) {
    node->layout.results.push_back(node->num_inputs());
    node->layout.is_list.push_back(result.isTensorList());
    for_each_tensor(result, [&](const Tensor &t) {
      if (t.defined() && torch::autograd::isDifferentiableType(t.scalar_type()))
        torch::autograd::set_history(t, node);
      else
        node->add_input_metadata(Node::undefined_input());
    });
  }
  node->layout.results.push_back(node->num_inputs());
}

void call_below_autograd(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

struct Kernel : c10::OperatorKernel {
  explicit Kernel(const Operator &of) : op(of) {}

  void operator()(const c10::OperatorHandle &handle, c10::DispatchKeySet keys, Stack *stack) const {
    const Arguments arguments = Arguments(*stack).slice(stack->size() - op.argument_count);
    if (!needs_gradient(op, arguments)) {
      call_below_autograd(handle, keys, stack);
      return;
    }
    const auto node = c10::make_intrusive<OperatorNode>(op);
    add_edges(*node, arguments);
    keep_reads(*node, arguments, false);
    call_below_autograd(handle, keys, stack);
    const Arguments results = Arguments(*stack).slice(stack->size() - op.result_count);
    add_history(node, results);
    keep_reads(*node, results, true);
  }

  const Operator &op;
};

// ---- registration ------------------------------------------------------------------------------

// PyTorch warns when a kernel replaces one: that of the bridge in C, which asks Python for a node.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning &) override {}
};

std::unique_ptr<Operator> make_operator(const c10::FunctionSchema &schema, const char *name,
                                        const char *heads, PlanFunction plan_of) {
  auto op = std::make_unique<Operator>();
  op->name = name;
  op->heads = parse_plan(heads, name);
  op->plan_of = plan_of;
  op->argument_count = schema.arguments().size();
  op->result_count = schema.returns().size();
  for (size_t i = 0; i < schema.arguments().size(); i++) {
    const c10::Argument &argument = schema.arguments()[i];
    op->argument_names.push_back(argument.name());
    if (target_of_argument(argument) == Target::Tensor) op->tensors.push_back(i);
  }
  for (const Formula &formula : op->heads.formulas)
    for (const size_t argument : formula.wanted)
      TORCH_CHECK(std::count(op->tensors.begin(), op->tensors.end(), argument), name,
                  ": a formula gives the gradient of an argument that is not a tensor");
  for (const Read &read : op->heads.reads)
    TORCH_CHECK(read.index < (read.kind == 'R' ? op->result_count : op->argument_count), name,
                ": a formula reads an argument or a result that does not exist");
  return op;
}

// Registers the kernel of an operator of PyTorch ("demo::gelu", without its overload).
void add_operator(const std::string &torch_name, const std::string &overload, const char *name,
                  const char *heads, PlanFunction plan_of) {
  constexpr c10::DispatchKey keys[] = {
      c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutogradXPU,
      c10::DispatchKey::AutogradPrivateUse1};
  static std::mutex mutex;
  static auto &libraries = *new std::map<std::pair<std::string, c10::DispatchKey>, torch::Library>;
  const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow(torch_name.c_str(), overload.c_str());
  const Operator &op = *make_operator(handle.schema(), name, heads, plan_of).release();
  const size_t colons = torch_name.find("::");
  const std::string own = torch_name.substr(colons + 2) + (overload.empty() ? "" : ".") + overload;
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  const std::lock_guard<std::mutex> lock(mutex);
  for (const c10::DispatchKey key : keys) {
    const std::string space = torch_name.substr(0, colons);
    auto &library = libraries
                        .try_emplace({space, key}, torch::Library::IMPL, space, key, __FILE__,
                                     (uint32_t)__LINE__)
                        .first->second;
    library.impl(own.c_str(),
                 torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(op)));
  }
}

} // namespace
} // namespace tenon_torch_autograd

// Makes the node record the calls of an operator.
//   torch_name, overload  PyTorch's name of the operator: "demo::gelu", ""
//   name                  Tenon's name, for messages and `plan_of`
//   heads                 its plan without steps (plan.h)
// Returns NULL, or the reason why it failed, which is valid until the next call of the thread.
extern "C" __attribute__((visibility("default"))) const char *
tenon_torch_autograd_add(const char *torch_name, const char *overload, const char *name,
                         const char *heads, tenon_torch_autograd::PlanFunction plan_of) noexcept {
  thread_local std::string reason;
  try {
    tenon_torch_autograd::add_operator(torch_name, overload, name, heads, plan_of);
    return nullptr;
  } catch (const std::exception &error) {
    reason = error.what();
    return reason.c_str();
  }
}
