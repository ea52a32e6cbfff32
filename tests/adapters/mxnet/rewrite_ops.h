/* Operators beside rewrite.h, compiled into plain.c with -DOPERATORS='"rewrite_ops.h"': an operator
 * of subgraphs, and an ordinary one. */

/* t_chain runs a subgraph in which each node reads the result of the previous one: exp, log,
 * negative, sin. Attributes: bias, which is added to the result; step, which each further call adds
 * once more. */
typedef struct chain_t {
  object_t object; /* must be the first member */
  char ops[16][16];
  int count;
  int calls;
  double bias;
  double step;
} chain_t;

static int chain_run(call_t *c) {
  chain_t *chain = (chain_t *)c->object;
  for (int64_t i = 0; i < size_of(&c->out, 0); i++) {
    float x = ((float *)c->in.data[0])[i];
    for (int k = 0; k < chain->count; k++) {
      const char *op = chain->ops[k];
      x = !strcmp(op, "exp")   ? expf(x)
          : !strcmp(op, "log") ? logf(x)
          : !strcmp(op, "sin") ? sinf(x)
                               : -x;
    }
    ((float *)c->out.data[0])[i] = x + (float)(chain->bias + chain->step * chain->calls);
  }
  chain->calls++;
  return 1;
}

static int chain_create(attrs_t a, object_t **out) {
  const char *json = get(a, "subgraph_sym_json", NULL);
  chain_t *made = calloc(1, sizeof *made);
  if (!json) {
    free(made);
    return fail("there is no subgraph");
  }
  for (const char *at = json; (at = strstr(at, "\"op\": \"")) && made->count < 16;) {
    char op[16] = "";
    sscanf(at += 7, "%15[^\"]", op);
    if (strcmp(op, "null") == 0) continue;
    if (strcmp(op, "exp") && strcmp(op, "log") && strcmp(op, "sin") && strcmp(op, "negative")) {
      free(made);
      return fail("an operator that t_chain does not know");
    }
    strcpy(made->ops[made->count++], op);
  }
  made->bias = atof(get(a, "bias", "0"));
  made->step = atof(get(a, "step", "0"));
  made->object.made = 1;
  made->object.forward = chain_run;
  *out = &made->object;
  return 1;
}

static int twice_run(call_t *c) {
  const float factor = (float)atof(get(c->attrs, "factor", "2"));
  for (int64_t i = 0; i < size_of(&c->in, 0); i++)
    ((float *)c->out.data[0])[i] = ((float *)c->in.data[0])[i] * factor;
  return 1;
}

static const op_t ops[] = {
    {"t_chain", NULL, NULL, NULL, NULL, NULL, NULL, NULL, chain_create},
    {"t_twice", one_one, floats, NULL, same_shape, NULL, twice_run, NULL, NULL},
    {"t_split", two_two, floats, NULL, same_shape, NULL, twice_run, NULL, NULL}};
