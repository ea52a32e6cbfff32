/* lstm, gru and rnn of f32 with weights that are packed when the graph is compiled: by oneDNN for
 * the inputs of all steps and for large batches, else in panels. ../recurrent.c runs the steps. The
 * host calls prepare and, from any thread, the kernels.
 * Invariant: with a plan, w and r are never read. */
#include "../recurrent.h"
#include "../packed.h"
#include "dnn.h"
#include <stdlib.h>

typedef struct plan_t {
  recurrent_weights_t weights;
  dnn_weights_t packed[RECURRENT_DIRECTIONS][RECURRENT_WEIGHTS];
  uint8_t is_borrowed[RECURRENT_DIRECTIONS][RECURRENT_WEIGHTS]; /* the panels are an artifact's */
} plan_t;

static tenon_status_t packed_product(tenon_call_t *call, void *context, int direction, int weight,
                                     void *x, int64_t m, void *out) {
  plan_t *plan = (plan_t *)context;
  return dnn_weights_multiply(call, &plan->packed[direction][weight], x, m, out);
}

static tenon_status_t run_layer(tenon_call_t *call, int kind) {
  const plan_t *plan = (const plan_t *)call->plan;
  return core_recurrent_run(call, kind, plan ? &plan->weights : NULL);
}

static void plan_release(void *pointer) {
  plan_t *plan = (plan_t *)pointer;
  if (!plan) return;
  for (int d = 0; d < RECURRENT_DIRECTIONS; d++)
    for (int w = 0; w < RECURRENT_WEIGHTS; w++) {
      dnn_weights_clear(&plan->packed[d][w]);
      if (!plan->is_borrowed[d][w]) free(plan->weights.panels[d][w].data);
    }
  free(plan);
}

static uint64_t panels_size(void *context, const int64_t *notes) {
  const int is_plain = !notes[0] && !notes[1];
  return is_plain ? core_panels_size((const panels_t *)context) : 0;
}

/* Packs one of the weights, which is w or r or some of r's rows. Returns 0 on failure. */
static int pack_weight(plan_t *plan, const recurrent_shape_t *shape, int direction, int weight,
                       const tenon_tensor_t *t) {
  int64_t first = 0;
  int64_t n = recurrent_rows(shape, weight, &first);
  const float *rows = (const float *)t->data + direction * t->strides[0] + first * t->strides[1];
  int64_t m = weight == RECURRENT_W ? shape->steps * shape->batch : shape->batch;
  if (weight == RECURRENT_W || m > RECURRENT_FEW)
    return dnn_weights_pack(&plan->packed[direction][weight], m, t->shape[2], n, rows,
                            t->strides[2], t->strides[1]);
  panels_t *panels = &plan->weights.panels[direction][weight];
  *panels = (panels_t){.dtype = t->dtype, .k = t->shape[2], .n = n};
  panels->data = (void *)(uintptr_t)core_packed_take(panels_size, panels);
  plan->is_borrowed[direction][weight] = panels->data != NULL;
  if (panels->data) return 1;
  panels->data = aligned_alloc(PANEL_ALIGNMENT, core_panels_size(panels));
  if (!panels->data) return 0;
  core_panels_pack(panels, rows, t->strides[1], t->strides[2]);
  core_packed_keep(panels->data, core_panels_size(panels), NULL);
  return 1;
}

static int64_t extent_or_usual(tenon_dim_t dim, int64_t usual) {
  return tenon_is_known(dim) && dim.value > 0 ? dim.value : usual;
}

static tenon_status_t prepare_layer(tenon_node_t *node, int kind) {
  enum {
    W = 1,
    R = 2,
    LAYOUT = 5,
    SMALL = 16,
    USUAL_STEPS = 64,
  };
  const tenon_meta_t *x = node->inputs[0];
  const tenon_tensor_t *given[2] = {node->inputs[W]->value, node->inputs[R]->value};
  if ((node->constant >> W & 3) != 3 || !given[0] || !given[1] || !dnn_engine()) return TENON_OK;
  recurrent_shape_t shape = {.kind = kind,
                             .directions = (int)given[0]->shape[0],
                             .inputs = given[0]->shape[2],
                             .hidden = given[1]->shape[2]};
  if (shape.hidden < SMALL || shape.inputs < 1) return TENON_OK;
  int batch_first = node->attrs[LAYOUT].as.i != 0;
  shape.steps = extent_or_usual(x->dims[batch_first], USUAL_STEPS);
  shape.batch = extent_or_usual(x->dims[!batch_first], 1);
  plan_t *plan = (plan_t *)calloc(1, sizeof *plan);
  if (!plan)
    return tenon_fail(node, TENON_MEMORY, "out of memory for the plan of a recurrent layer");
  plan->weights =
      (recurrent_weights_t){.hidden = shape.hidden, .product = packed_product, .context = plan};
  for (int d = 0; d < shape.directions; d++)
    for (int w = 0; w < RECURRENT_WEIGHTS; w++) {
      if (!core_recurrent_uses(kind, node->attrs, w) ||
          pack_weight(plan, &shape, d, w, given[w == RECURRENT_W ? 0 : 1]))
        continue;
      plan_release(plan); /* without a plan, the call packs for itself */
      return TENON_OK;
    }
  node->plan = plan;
  node->consumed |= (uint64_t)3 << W;
  return TENON_OK;
}

#define LAYER(name, KIND)                                                                          \
  static tenon_status_t dnn_##name(tenon_call_t *call) {                                           \
    return run_layer(call, RECURRENT_##KIND);                                                      \
  }                                                                                                \
  static tenon_status_t name##_prepare(tenon_node_t *node) {                                       \
    return prepare_layer(node, RECURRENT_##KIND);                                                  \
  }
/* clang-format off */
LAYER(rnn, RNN)
LAYER(gru, GRU)
LAYER(lstm, LSTM)
#define EXTEND(name)                                                                               \
  TENON_EXTEND("core::" #name,                                                                     \
    TENON_PREPARE(name##_prepare, plan_release),                                                   \
    TENON_KERNEL("cpu f32 strided", dnn_##name))

TENON_ITEMS(core_dnn_recurrent, EXTEND(rnn), EXTEND(gru), EXTEND(lstm))
/* clang-format on */
