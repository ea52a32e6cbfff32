/* Which kernel: candidates by dtype and instruction set, the computed table of slots, and the error when there is none.
 * Called when libraries are added, and by slots that choose by dtype.  Invariant: a table is complete before its pointer is
 * stored, so that running threads see the old one or the new one. */
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "dispatch/call.h"

const char *tn_key_name(int key) {
  switch (key) {
  case 0: return "cpu";
  case 48: return "strided";
  case 49: return "detail";
  default: return "?";
  }
}

/* How well a kernel suits the dtype that decides; 0: not at all. */
static int suits(const tenon_op_t *op, const tn_kernel_t *kernel, int dtype) {
  tenon_dtype_t wanted = tn_dtype_at(dtype);
  switch (kernel->kind) {
  case TN_KERNEL_LOOP:
  case TN_KERNEL_ROW: {
    if (op->dispatch_input < 0) return 4;
    tenon_dtype_t has = kernel->loop.words.dtypes[op->dispatch_input];
    return tn_dtype_same(has, wanted) ? 4 : tn_widens(wanted, has) ? (has.bits == 32 ? 2 : 1) : 0;
  }
  case TN_KERNEL_COMPOSITE: return 1;
  default:
    if (kernel->words.dtypes == ~(uint64_t)0) return 3;
    return kernel->words.dtypes >> dtype & 1 ? 5 : 0;
  }
}

static bool better(const tenon_op_t *op, const tn_kernel_t *a, const tn_kernel_t *b, int dtype) {
  int x = suits(op, a, dtype), y = suits(op, b, dtype);
  if (x != y) return x > y;
  return a->words.isa > b->words.isa; /* of equals the one registered later, which stands earlier in the list */
}

static bool same_signature(const tenon_op_t *op, const tn_kernel_t *a, const tn_kernel_t *b) {
  if (a->kind != TN_KERNEL_LOOP && a->kind != TN_KERNEL_ROW) return true; /* the first one serves */
  if (b->kind != TN_KERNEL_LOOP && b->kind != TN_KERNEL_ROW) return false;
  for (uint32_t i = 0; i < op->input_count + op->output_count; i++)
    if (!tn_dtype_same(a->loop.words.dtypes[i], b->loop.words.dtypes[i])) return false;
  return true;
}

/* Candidates for one dtype, best first, ended by NULL; each loop signature once, at its best instruction set. */
static const tn_kernel_t *const *candidates(tenon_op_t *op, int dtype) {
  int most = 0, count = 0;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) most++;
  const tn_kernel_t **found = tn_allocate((size_t)most * sizeof *found + 1);
  if (!found) return NULL;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    if (strcmp(k->words.device, "cpu") != 0 || !tn_cpu_has(k->words.isa) || !suits(op, k, dtype)) continue;
    int at = count++;
    for (; at > 0 && better(op, k, found[at - 1], dtype); at--) found[at] = found[at - 1];
    found[at] = k;
  }
  int kept = 0;
  for (int i = 0; i < count; i++) {
    bool repeated = false;
    for (int j = 0; j < kept && !repeated; j++) repeated = same_signature(op, found[j], found[i]);
    if (!repeated) found[kept++] = found[i];
  }
  const tn_kernel_t **list = tn_arena_array(&op->arena, (size_t)kept + 1, sizeof *list);
  if (list && kept) memcpy(list, found, (size_t)kept * sizeof *list);
  tn_release_memory((void *)found);
  return list;
}

static bool accepts(const tenon_op_t *op, const tn_kernel_t *kernel, tenon_tensor_t *const *inputs,
                    tenon_tensor_t *const *outputs) {
  if (kernel->kind != TN_KERNEL_LOOP && kernel->kind != TN_KERNEL_ROW) return true;
  for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
    const tenon_tensor_t *t = i < op->input_count ? inputs[i] : outputs[i - op->input_count];
    tenon_dtype_t has = kernel->loop.words.dtypes[i];
    if (t && !tn_dtype_same(t->dtype, has) && !tn_widens(t->dtype, has)) return false;
  }
  return true;
}

static const tn_kernel_t *choose(const tenon_op_t *op, int dtype, tenon_tensor_t *const *inputs,
                                 tenon_tensor_t *const *outputs) {
  const tn_kernel_t *const *const *by_dtype = __atomic_load_n(&op->by_dtype, __ATOMIC_ACQUIRE);
  if (!by_dtype) return __atomic_load_n(&op->kernel, __ATOMIC_ACQUIRE);
  const tn_kernel_t *const *list = by_dtype[dtype];
  if (!list) return NULL;
  if (!inputs || (list[0] && !list[1])) return list[0];
  while (*list && !accepts(op, *list, inputs, outputs)) list++;
  return *list;
}

static int deciding_dtype(const tenon_op_t *op, tenon_tensor_t *const *inputs) {
  const tenon_tensor_t *t = op->dispatch_input >= 0 ? inputs[op->dispatch_input] : NULL;
  if (t && tn_dtype_is(t->dtype, TENON_LIST)) t = t->shape[0] ? tenon_item(t, 0) : NULL;
  int dtype = t ? tn_dtype_index(t->dtype) : 0;
  return dtype < 0 ? 0 : dtype;
}

const tn_kernel_t *tn_op_kernel(const tenon_op_t *op, tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs) {
  return choose(op, deciding_dtype(op, inputs), inputs, outputs);
}

const tn_kernel_t *tn_op_kernel_of_dtype(const tenon_op_t *op, tenon_dtype_t dtype) {
  int index = tn_dtype_index(dtype);
  return choose(op, index < 0 ? 0 : index, NULL, NULL);
}

static void print_kernels(const tenon_op_t *op, tn_text_t *text) {
  const char *separator = "";
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    tn_text_add(text, "%s%s", separator, k->text ? k->text : "composite");
    if (k->kind == TN_KERNEL_DEVICE && !tn_cpu_has(k->words.isa)) tn_text_add(text, " (not on this processor)");
    separator = ", ";
  }
}

tenon_status_t tn_op_missing(const tenon_op_t *op, int key, tenon_tensor_t *const *inputs) {
  tn_text_t has = {0};
  print_kernels(op, &has);
  const tenon_tensor_t *t = op->dispatch_input >= 0 ? inputs[op->dispatch_input] : NULL;
  tenon_status_t status =
      tn_fail(TENON_UNIMPLEMENTED, "%s: no kernel for %s%s%s; it has: %s", op->name, tn_key_name(key),
              t ? " and dtype " : "", t ? tn_dtype_name(t->dtype) : "", has.size ? has.data : "none");
  tn_text_clear(&has);
  return status;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static bool all_strided(const tenon_op_t *op) {
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    if (!(k->words.flags & TN_KERNEL_STRIDED) && k->kind != TN_KERNEL_LOOP) return false;
  return true;
}

static bool all_quantised(const tenon_op_t *op) {
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    if (!(k->words.flags & TN_KERNEL_QUANTISED)) return false;
  return op->kernels != NULL;
}

tenon_status_t tn_table_build(tenon_op_t *op) {
  enum { MISSING, CPU, STRIDED, DETAIL, SLOTS };
  tn_slot_t *slots = tn_arena_array(&op->arena, SLOTS, sizeof *slots);
  const tn_kernel_t *const **by_dtype = NULL;
  const tn_kernel_t *only = NULL;
  bool by_type = false;
  if (!slots) return tn_no_memory(op->name, SLOTS * sizeof *slots);
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    bool loops = k->kind == TN_KERNEL_LOOP || k->kind == TN_KERNEL_ROW;
    by_type |= loops || k->words.dtypes != ~(uint64_t)0;
  }
  if (by_type) {
    if (!(by_dtype = tn_arena_array(&op->arena, TN_DTYPE_COUNT, sizeof *by_dtype))) return tn_no_memory(op->name, 0);
    uint64_t set = op->dispatch_input >= 0 && op->types.variable_count ? op->types.sets[0] : 1;
    for (int d = 0; d < TN_DTYPE_COUNT; d++)
      if (set >> d & 1 && !(by_dtype[d] = candidates(op, d))) return tn_no_memory(op->name, 0);
  } else if (op->kernels) {
    const tn_kernel_t *const *list = candidates(op, 0);
    if (!list) return tn_no_memory(op->name, 0);
    only = list[0];
  }
  bool direct = only && !op->create && !op->infer && !(only->words.flags & TN_KERNEL_SERIAL);
  slots[MISSING] = (tn_slot_t){tn_layer_missing, NULL};
  slots[STRIDED] = (tn_slot_t){op->infer || op->create ? tn_layer_prologue : tn_layer_strided, NULL};
  slots[DETAIL] = (tn_slot_t){tn_layer_detail, NULL};
  slots[CPU] = !op->kernels ? (tn_slot_t){tn_layer_view, NULL}
               : direct     ? (tn_slot_t){only->run, only->context}
                            : (tn_slot_t){tn_layer_prologue, NULL};
  if (!op->index[0]) op->index[0] = CPU, op->index[48] = STRIDED, op->index[49] = DETAIL; /* the same for every table */
  uint64_t mask = TN_KEY_BACKEND_MASK;
  if (op->kernels && !all_strided(op)) mask |= TN_KEY_STRIDED;
  if (op->kernels && !all_quantised(op)) mask |= TN_KEY_DETAIL;
  __atomic_store_n(&op->mask, op->mask | mask,
                   __ATOMIC_RELEASE); /* layers look themselves: one too many does no harm */
  if (!by_dtype) __atomic_store_n(&op->kernel, only, __ATOMIC_RELEASE); /* else a call that began before may read it */
  __atomic_store_n(&op->by_dtype, (const tn_kernel_t *const *const *)by_dtype, __ATOMIC_RELEASE);
  __atomic_store_n(&op->slots, slots, __ATOMIC_RELEASE);
  __atomic_store_n(&op->mask, mask, __ATOMIC_RELEASE);
  return TENON_OK;
}
