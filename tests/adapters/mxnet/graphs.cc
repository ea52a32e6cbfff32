// Passes and partitioners against MXNet's own header, as authors write them: of interface 11 (MXNet
// 1.9).
#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib_api.h"
using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Options;
typedef std::vector<MXTensor> Tensors;

static std::string get(const Options &o, const std::string &key,
                       const std::string &otherwise = "") {
  return o.count(key) ? o.at(key) : otherwise;
}

// the operator of subgraphs: any of these nodes, on tensors of one shape

static float compute(const std::string &op, float a, float b) {
  if (op == "exp") return std::exp(a);
  if (op == "log") return std::log(a);
  if (op == "sin") return std::sin(a);
  if (op == "negative") return -a;
  if (op == "elemwise_add" || op == "broadcast_add" || op == "_plus_scalar") return a + b;
  if (op == "elemwise_mul" || op == "broadcast_mul" || op == "_mul_scalar") return a * b;
  throw std::runtime_error("h_graph does not know the operator " + op);
}

class Subgraph : public CustomStatefulOp {
public:
  explicit Subgraph(const Options &attrs)
      : graph_(Graph::fromString(get(attrs, MX_STR_SUBGRAPH_SYM_JSON))), calls_(0) {
    extra_ = std::stoi(get(attrs, MX_STR_EXTRA_INPUTS, "0"));
    step_ = std::stof(get(attrs, "step", "0"));
  }
  ~Subgraph() { delete graph_; }
  MXReturnValue Forward(Tensors *inputs, Tensors *outputs, const OpResource &) override {
    std::unordered_map<const Node *, std::vector<float>> values;
    const int64_t n = outputs->at(0).size();
    size_t next = 0;
    for (size_t i = 0; i < graph_->size(); i++) {
      const Node *node = graph_->getNode(i);
      std::vector<float> &y = values[node];
      y.resize(n);
      if (node->op == "null") {
        MXTensor &in = inputs->at(next++);
        for (int64_t k = 0; k < n; k++)
          y[k] = in.data<float>()[in.size() == 1 ? 0 : k];
        continue;
      }
      const std::vector<float> &a = values[node->inputs.at(0).node];
      const float scalar = node->attrs.count("scalar") ? std::stof(node->attrs.at("scalar")) : 0;
      for (int64_t k = 0; k < n; k++)
        y[k] = compute(node->op, a[k],
                       node->inputs.size() > 1 ? values[node->inputs[1].node][k] : scalar);
    }
    float more = step_ * calls_++;
    for (int i = 0; i < extra_; i++)
      more += inputs->at(next++).data<float>()[0];
    for (size_t o = 0; o < outputs->size(); o++)
      for (int64_t k = 0; k < n; k++)
        outputs->at(o).data<float>()[k] = values[graph_->outputs[o].node][k] + more;
    return MX_SUCCESS;
  }

private:
  Graph *graph_;
  int extra_, calls_;
  float step_;
};

static MXReturnValue create(const Options &attrs, const MXContext &,
                            const std::vector<std::vector<unsigned int>> &, const std::vector<int>,
                            CustomStatefulOp **out) {
  *out = new Subgraph(attrs);
  return MX_SUCCESS;
}
REGISTER_OP(h_graph).setIsSubgraphOp().setCreateOpState(create, "cpu");

// partitioners

static bool is_named(const Options &o, const Node *node) { // ops="exp log"
  std::istringstream words(get(o, "ops"));
  std::string word;
  while (words >> word)
    if (word == node->op) return true;
  return false;
}

static MXReturnValue supported(const Graph *graph, std::vector<int> *ids, const Options &options) {
  if (get(options, "bad") == "throw") throw std::runtime_error("thrown from supportedOps");
  if (get(options, "bad") == "say") {
    MX_ERROR_MSG << "none of these";
    return MX_FAIL;
  }
  for (size_t i = 0; i < graph->size(); i++)
    if (is_named(options, graph->getNode(i))) ids->at(i) = -1;
  return MX_SUCCESS;
}

static MXReturnValue review(const Graph *subgraph, int id, bool *accept, const Options &options,
                            Options *attrs) {
  if (get(options, "bad") == "review") throw std::runtime_error("thrown from reviewSubgraph");
  *accept = get(options, "reject") != std::to_string(id);
  if (options.count("step")) attrs->emplace("step", options.at("step"));
  if (options.count("needs")) { // only subgraphs that read a parameter whose first element is this
    bool has = false;
    for (size_t i = 0; i < subgraph->size(); i++) {
      const Node *node = subgraph->getNode(i);
      has |= node->tensor &&
             std::abs(node->tensor->data<float>()[0] - std::stof(options.at("needs"))) < 1e-6;
    }
    *accept = has;
  }
  return MX_SUCCESS;
}
REGISTER_PARTITIONER(h_ops)
    .addStrategy("all", "h_graph")
    .setSupportedOps("all", supported)
    .setReviewSubgraph("all", review);

class Selector : public CustomOpSelector {
public:
  Selector(const Graph *graph, const Options &options) : graph_(graph), options_(options) {}
  bool Select(int id) override { return is_named(options_, graph_->getNode(id)); }
  bool SelectInput(int, int other) override {
    return options_.count("inputs") && is_named(options_, graph_->getNode(other));
  }
  bool SelectOutput(int, int other) override { return is_named(options_, graph_->getNode(other)); }
  void Filter(const std::vector<int> &candidates, std::vector<int> *keep) override {
    if (get(options_, "bad") == "filter") throw std::runtime_error("thrown from Filter");
    *keep = candidates;
    std::reverse(keep->begin(), keep->end());
  }
  void Reset() override {}

private:
  const Graph *graph_;
  const Options options_;
};
static MXReturnValue selector(const Graph *graph, CustomOpSelector **out, const Options &options) {
  *out = new Selector(graph, options);
  return MX_SUCCESS;
}
REGISTER_PARTITIONER(h_select)
    .addStrategy("grown", "h_graph")
    .setCreateSelector("grown", selector)
    .setReviewSubgraph("grown", review);

// passes

static Node *parameter(Graph *graph, const std::string &name, float value) {
  Node *node = graph->addNode(name, "null");
  graph->inputs.push_back(node);
  node->alloc_arg({1}, MXContext::CPU(0), kFloat32);
  node->tensor->data<float>()[0] = value;
  return node;
}
static void link(Node *from, Node *to) {
  from->outputs.push_back({to, (int)to->inputs.size()});
  to->inputs.push_back({from, 0});
}

// adds a new parameter to the output
static MXReturnValue add_bias(Graph *graph, const Options &options) {
  Node *bias = parameter(graph, "bias", std::stof(get(options, "value", "0.25")));
  Node *sum = graph->addNode("biased", "broadcast_add");
  link(graph->outputs.at(0).node, sum);
  link(bias, sum);
  graph->outputs.at(0) = {sum, 0};
  return MX_SUCCESS;
}
REGISTER_PASS(h_add_bias).setBody(add_bias);

static MXReturnValue add_extra(Graph *graph,
                               // an input of a subgraph that its inner graph does not have
                               const Options &) {
  for (size_t i = 0, n = graph->size(); i < n; i++) {
    Node *node = graph->getNode(i);
    if (node->op != "h_graph") continue;
    node->attrs[MX_STR_EXTRA_INPUTS] = "1";
    link(parameter(graph, node->name + "_extra", 3), node);
  }
  return MX_SUCCESS;
}
REGISTER_PASS(h_add_extra).setBody(add_extra);

// removes the nodes of an operator
static MXReturnValue bypass(Graph *graph, const Options &options) {
  for (size_t i = 0; i < graph->size(); i++) {
    Node *node = graph->getNode(i), *from = node->inputs.empty() ? nullptr : node->inputs[0].node;
    if (node->op != get(options, "op")) continue;
    for (NodeEntry &reader : node->outputs) {
      reader.node->inputs.at(reader.entry) = {from, node->inputs[0].entry};
      from->outputs.push_back(reader);
    }
    for (NodeEntry &head : graph->outputs)
      if (head.node == node) head = {from, node->inputs[0].entry};
    node->outputs.clear();
  }
  return MX_SUCCESS;
}
REGISTER_PASS(h_bypass).setBody(bypass);

static MXReturnValue set_attr(Graph *graph, const Options &options) { // op=softmax key=axis value=0
  for (size_t i = 0; i < graph->size(); i++)
    if (graph->getNode(i)->op == get(options, "op"))
      graph->getNode(i)->attrs[get(options, "key")] = get(options, "value");
  return MX_SUCCESS;
}
REGISTER_PASS(h_set).setBody(set_attr);

// turns a node's result into an output of the graph, too
static MXReturnValue add_head(Graph *graph, const Options &options) {
  for (size_t i = 0; i < graph->size(); i++)
    if (graph->getNode(i)->name == get(options, "node"))
      graph->outputs.push_back({graph->getNode(i), 0});
  return MX_SUCCESS;
}
REGISTER_PASS(h_head).setBody(add_head);

static MXReturnValue thrower(Graph *, const Options &options) {
  (void)std::stoi(get(options, "number", "none")); // throws if the text is not a number
  return MX_SUCCESS;
}
REGISTER_PASS(h_throw).setBody(thrower);

MXReturnValue initialize(int version) { return version >= 10700 ? MX_SUCCESS : MX_FAIL; }
