/* Repeats one saved call; see replay.h. */
#include "replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "library.h"
#include "summary.h"
#include "system.h"

enum { ARGUMENTS_MOST = 64 };

typedef struct replay_state_t { /* state of an operator that several calls share */
  struct replay_state_t *next;
  uint64_t number;
  const tenon_op_t *op;
  tenon_bound_t *bound;
} replay_state_t;

bool replay_is_call(const char *folder) {
  text_t path = {NULL, 0, 0, false};
  text_add(&path, "%s/call.json", folder);
  bool is_there = system_is_file(text_get(&path));
  text_free(&path);
  return is_there;
}

bool replay_library(const tenon_recording_t *dump, const char **out_path, text_t *why) {
  if (tenon_recording_library(dump, out_path) == TENON_OK) return true;
  text_add(why, "%s (add --ops LIB with the library to use)", tenon_error());
  return false;
}

const tenon_op_t *replay_find(const replay_t *replay, const tenon_recording_t *dump,
                              const tenon_recording_info_t *info, text_t *why) {
  const tenon_op_t *op = NULL;
  const char *path = NULL;
  if (tenon_op_find(info->op, &op) == TENON_OK) return op;
  if (replay->libraries->count == 0 && !replay_library(dump, &path, why)) return NULL;
  if (path && library_load(path, 0, NULL) != TENON_OK) {
    text_add(why, "%s (to use another build of the library, add --ops LIB)", tenon_error());
    return NULL;
  }
  if (tenon_op_find(info->op, &op) == TENON_OK) return op;
  text_add(why, "%s%s", tenon_error(),
           replay->libraries->count ? "" : " (add --ops LIB with the library that defines it)");
  return NULL;
}

typedef struct call_t {
  tenon_recording_t *dump;
  tenon_recording_info_t info;
  const tenon_op_t *op;
  tenon_op_info_t about;
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  tenon_tensor_t *inputs[ARGUMENTS_MOST];
  tenon_tensor_t *outputs[ARGUMENTS_MOST]; /* the tensors are owned */
  tenon_device_t device;
  tenon_status_t status;
  text_t error;
} call_t;

static bool move_to_device(tenon_tensor_t *tensor, tenon_device_t device,
                           tenon_tensor_t **out_tensor, text_t *why) {
  if (!tensor || device.type <= 1 || tenon_dtype_id(tensor->dtype) == TENON_STRING) {
    if (tensor) tenon_tensor_retain(tensor);
    *out_tensor = tensor;
    return true;
  }
  if (tenon_dtype_id(tensor->dtype) != TENON_LIST) {
    bool fine = tenon_tensor_copy_to(tensor, device, out_tensor) == TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error());
    return fine;
  }
  int32_t count = (int32_t)tensor->shape[0];
  int32_t made = 0;
  tenon_tensor_t **items = calloc((size_t)count + 1, sizeof *items);
  bool fine = items != NULL;
  for (; fine && made < count; made++)
    fine = move_to_device(tenon_item(tensor, made), device, &items[made], why);
  if (fine && tenon_tensor_list(items, count, out_tensor) != TENON_OK) {
    fine = false;
    text_add(why, "%s", tenon_error());
  }
  for (int32_t i = 0; items && i < made; i++)
    tenon_tensor_release(items[i]);
  free(items);
  return fine;
}

static bool is_host(const call_t *call, int32_t input) {
  tenon_argument_t argument = {.size = sizeof argument};
  return tenon_op_argument(call->op, TENON_ARGUMENT_INPUT, input, &argument) == TENON_OK &&
         argument.is_host;
}

static bool open_device(call_t *call, const char *name, text_t *why) {
  devices_t devices = {0};
  tenon_compile_t options = {.size = sizeof options};
  texts_t pins = {NULL, 0, 0};
  call->device = (tenon_device_t){1, 0};
  if (!name || strcmp(name, "cpu") == 0) return true;
  bool fine = devices_open(&devices, name, &pins, &options, why);
  if (fine && devices.count != 1) {
    text_add(why, "--device %s: expected one device", name);
    fine = false;
  }
  if (fine) call->device = devices.devices[0];
  devices_close(&devices);
  return fine;
}

static bool prepare_call(const replay_t *replay, call_t *call, text_t *why) {
  int32_t count = call->info.input_count;
  if (!(call->op = replay_find(replay, call->dump, &call->info, why))) return false;
  if (!open_device(call, replay->device ? replay->device : call->info.device, why)) return false;
  tenon_op_info(call->op, &call->about);
  if (count != call->about.input_count || count > ARGUMENTS_MOST) {
    text_add(why, "%s has %d inputs, but the saved call has %d: the schema has changed to %s",
             call->info.op, (int)call->about.input_count, (int)count, call->about.schema);
    return false;
  }
  if (tenon_recording_attrs(call->dump, call->op, &call->attrs) != TENON_OK ||
      tenon_attrs_values(call->attrs, &call->values) != TENON_OK) {
    text_add(why, "%s", tenon_error());
    return false;
  }
  for (int32_t i = 0; i < count; i++) {
    tenon_device_t device = is_host(call, i) ? (tenon_device_t){1, 0} : call->device;
    if (!move_to_device(call->info.inputs[i], device, &call->inputs[i], why)) return false;
  }
  return true;
}

static tenon_status_t bind_state(replay_t *replay, const call_t *call, tenon_bound_t **out_bound) {
  replay_state_t *state = replay->states;
  while (state && (state->number != call->info.state || state->op != call->op))
    state = state->next;
  if (!state) {
    if (!(state = calloc(1, sizeof *state))) return TENON_MEMORY;
    tenon_status_t status = tenon_bound_create(call->op, call->values, &state->bound);
    if (status != TENON_OK) {
      free(state);
      return status;
    }
    state->number = call->info.state;
    state->op = call->op;
    state->next = replay->states;
    replay->states = state;
  }
  *out_bound = state->bound;
  return TENON_OK;
}

static tenon_status_t call_operator(replay_t *replay, call_t *call) {
  tenon_generator_t *generator = NULL;
  tenon_generator_t *before = NULL;
  tenon_bound_t *bound = NULL;
  tenon_status_t status = TENON_OK;
  if (call->info.is_random) {
    status = tenon_generator_create(call->info.seed, &generator);
    if (status != TENON_OK) return status;
    tenon_generator_offset_set(generator, call->info.offset);
    before = tenon_generator_use(generator);
  }
  if (call->info.state) status = bind_state(replay, call, &bound);
  if (status == TENON_OK && bound)
    status = tenon_bound_call(bound, call->inputs, call->outputs, 0);
  else if (status == TENON_OK)
    status = tenon_op_call(call->op, call->values, call->inputs, call->outputs, 0);
  for (int32_t o = 0; o < call->about.output_count && status == TENON_OK;
       /* The device may still be working: copying the results waits for it. */
       o++) {
    tenon_tensor_t *there = call->outputs[o];
    if (!there || there->device.type == 1) continue;
    call->outputs[o] = NULL;
    status = tenon_tensor_copy_to(there, (tenon_device_t){1, 0}, &call->outputs[o]);
    tenon_tensor_release(there);
  }
  if (call->info.is_random) (void)tenon_generator_use(before);
  tenon_generator_release(generator);
  return status;
}

static void add_argument(text_t *out, uint32_t role, int32_t i, const call_t *call,
                         const tenon_tensor_t *tensor) {
  tenon_argument_t argument = {.size = sizeof argument};
  text_t name = {NULL, 0, 0, false};
  if (!tensor || tenon_op_argument(call->op, role, i, &argument) != TENON_OK) return;
  text_add(&name, "  %-9s%s", role == TENON_ARGUMENT_INPUT ? "input" : "result", argument.name);
  summary_add_tensor(out, text_get(&name), tensor);
  text_free(&name);
}

static void add_call_line(text_t *out, const call_t *call) {
  text_add(out, "%s", call->info.op);
  if (call->info.node) text_add(out, ", node '%s'", call->info.node);
  text_add(out, "\n");
  for (int32_t i = 0; i < call->info.attr_count; i++)
    text_add(out, "  %-9s %s = %s\n", "attribute", call->info.attr_names[i],
             call->info.attr_texts[i] ? call->info.attr_texts[i] : "...");
  for (int32_t i = 0; i < call->info.input_count; i++)
    add_argument(out, TENON_ARGUMENT_INPUT, i, call, call->info.inputs[i]);
}

/* Adds a line for each tensor that differs. Returns true if none does. */
static bool compare_arguments(const replay_t *replay, const call_t *call,
                              tenon_tensor_t *const *expected, tenon_tensor_t *const *found,
                              int32_t count, uint32_t role, text_t *out) {
  bool same = true;
  for (int32_t i = 0; i < count && expected; i++) {
    tenon_argument_t argument = {.size = sizeof argument};
    text_t words = {NULL, 0, 0, false};
    tenon_tensor_t *here = NULL;
    if (!expected[i]) continue;
    (void)tenon_op_argument(call->op, role, i, &argument);
    if (found[i] && found[i]->device.type != 1)
      (void)tenon_tensor_copy_to(found[i], (tenon_device_t){1, 0}, &here);
    bool fits = found[i] &&
                compare_tensors(expected[i], here ? here : found[i], &replay->tolerance, &words);
    if (!fits)
      text_add(out, "  differs  %s: %s\n", argument.name,
               found[i] ? text_get(&words) : "the call did not return it");
    same = same && fits;
    tenon_tensor_release(here);
    text_free(&words);
  }
  return same;
}

static bool report_outcome(const replay_t *replay, const call_t *call, text_t *out) {
  bool same = call->status == call->info.status;
  if (call->info.status != TENON_OK)
    text_add(out, "  saved    %s: %s\n", tenon_status_name(call->info.status),
             call->info.error ? call->info.error : "");
  if (call->status != TENON_OK)
    text_add(out, "  now      %s: %s\n", tenon_status_name(call->status), text_get(&call->error));
  for (int32_t o = 0; o < call->about.output_count && call->status == TENON_OK; o++)
    add_argument(out, TENON_ARGUMENT_OUTPUT, o, call, call->outputs[o]);
  if (same && same == (call->status == TENON_OK)) {
    same = compare_arguments(replay, call, call->info.outputs, call->outputs,
                             call->info.output_count, TENON_ARGUMENT_OUTPUT, out);
    same &= compare_arguments(replay, call, call->info.written, call->inputs,
                              call->info.input_count, TENON_ARGUMENT_INPUT, out);
  }
  bool has_results = call->info.outputs || call->info.written || call->info.status != TENON_OK;
  const char *verdict =
      has_results ? "the same results" : "the call succeeded; no results were saved";
  if (call->status != TENON_OK) verdict = "the same failure";
  if (!same) verdict = "a different outcome than was saved";
  text_add(out, "  %s\n", verdict);
  return same;
}

static void release_call(call_t *call) {
  for (int32_t i = 0; i < ARGUMENTS_MOST; i++) {
    tenon_tensor_release(call->inputs[i]);
    tenon_tensor_release(call->outputs[i]);
  }
  tenon_attrs_release(call->attrs);
  tenon_recording_release(call->dump);
  text_free(&call->error);
}

static bool run_once(replay_t *replay, const char *folder, bool is_last, bool *out_same,
                     text_t *why) {
  call_t call = {.info = {.size = sizeof call.info}, .about = {.size = sizeof call.about}};
  text_t report = {NULL, 0, 0, false};
  bool fine = tenon_recording_load(folder, &call.dump) == TENON_OK;
  if (!fine) text_add(why, "%s", tenon_error());
  if (fine) tenon_recording_info(call.dump, &call.info);
  if (fine && (fine = prepare_call(replay, &call, why))) {
    call.status = call_operator(replay, &call);
    if (call.status != TENON_OK) text_add(&call.error, "%s", tenon_error());
    add_call_line(&report, &call);
    *out_same = report_outcome(replay, &call, &report);
    if (!*out_same || (is_last && !replay->stays_quiet)) fputs(text_get(&report), stdout);
  }
  release_call(&call);
  text_free(&report);
  return fine;
}

bool replay_run(replay_t *replay, const char *folder, text_t *why) {
  bool same = true;
  for (int64_t i = 0; i < replay->repeat && same; i++)
    if (!run_once(replay, folder, i + 1 == replay->repeat, &same, why)) return false;
  return same;
}

void replay_end(replay_t *replay) {
  for (replay_state_t *state = replay->states, *next; state; state = next) {
    next = state->next;
    tenon_bound_release(state->bound);
    free(state);
  }
  replay->states = NULL;
}
