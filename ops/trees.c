/* tree_ensemble: forests of decision trees. The attributes list nodes, leaves and weights; when a
 * node of a graph is created, the trees are checked and copied breadth first, so that a tree lies
 * together in memory. Rows are computed in blocks, tree by tree, several rows side by side.
 * Invariant: after forest_create every index is in range and every node has one parent, so that a
 * walk ends. */
#include "axes.h"
#include "dense.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/check.h>

enum {
  LANES = 8,
  BLOCK = 64,    /* rows */
  WORK = 1 << 15 /* trees times rows that justify a thread */
};
enum {
  BRANCH_LEQ,
  BRANCH_LT,
  BRANCH_GTE,
  BRANCH_GT,
  BRANCH_EQ,
  BRANCH_NEQ,
  BRANCH_MEMBER,
  MODE_COUNT,
  MISSING = 8 /* NaN goes to the first child */
};
enum {
  SUM,
  MEAN,
  MIN,
  MAX,
};
enum {
  FORM_PLAIN,   /* every node has the mode BRANCH_LEQ, without MISSING */
  FORM_MISSING, /* every node has the mode BRANCH_LEQ */
  FORM_ANY,
};
enum {
  NODE_FEATURE,
  NODE_MODE,
  NODE_TRUE, /* an index of a node, or ~index of a leaf */
  NODE_FALSE,
  NODE_SIZE
};
enum {
  A_ROOTS,
  A_NODES,
  A_SPLITS,
  A_LEAVES,
  A_TARGETS,
  A_WEIGHTS,
  A_MEMBERS,
  A_OUTPUTS,
  A_AGGREGATE,
};

/* The attributes. */
typedef struct forest_parts_t {
  const int32_t *roots;
  const int32_t *nodes;
  const void *splits;
  int64_t root_count;
  int64_t node_count;
  int64_t leaf_count;
  int64_t weight_count;
  int64_t member_count;
} forest_parts_t;

typedef struct forest_t {
  int is_wide; /* f64 */
  int form;
  int is_single; /* a sum of one output, and one weight for each leaf */
  int64_t trees;
  int64_t features; /* the greatest feature of a node plus 1 */
  int64_t outputs;
  int64_t aggregate;
  int64_t width;  /* elements of a row of x, of one call */
  int64_t placed; /* number of nodes */
  void *nodes;
  int32_t *leaf_of; /* the leaf that a node is; -1: none */
  uint8_t *modes;
  int64_t *sets; /* where the members of a node begin */
  int32_t *roots;
  int32_t *depths;
  const int32_t *leaves; /* where the weights of a leaf begin */
  const int32_t *targets;
  const void *weights;
  const void *members;
} forest_t;

typedef struct job_t {
  int64_t width;
  uint8_t *has; /* of each element of the result: a leaf has been found; NULL: sums */
} job_t;

/* NaN below the least number, so that no element passes. */
static float before_f32(float x) { return x > -INFINITY ? nextafterf(x, -INFINITY) : NAN; }
static double before_f64(double x) {
  return x > -(double)INFINITY ? nextafter(x, -(double)INFINITY) : (double)NAN;
}

#define T float
#define BEFORE(x) before_f32(x)
#define NAME(x) f32_##x
#include "trees_kernel.h"

#define T double
#define BEFORE(x) before_f64(x)
#define NAME(x) f64_##x
#include "trees_kernel.h"

/* checks */

static tenon_status_t check_part(tenon_node_t *node, int32_t attr, const char *name, uint32_t dtype,
                                 int32_t ndim, int64_t *out_count) {
  const tenon_tensor_t *t = node->attrs[attr].as.tensor;
  if (!core_is(t, dtype) || !core_is_array(t) || t->ndim != ndim || t->shape[0] > INT32_MAX / 8)
    return tenon_fail(node, TENON_INVALID,
                      "%s has the wrong dtype, rank, length or layout: expected %d axes in "
                      "row-major order, and %s",
                      name, ndim, dtype == TENON_I32 ? "i32" : "the dtype of splits, f32 or f64");
  *out_count = t->shape[0];
  return TENON_OK;
}

static tenon_status_t read_parts(tenon_node_t *node, forest_parts_t *parts) {
  const tenon_value_t *attrs = node->attrs;
  int64_t split_count = 0;
  int64_t target_count = 0;
  uint32_t dtype = tenon_dtype_id(attrs[A_SPLITS].as.tensor->dtype);
  if (dtype != TENON_F64) dtype = TENON_F32;
  TENON_TRY(check_part(node, A_ROOTS, "roots", TENON_I32, 1, &parts->root_count));
  TENON_TRY(check_part(node, A_NODES, "nodes", TENON_I32, 2, &parts->node_count));
  TENON_TRY(check_part(node, A_SPLITS, "splits", dtype, 1, &split_count));
  TENON_TRY(check_part(node, A_LEAVES, "leaves", TENON_I32, 1, &parts->leaf_count));
  TENON_TRY(check_part(node, A_TARGETS, "targets", TENON_I32, 1, &target_count));
  TENON_TRY(check_part(node, A_WEIGHTS, "weights", dtype, 1, &parts->weight_count));
  if (attrs[A_MEMBERS].kind == TENON_KIND_TENSOR)
    TENON_TRY(check_part(node, A_MEMBERS, "members", dtype, 1, &parts->member_count));
  if (attrs[A_NODES].as.tensor->shape[1] != NODE_SIZE || split_count != parts->node_count ||
      target_count != parts->weight_count || parts->leaf_count-- < 1)
    return tenon_fail(node, TENON_INVALID,
                      "nodes, splits, leaves, targets and weights do not fit: expected nodes "
                      "[n, 4], splits [n], leaves [m + 1], targets [w] and weights [w]");
  parts->roots = (const int32_t *)attrs[A_ROOTS].as.tensor->data;
  parts->nodes = (const int32_t *)attrs[A_NODES].as.tensor->data;
  parts->splits = attrs[A_SPLITS].as.tensor->data;
  return TENON_OK;
}

static tenon_status_t check_nodes(tenon_node_t *node, const forest_parts_t *parts) {
  for (int64_t i = 0; i < parts->node_count; i++) {
    const int32_t *given = parts->nodes + i * NODE_SIZE;
    int32_t mode = given[NODE_MODE] & ~MISSING;
    if (given[NODE_FEATURE] < 0 || given[NODE_FEATURE] == INT32_MAX)
      return tenon_fail(node, TENON_INVALID,
                        "node %" PRId64 " tests feature %d: expected 0 or more", i,
                        given[NODE_FEATURE]);
    if (mode < 0 || mode >= MODE_COUNT)
      return tenon_fail(node, TENON_INVALID,
                        "node %" PRId64 " has mode %d: expected 0 to %d, plus 8 or not", i,
                        given[NODE_MODE], MODE_COUNT - 1);
    for (int k = NODE_TRUE; k <= NODE_FALSE; k++) {
      int64_t child = given[k];
      if (child >= parts->node_count || ~child >= parts->leaf_count)
        return tenon_fail(node, TENON_INVALID,
                          "node %" PRId64 " has the child %" PRId64 ": there are %" PRId64
                          " nodes, and %" PRId64 " leaves, which count from -1 down",
                          i, child, parts->node_count, parts->leaf_count);
    }
  }
  return TENON_OK;
}

static tenon_status_t check_leaves(tenon_node_t *node, const forest_t *f,
                                   const forest_parts_t *parts) {
  for (int64_t i = 0; i < parts->leaf_count; i++)
    if (f->leaves[i] < 0 || f->leaves[i + 1] < f->leaves[i] ||
        f->leaves[i + 1] > parts->weight_count)
      return tenon_fail(node, TENON_INVALID,
                        "leaf %" PRId64 " has weights %d to %d: there are %" PRId64, i,
                        f->leaves[i], f->leaves[i + 1], parts->weight_count);
  for (int64_t i = 0; i < parts->weight_count; i++)
    if (f->targets[i] < 0 || f->targets[i] >= f->outputs)
      return tenon_fail(node, TENON_INVALID,
                        "weight %" PRId64 " has the target %d: expected 0 to %" PRId64, i,
                        f->targets[i], f->outputs - 1);
  return TENON_OK;
}

/* the copy of the trees */

static int is_number(const forest_t *f, int64_t i) {
  if (f->is_wide) return ((const double *)f->members)[i] == ((const double *)f->members)[i];
  return ((const float *)f->members)[i] == ((const float *)f->members)[i];
}

/* Finds the members of each node of mode BRANCH_MEMBER: the sets follow each other in the order of
 * the nodes, each with NaN at its end. */
static tenon_status_t place_sets(tenon_node_t *node, const forest_t *f, const forest_parts_t *parts,
                                 int64_t *begin_of) {
  int64_t at = 0;
  for (int64_t i = 0; i < parts->node_count; i++) {
    if ((parts->nodes[i * NODE_SIZE + NODE_MODE] & ~MISSING) != BRANCH_MEMBER) continue;
    begin_of[i] = at;
    while (at < parts->member_count && is_number(f, at))
      at++;
    if (at++ >= parts->member_count)
      return tenon_fail(node, TENON_INVALID,
                        "node %" PRId64 " tests for members, but `members` has no set for it: "
                        "expected a list for each such node, with NaN at its end",
                        i);
  }
  return TENON_OK;
}

/* The arrays that only the copy needs. */
typedef struct copy_t {
  int32_t *from;      /* by new index: the node, or ~leaf */
  uint8_t *is_placed; /* by node */
  int64_t *begin_of;  /* by node: where its members begin */
} copy_t;

/* A leaf may be the child of several nodes, which get a copy each. */
static tenon_status_t place_node(tenon_node_t *node, forest_t *f, copy_t *copy, int32_t from,
                                 int32_t *out_at) {
  if (from >= 0 && copy->is_placed[from]++)
    return tenon_fail(node, TENON_INVALID,
                      "node %d is reached on two ways: expected trees, without cycles and without "
                      "shared nodes",
                      from);
  *out_at = (int32_t)f->placed;
  copy->from[f->placed++] = from;
  return TENON_OK;
}

/* Copies one tree level by level. */
static tenon_status_t place_tree(tenon_node_t *node, forest_t *f, const forest_parts_t *parts,
                                 copy_t *copy, int64_t tree) {
  int32_t root = parts->roots[tree];
  int64_t at = f->placed;
  if (root >= parts->node_count || ~(int64_t)root >= parts->leaf_count)
    return tenon_fail(node, TENON_INVALID, "tree %" PRId64 " begins at %d, which is no node", tree,
                      root);
  TENON_TRY(place_node(node, f, copy, root, &f->roots[tree]));
  for (int64_t end = f->placed; at < f->placed; end = f->placed) {
    int inner = 0;
    for (; at < end; at++) {
      int32_t from = copy->from[at];
      int32_t next[2] = {0, 0};
      for (int k = 0; from >= 0 && k < 2; k++)
        TENON_TRY(place_node(node, f, copy, parts->nodes[(int64_t)from * NODE_SIZE + NODE_TRUE + k],
                             &next[k]));
      if (f->is_wide)
        f64_set_node(f, parts, (int32_t)at, from, next);
      else
        f32_set_node(f, parts, (int32_t)at, from, next);
      if (from < 0) continue;
      inner = 1;
      f->sets[at] = copy->begin_of[from];
      int form = FORM_PLAIN;
      if (f->modes[at]) form = f->modes[at] == MISSING ? FORM_MISSING : FORM_ANY;
      if (form > f->form) f->form = form;
      int64_t feature = parts->nodes[(int64_t)from * NODE_SIZE + NODE_FEATURE];
      if (feature >= f->features) f->features = feature + 1;
    }
    f->depths[tree] += inner;
  }
  return TENON_OK;
}

static tenon_status_t place_trees(tenon_node_t *node, forest_t *f, const forest_parts_t *parts) {
  size_t count = (size_t)(2 * parts->node_count + parts->root_count) + 1;
  size_t size = f->is_wide ? sizeof(f64_node_t) : sizeof(f32_node_t);
  copy_t copy = {(int32_t *)calloc(count, sizeof(int32_t)), (uint8_t *)calloc(count, 1),
                 (int64_t *)calloc(count, sizeof(int64_t))};
  f->nodes = calloc(count, size);
  f->leaf_of = (int32_t *)calloc(count, sizeof *f->leaf_of);
  f->modes = (uint8_t *)calloc(count, sizeof *f->modes);
  f->sets = (int64_t *)calloc(count, sizeof *f->sets);
  f->roots = (int32_t *)calloc((size_t)f->trees + 1, sizeof *f->roots);
  f->depths = (int32_t *)calloc((size_t)f->trees + 1, sizeof *f->depths);
  tenon_status_t status = TENON_OK;
  if (!copy.from || !copy.is_placed || !copy.begin_of || !f->nodes || !f->leaf_of || !f->modes ||
      !f->sets || !f->roots || !f->depths)
    status = tenon_fail(node, TENON_MEMORY, "out of memory for %zu nodes of trees", count);
  if (status == TENON_OK) status = place_sets(node, f, parts, copy.begin_of);
  for (int64_t tree = 0; tree < f->trees && status == TENON_OK; tree++)
    status = place_tree(node, f, parts, &copy, tree);
  free(copy.from);
  free(copy.is_placed);
  free(copy.begin_of);
  return status;
}

static void forest_destroy(void *state) {
  forest_t *f = (forest_t *)state;
  if (!f) return;
  free(f->nodes);
  free(f->leaf_of);
  free(f->modes);
  free(f->sets);
  free(f->roots);
  free(f->depths);
  free(f);
}

static tenon_status_t forest_fill(tenon_node_t *node, forest_t *f) {
  const tenon_value_t *attrs = node->attrs;
  forest_parts_t parts = {0};
  TENON_TRY(read_parts(node, &parts));
  f->is_wide = tenon_dtype_id(attrs[A_SPLITS].as.tensor->dtype) == TENON_F64;
  f->trees = parts.root_count;
  f->outputs = attrs[A_OUTPUTS].as.i;
  f->aggregate = attrs[A_AGGREGATE].as.i;
  f->leaves = (const int32_t *)attrs[A_LEAVES].as.tensor->data;
  f->targets = (const int32_t *)attrs[A_TARGETS].as.tensor->data;
  f->weights = attrs[A_WEIGHTS].as.tensor->data;
  if (attrs[A_MEMBERS].kind == TENON_KIND_TENSOR) f->members = attrs[A_MEMBERS].as.tensor->data;
  if (f->outputs < 1 || f->outputs > 1 << 24 || f->trees < 1)
    return tenon_fail(node, TENON_INVALID,
                      "there are %" PRId64 " trees and %" PRId64
                      " outputs: expected 1 or more, and 1 to 16777216",
                      f->trees, f->outputs);
  TENON_TRY(check_nodes(node, &parts));
  TENON_TRY(check_leaves(node, f, &parts));
  f->is_single = f->outputs == 1 && f->aggregate <= MEAN;
  for (int64_t i = 0; i < parts.leaf_count && f->is_single; i++)
    f->is_single = f->leaves[i + 1] - f->leaves[i] <= 1;
  return place_trees(node, f, &parts);
}

static tenon_status_t forest_create(tenon_node_t *node) {
  forest_t *f = (forest_t *)calloc(1, sizeof *f);
  if (!f) return tenon_fail(node, TENON_MEMORY, "out of memory for trees");
  tenon_status_t status = forest_fill(node, f);
  if (status == TENON_OK)
    node->state = f;
  else
    forest_destroy(f);
  return status;
}

/* calls */

static tenon_status_t forest_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const forest_t *f = (const forest_t *)infer->state;
  tenon_meta_t *out = infer->outputs[0];
  uint32_t dtype = tenon_dtype_id(infer->attrs[A_SPLITS].as.tensor->dtype);
  if (tenon_dtype_id(x->dtype) != dtype)
    return tenon_fail(infer, TENON_INVALID, "x must have the dtype of splits, f32 or f64");
  if (x->ndim < 1 || x->ndim > 2)
    return tenon_fail(infer, TENON_INVALID, "x has shape %s; expected [rows, features]",
                      dims_text(x->dims, x->ndim).text);
  tenon_dim_t width = x->dims[x->ndim - 1];
  if (f && tenon_is_known(width) && width.value < f->features)
    return tenon_fail(infer, TENON_INVALID,
                      "x has shape %s, but the trees test feature %" PRId64 ": expected %" PRId64
                      " features or more",
                      dims_text(x->dims, x->ndim).text, f->features - 1, f->features);
  out->ndim = 2;
  out->dims[0] = x->ndim == 2 ? x->dims[0] : tenon_extent(1);
  out->dims[1] = tenon_extent(infer->attrs[A_OUTPUTS].as.i);
  return TENON_OK;
}

static tenon_status_t forest_run(tenon_call_t *call) {
  const forest_t *f = (const forest_t *)call->state;
  const tenon_tensor_t *x = call->inputs[0];
  int64_t count = call->outputs[0]->shape[0];
  job_t job = {.width = x->shape[x->ndim - 1]};
  if (count == 0) return TENON_OK;
  if (job.width < f->features)
    return tenon_fail(call, TENON_INVALID,
                      "x has %" PRId64 " features, but the trees test feature %" PRId64, job.width,
                      f->features - 1);
  if (f->aggregate >= MIN) {
    uint64_t size = (uint64_t)(count * f->outputs);
    job.has = (uint8_t *)call->host->allocate(call, size);
    if (!job.has) return TENON_MEMORY;
    memset(job.has, 0, (size_t)size);
  }
  return call->host->parallel(call, count, WORK / f->trees + 1, f->is_wide ? f64_rows : f32_rows,
                              &job);
}

/* clang-format off */
TENON_ITEMS(core_trees,
  TENON_OP("tree_ensemble(Tensor x, *, tensor roots, tensor nodes, tensor splits, tensor leaves, "
           "tensor targets, tensor weights, tensor? members=None, int outputs=1, "
           "str['sum', 'mean', 'min', 'max'] aggregate='sum') -> Tensor",
    TENON_DOC("The weights of the leaves that the rows of x reach, combined over all trees: "
              "[rows, outputs].\nA row of nodes is: feature, mode, child if the test holds, child "
              "if not. A child is an index of a node or -1 - index of a leaf. Modes compare with "
              "the element of splits: 0 <=, 1 <, 2 >=, 3 >, 4 ==, 5 !=, 6 is one of a list of "
              "members; plus 8: NaN takes the first child. Leaf i has the weights leaves[i] to "
              "leaves[i + 1] - 1, each for an output, its target. The lists of members follow each "
              "other, each with NaN at its end."),
    TENON_SAMPLES("x: f32[n, 3], roots = i32[2] [0, 1], nodes = i32[2, 4] [0, 0, -1, -2, 2, "
                  "9, -3, -4], splits = f32[2] [0.1, -0.2], leaves = i32[5] [0, 1, 2, 3, 4], "
                  "targets = i32[4] [0, 0, 0, 0], weights = f32[4] [0.5, -0.25, 1.5, 2.0]; x: "
                  "f64[n, 3], roots = i32[2] [0, 1], nodes = i32[2, 4] [0, 0, -1, -2, 2, 9, "
                  "-3, -4], splits = f64[2] [0.1, -0.2], leaves = i32[5] [0, 1, 2, 3, 4], "
                  "targets = i32[4] [0, 0, 0, 0], weights = f64[4] [0.5, -0.25, 1.5, 2.0]; x: "
                  "f32[n, 2] integers(0, 3), roots = i32[1] [0], nodes = i32[2, 4] [0, 4, 1, "
                  "-1, 1, 6, -2, -2], splits = f32[2] [1.0, 0.0], leaves = i32[3] [0, 2, 4], "
                  "targets = i32[4] [0, 2, 1, 2], weights = f32[4] [0.5, -0.25, 1.5, 2.0], "
                  "members = f32[3] [1.0, 2.0, nan], outputs = 3, aggregate = 'max'"),
    TENON_TYPES("x: f32|f64; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_STATE(forest_create, forest_destroy),
    TENON_INFER(forest_infer),
    TENON_KERNEL("cpu", forest_run)))
/* clang-format on */
