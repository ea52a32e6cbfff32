/* The table of an operator: which entry belongs to each key, computed from the registered kernels.
 * The registry rebuilds a table when kernels are added or removed; calls read it without a lock.
 * Invariant: an entry never changes once it is in a table, and a change of the table is one pointer
 * that is stored.  A call therefore sees all of the old entry or all of the new one, and with each
 * entry the mask that belongs to it. */
#include "operator/table.h"

#include <string.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "operator/kernel.h"
#include "operator/library.h"

/* rows that all operators share */

/* All keys: the trace has the highest one. */
#define ALL ((TN_KEY(TN_BIT_TRACE + 1) - 1) & ~TN_TENSOR_LENT)
static tn_table_entry_t missing = {.mask = ALL | TN_KEY(TN_BIT_CAREFUL),
                                   .resolved = TN_RESOLVED_MISSING};
static tn_table_entry_t ambiguous = {.resolved = TN_RESOLVED_MISSING};
static tn_table_entry_t others = {.resolved = TN_RESOLVED_LAYER};
static tn_table_entry_t autograd_others = {.resolved = TN_RESOLVED_LAYER};
static tn_table_entry_t layout = {.resolved = TN_RESOLVED_LAYER};
static tn_table_entry_t meta = {.resolved = TN_RESOLVED_META};
static tn_table_entry_t through = {.resolved = TN_RESOLVED_FALLTHROUGH};
/* Stands in lists of backends for the backend's row, even if the operator has an entry for other
 * backends. */
static const tn_table_entry_t use_row;
static tn_table_entry_t chain = {.resolved = TN_RESOLVED_LAYER};
static tn_table_entry_t mode = {.resolved = TN_RESOLVED_LAYER};
static tn_table_entry_t trace = {.resolved = TN_RESOLVED_LAYER};
static tn_table_entry_t autocast = {.resolved = TN_RESOLVED_LAYER};
static tn_table_entry_t versions = {.resolved = TN_RESOLVED_LAYER};
static tn_table_entry_t gradient = {.resolved = TN_RESOLVED_GRADIENT};
/* Passes calls on; backward reports that there is no gradient. */
static tn_table_entry_t no_gradient = {.resolved = TN_RESOLVED_FALLTHROUGH};
#define ROWS                                                                                       \
  [TN_BIT_OTHERS] = &others, [TN_BIT_STRIDED] = &layout, [TN_BIT_DETAIL] = &layout,                \
  [TN_BIT_BELOW_VIEW] = &chain, [TN_BIT_VIEW] = &versions, [TN_BIT_BELOW_AUTOGRAD] = &chain,       \
  [TN_BIT_AUTOGRAD] = &no_gradient, [TN_BIT_ABOVE_AUTOGRAD] = &chain,                              \
  [TN_BIT_AUTOCAST] = &autocast, [TN_BIT_ABOVE_AUTOCAST] = &chain, [TN_BIT_FUNCTIONAL] = &through, \
  [TN_BIT_ABOVE_FUNCTIONAL] = &chain, [TN_BIT_MODE] = &mode, [TN_BIT_TRACE] = &trace
/* Rows of layers. tn_table_row finds those of backends. */
static const tn_table_entry_t *const rows_at_start[TN_KEY_COUNT] = {ROWS};
static const tn_table_entry_t *rows[TN_KEY_COUNT] = {ROWS};

static tenon_run_fn runs[TN_RUN_COUNT]; /* by TN_RUN_... */

/* The shared entries, one for each function in `runs`. */
static tn_table_entry_t *const shared[TN_RUN_COUNT][2] = {
    [TN_RUN_MISSING] = {&missing},
    [TN_RUN_AMBIGUOUS] = {&ambiguous},
    [TN_RUN_OTHERS] = {&others},
    [TN_RUN_AUTOGRAD_OTHERS] = {&autograd_others},
    [TN_RUN_LAYOUT] = {&layout},
    [TN_RUN_META] = {&meta},
    [TN_RUN_FALLTHROUGH] = {&through},
    [TN_RUN_CHAIN] = {&chain},
    [TN_RUN_MODE] = {&mode},
    [TN_RUN_TRACE] = {&trace},
    [TN_RUN_AUTOCAST] = {&autocast},
    [TN_RUN_VERSIONS] = {&versions},
    [TN_RUN_GRADIENT] = {&gradient, &no_gradient},
};

void tn_table_run_set(int which, tenon_run_fn run) {
  runs[which] = run;
  for (int i = 0; i < 2 && shared[which][i]; i++)
    shared[which][i]->run = run;
}

tenon_run_fn tn_table_run(int which) { return runs[which]; }

const tn_table_entry_t *tn_row_get(int bit) {
  const tn_table_entry_t *row = __atomic_load_n(&rows[bit], __ATOMIC_ACQUIRE);
  return row ? row : &missing;
}

/* Numbers of changes of tables and rows that have begun, and that are complete. */
static uint64_t begun, over;

static void begin_change(void) { __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST); }
static void end_change(void) { __atomic_fetch_add(&over, 1, __ATOMIC_RELEASE); }

uint64_t tn_table_last_change(void) { return __atomic_load_n(&over, __ATOMIC_ACQUIRE); }

bool tn_table_has_changed(uint64_t last) {
  if (__builtin_expect(__atomic_load_n(&begun, __ATOMIC_ACQUIRE) == last, 1)) return false;
  /* A change takes a few stores, unless the system suspends its thread. */
  tn_thread_yield();
  return true;
}

static void set_row(const tn_table_entry_t **row, const tn_table_entry_t *entry) {
  begin_change();
  __atomic_store_n(row, entry, __ATOMIC_RELEASE);
  end_change();
}

void tn_row_set(int bit, const tn_table_entry_t *entry) {
  set_row(&rows[bit], entry ? entry : rows_at_start[bit]);
}
bool tn_row_is_initial(int bit, const tn_table_entry_t *entry) {
  return entry == rows_at_start[bit];
}

void tn_backend_row_set(tn_backend_t *backend, bool is_autograd, const tn_table_entry_t *entry) {
  set_row(is_autograd ? &backend->gradients : &backend->row, entry);
}

const tn_table_entry_t *tn_table_row(const tn_backend_t *backend) {
  const tn_table_entry_t *row = backend ? __atomic_load_n(&backend->row, __ATOMIC_ACQUIRE) : NULL;
  if (row) return row;
  return backend == &tn_backend_meta ? &meta : &missing;
}

/* finding */

/* Returns the entry for a backend for which the operator has none of its own. */
static const tn_table_entry_t *shared_entry(const tenon_op_t *op, const tn_backend_t *backend) {
  const tn_table_entry_t *row = tn_table_row(backend);
  const tn_table_entry_t *composite = __atomic_load_n(&op->others, __ATOMIC_ACQUIRE);
  if (__atomic_load_n(&op->is_anywhere, __ATOMIC_ACQUIRE))
    return __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE);
  if (!composite) return row;
  if (row->resolved != TN_RESOLVED_FALLBACK) return composite;
  return row->is_preferred || composite->resolved == TN_RESOLVED_VIEW ? row : composite;
}

static const tn_table_entry_t *find_autograd(const tenon_op_t *op, const tn_backend_t *backend) {
  const tn_other_t *other = __atomic_load_n(&op->autograd_backends, __ATOMIC_ACQUIRE);
  while (other && other->backend != backend)
    other = other->next;
  const tn_table_entry_t *own = other ? __atomic_load_n(&other->entry, __ATOMIC_ACQUIRE) : NULL;
  if (!own) own = __atomic_load_n(&op->autograd, __ATOMIC_ACQUIRE);
  if (own && own != &use_row) return own;
  const tn_table_entry_t *row =
      backend ? __atomic_load_n(&backend->gradients, __ATOMIC_ACQUIRE) : NULL;
  return row ? row : tn_row_get(TN_BIT_AUTOGRAD);
}

const tn_table_entry_t *tn_table_autograd(const tenon_op_t *op, const tn_backend_t *backend) {
  const tn_table_entry_t *entry;
  uint64_t last;
  do {
    last = tn_table_last_change();
    entry = find_autograd(op, backend);
  } while (tn_table_has_changed(last));
  return entry;
}

static const tn_table_entry_t *find_entry(const tenon_op_t *op, uint64_t keys, int bit) {
  uint64_t backends = keys & TN_KEY_BACKEND_MASK & ~TN_KEY_CPU;
  if (bit < TN_BIT_META && backends & (backends - 1)) return &ambiguous;
  if (bit == TN_BIT_AUTOGRAD && tn_key_shares_bit(keys)) return &autograd_others;
  if (bit == TN_BIT_AUTOGRAD) return tn_table_autograd(op, tn_backend_of_keys(keys));
  const tn_table_entry_t *own = tn_table_own(op, bit);
  if (own) return own;
  if (bit > TN_BIT_META || bit == TN_BIT_OTHERS) return tn_row_get(bit);
  return shared_entry(op, tn_backend_of_keys(keys));
}

/* Returns the entry of a key whose entry depends on several positions, and looks again if the table
 * has changed meanwhile. */
static __attribute__((noinline)) const tn_table_entry_t *
find_entry_steadily(const tenon_op_t *op, uint64_t keys, int bit) {
  const tn_table_entry_t *entry;
  uint64_t last;
  do {
    last = tn_table_last_change();
    entry = find_entry(op, keys, bit);
  } while (tn_table_has_changed(last));
  return entry;
}

const tn_table_entry_t *tn_table_entry(const tenon_op_t *op, uint64_t keys) {
  if (__builtin_expect(!keys, 0)) return &missing;
  int bit = tn_key_highest(keys);
  if (bit == TN_BIT_CPU) return __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE);
  bool is_layer = bit > TN_BIT_META && bit != TN_BIT_AUTOGRAD;
  uint64_t backends = keys & TN_KEY_BACKEND_MASK & ~TN_KEY_CPU;
  /* Only one position is read here, so no change can come between two reads. */
  if (bit < TN_BIT_META && !(backends & (backends - 1))) {
    const tn_table_entry_t *own = tn_table_own(op, bit);
    if (own) return own;
  }
  if (is_layer && !__atomic_load_n(&op->index[bit], __ATOMIC_ACQUIRE)) return tn_row_get(bit);
  return find_entry_steadily(op, keys, bit);
}

const tn_table_entry_t *tn_table_others(const tenon_op_t *op, const tn_backend_t *backend) {
  const tn_table_entry_t *entry;
  uint64_t last;
  do {
    last = tn_table_last_change();
    const tn_other_t *other = __atomic_load_n(&op->other_backends, __ATOMIC_ACQUIRE);
    while (other && other->backend != backend)
      other = other->next;
    entry = other ? __atomic_load_n(&other->entry, __ATOMIC_ACQUIRE) : NULL;
    if (!entry) entry = shared_entry(op, backend);
  } while (tn_table_has_changed(last));
  return entry;
}

/* entries */

static bool same_lists(const tn_kernel_t *const *a, const tn_kernel_t *const *b) {
  if (!a || !b) return a == b;
  while (*a && *a == *b) {
    a++;
    b++;
  }
  return *a == *b;
}

static bool same_entry(const tn_table_entry_t *a, const tn_table_entry_t *b) {
  if (a->run != b->run || a->context != b->context || a->only != b->only || a->mask != b->mask ||
      a->resolved != b->resolved || a->denial != b->denial)
    return false;
  if (!a->by_dtype || !b->by_dtype) return a->by_dtype == b->by_dtype;
  for (int d = 0; d < TN_DTYPE_COUNT; d++)
    if (!same_lists(a->by_dtype[d], b->by_dtype[d])) return false;
  return true;
}

/* Returns the length of a list with its end; 0: there is no list. */
static size_t length(const tn_kernel_t *const *list) {
  size_t count = 0;
  while (list && list[count++])
    continue;
  return count;
}

/* Copies the lists of an entry into one block of memory. */
static tenon_status_t keep_lists(const tenon_op_t *op, tn_table_entry_t *entry) {
  size_t room = TN_DTYPE_COUNT;
  if (!entry->by_dtype) return TENON_OK;
  for (int d = 0; d < TN_DTYPE_COUNT; d++)
    room += length(entry->by_dtype[d]);
  void **block = tn_allocate_zero(room, sizeof *block);
  void **at = block + TN_DTYPE_COUNT;
  if (!block) return tn_no_memory(op->name, room * sizeof *block);
  for (int d = 0; d < TN_DTYPE_COUNT; d++) {
    size_t count = length(entry->by_dtype[d]);
    if (!count) continue;
    memcpy(at, entry->by_dtype[d], count * sizeof *at);
    block[d] = at;
    at += count;
  }
  entry->by_dtype = (const tn_kernel_t *const *const *)(void *)block;
  return TENON_OK;
}

static void drop_lists(const tn_table_entry_t *entry) {
  tn_release_memory((void *)(uintptr_t)entry->by_dtype);
}

void tn_table_release(tenon_op_t *op) {
  for (const tn_table_entry_t *s = op->made; s; s = s->next)
    drop_lists(s);
  for (const tn_table_entry_t *s = op->gone; s; s = s->next)
    drop_lists(s);
}

static void add_gate(tn_table_entry_t *entry, const tn_library_t *library) {
  if (library->gate && entry->gate != library->gate)
    entry->gate = entry->gate ? TN_GATE_SEVERAL : library->gate;
}

static void set_gate(const tenon_op_t *op, tn_table_entry_t *entry) {
  add_gate(entry, op->library);
  if (entry->only) add_gate(entry, entry->only->library);
  if (entry->denial) add_gate(entry, entry->denial->library);
  for (int d = 0; d < TN_DTYPE_COUNT && entry->by_dtype; d++)
    for (const tn_kernel_t *const *list = entry->by_dtype[d]; list && *list; list++)
      add_gate(entry, (*list)->library);
}

/* Turns an entry that left the table into another entry with the same gate. A call that is still on
 * its way to the entry reads the fields that are the same in both, counts itself at the gate, and
 * reads the table again (tn_entry_hold) before it uses the others. */
static tn_table_entry_t *use_again(tenon_op_t *op, const tn_table_entry_t *wanted) {
  tn_table_entry_t **at = &op->gone;
  tn_table_entry_t *s;
  while ((s = *at) && !(s->is_idle && s->gate == wanted->gate && s->mask == wanted->mask &&
                        s->resolved == wanted->resolved))
    at = &s->next;
  if (!s) return NULL;
  *at = s->next;
  drop_lists(s);
  s->is_idle = false;
  s->denial = wanted->denial;
  __atomic_store_n(&s->run, wanted->run, __ATOMIC_RELAXED);
  __atomic_store_n(&s->context, wanted->context, __ATOMIC_RELAXED);
  __atomic_store_n(&s->only, wanted->only, __ATOMIC_RELAXED);
  __atomic_store_n(&s->by_dtype, wanted->by_dtype, __ATOMIC_RELAXED);
  return s;
}

/* Returns an entry with these contents: an earlier entry if there is one, so that kernels which are
 * added and removed repeatedly need no more memory. */
static tenon_status_t make_entry(tenon_op_t *op, const tn_table_entry_t *contents,
                                 const tn_table_entry_t **out_entry) {
  tn_table_entry_t wanted = *contents;
  wanted.mask = op->mask;
  for (tn_table_entry_t *s = op->made; s; s = s->next)
    if (same_entry(s, &wanted)) {
      *out_entry = s;
      return TENON_OK;
    }
  set_gate(op, &wanted);
  TN_TRY(keep_lists(op, &wanted));
  tn_table_entry_t *entry = wanted.gate ? use_again(op, &wanted) : NULL;
  if (!entry) {
    if (!(entry = tn_arena_allocate(&op->arena, sizeof *entry))) {
      drop_lists(&wanted);
      return tn_no_memory(op->name, sizeof *entry);
    }
    *entry = wanted;
  }
  entry->next = op->made;
  op->made = entry;
  *out_entry = entry;
  return TENON_OK;
}

/* Makes an entry of the kernels that a backend may use. Its lists are in scratch memory until the
 * entry is complete. */
static tenon_status_t make_kernels_entry(tenon_op_t *op, const tn_backend_t *backend, int resolved,
                                         const tn_kernel_t *denial,
                                         const tn_table_entry_t **out_entry) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  bool by_type = false;
  /* Whether a device kernel serves every dtype, which leaves no call to source kernels. */
  bool has_all = false;
  tn_table_entry_t entry = {
      .run = runs[TN_RUN_PROLOGUE], .denial = denial, .resolved = (uint8_t)resolved};
  /* Tensors of a device may be accompanied by host tensors. */
  bool is_device = backend && backend != &tn_backend_cpu;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    has_all |=
        k->kind == TN_KIND_DEVICE && k->words.dtypes == ~(uint64_t)0 && tn_kernel_is_of(k, backend);
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    by_type |=
        tn_kernel_is_of(k, backend) && !(has_all && k->kind == TN_KIND_SOURCE) &&
        (k->kind == TN_KIND_LOOP || k->kind == TN_KIND_ROW || k->words.dtypes != ~(uint64_t)0);
  const tn_kernel_t *const *lists[TN_DTYPE_COUNT] = {NULL};
  uint64_t set =
      by_type && op->dispatch_input >= 0 && op->types.variable_count ? op->types.sets[0] : 1;
  tenon_status_t status = TENON_OK;
  for (int d = 0; d < TN_DTYPE_COUNT && status == TENON_OK; d++)
    if (set >> d & 1 && !(lists[d] = tn_kernel_candidates(op, backend, d)))
      status = tn_no_memory(op->name, 0);
  if (status == TENON_OK && by_type) entry.by_dtype = lists;
  if (status == TENON_OK && !by_type) {
    entry.only = lists[0][0];
    bool direct = entry.only && !op->create && !op->infer && !is_device &&
                  entry.only->kind != TN_KIND_STUB && !(entry.only->words.flags & TN_KERNEL_SERIAL);
    if (direct) {
      entry.run = entry.only->run;
      entry.context = entry.only->context;
    }
  }
  if (is_device && tn_launches_directly(op, &entry)) entry.run = runs[TN_RUN_LAUNCH];
  if (status == TENON_OK) status = make_entry(op, &entry, out_entry);
  tn_scratch_reset(mark);
  return status;
}

/* The registered kernels as far as they concern one backend. */
typedef struct summary_t {
  const tn_kernel_t *direct; /* the newest kernel for the backend */
  const tn_kernel_t *denial; /* the kernel that denies the backend's fallback */
  bool has_explicit;
  bool has_composite;
} summary_t;

static summary_t summarise(const tenon_op_t *op, const tn_backend_t *backend) {
  summary_t s = {NULL, NULL, false, false};
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    bool is_own = k->kind == TN_KIND_SOURCE ||
                  (k->words.at == TN_AT_BACKEND && backend && k->backend == backend);
    if (is_own && !s.direct &&
        (k->words.flags & TN_KERNEL_FALLTHROUGH || tn_kernel_is_of(k, backend)))
      s.direct = k;
    if (k->words.flags & TN_KERNEL_NO_FALLBACK && backend && k->backend == backend && !s.denial)
      s.denial = k;
    s.has_explicit |= k->words.at == TN_AT_EXPLICIT;
    s.has_composite |= k->words.at == TN_AT_COMPOSITE;
  }
  return s;
}

static bool some_kernel_says(const tenon_op_t *op, uint32_t flag) {
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    if (k->words.flags & flag) return true;
  return false;
}

/* Makes the entry of a backend (NULL: of backends without kernels). *out_entry NULL: a device uses
 * the entry of backends without kernels; for the CPU, and for backends without kernels, their row
 * serves. */
static tenon_status_t make_backend_entry(tenon_op_t *op, const tn_backend_t *backend,
                                         const tn_table_entry_t **out_entry) {
  summary_t s = summarise(op, backend);
  *out_entry = NULL;
  bool is_device = backend && backend != &tn_backend_cpu;
  /* A kernel of the CPU that serves every device is no fallback, so no rule denies it. */
  bool is_anywhere = some_kernel_says(op, TN_KERNEL_ANYWHERE);
  if (!s.direct && is_device && (!s.denial || is_anywhere)) return TENON_OK;
  if (s.direct && s.direct->words.flags & TN_KERNEL_FALLTHROUGH)
    return make_entry(op,
                      &(tn_table_entry_t){.run = runs[TN_RUN_FALLTHROUGH],
                                          .only = NULL,
                                          .resolved = TN_RESOLVED_FALLTHROUGH},
                      out_entry);
  if (s.direct) return make_kernels_entry(op, backend, TN_RESOLVED_DIRECT, s.denial, out_entry);
  if (s.has_explicit)
    return make_kernels_entry(op, backend, TN_RESOLVED_EXPLICIT, s.denial, out_entry);
  if (s.has_composite)
    return make_kernels_entry(op, backend, TN_RESOLVED_COMPOSITE, s.denial, out_entry);
  if (op->is_view)
    return make_entry(
        op, &(tn_table_entry_t){.run = runs[TN_RUN_VIEW], .resolved = TN_RESOLVED_VIEW}, out_entry);
  if (s.denial)
    return make_entry(op,
                      &(tn_table_entry_t){.run = runs[TN_RUN_DENIED],
                                          .denial = s.denial,
                                          .resolved = TN_RESOLVED_DENIED},
                      out_entry);
  return TENON_OK;
}

/* Makes the entry for gradients on a backend (NULL: on backends without kernels). *out_entry NULL:
 * the layer's row serves. */
static tenon_status_t make_autograd_entry(tenon_op_t *op, const tn_backend_t *backend,
                                          const tn_table_entry_t **out_entry) {
  const tn_kernel_t *own = NULL;
  const tn_kernel_t *all = NULL;
  const tn_kernel_t *k;
  summary_t s = summarise(op, backend);
  *out_entry = NULL;
  for (k = op->kernels; k; k = k->next) {
    if (k->words.at != TN_AT_AUTOGRAD) continue;
    if (!all && !k->backend) all = k;
    if (!own && k->backend && k->backend == backend) own = k;
  }
  bool decomposes = s.has_composite && !s.direct && !s.has_explicit && !op->gradient.text;
  k = own;
  if (!own && !decomposes) k = all;
  if (k && k->words.flags & TN_KERNEL_FALLTHROUGH)
    return make_entry(
        op,
        &(tn_table_entry_t){.run = runs[TN_RUN_FALLTHROUGH], .resolved = TN_RESOLVED_FALLTHROUGH},
        out_entry);
  if (k)
    return make_entry(
        op,
        &(tn_table_entry_t){.run = k->run,
                            .context = k->context,
                            .only = k,
                            .resolved = own ? TN_RESOLVED_DIRECT : TN_RESOLVED_AUTOGRAD},
        out_entry);
  if (op->gradient.text) {
    *out_entry = &gradient;
    return TENON_OK;
  }
  /* Whether the operator takes a graph, which records no history for gradients. */
  bool has_graph = false;
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    has_graph |= op->schema.attrs[i].kind == TENON_KIND_GRAPH;
  /* The composite also runs above a backend's own kernel, so that gradients are kept. */
  if (s.has_composite && !s.has_explicit && !has_graph)
    return make_kernels_entry(op, NULL, TN_RESOLVED_COMPOSITE, NULL, out_entry);
  return TENON_OK;
}

static bool mentions(const tn_table_entry_t *entry, const tn_library_t *library) {
  if (entry->only && entry->only->library == library) return true;
  if (entry->denial && entry->denial->library == library) return true;
  for (int d = 0; d < TN_DTYPE_COUNT && entry->by_dtype; d++)
    for (const tn_kernel_t *const *list = entry->by_dtype[d]; list && *list; list++)
      if ((*list)->library == library) return true;
  return false;
}

void tn_table_forget(tenon_op_t *op, const tn_library_t *library, bool is_quiet) {
  for (tn_table_entry_t **at = &op->made, *s; (s = *at);) {
    if (!mentions(s, library)) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    s->is_idle = is_quiet && s->gate;
    s->next = op->gone;
    op->gone = s;
  }
}

/* building */

static bool all_strided(const tenon_op_t *op) {
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    if (!(k->words.flags & TN_KERNEL_STRIDED) && k->kind != TN_KIND_LOOP) return false;
  return op->kernels != NULL;
}

/* One position of a new table. First all entries are made, which may fail, and then all of them are
 * stored, which cannot fail. The registry's mutex is held. */
typedef struct store_t {
  const tn_table_entry_t **other; /* position in a list; NULL: position `at` of the array */
  uint8_t at;
  const tn_table_entry_t *entry;
} store_t;
static store_t stores[2 * TN_BACKENDS_MAX + TN_KEY_COUNT];
static size_t store_count;

/* Notes the entry of a key, to be stored; NULL: its row serves again. A new position is empty,
 * which means the row, before the index leads to it. It is never removed, since calls may be on
 * their way to it. */
static tenon_status_t place_entry(tenon_op_t *op, int bit, const tn_table_entry_t *entry) {
  uint8_t at = op->index[bit];
  if (!at && !entry) return TENON_OK;
  if (!at && op->entry_count == op->entry_room) {
    uint32_t room = op->entry_room ? op->entry_room * 2 : 2;
    const tn_table_entry_t **larger = tn_arena_array(&op->arena, room, sizeof *larger);
    if (!larger) return tn_no_memory(op->name, room * sizeof *larger);
    if (op->entry_count) memcpy(larger, op->entries, op->entry_count * sizeof *larger);
    __atomic_store_n(&op->entries, larger, __ATOMIC_RELEASE);
    op->entry_room = room;
  }
  if (!at) {
    at = (uint8_t)++op->entry_count;
    __atomic_store_n(&op->entries[at - 1], NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&op->index[bit], at, __ATOMIC_RELEASE);
  }
  stores[store_count++] = (store_t){NULL, at, entry};
  return TENON_OK;
}

static tenon_status_t place_other(tenon_op_t *op, tn_other_t **list, const tn_backend_t *backend,
                                  const tn_table_entry_t *entry) {
  tn_other_t *other = *list;
  while (other && other->backend != backend)
    other = other->next;
  if (!other && !entry) return TENON_OK;
  if (!other) {
    if (!(other = tn_arena_allocate(&op->arena, sizeof *other)))
      return tn_no_memory(op->name, sizeof *other);
    *other = (tn_other_t){backend, NULL, *list};
    __atomic_store_n(list, other, __ATOMIC_RELEASE);
  }
  stores[store_count++] = (store_t){&other->entry, 0, entry};
  return TENON_OK;
}

/* The host's layers, other than gradients, for which kernels can be registered. */
static const uint8_t layer_places[][2] = {{TN_AT_VIEW, TN_BIT_VIEW},
                                          {TN_AT_AUTOCAST, TN_BIT_AUTOCAST},
                                          {TN_AT_FUNCTIONAL, TN_BIT_FUNCTIONAL}};
enum { LAYER_PLACES = sizeof layer_places / sizeof *layer_places };

static const tn_kernel_t *newest_at(const tenon_op_t *op, uint8_t place) {
  const tn_kernel_t *k = op->kernels;
  while (k && k->words.at != place)
    k = k->next;
  return k;
}

/* Makes the entries of the kernels that the operator has for those layers. */
static tenon_status_t place_layers(tenon_op_t *op) {
  for (size_t i = 0; i < LAYER_PLACES; i++) {
    const tn_kernel_t *k = newest_at(op, layer_places[i][0]);
    const tn_table_entry_t *entry = NULL;
    if (k && k->words.flags & TN_KERNEL_FALLTHROUGH)
      entry = &through;
    else if (k)
      TN_TRY(make_entry(
          op,
          &(tn_table_entry_t){
              .run = k->run, .context = k->context, .only = k, .resolved = TN_RESOLVED_DIRECT},
          &entry));
    TN_TRY(place_entry(op, layer_places[i][1], entry));
  }
  return TENON_OK;
}

/* Returns the layers whose kernel for the operator is a fallthrough: calls are not led there. A
 * fallthrough of a backend keeps its key, since gradients depend on the backend. */
static uint64_t passed_by(const tenon_op_t *op) {
  uint64_t keys = 0;
  for (int i = 0; i < LAYER_PLACES; i++) {
    const tn_kernel_t *k = newest_at(op, layer_places[i][0]);
    if (k && k->words.flags & TN_KERNEL_FALLTHROUGH) keys |= TN_KEY(layer_places[i][1]);
  }
  return keys;
}

static uint64_t mask_of(const tenon_op_t *op) {
  uint64_t mask = ALL & ~passed_by(op);
  if (op->traits & (TENON_RANDOM | TN_WRITES) || !op->input_count) mask |= TN_KEY(TN_BIT_CAREFUL);
  /* Other libraries may add kernels for some backend. */
  bool only_views = op->is_view && !op->kernels;
  if (only_views || all_strided(op)) mask &= ~TN_KEY_STRIDED;
  if (only_views) mask &= ~TN_KEY_DETAIL;
  return mask;
}

static tenon_status_t build(tenon_op_t *op) {
  const tn_table_entry_t *cpu, *any, *entry;
  store_count = 0;
  TN_TRY(make_backend_entry(op, &tn_backend_cpu, &cpu));
  TN_TRY(make_backend_entry(op, NULL, &any));
  const tn_table_entry_t *gradients;
  TN_TRY(make_autograd_entry(op, NULL, &gradients));
  const tn_backend_t *backend;
  for (int32_t i = 0; (backend = tn_backend_at(i)); i++) {
    bool named = false;
    bool has_gradient = false;
    for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
      named |= (k->words.at == TN_AT_BACKEND && k->backend == backend) ||
               (k->kind == TN_KIND_SOURCE && tn_kernel_is_of(k, backend));
      has_gradient |= k->words.at == TN_AT_AUTOGRAD && k->backend == backend;
    }
    TN_TRY(make_autograd_entry(op, backend, &entry));
    if (!entry && gradients) entry = &use_row;
    if (entry != gradients || has_gradient || op->autograd_backends)
      TN_TRY(place_other(op, &op->autograd_backends, backend, entry));
    if (backend == &tn_backend_cpu) continue;
    bool shares_bit = backend->bit == TN_BIT_OTHERS;
    if (!named && !shares_bit && !op->index[backend->bit]) continue;
    entry = NULL;
    if (named) TN_TRY(make_backend_entry(op, backend, &entry));
    TN_TRY(shares_bit ? place_other(op, &op->other_backends, backend, entry)
                      : place_entry(op, backend->bit, entry));
  }
  TN_TRY(place_layers(op));
  begin_change();
  for (size_t i = 0; i < store_count; i++)
    __atomic_store_n(stores[i].other ? stores[i].other : &op->entries[stores[i].at - 1],
                     stores[i].entry, __ATOMIC_RELEASE);
  __atomic_store_n(&op->is_anywhere, some_kernel_says(op, TN_KERNEL_ANYWHERE), __ATOMIC_RELAXED);
  __atomic_store_n(&op->accumulates, some_kernel_says(op, TN_KERNEL_ACCUMULATES), __ATOMIC_RELAXED);
  __atomic_store_n(&op->others, any, __ATOMIC_RELEASE);
  __atomic_store_n(&op->autograd, gradients, __ATOMIC_RELEASE);
  __atomic_store_n(&op->cpu, cpu ? cpu : tn_row_get(TN_BIT_CPU), __ATOMIC_RELEASE);
  end_change();
  return TENON_OK;
}

/* The entry names kernels only if all of them belong to the operator's library or to libraries that
 * stay. */
tn_table_entry_t *tn_table_movable(tenon_op_t *op) {
  tn_table_entry_t *entry = tn_arena_allocate(&op->arena, sizeof *entry);
  bool stays = true;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    stays &= k->library == op->library || !k->library->gate;
  if (!entry) return NULL;
  *entry = (tn_table_entry_t){
      .run = runs[TN_RUN_MOVED], .mask = TN_KEY_CPU, .resolved = TN_RESOLVED_LAYER};
  if (stays) {
    entry->only = op->cpu->only;
    entry->by_dtype = op->cpu->by_dtype;
  }
  return entry;
}

void tn_table_move(tenon_op_t *op, tn_table_entry_t *entry) {
  begin_change();
  __atomic_store_n(&op->cpu, entry, __ATOMIC_RELEASE);
  end_change();
}

tenon_status_t tn_table_build(tenon_op_t *op) {
  /* No call reaches the operator any more. */
  if (__atomic_load_n(&op->successor, __ATOMIC_RELAXED)) return TENON_OK;
  uint64_t before = op->mask;
  op->mask = mask_of(op);
  tenon_status_t status = build(op);
  if (status != TENON_OK) op->mask = before;
  return status;
}

/* names */

const char *tn_resolution_name(int resolved) {
  static const char *const names[] = {"missing",   "kernel",      "composite explicit",
                                      "composite", "autograd",    "gradient",
                                      "fallback",  "fallthrough", "view",
                                      "infer",     "layer",       "denied"};
  return resolved >= 0 && resolved < (int)(sizeof names / sizeof *names) ? names[resolved] : "?";
}
