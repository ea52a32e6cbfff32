/* One executable and several threads: each thread gets bit for bit what a single thread gets,
 * 10,000 times. */
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

enum {
  RUNS = 10000,
  VARIANTS = 4,
  OUTPUTS = 4,
};

typedef struct runner_t {
  tenon_executable_t *e;
  tenon_tensor_t *inputs[VARIANTS][2];
  tenon_tensor_t *expected[VARIANTS][OUTPUTS];
  int first;
  int mistakes;
  const char *error;
} runner_t;

static void run(void *pointer) {
  runner_t *r = pointer;
  for (int i = 0; i < RUNS; i++) {
    int v = (r->first + i) % VARIANTS;
    tenon_tensor_t *out[OUTPUTS] = {NULL};
    if (tenon_executable_run(r->e, r->inputs[v], out, NULL) != TENON_OK) r->mistakes++;
    for (int o = 0; o < OUTPUTS; o++) {
      r->mistakes += !tensor_equal(out[o], r->expected[v][o], 0);
      tenon_tensor_release(out[o]);
    }
  }
}

/* Views, copies, several results, workspace, written inputs, data-dependent shapes in two stages, a
 * composite. */
static tenon_executable_t *compile(void) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t w = graph_input(b, "w", TENON_F32, 2);
  tenon_edge_t p, t, n, in[3], s;
  graph_node(b, NULL, "contract::project", "units=3", (tenon_edge_t[]){x, w}, &p, 1);
  t = graph_step(b, "contract::transpose", NULL, graph_step(b, "contract::softmax", NULL, p));
  graph_node(b, NULL, "contract::layer_norm", NULL, (tenon_edge_t[]){p, -1, -1}, &n, 1);
  in[0] = n;
  in[1] = p;
  graph_node(b, NULL, "contract::axpy_", "alpha=0.5", in, &s, 1);
  tenon_edge_t flat = graph_step(b, "contract::flat", NULL, t);
  tenon_edge_t kept = graph_step(b, "contract::collect", "above=0.2", flat);
  tenon_edge_t outputs[OUTPUTS] = {t, s, graph_step(b, "contract::halve", NULL, kept),
                                   graph_step(b, "contract::median", NULL, flat)};
  for (int o = 0; o < OUTPUTS; o++)
    CHECK_STATUS(tenon_builder_output(b, NULL, outputs[o]), TENON_OK);
  return graph_compile(b, 0);
}

TEST("two threads that run one executable 10,000 times get the results of one thread") {
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  runner_t runners[2] = {{.e = compile(), .first = 0}, {.e = NULL, .first = 1}};
  tn_spawned_t threads[2];
  for (int v = 0; v < VARIANTS; v++) {
    int64_t shape[2] = {1 + v, 4};
    int64_t weight[2] = {3, 4};
    for (int i = 0; i < 2; i++) {
      tenon_tensor_t *t = NULL;
      CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, i ? weight : shape, &t),
                   TENON_OK);
      for (int64_t k = 0, n = tenon_count(t); k < n; k++)
        ((float *)t->data)[k] = (float)((k * 7 + v * 13 + i * 5) % 11) / 7 - 0.5f;
      runners[0].inputs[v][i] = t;
    }
    CHECK_STATUS(
        tenon_executable_run(runners[0].e, runners[0].inputs[v], runners[0].expected[v], NULL),
        TENON_OK);
  }
  runners[1] = runners[0];
  runners[1].first = 1;
  for (int i = 0; i < 2; i++)
    CHECK(tn_spawn(&threads[i], run, &runners[i]));
  for (int i = 0; i < 2; i++)
    tn_join(&threads[i]);
  CHECK(runners[0].mistakes == 0 && runners[1].mistakes == 0);
  for (int v = 0; v < VARIANTS; v++) {
    for (int i = 0; i < 2; i++)
      tenon_tensor_release(runners[0].inputs[v][i]);
    for (int o = 0; o < OUTPUTS; o++)
      tenon_tensor_release(runners[0].expected[v][o]);
  }
  tenon_executable_release(runners[0].e);
}

TEST("nothing is left behind") { tenon_shutdown(); }
