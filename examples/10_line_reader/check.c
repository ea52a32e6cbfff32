/* Calls reader::ctc_loss and computes its gradient from a program; check.py compares the results
 * with those of PyTorch.
 *
 * Usage: check LIBRARY FOLDER BLANK [differences]. Reads log_probs, targets, input_lengths,
 * target_lengths and weights (.npy) from the folder. Writes loss.npy, and gradient.npy of the sum
 * of weights times loss. Runs with one thread and with two, which must give the same bits. With a
 * fourth word, the gradient of ctc_loss(log_softmax(x)) is compared with finite differences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum {
  LOG_PROBS,
  TARGETS,
  INPUT_LENGTHS,
  TARGET_LENGTHS,
  WEIGHTS,
  INPUTS,
};
enum {
  LOSS,
  ALPHA,
  GRADIENT,
  RESULTS,
};
static const char *const names[INPUTS] = {"log_probs", "targets", "input_lengths", "target_lengths",
                                          "weights"};

typedef struct task_t {
  const tenon_op_t *log_softmax;
  const tenon_op_t *ctc_loss;
  const tenon_value_t *attrs; /* of ctc_loss */
  tenon_tensor_t *inputs[INPUTS];
} task_t;

static void must(tenon_status_t status) {
  if (status == TENON_OK) return;
  fprintf(stderr, "check: %s\n", tenon_error());
  exit(1);
}

static const char *path_of(const char *folder, const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s.npy", folder, name);
  return path;
}

static void backward(const task_t *task, int32_t threads, tenon_tensor_t *results[RESULTS]) {
  tenon_threads_set(threads);
  results[LOSS] = results[ALPHA] = NULL;
  must(tenon_op_call(task->ctc_loss, task->attrs, task->inputs, results, 0));
  must(tenon_gradients(&results[LOSS], &task->inputs[WEIGHTS], 1, &task->inputs[LOG_PROBS], 1, 0,
                       &results[GRADIENT]));
}

static int is_same(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  return tenon_count(a) == tenon_count(b) &&
         !memcmp(a->data, b->data, (size_t)tenon_count(a) * a->dtype.bits / 8);
}

static tenon_status_t loss_of_logits(void *context, tenon_tensor_t *const *inputs,
                                     tenon_tensor_t **outputs) {
  const task_t *task = context;
  tenon_tensor_t *log_probs = NULL;
  tenon_tensor_t *results[2] = {NULL, NULL};
  TENON_TRY(tenon_op_call(task->log_softmax, NULL, inputs, &log_probs, 0));
  tenon_tensor_t *arguments[] = {log_probs, task->inputs[TARGETS], task->inputs[INPUT_LENGTHS],
                                 task->inputs[TARGET_LENGTHS]};
  tenon_status_t status = tenon_op_call(task->ctc_loss, task->attrs, arguments, results, 0);
  tenon_tensor_release(log_probs);
  tenon_tensor_release(results[ALPHA]);
  outputs[0] = results[LOSS];
  return status;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: check LIBRARY FOLDER BLANK [differences]\n");
    return 2;
  }
  task_t task = {0};
  tenon_attrs_t *attrs;
  tenon_tensor_t *one[RESULTS], *two[RESULTS];
  must(tenon_library_load(argv[1], 0, NULL));
  must(tenon_op_find("reader::ctc_loss", &task.ctc_loss));
  must(tenon_op_find("core::log_softmax", &task.log_softmax));
  must(tenon_attrs_create(task.ctc_loss, &attrs));
  must(tenon_attrs_int(attrs, "blank", atoi(argv[3])));
  must(tenon_attrs_values(attrs, &task.attrs));
  for (int i = 0; i < INPUTS; i++)
    must(tenon_tensor_load(path_of(argv[2], names[i]), &task.inputs[i]));
  must(tenon_tensor_require_grad(task.inputs[LOG_PROBS], 1));

  backward(&task, 1, one);
  backward(&task, 2, two);
  int same = is_same(one[LOSS], two[LOSS]) && is_same(one[ALPHA], two[ALPHA]) &&
             is_same(one[GRADIENT], two[GRADIENT]);
  if (!same) fprintf(stderr, "check: two threads give other bits than one\n");
  must(tenon_tensor_save(two[LOSS], path_of(argv[2], "loss")));
  must(tenon_tensor_save(two[GRADIENT], path_of(argv[2], "gradient")));
  if (argc > 4)
    must(tenon_gradient_check(loss_of_logits, &task, &task.inputs[LOG_PROBS], 1, 1, NULL));

  for (int i = 0; i < RESULTS; i++) {
    tenon_tensor_release(one[i]);
    tenon_tensor_release(two[i]);
  }
  for (int i = 0; i < INPUTS; i++)
    tenon_tensor_release(task.inputs[i]);
  tenon_attrs_release(attrs);
  tenon_shutdown();
  return !same;
}
