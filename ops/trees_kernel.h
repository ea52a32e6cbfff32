/* The walk through the trees of a forest, for one dtype. Included by trees.c, which defines T (the
 * element type), BEFORE(x) (the next smaller number) and NAME(x). A leaf is its own child, so that
 * all lanes walk until none moves. */

typedef struct NAME(node_t) {
  T split;         /* of a leaf with one weight: the weight */
  int32_t feature; /* the sign bit: NaN goes to the first child */
  int32_t next[2]; /* if the element is at most `split`, and if it is not */
} NAME(node_t);

/* Does the element go to the first child? */
static int NAME(holds)(const forest_t *f, int32_t at, T value) {
  const NAME(node_t) *node = (const NAME(node_t) *)f->nodes + at;
  if (value != value && f->modes[at] & MISSING) return 1;
  switch (f->modes[at] & ~MISSING) {
  case BRANCH_EQ:
    return value == node->split;
  case BRANCH_NEQ:
    return value != node->split;
  case BRANCH_MEMBER:
    for (const T *member = (const T *)f->members + f->sets[at]; *member == *member; member++)
      if (*member == value) return 1;
    return 0;
  default:
    return value <= node->split;
  }
}

/* Walks from the nodes at[] to leaves, at most `depth` levels. `has_missing`, a constant: NaN goes
 * to the first child of some nodes. */
static inline __attribute__((always_inline)) void NAME(walk)(const forest_t *f,
                                                             const T *const row[LANES],
                                                             int32_t at[LANES], int32_t depth,
                                                             int has_missing) {
  const NAME(node_t) *nodes = (const NAME(node_t) *)f->nodes;
  int32_t moved = 1;
  for (int32_t level = 0; level < depth && moved; level++) {
    moved = 0;
    for (int l = 0; l < LANES; l++) {
      const NAME(node_t) *node = &nodes[at[l]];
      T value = row[l][has_missing ? node->feature & INT32_MAX : node->feature];
      int is_first = value <= node->split;
      if (has_missing) is_first |= (value != value) & (node->feature < 0);
      int32_t to = node->next[!is_first];
      moved |= to ^ at[l];
      at[l] = to;
    }
  }
}

/* The same for nodes of any mode. */
static void NAME(walk_any)(const forest_t *f, const T *const row[LANES], int32_t at[LANES],
                           int32_t depth) {
  const NAME(node_t) *nodes = (const NAME(node_t) *)f->nodes;
  for (int l = 0; l < LANES; l++)
    for (int32_t level = 0; level < depth && f->leaf_of[at[l]] < 0; level++) {
      const NAME(node_t) *node = &nodes[at[l]];
      at[l] = node->next[!NAME(holds)(f, at[l], row[l][node->feature & INT32_MAX])];
    }
}

static void NAME(walk_form)(const forest_t *f, const T *const row[LANES], int32_t at[LANES],
                            int32_t depth) {
  if (f->form == FORM_PLAIN)
    NAME(walk)(f, row, at, depth, 0);
  else if (f->form == FORM_MISSING)
    NAME(walk)(f, row, at, depth, 1);
  else
    NAME(walk_any)(f, row, at, depth);
}

/* Adds the weights of a leaf to the outputs of a row. */
static void NAME(add)(const forest_t *f, int32_t at, T *sums, uint8_t *has) {
  const T *weights = (const T *)f->weights;
  int32_t leaf = f->leaf_of[at];
  for (int32_t k = f->leaves[leaf]; k < f->leaves[leaf + 1]; k++) {
    int32_t target = f->targets[k];
    T weight = weights[k];
    if (!has) {
      sums[target] += weight;
    } else if (!has[target] ||
               (f->aggregate == MIN ? weight < sums[target] : weight > sums[target])) {
      sums[target] = weight;
      has[target] = 1;
    }
  }
}

/* Adds the leaves at[] of `lanes` lanes; the outputs of lane l begin at sums + l * step. */
static void NAME(add_lanes)(const forest_t *f, const int32_t *at, int64_t lanes, T *sums,
                            uint8_t *has, int64_t step) {
  const NAME(node_t) *nodes = (const NAME(node_t) *)f->nodes;
  for (int64_t l = 0; l < lanes; l++)
    if (f->is_single)
      sums[l * step] += nodes[at[l]].split;
    else
      NAME(add)(f, at[l], sums + l * step, has ? has + l * step : NULL);
}

/* One tree for `count` rows, LANES rows at a time. */
static void NAME(tree)(const forest_t *f, int64_t tree, const T *x, int64_t count, T *sums,
                       uint8_t *has) {
  for (int64_t first = 0; first < count; first += LANES) {
    int64_t lanes = count - first < LANES ? count - first : LANES;
    const T *row[LANES];
    int32_t at[LANES];
    for (int64_t l = 0; l < LANES; l++) {
      row[l] = x + (first + (l < lanes ? l : 0)) * f->width;
      at[l] = f->roots[tree];
    }
    NAME(walk_form)(f, row, at, f->depths[tree]);
    NAME(add_lanes)
    (f, at, lanes, sums + first * f->outputs, has ? has + first * f->outputs : NULL, f->outputs);
  }
}

/* One row, LANES trees at a time: for calls of a few rows. */
static void NAME(row)(const forest_t *f, const T *x, T *sums, uint8_t *has) {
  for (int64_t first = 0; first < f->trees; first += LANES) {
    int64_t lanes = f->trees - first < LANES ? f->trees - first : LANES;
    const T *row[LANES];
    int32_t at[LANES];
    int32_t depth = 0;
    for (int64_t l = 0; l < LANES; l++) {
      int64_t tree = first + (l < lanes ? l : 0);
      row[l] = x;
      at[l] = f->roots[tree];
      if (f->depths[tree] > depth) depth = f->depths[tree];
    }
    NAME(walk_form)(f, row, at, depth);
    NAME(add_lanes)(f, at, lanes, sums, has, 0);
  }
}

/* Computes rows [begin, end). */
static tenon_status_t NAME(rows)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const job_t *job = (const job_t *)argument;
  forest_t f = *(const forest_t *)call->state;
  const T *x = (const T *)call->inputs[0]->data;
  T *out = (T *)call->outputs[0]->data;
  f.width = job->width;
  memset(out + begin * f.outputs, 0, (size_t)((end - begin) * f.outputs) * sizeof(T));
  for (int64_t first = begin; first < end; first += BLOCK) {
    int64_t count = end - first < BLOCK ? end - first : BLOCK;
    uint8_t *has = job->has ? job->has + first * f.outputs : NULL;
    const T *rows = x + first * f.width;
    T *sums = out + first * f.outputs;
    if (count < LANES)
      for (int64_t i = 0; i < count; i++)
        NAME(row)(&f, rows + i * f.width, sums + i * f.outputs, has ? has + i * f.outputs : NULL);
    else
      for (int64_t tree = 0; tree < f.trees; tree++)
        NAME(tree)(&f, tree, rows, count, sums, has);
    for (int64_t i = 0; f.aggregate == MEAN && i < count * f.outputs; i++)
      sums[i] /= (T)f.trees;
  }
  return TENON_OK;
}

/* Fills in the node that stands for node or leaf `from` of the attributes. Tests for <, > and >=
 * become tests for <=, with the children exchanged if need be. */
static void NAME(set_node)(forest_t *f, const forest_parts_t *parts, int32_t at, int32_t from,
                           const int32_t next[2]) {
  NAME(node_t) *node = (NAME(node_t) *)f->nodes + at;
  node->next[0] = node->next[1] = at;
  f->leaf_of[at] = from < 0 ? ~from : -1;
  if (from < 0) {
    if (f->is_single && f->leaves[~from] < f->leaves[~from + 1])
      node->split = ((const T *)f->weights)[f->leaves[~from]];
    return;
  }
  const int32_t *given = parts->nodes + (int64_t)from * NODE_SIZE;
  int32_t mode = given[NODE_MODE] & ~MISSING;
  int32_t missing = given[NODE_MODE] & MISSING;
  int is_turned = mode == BRANCH_GT || mode == BRANCH_GTE;
  node->split = ((const T *)parts->splits)[from];
  if (mode == BRANCH_LT || mode == BRANCH_GTE) node->split = BEFORE(node->split);
  if (is_turned) missing ^= MISSING;
  if (mode <= BRANCH_GT) mode = BRANCH_LEQ;
  node->feature = missing ? given[NODE_FEATURE] | INT32_MIN : given[NODE_FEATURE];
  node->next[0] = next[is_turned];
  node->next[1] = next[!is_turned];
  f->modes[at] = (uint8_t)(mode | missing);
}

#undef T
#undef BEFORE
#undef NAME
