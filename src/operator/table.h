/* The table of an operator: for each key the entry that a call is led to
 * (docs/decisions/0006-dispatcher.md). */
#ifndef TN_OPERATOR_TABLE_H
#define TN_OPERATOR_TABLE_H

#include "operator/op.h"

/* What shared entries of the table run.  Each function belongs to a folder above, whose unit
 * registers it when the process starts. */
enum {
  TN_RUN_MISSING,
  TN_RUN_DENIED,
  TN_RUN_AMBIGUOUS,
  TN_RUN_OTHERS,
  TN_RUN_AUTOGRAD_OTHERS,
  TN_RUN_LAYOUT,
  TN_RUN_META,
  TN_RUN_FALLTHROUGH,
  TN_RUN_VIEW,
  TN_RUN_VERSIONS,
  TN_RUN_GRADIENT,
  TN_RUN_PROLOGUE,
  TN_RUN_LAUNCH,
  TN_RUN_MOVED,
  TN_RUN_CHAIN,
  TN_RUN_MODE,
  TN_RUN_TRACE,
  TN_RUN_AUTOCAST,
  TN_RUN_AUTOCAST_LISTED,
  TN_RUN_FALLBACK_CPU,
  TN_RUN_COUNT,
};
void tn_table_run_set(int which, tenon_run_fn run);
tenon_run_fn tn_table_run(int which);

/* Recomputes the entries after kernels came or went; running threads see each entry as it was or as
 * it is.  Without memory nothing changes.  Under the registry's mutex. */
tenon_status_t tn_table_build(tenon_op_t *op);
/* No entry with kernels of this library, which goes, is used as it is.  is_quiet: no call is in its
 * kernels, or can get there. */
void tn_table_forget(tenon_op_t *op, const tn_library_t *library, bool is_quiet);
/* Before its arena goes. */
void tn_table_release(tenon_op_t *op);
/* From here on calls of the operator go to its successor: every key leads to TN_RUN_MOVED.
 * Kernels can still be asked for, by what was planned before.  tn_table_movable makes the entry
 * first; NULL: no memory.  Under the registry's mutex. */
tn_table_entry_t *tn_table_movable(tenon_op_t *op);
void tn_table_move(tenon_op_t *op, tn_table_entry_t *entry);
/* The entry of the highest key of a set that is masked already; never NULL. */
const tn_table_entry_t *tn_table_entry(const tenon_op_t *op, uint64_t keys);

/* What the operator has for just this key; NULL: nothing. */
static inline const tn_table_entry_t *tn_table_own(const tenon_op_t *op, int bit) {
  uint8_t at = __atomic_load_n(&op->index[bit],
                               __ATOMIC_ACQUIRE); /* before the array: see place() of table.c */
  return at ? __atomic_load_n(&__atomic_load_n(&op->entries, __ATOMIC_ACQUIRE)[at - 1],
                              __ATOMIC_ACQUIRE)
            : NULL;
}

/* The entry of a backend that shares its bit with others. */
const tn_table_entry_t *tn_table_others(const tenon_op_t *op, const tn_backend_t *backend);

/* Who reads several places of a table, or a row too, begins again when there was a change
 * meanwhile: the old of one place never goes with the new of another.  last =
 * tn_table_last_change(), reading, tn_table_has_changed(last). */
uint64_t tn_table_last_change(void);
bool tn_table_has_changed(uint64_t last);

/* What a backend (NULL: none) has for operators that have nothing for it: its fallback, infer on
 * meta, or the error. */
const tn_table_entry_t *tn_table_row(const tn_backend_t *backend);

void tn_backend_row_set(tn_backend_t *backend, bool is_autograd,
                        const tn_table_entry_t *entry); /* its fallback; NULL: none */

/* What runs for gradients on a backend. */
const tn_table_entry_t *tn_table_autograd(const tenon_op_t *op, const tn_backend_t *backend);

/* What stands where an operator has nothing of its own, for a layer: fallthrough, or what sees
 * every call. */
const tn_table_entry_t *tn_row_get(int bit);
void tn_row_set(int bit, const tn_table_entry_t *entry);        /* NULL: as it was at the start */
bool tn_row_is_initial(int bit, const tn_table_entry_t *entry); /* Is it the row of the start? */

const char *tn_resolution_name(int resolved);

#endif
