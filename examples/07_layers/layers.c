/* Two layers that a program adds: one logs each call, the other counts calls by operator. The
 * layers do not know the operators, and the operators do not know the layers. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

/* logging */

typedef struct log_t {
  FILE *to;
  int depth; /* nesting depth of calls */
} log_t;

static void print_tensor(FILE *to, const tenon_tensor_t *t) {
  fprintf(to, "%s[", t ? tenon_dtype_name(t->dtype) : "none");
  for (int32_t i = 0; t && i < t->ndim; i++)
    fprintf(to, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
  fputc(']', to);
}

static tenon_status_t log_call(tenon_call_t *call) {
  log_t *log = call->context;
  fprintf(log->to, "%*s%s ", 2 * log->depth, "", tenon_call_name(call));
  print_tensor(log->to, call->inputs[0]);
  fputc('\n', log->to);
  log->depth++;
  /* Results exist after this call returns, not before. */
  tenon_status_t status = tenon_call_next(call);
  log->depth--;
  if (status != TENON_OK) {
    fprintf(log->to, "%*sfailed: %s\n", 2 * log->depth, "", tenon_error());
    return status;
  }
  fprintf(log->to, "%*s-> ", 2 * log->depth, "");
  print_tensor(log->to, call->outputs[0]);
  fputc('\n', log->to);
  return status;
}

/* counting */

typedef struct counts_t {
  int count;
  struct {
    const char *name;
    long long calls;
  } operators[64];
} counts_t;

static tenon_status_t count_call(tenon_call_t *call) {
  counts_t *counts = call->context;
  int i = 0;
  while (i < counts->count && strcmp(counts->operators[i].name, tenon_call_name(call)) != 0)
    i++;
  if (i == counts->count && i < 64) counts->operators[counts->count++].name = tenon_call_name(call);
  if (i < 64) counts->operators[i].calls++;
  return tenon_call_next(call);
}

/* the calls that the layers see */

static tenon_status_t apply(const char *name, tenon_tensor_t *a, tenon_tensor_t *b,
                            tenon_tensor_t **out) {
  const tenon_op_t *op;
  tenon_tensor_t *inputs[8] = {a, b};
  tenon_status_t status = tenon_op_find(name, &op);
  return status == TENON_OK ? tenon_op_call(op, NULL, inputs, out, 1) : status;
}

static tenon_status_t run(tenon_tensor_t *x, tenon_tensor_t *w) {
  tenon_tensor_t *product = NULL;
  tenon_tensor_t *positive = NULL;
  tenon_tensor_t *sum = NULL;
  tenon_status_t status = apply("core::matmul", x, w, &product);
  if (status == TENON_OK) status = apply("core::relu", product, NULL, &positive);
  if (status == TENON_OK) status = apply("core::reduce_sum", positive, NULL, &sum);
  if (status == TENON_OK) status = tenon_backward(&sum, NULL, 1, 0);
  if (status == TENON_OK) printf("sum %.1f\n", (double)*(const float *)sum->data);
  tenon_tensor_release(product);
  tenon_tensor_release(positive);
  tenon_tensor_release(sum);
  return status;
}

/* Makes a matrix of -2, -1, 0, 1, ... */
static tenon_tensor_t *tensor(int64_t rows, int64_t columns) {
  tenon_tensor_t *t = NULL;
  if (tenon_tensor_create(tenon_dtype(TENON_F32), 2, (int64_t[]){rows, columns}, &t) != TENON_OK)
    return NULL;
  for (int64_t i = 0; i < rows * columns; i++)
    ((float *)t->data)[i] = (float)(i - 2);
  return t;
}

int main(void) {
  log_t log = {stdout, 0};
  counts_t counts = {0};
  tenon_layer_t *logging, *counting;
  tenon_tensor_t *x = tensor(2, 3);
  tenon_tensor_t *w = tensor(3, 2);
  /* A layer above autograd sees a call before autograd does, a layer below view sees it after
   * autograd. Both also see the calls of the backward pass, which runs on this thread. */
  if (!x || !w || tenon_tensor_require_grad(w, 1) ||
      tenon_layer_create("logging", "above autograd", log_call, &log, &logging) ||
      tenon_layer_create("counting", "below view", count_call, &counts, &counting)) {
    fprintf(stderr, "layers: %s\n", tenon_error());
    return 1;
  }
  tenon_layer_enable(logging, 1);
  tenon_layer_enable(counting, 1);
  tenon_status_t status = run(x, w);
  tenon_layer_enable(logging, 0);
  /* This run is counted, but not logged. */
  if (status == TENON_OK) status = run(x, w);
  tenon_layer_enable(counting, 0);
  if (status != TENON_OK) {
    fprintf(stderr, "layers: %s\n", tenon_error());
    return 1;
  }
  for (int i = 0; i < counts.count; i++)
    printf("count %lld %s\n", counts.operators[i].calls, counts.operators[i].name);
  tenon_layer_release(logging);
  tenon_layer_release(counting);
  tenon_tensor_release(x);
  tenon_tensor_release(w);
  tenon_shutdown();
  return 0;
}
