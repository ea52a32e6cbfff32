/* Layers of programs, ordered by anchor and name, and the thread's stack of modes.  Entries of
 * the table run them; programs create and switch them.  Invariant: the order of layers follows
 * from their names alone, and a chain that calls may be reading never changes. */
#include "dispatch/user_layers.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "dispatch/watch.h"
#include "operator/table.h"

struct tenon_layer_t {
  int32_t bit;    /* the key of its anchor */
  int32_t number; /* the layer's bit in thread->calls.layers */
  tenon_run_fn run;
  void *context;
  const char *name;
  /* Links released layers: calls may still read the chains that contain them. */
  struct tenon_layer_t *next;
};

enum { LAYERS_MAX = 64 };
/* The layers of one anchor, in order. */
typedef struct chain_t {
  uint64_t numbers; /* their numbers, as a set */
  uint32_t count;
  const tenon_layer_t *layers[LAYERS_MAX];
  struct chain_t *before; /* the chain that this one replaced: calls may still read it */
} chain_t;

static tn_mutex_t lock = TN_MUTEX_INIT;
static chain_t *chains[TN_KEY_COUNT];
static uint64_t numbers; /* the numbers that are taken */
static tenon_layer_t *released;

tn_mutex_t *tn_layers_mutex(void) { return &lock; }

/* calls */

static tenon_status_t run_layer(tenon_call_t *call, const tenon_layer_t *layer) {
  tn_frame_t *frame = tn_frame_of(call);
  const tenon_layer_t *before = frame->layer;
  void *context = call->context;
  tn_thread_t *thread = tn_thread();
  if (thread->nesting >= TN_NESTING_MOST) return tn_nested_too_deep(call->op);
  thread->nesting++;
  frame->layer = layer;
  call->context = layer->context;
  tenon_status_t status = tn_trace_is_on()
                              ? tn_trace_hooks.function(call, layer->run, "layer", layer->name)
                              : layer->run(call);
  frame->layer = before;
  call->context = context;
  thread->nesting--;
  return status;
}

/* Returns the index of the first layer after `layer`. The chain may be newer than the one in which
 * `layer` was found. */
static uint32_t index_behind(const chain_t *chain, const tenon_layer_t *layer) {
  for (uint32_t i = 0; i < chain->count; i++)
    if (chain->layers[i] == layer) return i + 1;
  uint32_t i = 0;
  while (i < chain->count && strcmp(chain->layers[i]->name, layer->name) <= 0)
    i++;
  return i;
}

/* Runs the first enabled layer of the chain, or the first one after `layer` if that is given. After
 * the last layer, passes the call to what is below the anchor. */
static tenon_status_t run_chain(tenon_call_t *call, int bit, const tenon_layer_t *layer) {
  const chain_t *chain = __atomic_load_n(&chains[bit], __ATOMIC_ACQUIRE);
  uint64_t on = tn_thread()->calls.layers;
  for (uint32_t i = chain && layer ? index_behind(chain, layer) : 0; chain && i < chain->count; i++)
    if (on >> chain->layers[i]->number & 1) return run_layer(call, chain->layers[i]);
  return tn_redispatch(call, tn_key_below(tn_frame_of(call)->keys, bit));
}

static tenon_status_t run_chain_of_keys(tenon_call_t *call) {
  return run_chain(call, tn_key_highest(tn_frame_of(call)->keys), NULL);
}

typedef struct tn_mode_t {
  struct tn_mode_t *next;
  tenon_run_fn run;
  void *context;
} tn_mode_t;

static tenon_status_t run_mode(tenon_call_t *call, tn_mode_t *mode) {
  tn_frame_t *frame = tn_frame_of(call);
  tn_thread_calls_t *calls = &tn_thread()->calls;
  if (!mode) return tn_redispatch(call, tn_key_below(frame->keys, TN_BIT_MODE));
  if (tn_thread()->nesting >= TN_NESTING_MOST) return tn_nested_too_deep(call->op);
  tn_thread()->nesting++;
  tn_thread_calls_t before = *calls;
  tn_mode_t *outer = frame->mode;
  void *context = call->context;
  frame->mode = mode;
  call->context = mode->context;
  calls->modes = mode->next;
  if (!mode->next) calls->include &= ~TN_KEY(TN_BIT_MODE);
  tenon_status_t status =
      tn_trace_is_on() ? tn_trace_hooks.function(call, mode->run, "mode", NULL) : mode->run(call);
  frame->mode = outer;
  call->context = context;
  tn_thread()->nesting--;
  calls->modes = before.modes;
  calls->include |= before.include & TN_KEY(TN_BIT_MODE);
  return status;
}

static tenon_status_t run_modes(tenon_call_t *call) {
  return run_mode(call, tn_thread()->calls.modes);
}

tenon_status_t tenon_call_next(tenon_call_t *call) {
  const tn_frame_t *frame = tn_frame_of(call);
  if (!frame->keys) return tn_redispatch(call, 0);
  int bit = tn_key_highest(frame->keys);
  if (bit == TN_BIT_MODE) return run_mode(call, frame->mode->next);
  if (frame->entry->run == run_chain_of_keys) {
    uint64_t on =
        tn_thread()->calls.layers & __atomic_load_n(&chains[bit], __ATOMIC_ACQUIRE)->numbers;
    if (on & ~((uint64_t)1 << frame->layer->number)) return run_chain(call, bit, frame->layer);
  }
  return tn_redispatch(call, tn_key_below(frame->keys, bit));
}

const char *tenon_call_name(const tenon_call_t *call) { return call->op->name; }

/* creating and enabling */

static int anchor_bit(const char *anchor) {
  static const int bits[] = {TN_BIT_BELOW_VIEW, TN_BIT_BELOW_AUTOGRAD, TN_BIT_ABOVE_AUTOGRAD,
                             TN_BIT_ABOVE_AUTOCAST, TN_BIT_ABOVE_FUNCTIONAL};
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
    if (strcmp(tn_key_name(bits[i]), anchor) == 0) return bits[i];
  return -1;
}

/* Replaces a chain by one without `gone` and with `fresh`. The old chain stays for calls that still
 * read it. */
static tenon_status_t replace_chain(int bit, const tenon_layer_t *fresh,
                                    const tenon_layer_t *gone) {
  const chain_t *old = chains[bit];
  chain_t *chain = tn_allocate_zero(1, sizeof *chain);
  if (!chain) return tn_no_memory("a layer", sizeof *chain);
  for (uint32_t i = 0; old && i < old->count; i++) {
    if (fresh && strcmp(fresh->name, old->layers[i]->name) < 0) {
      chain->layers[chain->count++] = fresh;
      fresh = NULL;
    }
    if (old->layers[i] != gone) chain->layers[chain->count++] = old->layers[i];
  }
  if (fresh) chain->layers[chain->count++] = fresh;
  for (uint32_t i = 0; i < chain->count; i++)
    chain->numbers |= (uint64_t)1 << chain->layers[i]->number;
  chain->before = chains[bit];
  __atomic_store_n(&chains[bit], chain, __ATOMIC_RELEASE);
  return TENON_OK;
}

static tenon_status_t add_layer(tenon_layer_t *layer) {
  for (int bit = 0; bit < TN_KEY_COUNT; bit++)
    for (uint32_t i = 0; chains[bit] && i < chains[bit]->count; i++)
      if (strcmp(chains[bit]->layers[i]->name, layer->name) == 0)
        return tn_fail(TENON_EXISTS, "a layer '%s' is there already, %s", layer->name,
                       tn_key_name(bit));
  while (layer->number < LAYERS_MAX && numbers >> layer->number & 1)
    layer->number++;
  if (layer->number == LAYERS_MAX)
    return tn_fail(TENON_RANGE, "layer '%s': %d layers are there already", layer->name, LAYERS_MAX);
  TN_TRY(replace_chain(layer->bit, layer, NULL));
  numbers |= (uint64_t)1 << layer->number;
  return TENON_OK;
}

tenon_status_t tenon_layer_create(const char *name, const char *anchor, tenon_run_fn run,
                                  void *context, tenon_layer_t **out_layer) {
  TN_TRY(tenon_start());
  if (!name || !anchor || !run || !out_layer || !*name)
    return tn_fail(TENON_INVALID, "a layer needs a name, an anchor and a function");
  int bit = anchor_bit(anchor);
  if (bit < 0)
    return tn_fail(TENON_INVALID,
                   "layer '%s': anchor '%s': expected 'below view', 'below autograd', 'above "
                   "autograd', 'above autocast' or 'above functional'",
                   name, anchor);
  size_t size = strlen(name) + 1;
  tenon_layer_t *layer = tn_allocate(sizeof *layer + size);
  if (!layer) return tn_no_memory("a layer", sizeof *layer + size);
  *layer = (tenon_layer_t){bit, 0, run, context, memcpy(layer + 1, name, size), NULL};
  tn_mutex_lock(&lock);
  tenon_status_t status = add_layer(layer);
  tn_mutex_unlock(&lock);
  if (status == TENON_OK)
    *out_layer = layer;
  else
    tn_release_memory(layer);
  return status;
}

void tenon_layer_release(tenon_layer_t *layer) {
  if (!layer) return;
  tn_mutex_lock(&lock);
  /* Without memory for a new chain the layer stays, but it is disabled in all threads. */
  if (replace_chain(layer->bit, NULL, layer) == TENON_OK) {
    numbers &= ~((uint64_t)1 << layer->number);
    layer->next = released;
    released = layer;
  }
  tn_mutex_unlock(&lock);
}

void tenon_layer_enable(const tenon_layer_t *layer, int32_t is_on) {
  tn_thread_calls_t *calls = &tn_thread()->calls;
  uint64_t bit = (uint64_t)1 << layer->number;
  calls->layers = is_on ? calls->layers | bit : calls->layers & ~bit;
  bool any = false;
  const chain_t *chain = __atomic_load_n(&chains[layer->bit], __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; chain && i < chain->count; i++)
    any |= calls->layers >> chain->layers[i]->number & 1;
  calls->include = any ? calls->include | TN_KEY(layer->bit) : calls->include & ~TN_KEY(layer->bit);
}

int32_t tenon_layer_is_enabled(const tenon_layer_t *layer) {
  return tn_thread()->calls.layers >> layer->number & 1;
}

tenon_status_t tenon_mode_push(tenon_run_fn run, void *context) {
  TN_TRY(tenon_start());
  if (!run) return tn_fail(TENON_INVALID, "a mode needs a function");
  tn_thread_calls_t *calls = &tn_thread()->calls;
  tn_mode_t *mode = tn_allocate(sizeof *mode);
  if (!mode) return tn_no_memory("a mode", sizeof *mode);
  *mode = (tn_mode_t){calls->modes, run, context};
  calls->modes = mode;
  calls->include |= TN_KEY(TN_BIT_MODE);
  return TENON_OK;
}

void tenon_mode_pop(void) {
  tn_thread_calls_t *calls = &tn_thread()->calls;
  tn_mode_t *mode = calls->modes;
  if (!mode) return;
  calls->modes = mode->next;
  if (!mode->next) calls->include &= ~TN_KEY(TN_BIT_MODE);
  tn_release_memory(mode);
}

/* Keeps chains that still contain layers, which their creators release. */
void tn_layers_clear(void) {
  tn_mutex_lock(&lock);
  for (int bit = 0; bit < TN_KEY_COUNT; bit++) {
    while (chains[bit] && chains[bit]->before) {
      chain_t *old = chains[bit]->before;
      chains[bit]->before = old->before;
      tn_release_memory(old);
    }
    if (!chains[bit] || chains[bit]->count) continue;
    tn_release_memory(chains[bit]);
    chains[bit] = NULL;
  }
  while (released) {
    tenon_layer_t *next = released->next;
    tn_release_memory(released);
    released = next;
  }
  tn_mutex_unlock(&lock);
}

void tn_user_layers_install(void) {
  tn_table_run_set(TN_RUN_CHAIN, run_chain_of_keys);
  tn_table_run_set(TN_RUN_MODE, run_modes);
}
