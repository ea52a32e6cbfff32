/* The table of an operator: for each key the slot that a call is led to
 * (docs/decisions/0006-dispatcher.md). */
#ifndef TN_DISPATCH_TABLE_H
#define TN_DISPATCH_TABLE_H

#include "base/source.h"
#include "base/text.h"
#include "dispatch/op.h"

/* Recomputes the slots after kernels came or went; running threads see each slot as it was or as it
 * is.  Without memory nothing changes.  Under the registry's mutex. */
tenon_status_t tn_table_build(tenon_op_t *op);
/* No slot with kernels of this library, which goes, is used as it is.  is_quiet: no call is in its
 * kernels, or can get there. */
void tn_table_forget(tenon_op_t *op, const tn_library_t *library, bool is_quiet);
/* Before its arena goes. */
void tn_table_release(tenon_op_t *op);
/* From here on calls of the operator go to its successor: every key leads to tn_layer_moved.
 * Kernels can still be asked for, by what was planned before.  tn_table_movable makes the slot
 * first; NULL: no memory.  Under the registry's mutex. */
tn_slot_t *tn_table_movable(tenon_op_t *op);
void tn_table_move(tenon_op_t *op, tn_slot_t *slot);
/* The slot of the highest key of a set that is masked already; never NULL. */
const tn_slot_t *tn_table_slot(const tenon_op_t *op, uint64_t keys);

/* What the operator has for just this key; NULL: nothing. */
static inline const tn_slot_t *tn_table_own(const tenon_op_t *op, int bit) {
  uint8_t at = __atomic_load_n(&op->index[bit],
                               __ATOMIC_ACQUIRE); /* before the array: see place() of table.c */
  return at ? __atomic_load_n(&__atomic_load_n(&op->slots, __ATOMIC_ACQUIRE)[at - 1],
                              __ATOMIC_ACQUIRE)
            : NULL;
}

/* The slot of a backend that shares its bit with others. */
const tn_slot_t *tn_table_others(const tenon_op_t *op, const tn_backend_t *backend);

/* Who reads several places of a table, or a row too, begins again when there was a change
 * meanwhile: the old of one place never goes with the new of another.  last =
 * tn_table_last_change(), reading, tn_table_has_changed(last). */
uint64_t tn_table_last_change(void);
bool tn_table_has_changed(uint64_t last);

/* What a backend (NULL: none) has for operators that have nothing for it: its fallback, infer on
 * meta, or the error. */
const tn_slot_t *tn_table_row(const tn_backend_t *backend);

void tn_backend_row_set(tn_backend_t *backend, bool is_autograd,
                        const tn_slot_t *slot); /* its fallback; NULL: none */

/* What runs for gradients on a backend. */
const tn_slot_t *tn_table_autograd(const tenon_op_t *op, const tn_backend_t *backend);

/* What stands where an operator has nothing of its own, for a layer: fallthrough, or what sees
 * every call. */
const tn_slot_t *tn_row_get(int bit);
void tn_row_set(int bit, const tn_slot_t *slot); /* NULL: as it was at the start */

const char *tn_rule_name(int rule);

/* A key by its name outside: query.c. */
typedef struct tn_named_key_t {
  int bit;                     /* -1: an alias, which stands for others */
  const tn_backend_t *backend; /* that it is, or whose gradients ("autograd npu"); NULL: neither */
  uint8_t at;                  /* what kernels that are registered for it say, TN_AT_... */
} tn_named_key_t;
enum { TN_AT_NOWHERE = 255 }; /* of keys that no kernel is registered for */
tenon_status_t tn_key_parse(const char *name, tn_named_key_t *out_key);
tenon_status_t tn_table_find(const tenon_op_t *op, const char *key, const tn_slot_t **out_slot);
const char *tn_at_name(uint8_t at); /* of TN_AT_...: "autograd", "composite", ...; "" of backends */
bool tn_kernel_is_under(const tn_kernel_t *kernel, const tn_named_key_t *key);
/* Lines for people: of each backend, and of each layer that does something.  sources NULL: without
 * source lines, and with one line for all backends that have the same or nothing.  Under the
 * registry's mutex. */
void tn_table_print(const tenon_op_t *op, tn_sources_t *sources, tn_text_t *text);

/* kernel.c: candidates for one dtype, best first, ended by NULL; each loop signature once, at its
 * best instruction set.  In scratch memory, so that taking kernels away does not need any that is
 * not there. */
const tn_kernel_t *const *tn_kernel_candidates(const tenon_op_t *op, const tn_backend_t *backend,
                                               int dtype);
/* How well a kernel suits the dtype that decides; 0: not at all. */
int tn_kernel_suits(const tenon_op_t *op, const tn_kernel_t *kernel, int dtype);
/* The first argument (inputs, then results) whose dtype a loop does not take; -1: it takes all. */
int32_t tn_kernel_refuses(const tenon_op_t *op, const tn_kernel_t *kernel,
                          tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
int tn_deciding_dtype(const tenon_op_t *op,
                      tenon_tensor_t *const *inputs); /* which decides among kernels: its index */
/* May a call on that backend (NULL: any that has no kernels of its own) use this kernel? */
bool tn_kernel_is_of(const tn_kernel_t *kernel, const tn_backend_t *backend);

#endif
