/* Which kernel of an entry serves a call: candidates by dtype and instruction set.  table.c calls
 * it when kernels are added or removed, and entries that choose by dtype call it for each call. */
#include "operator/kernel.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/text.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "core/sparse.h"

int tn_kernel_suits(const tenon_op_t *op, const tn_kernel_t *kernel, int dtype) {
  tenon_dtype_t wanted = tn_dtype_at(dtype);
  switch (kernel->kind) {
  case TN_KIND_LOOP:
  case TN_KIND_ROW: {
    if (op->dispatch_input < 0) return 6;
    tenon_dtype_t has = kernel->loop.words.dtypes[op->dispatch_input];
    if (tn_dtype_same(has, wanted)) return 6;
    if (!tn_widens(wanted, has)) return 0;
    return has.bits == 32 ? 4 : 3;
  }
  case TN_KIND_SOURCE:
    /* A kernel that was written for the backend is preferred. */
    return kernel->words.dtypes >> dtype & 1 ? 3 : 0;
  case TN_KIND_COMPOSITE:
    return kernel->words.at == TN_AT_EXPLICIT ? 2 : 1;
  default:
    if (kernel->words.dtypes == ~(uint64_t)0) return 5;
    if (!(kernel->words.dtypes >> dtype & 1)) return 0;
    /* A stub of the CPU suits as well as a loop. */
    return kernel->kind == TN_KIND_STUB && kernel->backend == &tn_backend_cpu ? 6 : 7;
  }
}

static bool is_better(const tenon_op_t *op, const tn_kernel_t *a, const tn_kernel_t *b, int dtype) {
  int x = tn_kernel_suits(op, a, dtype);
  int y = tn_kernel_suits(op, b, dtype);
  if (x != y) return x > y;
  /* Among equals the first in the list stays, which is the kernel that was registered last. */
  return a->words.isa > b->words.isa;
}

static bool same_signature(const tenon_op_t *op, const tn_kernel_t *a, const tn_kernel_t *b) {
  /* A source kernel serves devices without another kernel, and calls that a device's own kernel
   * declines. */
  if (b->kind == TN_KIND_SOURCE) return a->kind != TN_KIND_DEVICE || a->backend == &tn_backend_cpu;
  /* An earlier kernel that is neither a loop nor a row kernel serves every call. */
  if (a->kind != TN_KIND_LOOP && a->kind != TN_KIND_ROW) return true;
  if (b->kind != TN_KIND_LOOP && b->kind != TN_KIND_ROW) return false;
  for (uint32_t i = 0; i < op->input_count + op->output_count; i++)
    if (!tn_dtype_same(a->loop.words.dtypes[i], b->loop.words.dtypes[i])) return false;
  return true;
}

bool tn_kernel_is_of(const tn_kernel_t *kernel, const tn_backend_t *backend) {
  if (kernel->words.flags & (TN_KERNEL_FALLTHROUGH | TN_KERNEL_NO_FALLBACK) ||
      !tn_cpu_has(kernel->words.isa))
    return false;
  if (kernel->kind == TN_KIND_SOURCE)
    return backend && __atomic_load_n(&backend->compiles, __ATOMIC_RELAXED);
  if (kernel->words.at == TN_AT_BACKEND) return backend && kernel->backend == backend;
  return kernel->words.at == TN_AT_EXPLICIT || kernel->words.at == TN_AT_COMPOSITE;
}

const tn_kernel_t *const *tn_kernel_candidates(const tenon_op_t *op, const tn_backend_t *backend,
                                               int dtype) {
  int most = 0;
  int count = 0;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    most++;
  const tn_kernel_t **found = tn_scratch(((size_t)most + 1) * sizeof *found);
  if (!found) return NULL;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    if (!tn_kernel_is_of(k, backend) || !tn_kernel_suits(op, k, dtype)) continue;
    int at = count++;
    for (; at > 0 && is_better(op, k, found[at - 1], dtype); at--)
      found[at] = found[at - 1];
    found[at] = k;
  }
  int kept = 0;
  for (int i = 0; i < count; i++) {
    bool repeated = false;
    for (int j = 0; j < kept && !repeated; j++)
      repeated = same_signature(op, found[j], found[i]);
    if (!repeated) found[kept++] = found[i];
  }
  found[kept] = NULL;
  return found;
}

int32_t tn_kernel_refuses(const tenon_op_t *op, const tn_kernel_t *kernel,
                          tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs) {
  if (kernel->kind != TN_KIND_LOOP && kernel->kind != TN_KIND_ROW) return -1;
  for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
    const tenon_tensor_t *t = i < op->input_count ? inputs[i] : outputs[i - op->input_count];
    tenon_dtype_t has = kernel->loop.words.dtypes[i];
    if (t && !tn_dtype_same(t->dtype, has) && !tn_widens(t->dtype, has)) return (int32_t)i;
  }
  return -1;
}

const tn_kernel_t *tn_entry_source(const tn_table_entry_t *entry, const tenon_op_t *op,
                                   const tn_kernel_t *kernel, tenon_tensor_t *const *inputs) {
  const tn_kernel_t *const *list =
      entry->by_dtype ? entry->by_dtype[tn_deciding_dtype(op, inputs)] : NULL;
  while (list && *list && *list != kernel)
    list++;
  while (list && *list && (*list)->kind != TN_KIND_SOURCE)
    list++;
  return list && *list != kernel ? *list : NULL;
}

static const tn_kernel_t *choose_kernel(const tn_table_entry_t *entry, const tenon_op_t *op,
                                        int dtype, tenon_tensor_t *const *inputs,
                                        tenon_tensor_t *const *outputs) {
  if (!entry->by_dtype) return entry->only;
  const tn_kernel_t *const *list = entry->by_dtype[dtype];
  if (!list) return NULL;
  if (!inputs || (list[0] && !list[1])) return list[0];
  while (*list && tn_kernel_refuses(op, *list, inputs, outputs) >= 0)
    list++;
  return *list;
}

int tn_deciding_dtype(const tenon_op_t *op, tenon_tensor_t *const *inputs) {
  const tenon_tensor_t *t = op->dispatch_input >= 0 ? inputs[op->dispatch_input] : NULL;
  if (t && tn_dtype_is(t->dtype, TENON_LIST)) t = t->shape[0] ? tenon_item(t, 0) : NULL;
  int dtype = t ? tn_dtype_index(t->dtype) : 0;
  return dtype < 0 ? 0 : dtype;
}

const tn_kernel_t *tn_entry_kernel(const tn_table_entry_t *entry, const tenon_op_t *op,
                                   tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs) {
  return choose_kernel(entry, op, entry->by_dtype ? tn_deciding_dtype(op, inputs) : 0, inputs,
                       outputs);
}

const tn_kernel_t *tn_op_kernel(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                tenon_tensor_t *const *outputs) {
  return tn_entry_kernel(__atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE), op, inputs, outputs);
}

const tn_kernel_t *tn_op_kernel_of_dtype(const tenon_op_t *op, tenon_dtype_t dtype) {
  int index = tn_dtype_index(dtype);
  return choose_kernel(__atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE), op, index < 0 ? 0 : index, NULL,
                       NULL);
}

/* Returns a word that the tensor, or an item of a list, requires and the kernel's words lack; NULL:
 * none. */
static const char *missing_word(const tn_kernel_t *kernel, const tenon_tensor_t *t) {
  uint32_t words = kernel ? kernel->words.flags : 0;
  const char *word = NULL;
  if (!t || !(t->keys & TN_KEY_DETAIL)) return NULL;
  for (int64_t i = 0; tn_dtype_is(t->dtype, TENON_LIST) && i < t->shape[0] && !word; i++)
    word = missing_word(kernel, tenon_item(t, i));
  if (word || !t->detail) return word;
  if (tn_layout(t)) return words & TN_KERNEL_SPARSE ? NULL : "sparse";
  return words & TN_KERNEL_QUANTISED ? NULL : "quantised";
}

tenon_status_t tn_op_check_details(const tenon_op_t *op, const tn_kernel_t *kernel,
                                   tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs) {
  for (uint32_t i = 0; i < op->input_count + (outputs ? op->output_count : 0); i++) {
    bool is_input = i < op->input_count;
    const tenon_tensor_t *t = is_input ? inputs[i] : outputs[i - op->input_count];
    const char *word = missing_word(kernel, t);
    const char *name;
    if (!word) continue;
    name = is_input ? op->schema.inputs[i].name : op->schema.outputs[i - op->input_count].name;
    const char *kind = is_input ? "input" : "result";
    const char *remedy = "";
    if (is_input)
      remedy = word[0] == 'q' ? ": dequantise it first" : ": make it dense first (core::to_dense)";
    if (!tn_layout(t))
      return tn_fail(TENON_UNIMPLEMENTED, "%s: %s %s is %s, and no kernel says \"%s\"%s", op->name,
                     kind, name, word, word, remedy);
    return tn_fail(TENON_UNIMPLEMENTED, "%s: %s %s is %s (%s), and no kernel says \"%s\"%s",
                   op->name, kind, name, word, tn_layout_name(tn_layout(t)), word, remedy);
  }
  return TENON_OK;
}

bool tn_kernel_is_quick(const tn_kernel_t *kernel) {
  return kernel && (kernel->kind == TN_KIND_DEVICE || kernel->kind == TN_KIND_SOURCE) &&
         !(kernel->words.flags & (TN_KERNEL_SERIAL | TN_KERNEL_FALLBACK | TN_KERNEL_NEEDS));
}

bool tn_launches_directly(const tenon_op_t *op, const tn_table_entry_t *entry) {
  if (op->create || op->traits & (TN_WRITES | TENON_RANDOM) || !op->input_count) return false;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].is_host || op->schema.inputs[i].kind == TENON_KIND_TENSORS)
      return false;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].is_host || op->schema.outputs[o].kind == TENON_KIND_TENSORS)
      return false;
  return entry->by_dtype || tn_kernel_is_quick(entry->only);
}

tenon_status_t (*tn_op_missing)(const tenon_op_t *, const char *, tenon_tensor_t *const *);
