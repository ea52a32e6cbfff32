/* Lowerings of TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble to
 * core::tree_ensemble. The first two name nodes by tree and number; here names become indices.
 * core::tree_ensemble checks that the nodes form trees.
 * Invariant: the lists of a node have equal lengths before one of them is read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "import/onnx/lower_ml.h"

enum {
  NODES_MAX = 1 << 27,
  MISSING = 8,
};

static void *make_list(tn_lower_t *lower, size_t count, size_t size) {
  void *list =
      tn_ml_has_stopped(lower) ? NULL : tn_arena_array(&lower->import->arena, count + 1, size);
  if (!list && !tn_ml_has_stopped(lower))
    (void)tn_lower_has_failed(lower, tn_no_memory("trees", count));
  return list;
}

/* The attributes of core::tree_ensemble, as lists. */
typedef struct forest_t {
  tenon_dtype_t dtype; /* of splits and weights: f32, or f64 if x is f64 */
  size_t tree_count;
  size_t node_count;
  size_t leaf_count;
  size_t weight_count;
  int32_t *roots;
  int32_t *nodes; /* [node_count, 4] */
  double *splits;
  int32_t *leaves; /* leaf_count + 1 */
  int32_t *targets;
  double *weights;
  tenon_tensor_t *members;
  int64_t outputs;
  const char *aggregate;
} forest_t;

static tenon_value_t ints_value(tn_lower_t *lower, const int32_t *values, size_t count,
                                int64_t columns) {
  const int64_t shape[2] = {(int64_t)count, columns};
  tenon_tensor_t *tensor = tn_ml_tensor(lower, tenon_dtype(TENON_I32), columns > 1 ? 2 : 1, shape);
  if (tensor && count) memcpy(tensor->data, values, count * (size_t)columns * sizeof *values);
  return tn_ml_held(tensor);
}

static tenon_value_t numbers_value(tn_lower_t *lower, tenon_dtype_t dtype, const double *values,
                                   size_t count) {
  const int64_t extent = (int64_t)count;
  tenon_tensor_t *tensor = tn_ml_tensor(lower, dtype, 1, &extent);
  for (size_t i = 0; tensor && i < count; i++) {
    if (tn_dtype_is(dtype, TENON_F64))
      ((double *)tensor->data)[i] = values[i];
    else
      ((float *)tensor->data)[i] = (float)values[i];
  }
  return tn_ml_held(tensor);
}

static tn_ref_t *call_forest(tn_lower_t *lower, const forest_t *f) {
  const tn_ml_attr_t attrs[] = {
      {"roots", ints_value(lower, f->roots, f->tree_count, 1)},
      {"nodes", ints_value(lower, f->nodes, f->node_count, 4)},
      {"splits", numbers_value(lower, f->dtype, f->splits, f->node_count)},
      {"leaves", ints_value(lower, f->leaves, f->leaf_count + 1, 1)},
      {"targets", ints_value(lower, f->targets, f->weight_count, 1)},
      {"weights", numbers_value(lower, f->dtype, f->weights, f->weight_count)},
      {f->members ? "members" : NULL, tn_ml_held(f->members)},
      {"outputs", tn_ml_int(f->outputs)},
      {"aggregate", tn_ml_text(f->aggregate)}};
  if (tn_ml_has_stopped(lower)) return NULL;
  tn_ref_t *x = tn_ml_rows(lower, tn_dtype_name(f->dtype));
  tn_ref_t **results =
      tn_ml_call(lower, "core::tree_ensemble", attrs, sizeof attrs / sizeof *attrs, x);
  return results ? results[0] : NULL;
}

static tenon_dtype_t forest_dtype(tn_lower_t *lower) {
  bool is_wide = tn_dtype_is(tn_lower_dtype(lower, lower->inputs[0]), TENON_F64);
  return tenon_dtype(is_wide ? TENON_F64 : TENON_F32);
}

/* The first versions: nodes with names */

/* A node's name and its index in the lists. */
typedef struct named_t {
  int64_t tree;
  int64_t node;
  int32_t index;
} named_t;

typedef struct source_t {
  size_t count;
  const int64_t *trees;
  const int64_t *names;
  const int64_t *features;
  const int64_t *children[2];
  const int64_t *missing; /* NULL: none */
  const double *splits;
  const tn_bytes_t *modes;
  named_t *sorted;
  /* of the weights */
  size_t weight_count;
  const int64_t *weight_trees;
  const int64_t *weight_names;
  const int64_t *targets;
  const double *weights;
} source_t;

static void check_length(tn_lower_t *lower, const char *name, size_t found, const char *other,
                         size_t expected) {
  if (found != expected)
    tn_lower_fail(lower, "attribute '%s' has %zu items, but '%s' has %zu: expected equal lengths",
                  name, found, other, expected);
}

/* A list of ints with as many items as the list `other`. */
static const int64_t *read_ints(tn_lower_t *lower, const char *name, const char *other,
                                size_t expected) {
  size_t count = 0;
  const int64_t *list = tn_ml_ints(lower, name, &count);
  check_length(lower, name, count, other, expected);
  return list;
}

static const double *read_floats(tn_lower_t *lower, const char *name, const char *other,
                                 size_t expected) {
  size_t count = 0;
  const double *list = tn_ml_floats(lower, name, &count);
  check_length(lower, name, count, other, expected);
  return list;
}

/* Reads the nodes, and the weights, whose attributes begin with "target" or "class". */
static void read_source(tn_lower_t *lower, source_t *s, bool is_classifier) {
  static const char *const names[2][4] = {
      {"target_ids", "target_nodeids", "target_treeids", "target_weights"},
      {"class_ids", "class_nodeids", "class_treeids", "class_weights"}};
  const char *const *of = names[is_classifier];
  static const char first[] = "nodes_nodeids";
  size_t ignored = 0;
  s->names = tn_ml_ints(lower, first, &s->count);
  s->trees = read_ints(lower, "nodes_treeids", first, s->count);
  s->features = read_ints(lower, "nodes_featureids", first, s->count);
  s->children[0] = read_ints(lower, "nodes_truenodeids", first, s->count);
  s->children[1] = read_ints(lower, "nodes_falsenodeids", first, s->count);
  s->splits = read_floats(lower, "nodes_values", first, s->count);
  (void)tn_ml_floats(lower, "nodes_hitrates", &ignored); /* has no meaning for the result */
  if (tn_lower_attr(lower, "nodes_missing_value_tracks_true")) {
    s->missing = tn_ml_ints(lower, "nodes_missing_value_tracks_true", &ignored);
    if (ignored) check_length(lower, "nodes_missing_value_tracks_true", ignored, first, s->count);
    if (!ignored) s->missing = NULL;
  }
  const tn_onnx_attribute_t *modes = tn_lower_typed(lower, "nodes_modes", TN_ATTRIBUTE_STRINGS);
  check_length(lower, "nodes_modes", modes ? modes->strings.count : 0, first, s->count);
  if (modes) s->modes = modes->strings.items;
  s->targets = tn_ml_ints(lower, of[0], &s->weight_count);
  s->weight_names = read_ints(lower, of[1], of[0], s->weight_count);
  s->weight_trees = read_ints(lower, of[2], of[0], s->weight_count);
  s->weights = read_floats(lower, of[3], of[0], s->weight_count);
  if (!s->count) tn_lower_fail(lower, "the trees have no nodes: expected 1 or more");
  if (s->count > NODES_MAX || s->weight_count > NODES_MAX)
    tn_lower_missing(lower, "the trees have more than %d nodes or weights", NODES_MAX);
}

static int compare_named(const void *left, const void *right) {
  const named_t *a = left;
  const named_t *b = right;
  if (a->tree != b->tree) return a->tree < b->tree ? -1 : 1;
  if (a->node != b->node) return a->node < b->node ? -1 : 1;
  return 0;
}

static void sort_source(tn_lower_t *lower, source_t *s) {
  s->sorted = make_list(lower, s->count, sizeof *s->sorted);
  if (!s->sorted) return;
  for (size_t i = 0; i < s->count; i++)
    s->sorted[i] = (named_t){s->trees[i], s->names[i], (int32_t)i};
  qsort(s->sorted, s->count, sizeof *s->sorted, compare_named);
  for (size_t i = 1; i < s->count; i++)
    if (compare_named(&s->sorted[i - 1], &s->sorted[i]) == 0) {
      tn_lower_fail(lower, "node %" PRId64 " of tree %" PRId64 " is listed twice",
                    s->sorted[i].node, s->sorted[i].tree);
      return;
    }
}

/* The index of a node; -1: there is none of this name. */
static int32_t find_named(const source_t *s, int64_t tree, int64_t node) {
  const named_t key = {tree, node, 0};
  const named_t *found = bsearch(&key, s->sorted, s->count, sizeof *s->sorted, compare_named);
  return found ? found->index : -1;
}

/* The mode of node i as core::tree_ensemble numbers them; -1: a leaf. */
static int32_t read_mode(tn_lower_t *lower, const source_t *s, size_t i) {
  static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                      "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  const tn_bytes_t text = s->modes[i];
  if (text.size == 4 && memcmp(text.data, "LEAF", 4) == 0) return -1;
  for (int32_t k = 0; k < (int32_t)(sizeof names / sizeof *names); k++)
    if (text.size == strlen(names[k]) && memcmp(text.data, names[k], text.size) == 0) return k;
  tn_lower_fail(lower,
                "attribute 'nodes_modes': item %zu is '%.*s', expected LEAF or a mode such as "
                "BRANCH_LEQ",
                i, text.size < 40 ? (int)text.size : 40, (const char *)text.data);
  return -1;
}

/* Numbers inner nodes from 0 up and leaves from -1 down. Returns the number of each node. */
static int32_t *number_nodes(tn_lower_t *lower, const source_t *s, forest_t *f) {
  int32_t *numbers = make_list(lower, s->count, sizeof *numbers);
  for (size_t i = 0; i < s->count && !tn_ml_has_stopped(lower); i++)
    if (read_mode(lower, s, i) < 0)
      numbers[i] = -1 - (int32_t)f->leaf_count++;
    else
      numbers[i] = (int32_t)f->node_count++;
  return numbers;
}

static void fill_node(tn_lower_t *lower, const source_t *s, forest_t *f, const int32_t *numbers,
                      size_t i) {
  int32_t *node = f->nodes + 4 * (size_t)numbers[i];
  f->splits[numbers[i]] = s->splits[i];
  if (s->features[i] < 0 || s->features[i] >= INT32_MAX)
    tn_lower_fail(lower, "node %" PRId64 " of tree %" PRId64 " tests feature %" PRId64, s->names[i],
                  s->trees[i], s->features[i]);
  node[0] = (int32_t)s->features[i];
  node[1] = read_mode(lower, s, i);
  if (s->missing && s->missing[i]) node[1] += MISSING;
  for (int k = 0; k < 2; k++) {
    int32_t child = find_named(s, s->trees[i], s->children[k][i]);
    if (child < 0) {
      tn_lower_fail(lower,
                    "attribute '%s': node %" PRId64 " of tree %" PRId64 " has the child %" PRId64
                    ", which the tree does not have",
                    k ? "nodes_falsenodeids" : "nodes_truenodeids", s->names[i], s->trees[i],
                    s->children[k][i]);
      return;
    }
    node[2 + k] = numbers[child];
  }
}

/* A tree begins at the node that the lists name first. */
static void fill_roots(tn_lower_t *lower, const source_t *s, forest_t *f, const int32_t *numbers) {
  int32_t *firsts = make_list(lower, s->count, sizeof *firsts);
  f->roots = make_list(lower, s->count, sizeof *f->roots);
  if (tn_ml_has_stopped(lower)) return;
  memset(firsts, 0, s->count * sizeof *firsts);
  for (size_t i = 0; i < s->count;) {
    int32_t first = s->sorted[i].index;
    int64_t tree = s->sorted[i].tree;
    for (; i < s->count && s->sorted[i].tree == tree; i++)
      if (s->sorted[i].index < first) first = s->sorted[i].index;
    firsts[first] = 1;
  }
  for (size_t i = 0; i < s->count; i++)
    if (firsts[i]) f->roots[f->tree_count++] = numbers[i];
}

/* Groups the weights by leaf; weights of inner nodes have no meaning. */
static void fill_weights(tn_lower_t *lower, const source_t *s, forest_t *f,
                         const int32_t *numbers) {
  int32_t *leaf_of = make_list(lower, s->weight_count, sizeof *leaf_of);
  f->leaves = make_list(lower, f->leaf_count + 1, sizeof *f->leaves);
  f->targets = make_list(lower, s->weight_count, sizeof *f->targets);
  f->weights = make_list(lower, s->weight_count, sizeof *f->weights);
  if (tn_ml_has_stopped(lower)) return;
  memset(f->leaves, 0, (f->leaf_count + 2) * sizeof *f->leaves);
  for (size_t i = 0; i < s->weight_count; i++) {
    int32_t at = find_named(s, s->weight_trees[i], s->weight_names[i]);
    if (at < 0 || s->targets[i] < 0 || s->targets[i] >= f->outputs) {
      tn_lower_fail(lower,
                    "weight %zu is for node %" PRId64 " of tree %" PRId64 " and class or target "
                    "%" PRId64 ": expected a node of the tree, and 0 to %" PRId64,
                    i, s->weight_names[i], s->weight_trees[i], s->targets[i], f->outputs - 1);
      return;
    }
    leaf_of[i] = ~numbers[at];
    if (leaf_of[i] >= 0) f->leaves[leaf_of[i] + 2]++;
  }
  /* leaves[k + 1] is where the next weight of leaf k goes, and in the end where those of leaf k + 1
   * begin. */
  for (size_t k = 2; k <= f->leaf_count; k++)
    f->leaves[k] += f->leaves[k - 1];
  for (size_t i = 0; i < s->weight_count; i++) {
    if (leaf_of[i] < 0) continue;
    int32_t at = f->leaves[leaf_of[i] + 1]++;
    f->targets[at] = (int32_t)s->targets[i];
    f->weights[at] = s->weights[i];
    f->weight_count++;
  }
}

static void fill_forest(tn_lower_t *lower, source_t *s, forest_t *f) {
  sort_source(lower, s);
  const int32_t *numbers = tn_ml_has_stopped(lower) ? NULL : number_nodes(lower, s, f);
  f->nodes = make_list(lower, f->node_count * 4, sizeof *f->nodes);
  f->splits = make_list(lower, f->node_count, sizeof *f->splits);
  for (size_t i = 0; i < s->count && !tn_ml_has_stopped(lower); i++)
    if (numbers[i] >= 0) fill_node(lower, s, f, numbers, i);
  if (!tn_ml_has_stopped(lower)) fill_roots(lower, s, f, numbers);
  if (!tn_ml_has_stopped(lower)) fill_weights(lower, s, f, numbers);
}

/* Adds base values, of which there is one for each output. */
static tn_ref_t *add_base(tn_lower_t *lower, tn_ref_t *y, const double *base, size_t count) {
  if (!count) return y;
  tn_ref_t *values = tn_ml_matrix(lower, base, 0, (int64_t)count);
  return tn_lower_run(lower, TN_REFS(y, values), "add(a, cast_like(b, a))");
}

static tn_ref_t *as_f32(tn_lower_t *lower, tn_ref_t *y, tenon_dtype_t dtype) {
  return tn_dtype_is(dtype, TENON_F32) ? y : tn_lower_run(lower, TN_REFS(y), "cast(a, to='f32')");
}

static void lower_regressor(tn_lower_t *lower) {
  static const char *const names[][2] = {
      {"SUM", "sum"}, {"AVERAGE", "mean"}, {"MIN", "min"}, {"MAX", "max"}};
  forest_t f = {.dtype = forest_dtype(lower)};
  source_t s = {0};
  size_t base_count = 0;
  const char *aggregate = tn_lower_text(lower, "aggregate_function", "SUM");
  const char *transform = tn_ml_transform(lower);
  const double *base = tn_ml_floats(lower, "base_values", &base_count);
  f.outputs = tn_lower_int(lower, "n_targets", 1);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], aggregate) == 0) f.aggregate = names[i][1];
  if (!f.aggregate)
    tn_lower_fail(lower,
                  "attribute 'aggregate_function': expected SUM, AVERAGE, MIN or MAX, found "
                  "'%.100s'",
                  aggregate);
  if (f.outputs < 1 || (base_count && base_count != (size_t)f.outputs))
    tn_lower_fail(lower,
                  "there are %" PRId64 " targets and %zu base values: expected 1 or more targets, "
                  "and a base value for each",
                  f.outputs, base_count);
  read_source(lower, &s, false);
  if (!tn_ml_has_stopped(lower)) fill_forest(lower, &s, &f);
  tn_ref_t *y = tn_ml_has_stopped(lower) ? NULL : call_forest(lower, &f);
  y = as_f32(lower, add_base(lower, y, base, base_count), f.dtype);
  lower->outputs[0] = tn_ml_transformed(lower, y, f.outputs, transform);
}

/* Whether all weights of a classifier are for one class. */
static bool is_one_class(const source_t *s) {
  for (size_t i = 1; i < s->weight_count; i++)
    if (s->targets[i] != s->targets[0]) return false;
  return true;
}

static bool are_positive(const source_t *s) {
  for (size_t i = 0; i < s->weight_count; i++)
    if (s->weights[i] < 0) return false;
  return true;
}

/* Two classes, and weights for one of them, as ONNX Runtime reads them: weights of class 0 are the
 * score of the second class, of which the first one gets the complement or the negative; weights of
 * class 1 leave 0 to the first class. */
static void lower_binary(tn_lower_t *lower, source_t *s, forest_t *f, tn_ref_t *labels,
                         tn_ml_classes_t *classes) {
  size_t base_count = 0;
  const double *base = tn_ml_floats(lower, "base_values", &base_count);
  bool is_positive = are_positive(s);
  bool is_second = s->weight_count && s->targets[0] == 1;
  int64_t *zeros = make_list(lower, s->weight_count, sizeof *zeros);
  if (base_count > (is_second ? 0 : 1))
    tn_lower_missing(lower,
                     "%zu base values with weights for class %d of 2 only: runtimes read them in "
                     "different ways",
                     base_count, is_second);
  if (strcmp(classes->transform, "probit") == 0)
    tn_lower_missing(lower, "PROBIT of a single score leaves the other class without one");
  if (tn_ml_has_stopped(lower)) return;
  memset(zeros, 0, s->weight_count * sizeof *zeros);
  s->targets = zeros;
  f->outputs = 1;
  fill_forest(lower, s, f);
  tn_ref_t *y = tn_ml_has_stopped(lower) ? NULL : call_forest(lower, f);
  y = as_f32(lower, add_base(lower, y, base, base_count), f->dtype);
  classes->rule = "threshold";
  classes->threshold = is_positive ? 0.5 : 0;
  if (is_second)
    y = tn_lower_run(lower, TN_REFS(y), "concat([sub(a, a), a], axis=1)");
  else
    classes->second = is_positive ? "complement" : "negative";
  tn_ml_classify(lower, y, labels, classes);
}

static void lower_classifier(tn_lower_t *lower) {
  forest_t f = {.dtype = forest_dtype(lower), .aggregate = "sum"};
  source_t s = {0};
  size_t base_count = 0;
  tn_ml_classes_t classes = {tn_ml_transform(lower), "none", "most", 0};
  tn_ref_t *labels = tn_ml_labels(lower, "classlabels_int64s", "classlabels_strings", &f.outputs);
  const double *base = tn_ml_floats(lower, "base_values", &base_count);
  read_source(lower, &s, true);
  for (size_t i = 0; i < s.weight_count && !tn_ml_has_stopped(lower); i++)
    if (s.targets[i] < 0 || s.targets[i] >= f.outputs)
      tn_lower_fail(lower, "attribute 'class_ids': item %zu is %" PRId64 ", expected 0 to %" PRId64,
                    i, s.targets[i], f.outputs - 1);
  if (tn_ml_has_stopped(lower)) return;
  if (f.outputs == 2 && is_one_class(&s)) {
    lower_binary(lower, &s, &f, labels, &classes);
    return;
  }
  if (base_count && base_count != (size_t)f.outputs)
    tn_lower_fail(lower, "there are %zu base values for %" PRId64 " classes", base_count,
                  f.outputs);
  fill_forest(lower, &s, &f);
  tn_ref_t *y = tn_ml_has_stopped(lower) ? NULL : call_forest(lower, &f);
  y = as_f32(lower, add_base(lower, y, base, base_count), f.dtype);
  if (!tn_ml_has_stopped(lower)) tn_ml_classify(lower, y, labels, &classes);
}

/* Version 5: nodes with indices */

/* Fills in node i. Children are inner nodes or leaves, by index. */
static void fill_indexed(tn_lower_t *lower, forest_t *f, const tenon_tensor_t *modes,
                         const int64_t *features, const int64_t *missing,
                         const int64_t *const *children, const int64_t *const *are_leaves,
                         size_t i) {
  int32_t *node = f->nodes + 4 * i;
  int32_t mode = ((const uint8_t *)modes->data)[i];
  if (features[i] < 0 || features[i] >= INT32_MAX || mode > 6)
    tn_lower_fail(lower,
                  "node %zu tests feature %" PRId64 " in mode %d: expected a feature from 0 on, "
                  "and a mode from 0 to 6",
                  i, features[i], mode);
  if (tn_ml_has_stopped(lower)) return;
  node[0] = (int32_t)features[i];
  node[1] = missing && missing[i] ? mode + MISSING : mode;
  for (int k = 0; k < 2; k++) {
    int64_t child = children[k][i];
    size_t count = are_leaves[k][i] ? f->leaf_count : f->node_count;
    if (child < 0 || (size_t)child >= count) {
      tn_lower_fail(lower,
                    "attribute 'nodes_%snodeids': node %zu has the child %" PRId64
                    ": there are %zu nodes and %zu leaves",
                    k ? "false" : "true", i, child, f->node_count, f->leaf_count);
      return;
    }
    node[2 + k] = are_leaves[k][i] ? (int32_t)~child : (int32_t)child;
  }
}

/* Numbers of a tensor attribute as f64. */
static double *read_numbers(tn_lower_t *lower, const char *name, size_t *out_count) {
  const tenon_tensor_t *tensor = tn_ml_constant(lower, tn_lower_attr_tensor(lower, name));
  *out_count = tensor ? (size_t)tenon_count(tensor) : 0;
  double *list = make_list(lower, *out_count, sizeof *list);
  if (!tensor || !list) return NULL;
  const tenon_dtype_t dtype = tensor->dtype;
  if (!tn_dtype_is(dtype, TENON_F64) && !tn_dtype_is(dtype, TENON_F32) &&
      !tn_dtype_is(dtype, TENON_F16))
    tn_lower_fail(lower, "attribute '%s': expected f64, f32 or f16, found %s", name,
                  tn_dtype_name(dtype));
  for (size_t i = 0; i < *out_count && !tn_ml_has_stopped(lower); i++) {
    float narrow = 0;
    const char *from = (const char *)tensor->data + i * dtype.bits / 8;
    if (tn_dtype_is(dtype, TENON_F64)) {
      memcpy(&list[i], from, sizeof list[i]);
      continue;
    }
    if (tn_dtype_is(dtype, TENON_F32))
      memcpy(&narrow, from, sizeof narrow);
    else
      tn_convert(from, dtype, &narrow, tenon_dtype(TENON_F32), 1);
    list[i] = (double)narrow;
  }
  return list;
}

static void read_leaves(tn_lower_t *lower, forest_t *f) {
  f->weights = read_numbers(lower, "leaf_weights", &f->weight_count);
  const int64_t *targets = read_ints(lower, "leaf_targetids", "leaf_weights", f->weight_count);
  f->leaf_count = f->weight_count;
  f->leaves = make_list(lower, f->leaf_count + 1, sizeof *f->leaves);
  f->targets = make_list(lower, f->leaf_count, sizeof *f->targets);
  for (size_t i = 0; i < f->leaf_count && !tn_ml_has_stopped(lower); i++) {
    if (targets[i] < 0 || targets[i] >= f->outputs)
      tn_lower_fail(lower,
                    "attribute 'leaf_targetids': item %zu is %" PRId64 ", expected 0 to %" PRId64,
                    i, targets[i], f->outputs - 1);
    f->targets[i] = (int32_t)targets[i];
    f->leaves[i] = (int32_t)i;
  }
  if (!tn_ml_has_stopped(lower)) f->leaves[f->leaf_count] = (int32_t)f->leaf_count;
}

static void read_roots(tn_lower_t *lower, forest_t *f) {
  const int64_t *roots = tn_ml_ints(lower, "tree_roots", &f->tree_count);
  f->roots = make_list(lower, f->tree_count, sizeof *f->roots);
  for (size_t i = 0; i < f->tree_count && !tn_ml_has_stopped(lower); i++) {
    if (roots[i] < 0 || (size_t)roots[i] >= f->node_count)
      tn_lower_fail(lower,
                    "attribute 'tree_roots': item %zu is %" PRId64 ", but there are %zu nodes", i,
                    roots[i], f->node_count);
    f->roots[i] = (int32_t)roots[i];
  }
}

static void read_indexed(tn_lower_t *lower, forest_t *f) {
  static const char first[] = "nodes_splits";
  size_t count = 0;
  f->splits = read_numbers(lower, first, &f->node_count);
  const int64_t *features = read_ints(lower, "nodes_featureids", first, f->node_count);
  const int64_t *children[2] = {read_ints(lower, "nodes_truenodeids", first, f->node_count),
                                read_ints(lower, "nodes_falsenodeids", first, f->node_count)};
  const int64_t *are_leaves[2] = {read_ints(lower, "nodes_trueleafs", first, f->node_count),
                                  read_ints(lower, "nodes_falseleafs", first, f->node_count)};
  const int64_t *missing = tn_ml_ints(lower, "nodes_missing_value_tracks_true", &count);
  if (count) check_length(lower, "nodes_missing_value_tracks_true", count, first, f->node_count);
  (void)tn_lower_attr(lower, "nodes_hitrates"); /* has no meaning for the result */
  const tenon_tensor_t *modes = tn_ml_constant(lower, tn_lower_attr_tensor(lower, "nodes_modes"));
  if (!modes || !tn_dtype_is(modes->dtype, TENON_U8) || (size_t)tenon_count(modes) != f->node_count)
    tn_lower_fail(lower, "attribute 'nodes_modes': expected u8 [%zu], a mode for each node",
                  f->node_count);
  read_leaves(lower, f);
  read_roots(lower, f);
  if (f->node_count > NODES_MAX || f->leaf_count > NODES_MAX)
    tn_lower_missing(lower, "the trees have more than %d nodes or leaves", NODES_MAX);
  f->nodes = make_list(lower, f->node_count * 4, sizeof *f->nodes);
  for (size_t i = 0; i < f->node_count && !tn_ml_has_stopped(lower); i++)
    fill_indexed(lower, f, modes, features, count ? missing : NULL, children, are_leaves, i);
}

static void lower_ensemble(tn_lower_t *lower) {
  static const char *const aggregates[] = {"mean", "sum", "min", "max"};
  static const char *const transforms[] = {"none", "softmax", "logistic", "softmax_zero", "probit"};
  forest_t f = {.dtype = forest_dtype(lower)};
  size_t member_count = 0;
  int64_t aggregate = tn_lower_int(lower, "aggregate_function", 1);
  int64_t transform = tn_lower_int(lower, "post_transform", 0);
  f.outputs = tn_lower_int(lower, "n_targets", 1);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4 || f.outputs < 1)
    tn_lower_fail(lower,
                  "aggregate_function is %" PRId64 ", post_transform %" PRId64 " and n_targets "
                  "%" PRId64 ": expected 0 to 3, 0 to 4, and 1 or more",
                  aggregate, transform, f.outputs);
  if (tn_ml_has_stopped(lower)) return;
  f.aggregate = aggregates[aggregate];
  read_indexed(lower, &f);
  if (tn_lower_attr(lower, "membership_values")) {
    const double *members = read_numbers(lower, "membership_values", &member_count);
    if (members) f.members = numbers_value(lower, f.dtype, members, member_count).as.tensor;
  }
  tn_ref_t *y = tn_ml_has_stopped(lower) ? NULL : call_forest(lower, &f);
  if (tn_ml_has_stopped(lower)) return;
  if (transform && (f.outputs > 1 || transform == 4))
    y = tn_ml_transformed(lower, as_f32(lower, y, f.dtype), f.outputs, transforms[transform]);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(y, lower->inputs[0]), "cast_like(a, b)");
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"TreeEnsemble(x)", 5, lower_ensemble},
  {"TreeEnsembleClassifier(x)", 1, lower_classifier},
  {"TreeEnsembleRegressor(x)", 1, lower_regressor},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_trees, "ai.onnx.ml");
