/* Translates core operators to MXNet's names and attributes. An operator is translated only if both
 * do the same for all inputs that the node may have; any other operator keeps its Tenon name and is
 * restored unchanged when the graph is read back. */
#include "nnvm_op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "loaded.h"

typedef struct naming_t {
  const tenon_graph_t *graph;
  const tenon_graph_part_t *node;
  tn_arena_t *arena;
  nnvm_op_t *out;
  bool failed; /* memory ran out, or there are more attributes than NNVM_ATTRS */
} naming_t;

/* reading the node */

static const tenon_value_t *attr(const naming_t *n, const char *name) {
  tenon_argument_t about = {.size = sizeof about};
  for (int32_t i = 0; tenon_op_argument(n->node->op, TENON_ARGUMENT_ATTR, i, &about) == TENON_OK;
       i++)
    if (strcmp(about.name, name) == 0) return &n->node->attrs[i];
  return NULL;
}
static int64_t attr_int(const naming_t *n, const char *name) { return attr(n, name)->as.i; }

static tenon_edge_t operand(const naming_t *n, int index) {
  const tenon_operand_t *o = &n->node->operands[index];
  return o->count == 1 ? o->edges[0] : -1;
}

static bool port(const naming_t *n, int index, tenon_port_t *out) {
  *out = (tenon_port_t){.size = sizeof *out, .ndim = -1};
  return operand(n, index) >= 0 && tenon_graph_value(n->graph, operand(n, index), out) == TENON_OK;
}
static int32_t rank(const naming_t *n, int index) {
  tenon_port_t p;
  return port(n, index, &p) ? p.ndim : -1;
}

static const tenon_tensor_t *constant(const naming_t *n, int index) {
  tenon_graph_edge_t edge = {.size = sizeof edge};
  return operand(n, index) >= 0 &&
                 tenon_graph_edge(n->graph, operand(n, index), &edge, NULL) == TENON_OK
             ? edge.constant
             : NULL;
}

/* Reads the integers of a constant. Returns false if the operand is not a constant of integers or
 * has too many elements. */
static bool integers(const naming_t *n, int index, int64_t *out, int32_t *out_count) {
  const tenon_tensor_t *t = constant(n, index);
  const uint32_t id = t ? tenon_dtype_id(t->dtype) : 0;
  if ((id != TENON_I64 && id != TENON_I32) || t->ndim > 1 || tenon_count(t) > TENON_RANK_MAX)
    return false;
  *out_count = (int32_t)tenon_count(t);
  for (int32_t i = 0; i < *out_count; i++)
    out[i] = id == TENON_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
  return true;
}

/* Reads a float constant that has exactly one element. */
static bool number(const naming_t *n, int index, double *out) {
  const tenon_tensor_t *t = constant(n, index);
  if (!t || tenon_count(t) != 1 || t->ndim > 0) return false;
  if (tenon_dtype_id(t->dtype) == TENON_F32) {
    *out = *(const float *)t->data;
    return true;
  }
  return tenon_dtype_id(t->dtype) == TENON_F64 && (*out = *(const double *)t->data, true);
}

/* writing the MXNet operator */

static void add_attribute(naming_t *n, const char *name, const char *format, ...)
    TENON_FORMAT(3, 4);
static void add_attribute(naming_t *n, const char *name, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  const int size = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  nnvm_op_t *o = n->out;
  n->failed |= o->attr_count == NNVM_ATTRS || size < 0 || (size_t)size >= sizeof text ||
               !(o->names[o->attr_count] = tn_arena_text(n->arena, name, strlen(name))) ||
               !(o->values[o->attr_count] = tn_arena_text(n->arena, text, strlen(text)));
  if (!n->failed) o->attr_count++;
}

static void add_bool(naming_t *n, const char *name, bool value) {
  add_attribute(n, name, "%s", value ? "True" : "False");
}

/* Adds a list in the form "(1, 2)" or "(1,)". */
static void add_list(naming_t *n, const char *name, const int64_t *values, int32_t count) {
  char text[1600] = "(";
  for (int32_t i = 0; i < count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", i ? ", " : "",
             (long long)values[i]);
  add_attribute(n, name, "%s%s)", text, count == 1 ? "," : "");
}

static bool called(naming_t *n, const char *op) {
  n->out->op = op;
  return true;
}

static bool same_shape(const naming_t *n) {
  tenon_port_t a, b;
  if (!port(n, 0, &a) || !port(n, 1, &b) || a.ndim < 0 || a.ndim != b.ndim) return false;
  for (int32_t d = 0; d < a.ndim; d++) {
    const tenon_axis_t *l = &a.axes[d];
    const tenon_axis_t *r = &b.axes[d];
    if (l->extent >= 0 ? l->extent != r->extent
                       : r->extent >= 0 || !l->name || !r->name || strcmp(l->name, r->name))
      return false;
  }
  return true;
}

typedef struct binary_t {
  const char *core;
  const char *equal;
  const char *broadcast;
  const char *scalar;
  const char *reversed;
} binary_t;
static const binary_t binaries[] = {
    {"add", "elemwise_add", "broadcast_add", "_plus_scalar", "_plus_scalar"},
    {"sub", "elemwise_sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar"},
    {"mul", "elemwise_mul", "broadcast_mul", "_mul_scalar", "_mul_scalar"},
    {"div", "elemwise_div", "broadcast_div", "_div_scalar", "_rdiv_scalar"},
    {"pow", "_power", "broadcast_power", "_power_scalar", "_rpower_scalar"},
    {"max", "_maximum", "broadcast_maximum", "_maximum_scalar", "_maximum_scalar"},
    {"min", "_minimum", "broadcast_minimum", "_minimum_scalar", "_minimum_scalar"}};

static bool binary(naming_t *n, const binary_t *b) {
  double value;
  for (int side = 0; side < 2; side++)
    /* In the first round the number is the right operand, in the second the left one. */
    if (number(n, !side, &value)) {
      add_attribute(n, "scalar", "%.17g", value);
      n->out->left_out = 1u << !side;
      return called(n, side ? b->reversed : b->scalar);
    }
  return called(n, same_shape(n) ? b->equal : b->broadcast);
}

static bool softmax(naming_t *n) {
  add_attribute(n, "axis", "%lld", (long long)attr_int(n, "axis"));
  return called(n, "softmax");
}
static bool log_softmax(naming_t *n) { return softmax(n) && called(n, "log_softmax"); }

static bool leaky(naming_t *n, const char *type, double slope) {
  add_attribute(n, "act_type", "%s", type);
  add_attribute(n, "slope", "%.9g", slope);
  return called(n, "LeakyReLU");
}
static bool leaky_relu(naming_t *n) { return leaky(n, "leaky", attr(n, "alpha")->as.f); }
static bool elu(naming_t *n) { return leaky(n, "elu", attr(n, "alpha")->as.f); }
static bool gelu(naming_t *n) { return attr_int(n, "approximate") == 0 && leaky(n, "gelu", 0.25); }
static bool softplus(naming_t *n) {
  add_attribute(n, "act_type", "softrelu");
  return called(n, "Activation");
}

static bool dense(naming_t *n, bool is_flat) {
  tenon_port_t w;
  if (!port(n, 1, &w) || w.ndim != 2 || w.axes[0].extent < 0) return false;
  if (operand(n, 2) >= 0 && rank(n, 2) != 1) return false;
  add_attribute(n, "num_hidden", "%lld", (long long)w.axes[0].extent);
  add_bool(n, "no_bias", operand(n, 2) < 0);
  add_bool(n, "flatten", is_flat);
  return called(n, "FullyConnected");
}
static bool gemm(naming_t *n) {
  return attr(n, "alpha")->as.f == 1 && attr(n, "beta")->as.f == 1 && !attr_int(n, "trans_a") &&
         attr_int(n, "trans_b") && dense(n, true);
}
static bool matmul(naming_t *n) {
  const int32_t a = rank(n, 0);
  const int32_t b = rank(n, 1);
  if (attr_int(n, "activation")) return false;
  if (b == 2 && a >= 2 && attr_int(n, "transpose_b") && !attr_int(n, "transpose_a") &&
      constant(n, 1) && dense(n, false))
    return true;
  n->out->attr_count = 0;
  if (operand(n, 2) >= 0 || a != b || (a != 2 && a != 3)) return false;
  add_bool(n, "transpose_a", attr_int(n, "transpose_a") != 0);
  add_bool(n, "transpose_b", attr_int(n, "transpose_b") != 0);
  return called(n, a == 2 ? "dot" : "batch_dot");
}

/* Adds kernel, stride, pad and dilation. Returns false if MXNet cannot express them, for example
 * if the pads differ between the two sides. */
static bool window(naming_t *n, const int64_t *kernel, int32_t count) {
  const char *const names[][2] = {{"strides", "stride"}, {"dilations", "dilate"}};
  const tenon_value_t *pads = attr(n, "pads");
  int64_t ones[TENON_RANK_MAX];
  int64_t zeros[TENON_RANK_MAX] = {0};
  if (attr_int(n, "auto_pad") != 0 || count < 1 || count > 3) return false;
  for (int32_t i = 0; i < count; i++)
    ones[i] = 1;
  add_list(n, "kernel", kernel, count);
  for (int i = 0; i < 2; i++) {
    const tenon_value_t *v = attr(n, names[i][0]);
    if (v->count && v->count != (uint32_t)count) return false;
    bool is_plain = i == 1;
    for (uint32_t k = 0; k < v->count; k++)
      is_plain &= v->as.ints[k] == 1;
    if (!is_plain || strcmp(n->out->op, "Convolution") == 0)
      add_list(n, names[i][1], v->count ? v->as.ints : ones, count);
    if (i == 1 && !is_plain && strcmp(n->out->op, "Pooling") == 0) return false;
  }
  if (pads->count && pads->count != 2 * (uint32_t)count) return false;
  for (int32_t i = 0; i < count && pads->count; i++)
    if (pads->as.ints[i] != pads->as.ints[i + count]) return false;
  add_list(n, "pad", pads->count ? pads->as.ints : zeros, count);
  return true;
}

static bool conv(naming_t *n) {
  tenon_port_t w;
  int64_t kernel[3];
  if (attr_int(n, "activation") || operand(n, 3) >= 0 || !port(n, 1, &w) || w.ndim < 3 ||
      w.ndim > 5)
    return false;
  for (int32_t d = 0; d < w.ndim; d++)
    if (w.axes[d].extent < 0)
      return false;
    else if (d >= 2)
      kernel[d - 2] = w.axes[d].extent;
  (void)called(n, "Convolution");
  if (!window(n, kernel, w.ndim - 2)) return false;
  add_attribute(n, "num_filter", "%lld", (long long)w.axes[0].extent);
  add_attribute(n, "num_group", "%lld", (long long)attr_int(n, "group"));
  add_bool(n, "no_bias", operand(n, 2) < 0);
  return true;
}
static bool pool(naming_t *n, const char *type) {
  const tenon_value_t *kernel = attr(n, "kernel");
  add_attribute(n, "pool_type", "%s", type);
  (void)called(n, "Pooling");
  if (!window(n, kernel->as.ints, (int32_t)kernel->count)) return false;
  add_attribute(n, "pooling_convention", "%s", attr_int(n, "ceil_mode") ? "full" : "valid");
  return true;
}
static bool max_pool(naming_t *n) { return attr_int(n, "storage_order") == 0 && pool(n, "max"); }
static bool average_pool(naming_t *n) {
  if (!pool(n, "avg")) return false;
  add_bool(n, "count_include_pad", attr_int(n, "count_include_pad") != 0);
  return true;
}
static bool global_pool(naming_t *n, const char *type) {
  add_attribute(n, "pool_type", "%s", type);
  add_bool(n, "global_pool", true);
  return rank(n, 0) >= 3 && called(n, "Pooling");
}
static bool global_average_pool(naming_t *n) { return global_pool(n, "avg"); }
static bool global_max_pool(naming_t *n) { return global_pool(n, "max"); }

static bool batch_norm(naming_t *n) {
  add_attribute(n, "eps", "%.9g", attr(n, "epsilon")->as.f);
  add_bool(n, "fix_gamma", false);
  add_bool(n, "use_global_stats", true);
  return called(n, "BatchNorm");
}

static bool flatten(naming_t *n) { return attr_int(n, "axis") == 1 && called(n, "Flatten"); }
static bool reshape(naming_t *n) {
  int64_t shape[TENON_RANK_MAX];
  int32_t count;
  if (attr_int(n, "allow_zero") || !integers(n, 1, shape, &count) || !count) return false;
  for (int32_t i = 0; i < count; i++)
    if (shape[i] < -1) return false;
  add_list(n, "shape", shape, count);
  n->out->left_out = 2;
  return called(n, "Reshape");
}
static bool transpose(naming_t *n) {
  const tenon_value_t *perm = attr(n, "perm");
  if (perm->kind != TENON_KIND_NONE) add_list(n, "axes", perm->as.ints, (int32_t)perm->count);
  return called(n, "transpose");
}
static bool unsqueeze(naming_t *n) {
  int64_t axes[TENON_RANK_MAX];
  int32_t count;
  if (!integers(n, 1, axes, &count) || count != 1) return false;
  add_attribute(n, "axis", "%lld", (long long)axes[0]);
  n->out->left_out = 2;
  return called(n, "expand_dims");
}
static bool concat(naming_t *n) {
  add_attribute(n, "dim", "%lld", (long long)attr_int(n, "axis"));
  add_attribute(n, "num_args", "%d", (int)n->node->operands[0].count);
  return called(n, "Concat");
}
static bool cast(naming_t *n) {
  static const char *const names[] = {"float32", "float64", "float16", "uint8",
                                      "int32",   "int8",    "int64",   "bool"};
  const int dtype = nnvm_dtype(attr(n, "to")->as.dtype);
  if (dtype < 0 || dtype > 7) return false;
  add_attribute(n, "dtype", "%s", names[dtype]);
  return called(n, "Cast");
}
static bool clip(naming_t *n) {
  double low, high;
  if (!number(n, 1, &low) || !number(n, 2, &high)) return false;
  add_attribute(n, "a_min", "%.17g", low);
  add_attribute(n, "a_max", "%.17g", high);
  n->out->left_out = 6;
  return called(n, "clip");
}
static bool reduce(naming_t *n, const char *op) {
  int64_t axes[TENON_RANK_MAX];
  int32_t count = 0;
  if (operand(n, 1) >= 0 && !integers(n, 1, axes, &count)) return false;
  if (!count && attr_int(n, "noop_with_empty_axes")) return false;
  if (count) add_list(n, "axis", axes, count);
  add_bool(n, "keepdims", attr_int(n, "keepdims") != 0);
  n->out->left_out = 2;
  return called(n, op);
}
static bool reduce_sum(naming_t *n) { return reduce(n, "sum"); }
static bool reduce_mean(naming_t *n) { return reduce(n, "mean"); }
static bool reduce_max(naming_t *n) { return reduce(n, "max"); }
static bool reduce_min(naming_t *n) { return reduce(n, "min"); }
static bool reduce_prod(naming_t *n) { return reduce(n, "prod"); }

/* clang-format off: a table of names */
/* clang-format off */
#define SAME(X)                                                                                    \
  X(abs, abs)                                                                                      \
  X(neg, negative) X(sign, sign) X(exp, exp) X(log, log) X(sqrt, sqrt) X(rsqrt, rsqrt) X(erf, erf) \
      X(reciprocal, reciprocal) X(floor, floor) X(ceil, ceil) X(sin, sin) X(cos, cos) X(tan, tan)  \
          X(asin, arcsin) X(acos, arccos) X(atan, arctan) X(sinh, sinh) X(cosh, cosh)              \
              X(tanh, tanh) X(asinh, arcsinh) X(acosh, arccosh) X(atanh, arctanh)                  \
                  X(sigmoid, sigmoid) X(relu, relu) X(softsign, softsign) X(identity, _copy)
#define OTHERS(X)                                                                                  \
  X(softmax)                                                                                       \
  X(log_softmax) X(leaky_relu) X(elu) X(gelu) X(softplus) X(gemm) X(matmul) X(conv) X(max_pool)    \
      X(average_pool) X(global_average_pool) X(global_max_pool) X(batch_norm) X(flatten)           \
          X(reshape) X(transpose) X(unsqueeze) X(concat) X(cast) X(clip) X(reduce_sum)             \
              X(reduce_mean) X(reduce_max) X(reduce_min) X(reduce_prod)
/* clang-format on */
typedef struct translation_t {
  const char *core;
  const char *mxnet;
  bool (*name)(naming_t *n);
} translation_t;
static const translation_t translations[] = {
#define ROW(core, mxnet) {#core, #mxnet, NULL},
    SAME(ROW)
#undef ROW
#define ROW(core) {#core, NULL, core},
        OTHERS(ROW)
#undef ROW
};

static bool name_core(naming_t *n, const char *core) {
  for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
    if (strcmp(binaries[i].core, core) == 0) return binary(n, &binaries[i]);
  for (size_t i = 0; i < sizeof translations / sizeof *translations; i++)
    if (strcmp(translations[i].core, core) == 0)
      return translations[i].name ? translations[i].name(n) : called(n, translations[i].mxnet);
  return false;
}

/* operators that keep their names */

/* Adds an attribute in the form of the schema language. Returns false if a string cannot express
 * it. */
static bool add_own(naming_t *n, const char *name, const tenon_value_t *v) {
  switch (v->kind) {
  case TENON_KIND_BOOL:
    add_bool(n, name, v->as.i != 0);
    return true;
  case TENON_KIND_INT:
  case TENON_KIND_CHOICE:
    add_attribute(n, name, "%lld", (long long)v->as.i);
    return true;
  case TENON_KIND_FLOAT:
    add_attribute(n, name, "%.17g", v->as.f);
    return true;
  case TENON_KIND_STR:
    return v->count < 2000 && (add_attribute(n, name, "%s", v->as.s), true);
  case TENON_KIND_DTYPE:
    add_attribute(n, name, "%s", tenon_dtype_name(v->as.dtype));
    return true;
  case TENON_KIND_INTS:
    return v->count <= TENON_RANK_MAX && (add_list(n, name, v->as.ints, (int32_t)v->count), true);
  default:
    return false;
  }
}

/* Adds the attributes of a list of strings "name=value". The text of a subgraph goes to `subgraph`
 * instead. */
static void add_open(naming_t *n, const tenon_value_t *list) {
  for (uint32_t i = 0; i < list->count && !n->failed; i++) {
    nnvm_op_t *o = n->out;
    char *text = tn_arena_text(n->arena, list->as.strs[i].data, list->as.strs[i].size);
    char *equals = text ? strchr(text, '=') : NULL;
    n->failed = !equals || o->attr_count == NNVM_ATTRS;
    if (n->failed) return;
    *equals = 0;
    if (strcmp(text, HOSTED_SUBGRAPH) == 0)
      o->subgraph = equals + 1;
    else {
      o->names[o->attr_count] = text;
      o->values[o->attr_count++] = equals + 1;
    }
  }
}

static void name_own(naming_t *n, const tenon_op_info_t *info, bool is_hosted) {
  tenon_argument_t about = {.size = sizeof about};
  const char *own = strstr(info->name, "::") + 2;
  n->out->op = is_hosted ? tn_arena_text(n->arena, own, strcspn(own, ".")) : info->name;
  n->failed |= !n->out->op;
  for (int32_t i = 0; tenon_op_argument(n->node->op, TENON_ARGUMENT_ATTR, i, &about) == TENON_OK;
       i++) {
    if (about.is_open)
      add_open(n, &n->node->attrs[i]);
    else if (!is_hosted)
      (void)add_own(n, about.name, &n->node->attrs[i]);
  }
}

tenon_status_t nnvm_op(const tenon_graph_t *graph, const tenon_graph_part_t *node,
                       tn_arena_t *arena, nnvm_op_t *out) {
  naming_t n = {graph, node, arena, out, false};
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(node->op, &info);
  *out = (nnvm_op_t){.op = NULL};
  const bool is_core = strncmp(info.name, "core::", 6) == 0;
  if (!is_core || !name_core(&n, info.name + 6)) {
    *out = (nnvm_op_t){.op = NULL};
    name_own(&n, &info, !is_core && loaded_find(info.library_path) != NULL);
  }
  return n.failed ? tn_fail(TENON_INVALID,
                            "node '%s' (%s): its attributes are too many or too long for MXNet's "
                            "graph format, or memory ran out",
                            node->name, info.name)
                  : TENON_OK;
}

int nnvm_dtype(tenon_dtype_t dtype) {
  static const uint32_t ids[] = {TENON_F32, TENON_F64, TENON_F16,  TENON_U8,  TENON_I32,
                                 TENON_I8,  TENON_I64, TENON_BOOL, TENON_I16, TENON_U16,
                                 TENON_U32, TENON_U64, TENON_BF16};
  for (int i = 0; i < (int)(sizeof ids / sizeof *ids); i++)
    if (ids[i] == tenon_dtype_id(dtype)) return i;
  return -1;
}
