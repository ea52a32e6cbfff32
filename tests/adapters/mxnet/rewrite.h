/* Passes and partitioners in plain C, compiled into plain.c with -DTRANSFORMS='"rewrite.h"'.
 * Options decide what they do, and which errors they make (bad=...). Graphs are handled as the
 * texts in which they arrive. */

static const char *option(attrs_t o, const char *key) { return get(o, key, NULL); }
static int is_bad(attrs_t o, const char *what) {
  return option(o, "bad") && strcmp(option(o, "bad"), what) == 0;
}

#define PARAMS(kind)                                                                               \
  const char *const *kind##_names, int kind##_count, void *const *kind##_data,                     \
      const int64_t *const *kind##_shapes, const int *kind##_ndims, const int *kind##_dtypes,      \
      const size_t *kind##_versions, const char *const *kind##_devices, const int *kind##_ids
typedef struct params_t {
  const char *const *names;
  int count;
  void *const *data;
  const int64_t *const *shapes;
  const int *ndims;
  const int *dtypes;
} params_t;
#define TAKE(kind)                                                                                 \
  { kind##_names, kind##_count, kind##_data, kind##_shapes, kind##_ndims, kind##_dtypes }
typedef void (*alloc_fn)(const void *, const int64_t *, int, const char *, int, int, const char *,
                         int, void **);

/* passes */

typedef struct pass_t {
  const char *json;
  attrs_t options;
  params_t args;
  params_t aux;
  alloc_fn alloc;
  const void *handle;
} pass_t;
typedef char *(*pass_fn)(pass_t *);

/* Returns `text`, or the unchanged graph; with alloc=NAME the graph gets a new parameter, [2] of
 * 0.5. */
static char *pass_give(pass_t *p) {
  const char *text = option(p->options, "text");
  const char *alloc = option(p->options, "alloc");
  const int64_t shape[] = {2};
  const int64_t huge[] = {(int64_t)1 << 62, 8};
  const int64_t negative[] = {-1};
  if (is_bad(p->options, "silent")) return NULL;
  if (is_bad(p->options, "say")) {
    fail("this graph I do not like");
    return NULL;
  }
  if (alloc) {
    float *data = NULL;
    const int dtype = is_bad(p->options, "dtype") ? 9 : 0;
    const char *device = is_bad(p->options, "device") ? "gpu" : "cpu";
    if (is_bad(p->options, "huge"))
      p->alloc(p->handle, huge, 2, device, 0, dtype, alloc, 1, (void **)&data);
    else if (is_bad(p->options, "negative"))
      p->alloc(p->handle, negative, 1, device, 0, dtype, alloc, 1, (void **)&data);
    else
      p->alloc(p->handle, shape, 1, device, 0, dtype, alloc, 1, (void **)&data);
    if (!data) {
      fail("no parameter");
      return NULL;
    }
    data[0] = data[1] = 0.5f;
  }
  return strdup(text ? text : p->json);
}

/* Replaces the operator `from` by `to` everywhere. */
static char *pass_replace(pass_t *p) {
  char from[64], to[64];
  snprintf(from, sizeof from, "\"%s\"", option(p->options, "from"));
  snprintf(to, sizeof to, "\"%s\"", option(p->options, "to"));
  char *made = calloc(1, 4 * strlen(p->json) + 1);
  char *end = made;
  for (const char *at = p->json, *next; *at; at = next) {
    next = strstr(at, from);
    const size_t size = next ? (size_t)(next - at) : strlen(at);
    memcpy(end, at, size);
    end += size;
    if (!next) break;
    end += sprintf(end, "%s", to);
    next += strlen(from);
  }
  return made;
}

/* Doubles the float32 parameters in place. */
static char *pass_double(pass_t *p) {
  for (int i = 0; i < p->args.count; i++) {
    int64_t n = p->args.dtypes[i] == 0;
    for (int d = 0; d < p->args.ndims[i]; d++)
      n *= p->args.shapes[i][d];
    if (option(p->options, "only") && strcmp(option(p->options, "only"), p->args.names[i]) != 0)
      continue;
    for (int64_t k = 0; k < n; k++)
      ((float *)p->args.data[i])[k] *= 2;
  }
  return strdup(p->json);
}

#ifdef THROWS
static char *pass_throw(pass_t *p) {
  (void)p;
  throw_text();
  return NULL;
}
#endif
static const struct {
  const char *name;
  pass_fn run;
} passes[] = {{"t_give", pass_give},
              {"t_replace", pass_replace},
              {"t_double", pass_double},
#ifdef THROWS
              {"t_throw", pass_throw},
#endif
#ifdef PASS
              PASS
#endif
};

EXPORT int _passRegSize(void) { return (int)(sizeof passes / sizeof *passes); }
EXPORT void _passRegGet(int index, any_fn *pass, const char **name) {
  *pass = (any_fn)passes[index].run;
  *name = passes[index].name;
}
EXPORT int _passCallGraphPass(pass_fn f, const char *json, char **out, ATTRS, const char *name,
                              PARAMS(arg), PARAMS(aux), alloc_fn alloc, const void *handle) {
  pass_t p = {json, {keys, values, count}, TAKE(arg), TAKE(aux), alloc, handle};
  (void)name;
  (void)arg_versions;
  (void)arg_devices;
  (void)arg_ids;
  (void)aux_versions;
  (void)aux_devices;
  (void)aux_ids;
  char *made = f(&p);
  if (!made) return 0;
  if (is_bad(p.options, "nothing")) {
    free(made);
    return 1;
  }
/* The header of version 7 writes no terminating 0, so earlier text remains behind the last
 * brace. */
#if VERSION == 7
  const size_t size = strlen(made);
  char *open = malloc(size + 64);
  memset(open, '}', size + 64);
  memcpy(open, made, size);
  free(made);
  made = open;
  /* Real MXNet 1.7 reads on to the next 0. */
  if (option(p.options, "closed")) made[size] = 0;
#endif
  *out = made;
  return 1;
}

/* partitioners */

typedef struct nodes_t {
  char ops[256][32];
  int count;
} nodes_t;

static void read_nodes(const char *json, nodes_t *out) {
  out->count = 0;
  for (const char *at = json; (at = strstr(at, "\"op\": \"")) && out->count < 256;)
    sscanf(at += 7, "%31[^\"]", out->ops[out->count++]);
}

/* Returns the number of an operator in a text like "exp=0,log=-1", or -2 if it is missing. */
static int id_of(attrs_t o, const char *key, const char *op) {
  char word[40];
  snprintf(word, sizeof word, ",%s=", op);
  char list[200] = ",";
  strncat(list, option(o, key) ? option(o, key) : "", 190);
  const char *at = strstr(list, word);
  return at ? atoi(at + strlen(word)) : -2;
}

static int supported(const char *key, const char *json, int n, int *ids, attrs_t o) {
  nodes_t nodes;
  if (is_bad(o, "silent")) return 0;
  if (is_bad(o, "say")) return fail("none of these nodes");
  read_nodes(json, &nodes);
  for (int i = 0; i < n; i++)
    ids[i] = is_bad(o, "id") ? -7 : i < nodes.count ? id_of(o, key, nodes.ops[i]) : -2;
  return 1;
}
static int supported_ops(const char *json, int n, int *ids, attrs_t o) {
  return supported("ops", json, n, ids, o);
}
static int supported_more(const char *json, int n, int *ids, attrs_t o) {
  return supported("more", json, n, ids, o);
}
typedef int (*supported_fn)(const char *, int, int *, attrs_t);

typedef struct selector_t {
  nodes_t nodes;
  char takes[256];
  char bad[16];
  int most;
} selector_t;

static int select_create(const char *json, void **out, attrs_t o) {
  selector_t *s = calloc(1, sizeof *s);
  if (is_bad(o, "nothing")) {
    free(s);
    return 1;
  }
  if (is_bad(o, "say")) {
    free(s);
    return fail("no selector for this graph");
  }
  read_nodes(json, &s->nodes);
  for (int i = 0; i < s->nodes.count; i++)
    s->takes[i] = id_of(o, "ops", s->nodes.ops[i]) != -2;
  s->most = option(o, "most") ? atoi(option(o, "most")) : 1 << 20;
  snprintf(s->bad, sizeof s->bad, "%s", option(o, "bad") ? option(o, "bad") : "");
  *out = s;
  return 1;
}
typedef int (*selector_fn)(const char *, void **, attrs_t);

typedef struct review_t {
  const char *json;
  int id;
  int *accepts;
  attrs_t options;
  params_t args;
  char *keys[8];
  char *values[8];
  int count;
} review_t;

static void add(review_t *r, const char *key, const char *value) {
  r->keys[r->count] = strdup(key);
  r->values[r->count++] = strdup(value);
}

/* Rejects the subgraph `reject`, passes `step` on, and sets `bias` to the sum of the subgraph's
 * parameter w... */
static int review(review_t *r) {
  const char *reject = option(r->options, "reject");
  const char *step = option(r->options, "step");
  if (is_bad(r->options, "review")) return fail("this subgraph I do not like");
  *r->accepts = !reject || atoi(reject) != r->id;
  if (step) add(r, "step", step);
  if (is_bad(r->options, "key")) add(r, "a=b", "c");
  for (int i = 0; i < r->args.count; i++) {
    char name[100], text[40];
    double sum = 0;
    int64_t n = r->args.dtypes[i] == 0;
    snprintf(name, sizeof name, "\"argName\": \"%s\"", r->args.names[i]);
    if (*r->args.names[i] != 'w' || !strstr(r->json, name)) continue;
    for (int d = 0; d < r->args.ndims[i]; d++)
      n *= r->args.shapes[i][d];
    for (int64_t k = 0; k < n; k++)
      sum += ((float *)r->args.data[i])[k];
    snprintf(text, sizeof text, "%g", sum);
    add(r, "bias", text);
  }
  return 1;
}
typedef int (*review_fn)(review_t *);

static const struct {
  const char *name;
  struct {
    const char *name;
    const char *op;
    supported_fn supported;
    selector_fn selector;
    review_fn review;
  } strategies[2];
  int count;
} partitioners[] = {{"t_by_ops", {{"only", "t_chain", supported_ops, NULL, review}}, 1},
                    {"t_select", {{"only", "t_chain", NULL, select_create, review}}, 1},
                    {"t_plain", {{"only", "t_chain", supported_ops, NULL, NULL}}, 1},
                    {"t_two",
                     {{"first", "t_chain", supported_ops, NULL, review},
                      {"second", "t_chain", supported_more, NULL, NULL}},
                     2},
#ifdef PARTITIONER
                    PARTITIONER
#endif
};

EXPORT int _partRegSize(void) { return (int)(sizeof partitioners / sizeof *partitioners); }
EXPORT int _partRegGetCount(int index, const char **name) {
  *name = partitioners[index].name;
  return partitioners[index].count;
}
EXPORT void _partRegGet(int part, int index, const char **name, any_fn *supports, any_fn *selects,
                        any_fn *reviews, const char **op) {
  *name = partitioners[part].strategies[index].name;
  *op = partitioners[part].strategies[index].op;
  *supports = (any_fn)partitioners[part].strategies[index].supported;
  *selects = (any_fn)partitioners[part].strategies[index].selector;
  *reviews = (any_fn)partitioners[part].strategies[index].review;
}
EXPORT int _partCallSupportedOps(supported_fn f, const char *json, int n, int *ids, ATTRS) {
  return f(json, n, ids, (attrs_t){keys, values, count});
}
EXPORT int _partCallCreateSelector(selector_fn f, const char *json, void **selector, ATTRS) {
  return f(json, selector, (attrs_t){keys, values, count});
}
EXPORT void _partCallSelect(void *s, int node, int *takes) {
  *takes = ((selector_t *)s)->takes[node];
}
EXPORT void _partCallSelectInput(void *s, int node, int input, int *takes) {
  (void)node;
  *takes = ((selector_t *)s)->takes[input];
}
EXPORT void _partCallSelectOutput(void *s, int node, int output, int *takes) {
  (void)node;
  *takes = ((selector_t *)s)->takes[output];
}
EXPORT void _partCallFilter(void *selector, int *nodes, int n, int **kept, int *kept_count) {
  const selector_t *s = selector;
  *kept_count = n < s->most ? n : s->most;
  *kept = malloc(((size_t)n + 1) * sizeof **kept);
  for (int i = 0; i < n; i++)
    (*kept)[i] = nodes[i];
  if (strcmp(s->bad, "node") == 0) (*kept)[0] = 1000;
  if (strcmp(s->bad, "other") == 0) (*kept)[0] = 0;
  if (strcmp(s->bad, "count") == 0) *kept_count = n + 5;
}
EXPORT void _partCallReset(void *selector) { (void)selector; }
EXPORT int _partCallReviewSubgraph(review_fn f, const char *json, int id, int *accepts, ATTRS,
                                   char ***out_keys, char ***out_values, int *out_count,
                                   PARAMS(arg), PARAMS(aux)) {
  review_t r = {json, id, accepts, {keys, values, count}, TAKE(arg), {0}, {0}, 0};
  (void)arg_versions;
  (void)arg_devices;
  (void)arg_ids;
  (void)aux_versions;
  (void)aux_devices;
  (void)aux_ids;
  (void)aux_names;
  (void)aux_count;
  (void)aux_data;
  (void)aux_shapes;
  (void)aux_ndims;
  (void)aux_dtypes;
  if (!f(&r)) return 0;
  if (!r.count) return 1;
  *out_count = r.count;
  *out_keys = malloc(sizeof r.keys);
  *out_values = malloc(sizeof r.values);
  memcpy(*out_keys, r.keys, sizeof r.keys);
  memcpy(*out_values, r.values, sizeof r.values);
  return 1;
}
