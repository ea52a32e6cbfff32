/* Models that Tenon compiles, as one PyTorch operator: tenon::run, and its gradient
 * tenon::_run_vjp, which repeats the run with Tenon's tape on and goes back. A compiled model stays
 * in the list until the process ends. tenon::_run_compiled runs a graph that the caller has
 * compiled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/torch.h>

#include "frame.h"

typedef struct model_t {
  struct model_t *next;
  tenon_executable_t *executable;
  bool has_gradients;
  const char *device; /* stored behind the path */
  char path[];
} model_t;

static model_t *models; /* atomic; the newest model first */

static const model_t *find_model(const char *path, const char *device, bool has_gradients) {
  const model_t *m = __atomic_load_n(&models, __ATOMIC_ACQUIRE);
  while (m && (m->has_gradients != has_gradients || strcmp(m->path, path) != 0 ||
               strcmp(m->device, device) != 0))
    m = m->next;
  return m;
}

/* Finds the device for a name such as "cpu", "opencl" or "opencl:1". */
static tenon_status_t device_of(const char *text, tenon_device_t *out_device) {
  char backend[64];
  const char *colon = strchr(text, ':');
  const size_t size = colon ? (size_t)(colon - text) : strlen(text);
  *out_device = (tenon_device_t){1, 0};
  if (strcmp(text, "cpu") == 0) return TENON_OK;
  snprintf(backend, sizeof backend, "%.*s",
           (int)(size < sizeof backend ? size : sizeof backend - 1), text);
  return tenon_device_find(backend, colon ? (int32_t)strtol(colon + 1, NULL, 10) : 0, out_device);
}

/* Two threads may compile the same model at once; the second result is dropped. */
static tenon_status_t compile_model(const char *path, const char *device, bool has_gradients,
                                    const model_t **out_model) {
  tenon_compile_t options = {.size = sizeof options,
                             .flags = has_gradients ? TENON_COMPILE_GRADIENTS : 0};
  tenon_graph_t *graph = NULL;
  const size_t path_size = strlen(path) + 1;
  const size_t device_size = strlen(device) + 1;
  if ((*out_model = find_model(path, device, has_gradients))) return TENON_OK;
  model_t *made = calloc(1, sizeof *made + path_size + device_size);
  if (!made) return TENON_MEMORY;
  made->has_gradients = has_gradients;
  memcpy(made->path, path, path_size);
  made->device = memcpy(made->path + path_size, device, device_size);
  tenon_status_t status = device_of(device, &options.device);
  if (status == TENON_OK) status = tenon_graph_load(path, NULL, &graph);
  if (status == TENON_OK) status = tenon_executable_create(graph, &options, &made->executable);
  tenon_graph_release(graph);
  if (status != TENON_OK) {
    free(made);
    return status;
  }
  torch_lock();
  if (!(*out_model = find_model(path, device, has_gradients))) {
    made->next = models;
    __atomic_store_n(&models, made, __ATOMIC_RELEASE);
    *out_model = made;
    made = NULL;
  }
  torch_unlock();
  if (made) {
    tenon_executable_release(made->executable);
    free(made);
  }
  return TENON_OK;
}

tenon_status_t model_compile(const char *path, const char *device, char *why, size_t capacity) {
  const model_t *model;
  tenon_status_t status = compile_model(path, device, false, &model);
  if (status != TENON_OK)
    snprintf(why, capacity, "%s", status == TENON_MEMORY ? "out of memory" : tenon_error());
  return status;
}

/* The arguments of _run_vjp, in the order of a call's values. */
enum {
  INPUTS,
  GRADS,
  GIVEN,
  WANTED,
  MODEL,
};

static bool fail_tenon(frame_t *f) { return frame_fail(f, tenon_error(), ""); }

static tenon_executable_t *executable_of(frame_t *f, const char *path, const char *device,
                                         bool has_gradients) {
  const model_t *model;
  if (compile_model(path, device, has_gradients, &model) == TENON_OK) return model->executable;
  fail_tenon(f);
  return NULL;
}

/* Runs the model. The array of outputs is memory of the frame; all outputs are set if the run
 * succeeded. */
static tenon_tensor_t **outputs_of(frame_t *f, tenon_executable_t *executable,
                                   const tenon_value_t *inputs, const char *path,
                                   size_t *out_count) {
  const tenon_graph_t *graph = tenon_executable_graph(executable);
  const uint32_t expected = (uint32_t)tenon_graph_input_count(graph);
  const size_t count = (size_t)tenon_graph_output_count(graph);
  char found[100];
  snprintf(found, sizeof found, ": expected %u inputs, found %u", expected, inputs->count);
  if (inputs->count != expected) {
    frame_fail(f, path, found);
    return NULL;
  }
  tenon_tensor_t **outputs = frame_take(f, count + 1, sizeof *outputs);
  if (!outputs) return NULL;
  memset(outputs, 0, (count + 1) * sizeof *outputs);
  if (tenon_executable_run(executable, inputs->as.tensors, outputs, NULL) != TENON_OK) {
    fail_tenon(f);
    return NULL;
  }
  *out_count = count;
  return outputs;
}

static void run_model(frame_t *f, torch_value_t *stack, torch_value_t *out) {
  size_t count;
  const tenon_value_t *v = f->values;
  if (!frame_arguments(f, stack)) return;
  tenon_executable_t *executable = executable_of(f, v[1].as.s, v[2].as.s, false);
  tenon_tensor_t **outputs = executable ? outputs_of(f, executable, v, v[1].as.s, &count) : NULL;
  if (outputs && frame_bring(f, outputs, count, NULL))
    (void)frame_list(f, outputs, count, false, out);
}

/* Copies device tensors to the CPU, since a model is differentiated on the CPU. out_away (may be
 * NULL) receives which tensors were copied. */
static bool copy_to_cpu(frame_t *f, const tenon_value_t *list, bool *out_away) {
  for (uint32_t i = 0; i < list->count; i++) {
    tenon_tensor_t *on_cpu = NULL;
    tenon_tensor_t **t = (tenon_tensor_t **)(uintptr_t)&list->as.tensors[i];
    const bool is_away = (*t)->device.type != 1;
    if (out_away) out_away[i] = is_away;
    if (!is_away) continue;
    if (tenon_tensor_copy_to(*t, (tenon_device_t){1, 0}, &on_cpu) != TENON_OK) return fail_tenon(f);
    tenon_tensor_release(*t);
    *t = on_cpu;
  }
  return true;
}

/* Makes leaves of the inputs whose gradients are requested. */
static tenon_tensor_t **leaves_of(frame_t *f) {
  const tenon_value_t *inputs = &f->values[INPUTS];
  const tenon_value_t *wanted = &f->values[WANTED];
  tenon_tensor_t **leaves = frame_take(f, wanted->count + 1, sizeof *leaves);
  for (uint32_t i = 0; leaves && i < wanted->count; i++) {
    if (wanted->as.ints[i] < 0 || wanted->as.ints[i] >= inputs->count) {
      frame_fail(f, "wanted: ", "the model has no input with this number");
      return NULL;
    }
    leaves[i] = inputs->as.tensors[wanted->as.ints[i]];
    if (tenon_tensor_require_grad(leaves[i], 1) != TENON_OK) {
      fail_tenon(f);
      return NULL;
    }
  }
  return leaves;
}

/* Runs backward from those outputs that depend on a leaf. */
static tenon_tensor_t **gradients_of(frame_t *f, tenon_tensor_t **outputs, size_t output_count,
                                     tenon_tensor_t **leaves) {
  const tenon_value_t *grads = &f->values[GRADS];
  const tenon_value_t *given = &f->values[GIVEN];
  const tenon_value_t *wanted = &f->values[WANTED];
  int32_t count = 0;
  tenon_tensor_t **starts = frame_take(f, given->count + 1, sizeof *starts);
  tenon_tensor_t **made = NULL;
  tenon_tensor_t **from = starts ? frame_take(f, given->count + 1, sizeof *from) : NULL;
  if (!from || !(made = frame_take(f, wanted->count + 1, sizeof *made))) return NULL;
  if (grads->count != given->count) {
    frame_fail(f, "grads: ", "expected one gradient for each output in `given`");
    return NULL;
  }
  for (uint32_t i = 0; i < given->count; i++) {
    const int64_t at = given->as.ints[i];
    if (at < 0 || (uint64_t)at >= output_count) {
      frame_fail(f, "given: ", "the model has no output with this number");
      return NULL;
    }
    if (tenon_tensor_requires_grad(outputs[at])) {
      starts[count] = outputs[at];
      from[count++] = grads->as.tensors[i];
    }
  }
  memset(made, 0, (wanted->count + 1) * sizeof *made);
  if (count && tenon_gradients(starts, from, count, leaves, (int32_t)wanted->count,
                               TENON_GRAD_UNUSED, made) != TENON_OK) {
    fail_tenon(f);
    return NULL;
  }
  return made;
}

static void run_model_gradient(frame_t *f, torch_value_t *stack, torch_value_t *out) {
  size_t count = 0;
  const tenon_value_t *v = f->values;
  if (!frame_arguments(f, stack)) return;
  bool *away = frame_take(f, v[INPUTS].count + v[WANTED].count + 1, sizeof *away);
  if (!away || !copy_to_cpu(f, &v[INPUTS], away) || !copy_to_cpu(f, &v[GRADS], NULL)) return;
  bool *back = away + v[INPUTS].count;
  /* The gradient runs on the CPU, whatever device runs the model. */
  tenon_executable_t *executable = executable_of(f, v[MODEL].as.s, "cpu", true);
  tenon_tensor_t **leaves = executable ? leaves_of(f) : NULL;
  if (!leaves) return;
  const int32_t before = tenon_grad_mode_set(1);
  tenon_tensor_t **outputs = outputs_of(f, executable, &v[INPUTS], v[MODEL].as.s, &count);
  tenon_grad_mode_set(before);
  tenon_tensor_t **made = outputs ? gradients_of(f, outputs, count, leaves) : NULL;
  for (size_t i = 0; i < count; i++)
    tenon_tensor_release(outputs[i]);
  for (uint32_t i = 0; i < v[WANTED].count; i++)
    back[i] = away[v[WANTED].as.ints[i]];
  if (made) (void)frame_gradients(f, leaves, made, v[WANTED].count, back, out);
}

/* Compiled graphs by their numbers, for tenon::_run_compiled; a free number has NULL. */
static tenon_executable_t **compiled;
static int64_t compiled_capacity;

/* Returns a free number, or -1 if memory runs out. The caller holds the lock. */
static int64_t free_number(void) {
  int64_t at = 0;
  while (at < compiled_capacity && compiled[at])
    at++;
  if (at < compiled_capacity) return at;
  const int64_t more = compiled_capacity ? 2 * compiled_capacity : 16;
  tenon_executable_t **grown = realloc(compiled, (size_t)more * sizeof *grown);
  if (!grown) return -1;
  memset(grown + compiled_capacity, 0, (size_t)(more - compiled_capacity) * sizeof *grown);
  compiled = grown;
  compiled_capacity = more;
  return at;
}

int64_t tenon_torch_executable_add(tenon_executable_t *executable) {
  torch_lock();
  const int64_t number = free_number();
  if (number >= 0) {
    tenon_executable_retain(executable);
    compiled[number] = executable;
  }
  torch_unlock();
  return number;
}

/* Returns the compiled graph with this number, with a reference; NULL if there is none. */
static tenon_executable_t *take_compiled(int64_t number, bool is_removed) {
  torch_lock();
  tenon_executable_t *found = number >= 0 && number < compiled_capacity ? compiled[number] : NULL;
  if (found && !is_removed) tenon_executable_retain(found);
  if (found && is_removed) compiled[number] = NULL;
  torch_unlock();
  return found;
}

void tenon_torch_executable_remove(int64_t number) {
  tenon_executable_release(take_compiled(number, true));
}

static void run_compiled(frame_t *f, torch_value_t *stack, torch_value_t *out) {
  size_t count;
  const tenon_value_t *v = f->values;
  if (!frame_arguments(f, stack)) return;
  tenon_executable_t *executable = take_compiled(v[1].as.i, false);
  if (!executable) {
    frame_fail(f, "executable: ", "no compiled graph has this number");
    return;
  }
  tenon_tensor_t **outputs = outputs_of(f, executable, v, "the compiled graph", &count);
  if (outputs && frame_bring(f, outputs, count, NULL))
    (void)frame_list(f, outputs, count, false, out);
  tenon_executable_release(executable);
}

#define INPUT(i, called)                                                                           \
  { .role = TENON_ARGUMENT_INPUT, .kind = TENON_KIND_TENSORS, .index = i, .name = called }
#define ATTR(i, type, called)                                                                      \
  { .role = TENON_ARGUMENT_ATTR, .kind = TENON_KIND_##type, .index = i, .name = called }

const operator_t *model_operator(int form) {
  static tenon_argument_t of_run[] = {INPUT(0, "inputs"), ATTR(0, STR, "model"),
                                      ATTR(1, STR, "device")};
  static tenon_argument_t of_vjp[] = {INPUT(0, "inputs"),     INPUT(1, "grads"),
                                      ATTR(0, INTS, "given"), ATTR(1, INTS, "wanted"),
                                      ATTR(2, STR, "model"),  ATTR(3, STR, "device")};
  static tenon_argument_t of_compiled[] = {INPUT(0, "inputs"), ATTR(0, INT, "executable")};
  static const operator_t forms[MODEL_FORMS] = {
      [MODEL_RUN] = {.run = run_model,
                     .name = "tenon::run",
                     .argument_count = 3,
                     .input_count = 1,
                     .attr_count = 2,
                     .arguments = of_run},
      [MODEL_VJP] = {.run = run_model_gradient,
                     .name = "tenon::run", /* messages name the operator that users call */
                     .argument_count = 6,
                     .input_count = 2,
                     .attr_count = 4,
                     .arguments = of_vjp,
                     .is_gradient = true},
      [MODEL_COMPILED] = {.run = run_compiled,
                          .name = "tenon::_run_compiled",
                          .argument_count = 2,
                          .input_count = 1,
                          .attr_count = 1,
                          .arguments = of_compiled}};
  return &forms[form];
}

const char *model_schema(int form) {
  static const char *const schemas[MODEL_FORMS] = {
      [MODEL_RUN] = "run(Tensor[] inputs, *, str model, str device='cpu') -> Tensor[]",
      [MODEL_VJP] = "_run_vjp(Tensor[] inputs, Tensor[] grads, int[] given, int[] wanted, *, str "
                    "model, str device='cpu') -> Tensor[]",
      [MODEL_COMPILED] = "_run_compiled(Tensor[] inputs, *, int executable) -> Tensor[]"};
  return schemas[form];
}
