/* Compiled groups of nodes (offloaded subgraphs). A compiled group is a list of values and steps
 * (step.c), plus weights in the memory of the ordinal. The saved form is the same list followed by
 * the weights.
 *
 * Invariant: the race checker knows everything that a group reads and writes, because all inputs,
 * outputs and weights of a run are declared as the accesses of one piece of work. */
#include "chain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "step.h"

/* The header of a compiled group. The values and then the steps follow it in memory. */
typedef struct code_t {
  char magic[8];
  uint64_t checksum; /* of everything after this field, including the weights */
  uint64_t scratch_bytes;
  uint64_t weight_bytes;
  uint32_t in_count;
  uint32_t out_count;
  uint32_t value_count;
  uint32_t step_count;
} code_t;
static const char magic[8] = "SIMGRP1";

typedef struct chain_t {
  sim_object_t object;
  uint32_t references; /* from the host and from enqueued work */
  void *weights;       /* device memory; NULL: the group has no weights */
  uint64_t code_bytes;
  code_t *code;
} chain_t;

static sim_value_t *values_of(const code_t *code) { return (sim_value_t *)(uintptr_t)(code + 1); }
static sim_step_t *steps_of(const code_t *code) {
  return (sim_step_t *)(void *)(values_of(code) + code->value_count);
}
static uint64_t bytes_of(uint64_t values, uint64_t steps) {
  return sizeof(code_t) + values * sizeof(sim_value_t) + steps * sizeof(sim_step_t);
}

static uint64_t add_to_checksum(uint64_t sum, const void *data,
                                uint64_t bytes) { /* FNV-1a, eight bytes at a time */
  const unsigned char *at = data;
  for (uint64_t word; bytes; at += word, bytes -= word) {
    uint64_t part = 0;
    word = bytes < 8 ? bytes : 8;
    memcpy(&part, at, word);
    sum = (sum ^ part) * 0x100000001b3u;
    sum ^= sum >> 29;
  }
  return sum;
}

static uint64_t checksum(const code_t *code, uint64_t bytes, const void *weights) {
  uint64_t head = sizeof code->magic + sizeof code->checksum;
  uint64_t sum = add_to_checksum(0xcbf29ce484222325u, (const char *)code + head, bytes - head);
  return add_to_checksum(sum, weights, code->weight_bytes);
}

/* making */

static void chain_release(chain_t *chain) {
  if (--chain->references) return;
  free(chain->code);
  free(chain);
}

void sim_chain_free(sim_object_t *object) { chain_release((chain_t *)object); }

/* Takes ownership of `code`, even when it fails. */
static tenon_status_t chain_create(tenon_on_t on, code_t *code, uint64_t bytes, const void *weights,
                                   void **out_group) {
  sim_memory_t *memory;
  uint64_t begin;
  tenon_status_t status = TENON_OK;
  chain_t *chain = calloc(1, sizeof *chain);
  if (!chain) {
    free(code);
    return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a group");
  }
  chain->references = 1;
  chain->code = code;
  chain->code_bytes = bytes;
  if (code->weight_bytes) status = sim_allocate(on, code->weight_bytes, &chain->weights);
  if (!status && !(status = sim_enter(on))) {
    tenon_memory_t weights_at = {chain->weights, 0};
    if (chain->weights &&
        !(status = sim_memory_find(on, "weights", weights_at, code->weight_bytes, &memory, &begin)))
      memcpy(memory->work + begin, weights, code->weight_bytes);
    if (!status) status = sim_handle_create(on, SIM_CHAIN, &chain->object);
    sim_unlock();
  }
  if (!status) {
    *out_group = chain->object.handle;
    return TENON_OK;
  }
  if (chain->weights) sim_free(on, chain->weights);
  chain_release(chain);
  return status;
}

/* compiling */

/* Assigns storage to each value: an output, an input, an offset in the weights, or an offset in the
 * scratch memory for values between steps. */
static const char *assign_storage(const tenon_graph_view_t *view, code_t *code) {
  sim_value_t *values = values_of(code);
  const char *why;
  for (uint32_t i = 0; i < view->input_count; i++) {
    values[view->inputs[i]].where = SIM_IN;
    values[view->inputs[i]].at = i;
  }
  for (uint32_t i = 0; i < view->output_count; i++) {
    values[view->outputs[i]].where = SIM_OUT;
    values[view->outputs[i]].at = i;
  }
  for (uint32_t n = 0; n < code->step_count; n++) {
    const sim_step_t *step = &steps_of(code)[n];
    for (int i = 0; i <= SIM_STEP_INPUTS; i++) {
      int32_t v = i < SIM_STEP_INPUTS ? step->inputs[i] : step->output;
      if (v < 0) continue;
      sim_value_t keep = values[v];
      if ((why = sim_value_of(view->edges[v], &values[v]))) return why;
      values[v].where = keep.where;
      values[v].at = keep.at;
      if (keep.where) continue;
      bool is_weight = view->edges[v]->value != NULL;
      uint64_t *end = is_weight ? &code->weight_bytes : &code->scratch_bytes;
      values[v].where = is_weight ? SIM_WEIGHT : SIM_SCRATCH;
      values[v].at = *end;
      *end += (values[v].count * sizeof(float) + 63) / 64 * 64;
    }
  }
  return NULL;
}

tenon_status_t sim_group_compile(tenon_on_t on, const tenon_graph_view_t *view,
                                 const char *settings, void **out_group) {
  uint64_t bytes = bytes_of(view->edge_count, view->node_count);
  const char *why = NULL;
  (void)settings; /* The settings affect only what is offloaded. */
  TENON_TRY(sim_enter(on));
  TENON_TRY(sim_leave(sim_inject(on, SIM_CALL_GROUP_COMPILE)));
  code_t *code = calloc(1, bytes);
  if (!code) return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a group");
  memcpy(code->magic, magic, sizeof magic);
  code->in_count = view->input_count;
  code->out_count = view->output_count;
  code->value_count = view->edge_count;
  code->step_count = view->node_count;
  for (uint32_t n = 0; n < view->node_count && !why; n++)
    if ((why = sim_step_of(view->nodes[n], view, &steps_of(code)[n]))) {
      tenon_status_t status = tenon_fail(on, TENON_UNIMPLEMENTED, "sim: node '%s' (%s): %s",
                                         view->nodes[n]->name, view->nodes[n]->op, why);
      free(code);
      return status;
    }
  if ((why = assign_storage(view, code))) {
    free(code);
    return tenon_fail(on, TENON_UNIMPLEMENTED, "sim: %s", why);
  }
  char *weights = calloc(1, code->weight_bytes + 1);
  if (!weights) {
    free(code);
    return tenon_fail(on, TENON_MEMORY, "sim: no host memory for weights");
  }
  for (uint32_t i = 0; i < view->edge_count; i++) {
    const sim_value_t *value = &values_of(code)[i];
    if (value->where == SIM_WEIGHT && value->count)
      memcpy(weights + value->at, view->edges[i]->value->data, value->count * sizeof(float));
  }
  code->checksum = checksum(code, bytes, weights);
  tenon_status_t status = chain_create(on, code, bytes, weights, out_group);
  free(weights);
  return status;
}

/* bytes */

tenon_status_t sim_group_save(tenon_on_t on, void *group, tenon_sink_t *sink) {
  chain_t *chain;
  sim_memory_t *memory = NULL;
  uint64_t begin = 0;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_handle_find(on, SIM_CHAIN, group, &chain);
  if (!status && chain->weights) {
    tenon_memory_t weights_at = {chain->weights, 0};
    status = sim_memory_find(on, "weights", weights_at, chain->code->weight_bytes, &memory, &begin);
  }
  char *to = status ? NULL : sink->reserve(sink, chain->code_bytes + chain->code->weight_bytes);
  if (to) memcpy(to, chain->code, chain->code_bytes);
  if (to && memory) memcpy(to + chain->code_bytes, memory->work + begin, chain->code->weight_bytes);
  sim_unlock();
  return status || to ? status : TENON_MEMORY; /* the sink has reported the failure */
}

static bool value_is_sound(const code_t *code, const sim_value_t *value) {
  uint64_t count = 1;
  uint64_t bytes = value->count * sizeof(float);
  if (value->where == SIM_NOWHERE) return true;
  if (value->ndim < 0 || value->ndim > SIM_RANK || value->count > (uint64_t)1 << 40) return false;
  for (int32_t d = 0; d < value->ndim; d++) {
    if (value->shape[d] < 0 ||
        (value->shape[d] && count > ((uint64_t)1 << 40) / (uint64_t)value->shape[d]))
      return false;
    count *= (uint64_t)value->shape[d];
  }
  if (count != value->count) return false;
  switch (value->where) {
  case SIM_IN:
    return value->at < code->in_count;
  case SIM_OUT:
    return value->at < code->out_count;
  case SIM_WEIGHT:
    return value->at <= code->weight_bytes && bytes <= code->weight_bytes - value->at &&
           !(value->at % 64);
  case SIM_SCRATCH:
    return value->at <= code->scratch_bytes && bytes <= code->scratch_bytes - value->at &&
           !(value->at % 64);
  default:
    return false;
  }
}

static const char *code_check(const code_t *code, uint64_t size) {
  if (size < sizeof *code || memcmp(code->magic, magic, sizeof magic))
    return "they do not begin with the magic number of a group";
  uint64_t bytes =
      /* the counts have 32 bits, so the sum cannot overflow */
      bytes_of(code->value_count, code->step_count);
  if (bytes > size || code->weight_bytes != size - bytes || code->scratch_bytes > (uint64_t)1 << 40)
    return "their number does not match the header";
  if (checksum(code, bytes, (const char *)code + bytes) != code->checksum)
    return "they are damaged";
  for (uint32_t i = 0; i < code->value_count; i++)
    if (!value_is_sound(code, &values_of(code)[i])) return "a value has no valid storage";
  for (uint32_t n = 0; n < code->step_count; n++) {
    const sim_step_t *step = &steps_of(code)[n];
    const char *why = sim_step_check(step, values_of(code), code->value_count);
    if (why) return why;
    uint32_t to = values_of(code)[step->output].where;
    if (to != SIM_OUT && to != SIM_SCRATCH)
      return "a step writes a value that is neither an output nor scratch memory";
    for (int i = 0; i < SIM_STEP_INPUTS; i++)
      if (step->inputs[i] >= 0 && !values_of(code)[step->inputs[i]].where)
        return "a step reads a value without storage";
  }
  return NULL;
}

tenon_status_t sim_group_load(tenon_on_t on, const void *bytes, uint64_t size, void **out_group) {
  char *copy = malloc(size + sizeof(code_t)); /* malloc aligns the copy, which `bytes` may not be */
  if (!copy) return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a group");
  if (size) memcpy(copy, bytes, size);
  code_t *code = (code_t *)(void *)copy;
  const char *why = code_check(code, size);
  if (why) {
    free(copy);
    return tenon_fail(on, TENON_INVALID,
                      "sim: %" PRIu64 " bytes are not a compiled group of sim: %s", size, why);
  }
  uint64_t code_bytes = bytes_of(code->value_count, code->step_count);
  char *weights = malloc(code->weight_bytes + 1);
  if (!weights) {
    free(copy);
    return tenon_fail(on, TENON_MEMORY, "sim: no host memory for weights");
  }
  memcpy(weights, copy + code_bytes, code->weight_bytes);
  tenon_status_t status = chain_create(on, code, code_bytes, weights, out_group);
  free(weights);
  return status;
}

void sim_group_free(tenon_on_t on, void *group) {
  sim_lock();
  chain_t *chain = group ? sim_handle_end(on, SIM_CHAIN, group) : NULL;
  if (chain) {
    /* enqueued work that uses the weights keeps them alive */
    if (chain->weights) sim_memory_drop(on, chain->weights);
    chain_release(chain);
  }
  sim_unlock();
}

/* running */

static void work_release(void *argument) { chain_release(*(chain_t **)argument); }
static void work_retain(void *argument) { (*(chain_t **)argument)->references++; }

/* `addresses` holds the inputs, then the outputs, then the weights. */
static tenon_status_t chain_run(void *argument, void *const *addresses, char *message) {
  const code_t *code = (*(chain_t **)argument)->code;
  const sim_value_t *values = values_of(code);
  char *scratch = malloc(code->scratch_bytes + 1);
  float **at = calloc((uint64_t)code->value_count + 1, sizeof *at);
  for (uint32_t i = 0; i < code->value_count && at && scratch; i++) {
    void *base = NULL;
    switch (values[i].where) {
    case SIM_WEIGHT:
      base = (char *)addresses[code->in_count + code->out_count] + values[i].at;
      break;
    case SIM_SCRATCH:
      base = scratch + values[i].at;
      break;
    case SIM_IN:
      base = addresses[values[i].at];
      break;
    case SIM_OUT:
      base = addresses[code->in_count + values[i].at];
      break;
    default:
      break;
    }
    at[i] = base;
  }
  for (uint32_t n = 0; n < code->step_count && at && scratch; n++)
    sim_step_run(&steps_of(code)[n], values, at);
  bool fine = at && scratch;
  if (!fine) strcpy(message, "no host memory for the values between its steps");
  free(scratch);
  free(at);
  return fine ? TENON_OK : TENON_MEMORY;
}

static tenon_status_t match(tenon_on_t on, const code_t *code, const tenon_group_run_t *run) {
  if (run->input_count != code->in_count || run->output_count != code->out_count)
    return tenon_fail(on, TENON_INVALID,
                      "sim: %u inputs and %u outputs for a group that has %u and %u",
                      run->input_count, run->output_count, code->in_count, code->out_count);
  for (uint32_t i = 0; i < code->value_count; i++) {
    const sim_value_t *value = &values_of(code)[i];
    if (value->where != SIM_IN && value->where != SIM_OUT) continue;
    const tenon_tensor_t *t = (value->where == SIM_IN ? run->inputs : run->outputs)[value->at];
    if (!t || tenon_dtype_id(t->dtype) != TENON_F32 || t->ndim != value->ndim ||
        memcmp(t->shape, value->shape, (size_t)t->ndim * sizeof *t->shape))
      return tenon_fail(on, TENON_INVALID,
                        "sim: %s %" PRIu64
                        " of a group has another dtype or shape than it was compiled for",
                        value->where == SIM_IN ? "input" : "output", value->at);
  }
  return TENON_OK;
}

static sim_use_t use_of(const tenon_tensor_t *t, uint32_t is_write) {
  tenon_memory_t at = {t->data, t->byte_offset};
  uint64_t bytes = (uint64_t)tenon_count(t) * sizeof(float);
  if (!bytes) at = (tenon_memory_t){NULL, 0};
  return (sim_use_t){{at, bytes, is_write, 0}, NULL, false};
}

static tenon_status_t submit(tenon_on_t on, void *stream_handle, const tenon_group_run_t *run,
                             sim_use_t *uses) {
  sim_stream_t *stream;
  sim_work_t *work;
  chain_t *chain;
  TENON_TRY(sim_inject(on, SIM_CALL_LAUNCH));
  TENON_TRY(sim_stream_enter(on, stream_handle, &stream));
  TENON_TRY(sim_handle_find(on, SIM_CHAIN, run->group, &chain));
  TENON_TRY(match(on, chain->code, run));
  uint32_t count = 0;
  for (uint32_t i = 0; i < run->input_count; i++)
    uses[count++] = use_of(run->inputs[i], 0);
  for (uint32_t i = 0; i < run->output_count; i++)
    uses[count++] = use_of(run->outputs[i], 1);
  if (chain->weights)
    uses[count++] =
        (sim_use_t){{{chain->weights, 0}, chain->code->weight_bytes, 0, 0}, NULL, false};
  TENON_TRY(sim_work_create(on, run->ticket, "group", chain_run, &chain, sizeof chain, count, uses,
                            &work));
  work->retain = work_retain;
  work->release = work_release;
  work_retain(work->argument);
  return sim_work_submit(on, stream, work);
}

tenon_status_t sim_group_run(tenon_on_t on, void *stream, const tenon_group_run_t *run) {
  sim_use_t *uses = calloc((uint64_t)run->input_count + run->output_count + 1, sizeof *uses);
  if (!uses) return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a group's work");
  tenon_status_t status = sim_enter(on);
  if (!status) status = sim_leave(submit(on, stream, run, uses));
  free(uses);
  return status;
}
