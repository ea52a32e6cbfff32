/* Runs one test case; see cases.h. Every data set of the case is run on the same executable. */
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "cases.h"
#include "distribution.h"
#include "fill.h"
#include "system.h"
#include "transform.h"

typedef struct case_run_t { /* a case that is being run */
  const case_t *item;
  const tenon_compile_t *options;
  tolerance_t tolerance;
  tenon_graph_t *graph;
  tenon_executable_t *executable;
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs;
  int32_t input_count;
  int32_t output_count;
  bool is_random; /* an operator of the graph draws random numbers */
  text_t *words;
} case_run_t;

/* Stores the runtime's last message without the path of the model, so that equal reasons can be
 * counted. A case that needs something unsupported is skipped, not failed. */
static outcome_t fail_or_skip(case_run_t *run, tenon_status_t status) {
  const char *words = tenon_error();
  const char *model = run->item->model;
  size_t size = strlen(model);
  if (strncmp(words, model, size) != 0) {
    model = text_file_name(model);
    size = strlen(model);
  }
  if (strncmp(words, model, size) == 0 && strncmp(words + size, ": ", 2) == 0) words += size + 2;
  text_add(run->words, "%s", words);
  return status == TENON_UNIMPLEMENTED ? OUTCOME_SKIPPED : OUTCOME_FAILED;
}

/* Whether a node of the graph, or of a graph in its attributes, draws random numbers. */
static bool draws_numbers(const tenon_graph_t *graph) {
  tenon_graph_part_t node = {.size = sizeof node};
  bool is_random = false;
  for (int32_t i = 0; tenon_graph_node(graph, i, &node) == TENON_OK && !is_random; i++) {
    tenon_op_info_t info = {.size = sizeof info};
    tenon_op_info(node.op, &info);
    is_random = info.traits & TENON_RANDOM;
    for (int32_t a = 0; a < info.attr_count && !is_random; a++)
      if (node.attrs[a].kind == TENON_KIND_GRAPH && node.attrs[a].as.graph)
        is_random = draws_numbers(node.attrs[a].as.graph);
  }
  return is_random;
}

static outcome_t open_model(case_run_t *run) {
  tenon_status_t status = tenon_graph_load(run->item->model, NULL, &run->graph);
  if (status == TENON_OK)
    status = tenon_executable_create(run->graph, run->options, &run->executable);
  if (status != TENON_OK) return fail_or_skip(run, status);
  run->is_random = draws_numbers(run->graph);
  run->input_count = tenon_graph_input_count(run->graph);
  run->output_count = tenon_graph_output_count(run->graph);
  run->inputs = calloc((size_t)run->input_count + 1, sizeof *run->inputs);
  run->outputs = calloc((size_t)run->output_count + 1, sizeof *run->outputs);
  if (run->inputs && run->outputs) return OUTCOME_PASSED;
  text_add(run->words, "out of memory");
  return OUTCOME_FAILED;
}

static void release_case_tensors(tenon_tensor_t **tensors, int32_t count) {
  for (int32_t i = 0; tensors && i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

/* Counts the files FOLDER/KIND_0.pb, FOLDER/KIND_1.pb, ... */
static int32_t count_files(const char *folder, const char *kind) {
  text_t path = {NULL, 0, 0, false};
  int32_t count = -1;
  do {
    text_clear(&path);
    text_add(&path, "%s%s_%d.pb", folder, kind, (int)++count);
  } while (system_is_file(text_get(&path)));
  text_free(&path);
  return count;
}

static outcome_t load_tensor(case_run_t *run, const char *folder, const char *kind, int32_t index,
                             tenon_tensor_t **out) {
  text_t path = {NULL, 0, 0, false};
  text_add(&path, "%s%s_%d.pb", folder, kind, (int)index);
  tenon_status_t status = tenon_tensor_load(text_get(&path), out);
  outcome_t outcome = status == TENON_OK ? OUTCOME_PASSED : fail_or_skip(run, status);
  text_free(&path);
  return outcome;
}

static outcome_t load_inputs(case_run_t *run, const char *folder) {
  int32_t files = count_files(folder, "input");
  outcome_t outcome = OUTCOME_PASSED;
  if (files != run->input_count) {
    text_add(run->words, "%s contains %d inputs, expected %d as in the model", folder, (int)files,
             (int)run->input_count);
    return OUTCOME_FAILED;
  }
  for (int32_t i = 0; outcome == OUTCOME_PASSED && i < files; i++)
    outcome = load_tensor(run, folder, "input", i, &run->inputs[i]);
  return outcome;
}

/* Makes the inputs that onnx.backend.test feeds to light models. */
static outcome_t make_inputs(case_run_t *run) {
  for (int32_t i = 0; i < run->input_count; i++) {
    tenon_port_t port = {.size = sizeof port};
    int64_t shape[TENON_RANK_MAX];
    tenon_status_t status = tenon_graph_input(run->graph, i, &port);
    if (status == TENON_OK && port.ndim < 0) {
      text_add(run->words, "input '%s' has no shape in the model, so no input can be generated",
               port.name);
      return OUTCOME_FAILED;
    }
    for (int32_t k = 0; status == TENON_OK && k < port.ndim; k++)
      shape[k] = port.axes[k].extent >= 0 ? port.axes[k].extent : 1;
    if (status == TENON_OK)
      status = tenon_tensor_create(port.dtype, port.ndim, shape, &run->inputs[i]);
    if (status != TENON_OK) return fail_or_skip(run, status);
    if (!fill_tensor(run->inputs[i], "ramp", 0, run->words)) return OUTCOME_FAILED;
  }
  return OUTCOME_PASSED;
}

/* Compares an output by its numbers. Where they differ, those of a Fourier transform may have its
 * rounding, and those of a random case are compared by their distribution. */
static bool compare_output(const case_run_t *run, int32_t index, const tenon_tensor_t *expected,
                           text_t *why) {
  const tenon_tensor_t *found = run->outputs[index];
  tolerance_t of_shape = run->tolerance;
  if (compare_tensors(expected, found, &run->tolerance, why)) return true;
  of_shape.shape_only = true;
  if (transform_agrees(run->graph, index, run->inputs, expected, found, &run->tolerance))
    return true;
  if (!run->is_random) return false;
  text_clear(why);
  return compare_tensors(expected, found, &of_shape, why) &&
         distribution_compare(expected, found, why);
}

static outcome_t check_output(case_run_t *run, const char *folder, const char *kind,
                              int32_t index) {
  tenon_port_t port = {.size = sizeof port};
  tenon_tensor_t *expected = NULL;
  text_t reason = {NULL, 0, 0, false};
  tenon_status_t status = tenon_graph_output(run->graph, index, &port);
  outcome_t outcome = status == TENON_OK ? load_tensor(run, folder, kind, index, &expected)
                                         : fail_or_skip(run, status);
  if (outcome == OUTCOME_PASSED && !compare_output(run, index, expected, &reason)) {
    text_add(run->words, "output %d '%s': %s", (int)index, port.name, text_get(&reason));
    outcome = OUTCOME_FAILED;
  }
  tenon_tensor_release(expected);
  text_free(&reason);
  return outcome;
}

/* `folder` ends in a separator; for light models `kind` continues its last part. */
static outcome_t run_set(case_run_t *run, const char *folder, const char *kind) {
  int32_t files = count_files(folder, kind);
  if (files != run->output_count) {
    text_add(run->words, "%s contains %d outputs, expected %d as in the model", folder, (int)files,
             (int)run->output_count);
    return OUTCOME_FAILED;
  }
  tenon_status_t status = tenon_executable_run(run->executable, run->inputs, run->outputs, NULL);
  if (status != TENON_OK) return fail_or_skip(run, status);
  outcome_t outcome = OUTCOME_PASSED;
  for (int32_t i = 0; i < files && outcome == OUTCOME_PASSED; i++)
    outcome = check_output(run, folder, kind, i);
  return outcome;
}

static outcome_t run_sets(case_run_t *run) {
  texts_t names = {NULL, 0, 0};
  text_t folder = {NULL, 0, 0, false};
  int32_t sets = 0;
  outcome_t outcome =
      system_list_folder(run->item->folder, &names, run->words) ? OUTCOME_PASSED : OUTCOME_FAILED;
  for (int32_t i = 0; i < names.count && outcome == OUTCOME_PASSED; i++) {
    if (strncmp(names.items[i], "test_data_set", 13) != 0) continue;
    text_clear(&folder);
    text_add(&folder, "%s/%s/", run->item->folder, names.items[i]);
    sets++;
    outcome = load_inputs(run, text_get(&folder));
    if (outcome == OUTCOME_PASSED) outcome = run_set(run, text_get(&folder), "output");
    release_case_tensors(run->inputs, run->input_count);
    release_case_tensors(run->outputs, run->output_count);
  }
  if (outcome == OUTCOME_PASSED && sets == 0) {
    text_add(run->words, "%s contains no folder test_data_set_*", run->item->folder);
    outcome = OUTCOME_FAILED;
  }
  text_free(&folder);
  texts_free(&names);
  return outcome;
}

static outcome_t run_light(case_run_t *run) {
  text_t prefix = {NULL, 0, 0, false};
  text_add(&prefix, "%.*s", cases_stem_size(run->item->model), run->item->model);
  outcome_t outcome = make_inputs(run);
  if (outcome == OUTCOME_PASSED) outcome = run_set(run, text_get(&prefix), "_output");
  text_free(&prefix);
  return outcome;
}

outcome_t cases_run(const case_t *item, const tenon_compile_t *options,
                    const tolerance_t *tolerance, text_t *words) {
  case_run_t run = {.item = item, .options = options, .tolerance = *tolerance, .words = words};
  /* From the command line, else from the case, else the defaults of onnx.backend.test. */
  tolerance_t *used = &run.tolerance;
  if (used->relative < 0) used->relative = item->relative >= 0 ? item->relative : 1e-3;
  if (used->absolute < 0) used->absolute = item->absolute >= 0 ? item->absolute : 1e-7;
  outcome_t outcome = open_model(&run);
  if (outcome == OUTCOME_PASSED) outcome = item->folder ? run_sets(&run) : run_light(&run);
  release_case_tensors(run.inputs, run.input_count);
  release_case_tensors(run.outputs, run.output_count);
  free(run.inputs);
  free(run.outputs);
  tenon_executable_release(run.executable);
  tenon_graph_release(run.graph);
  return outcome;
}
