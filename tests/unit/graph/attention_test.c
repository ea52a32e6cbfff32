/* Attention that is written out becomes one node, in each form in which exporters write it, and
 * similar nodes that compute something else stay. Expected numbers are worked out by hand: scores
 * are 0 or the logarithm of 3, so that weights are halves or quarters. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#define LOG_3 "1.0986123"
/* Two positions of two heads of one element. */
#define Q_FLAT "f32[1,2,2] " LOG_3 " 0 0 " LOG_3
#define K_FLAT "f32[1,2,2] 2 0 0 2"
#define V_FLAT "f32[1,2,2] 4 8 0 0"
/* Weights of head 0: 3/4 1/4 | 1/2 1/2; of head 1: 1/2 1/2 | 1/4 3/4 */
#define OUT_FLAT "f32[1,2,2] 3 4 2 2"
/* The first query does not see the second key. */
#define MASK "f32[1,1,2,2] 0 -inf 0 0"
#define OUT_MASKED "f32[1,2,2] 4 8 2 2"
/* The same with the heads in an axis of their own. */
#define Q_APART "f32[1,2,2,1] " LOG_3 " 0 0 " LOG_3
#define K_APART "f32[1,2,2,1] 2 0 0 2"
#define V_APART "f32[1,2,2,1] 4 0 8 0"
#define OUT_APART "f32[1,2,2,1] 3 2 4 2"
#define HEADS "perm=[0, 2, 1, 3]"

typedef struct written_t {
  const char *what;
  bool is_flat;         /* the operands, and the result */
  const char *k_perm;   /* NULL: the product transposes k */
  const char *scale_op; /* NULL: none */
  const char *scale;
  const char *k;
  const char *mask; /* NULL: none */
  const char *expected;
  const char *softmax_axis;
  const char *read; /* a step whose result is an output as well: "scores", "weights" or NULL */
  bool is_attention;
} written_t;

static const written_t forms[] = {
    {"flat", true, "perm=[0, 2, 3, 1]", "core::mul", "f32[] 0.5", K_FLAT, NULL, OUT_FLAT, "axis=-1",
     NULL, true},
    {"divided", true, "perm=[0, 2, 3, 1]", "core::div", "f32[] 2", K_FLAT, NULL, OUT_FLAT, "axis=3",
     NULL, true},
    {"no scale", true, "perm=[0, 2, 3, 1]", NULL, NULL, "f32[1,2,2] 1 0 0 1", NULL, OUT_FLAT,
     "axis=-1", NULL, true},
    {"mask", true, "perm=[0, 2, 3, 1]", "core::mul", "f32[] 0.5", K_FLAT, MASK, OUT_MASKED,
     "axis=-1", NULL, true},
    {"mask of two axes", true, "perm=[0, 2, 3, 1]", "core::mul", "f32[] 0.5", K_FLAT,
     "f32[2,2] 0 -inf 0 0", OUT_MASKED, "axis=-1", NULL, true},
    {"apart", false, "perm=[0, 1, 3, 2]", "core::mul", "f32[] 0.5", K_APART, NULL, OUT_APART,
     "axis=-1", NULL, true},
    {"transposed by the product", false, NULL, "core::mul", "f32[] 0.5", K_APART, NULL, OUT_APART,
     "axis=-1", NULL, true},
    {"mask of one key", true, "perm=[0, 2, 3, 1]", "core::mul", "f32[] 0.5", K_FLAT, "f32[1] 7",
     OUT_FLAT, "axis=-1", NULL, false},
    {"scores are read", true, "perm=[0, 2, 3, 1]", "core::mul", "f32[] 0.5", K_FLAT, NULL, OUT_FLAT,
     "axis=-1", "scores", false},
    {"weights are read", true, "perm=[0, 2, 3, 1]", "core::mul", "f32[] 0.5", K_FLAT, NULL,
     OUT_FLAT, "axis=-1", "weights", false},
    {"scaled by a vector", true, "perm=[0, 2, 3, 1]", "core::mul", "f32[2] 0.5 0.5", K_FLAT, NULL,
     OUT_FLAT, "axis=-1", NULL, false},
    /* Scores of head 0: log(3) 0 | 0 0; of head 1: 0 0 | 0 log(3) */
    {"softmax over queries", true, "perm=[0, 2, 3, 1]", "core::mul", "f32[] 0.5", K_FLAT, NULL,
     "f32[1,2,2] 3 4 1 4", "axis=2", NULL, false},
};

static tenon_edge_t fixed_input(tenon_builder_t *b, const char *name, bool is_flat) {
  tenon_axis_t axes[4] = {{1, NULL}, {2, NULL}, {2, NULL}, {1, NULL}};
  tenon_edge_t edge = -1;
  CHECK_STATUS(tenon_builder_input(b, name, tenon_dtype(TENON_F32), is_flat ? 3 : 4, axes, &edge),
               TENON_OK);
  return edge;
}

static tenon_edge_t binary(tenon_builder_t *b, const char *op, const char *attrs, tenon_edge_t x,
                           tenon_edge_t y) {
  tenon_edge_t result;
  graph_node(b, NULL, op, attrs, (tenon_edge_t[]){x, y, -1, -1, -1, -1, -1, -1}, &result, 1);
  return result;
}

/* Takes the heads of an operand apart; then permutes its axes. */
static tenon_edge_t side(tenon_builder_t *b, const char *name, bool is_flat, const char *perm,
                         tenon_edge_t shape) {
  tenon_edge_t x = fixed_input(b, name, is_flat);
  if (is_flat) x = binary(b, "core::reshape", NULL, x, shape);
  return perm ? graph_step(b, "core::transpose", perm, x) : x;
}

static bool is_read(const written_t *form, const char *step) {
  return form->read && strcmp(form->read, step) == 0;
}

static tenon_executable_t *compile_form(const written_t *form, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t shape = graph_constant(b, "shape", "i64[4] 1 2 2 1");
  tenon_edge_t q = side(b, "q", form->is_flat, form->is_flat ? HEADS : NULL, shape);
  tenon_edge_t k = side(b, "k", form->is_flat, form->k_perm, shape);
  tenon_edge_t v = side(b, "v", form->is_flat, form->is_flat ? HEADS : NULL, shape);
  tenon_edge_t scores = binary(b, "core::matmul", form->k_perm ? NULL : "transpose_b=True", q, k);
  if (form->scale_op)
    scores = binary(b, form->scale_op, NULL, scores, graph_constant(b, "scale", form->scale));
  if (form->mask)
    scores = binary(b, "core::add", NULL, graph_constant(b, "mask", form->mask), scores);
  tenon_edge_t weights = graph_step(b, "core::softmax", form->softmax_axis, scores);
  tenon_edge_t y = binary(b, "core::matmul", NULL, weights, v);
  if (form->is_flat)
    y = binary(b, "core::reshape", NULL, graph_step(b, "core::transpose", HEADS, y),
               graph_constant(b, "y_shape", "i64[3] 1 2 2"));
  graph_output(b, "y", y);
  if (is_read(form, "scores")) graph_output(b, "scores", scores);
  if (is_read(form, "weights")) graph_output(b, "weights", weights);
  return graph_compile(b, flags);
}

static void check_form(const written_t *form, uint32_t flags) {
  tenon_executable_t *e = compile_form(form, flags);
  const char *const *inputs =
      form->is_flat ? TEXTS(Q_FLAT, form->k, V_FLAT) : TEXTS(Q_APART, form->k, V_APART);
  char *text = NULL;
  if (is_read(form, "scores"))
    CHECK_GRAPH(e, inputs, TEXTS(form->expected, "f32[1,2,2,2] " LOG_3 " 0 0 0 0 0 0 " LOG_3));
  else if (is_read(form, "weights"))
    CHECK_GRAPH(e, inputs,
                TEXTS(form->expected, "f32[1,2,2,2] 0.75 0.25 0.5 0.5 0.5 0.5 0.25 0.75"));
  else
    CHECK_GRAPH(e, inputs, TEXTS(form->expected));
  CHECK_STATUS(tenon_executable_dump(e, "graph", &text), TENON_OK);
  bool is_found = text && strstr(text, "core::attention") != NULL;
  if (!CHECK(is_found == (form->is_attention && !flags)))
    fprintf(stderr, "  %s: %s\n", form->what, text ? text : "no graph");
  tenon_text_release(text);
  tenon_executable_release(e);
}

TEST("attention that is written out becomes one node, and what computes something else stays") {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN)
      check_form(&forms[i], flags);
}

TEST("nothing is left behind") { tenon_shutdown(); }
