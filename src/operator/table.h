/* The table of an operator: the entry for each key, to which calls with that key are led
 * (docs/decisions/0006-dispatcher.md). */
#ifndef TN_OPERATOR_TABLE_H
#define TN_OPERATOR_TABLE_H

#include "operator/op.h"

/* The functions that shared entries of the table run. Each function belongs to a folder above; its
 * unit registers it when the process starts. */
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

/* Recomputes the entries after kernels were added or removed. Running threads see each entry either
 * as it was or as it is. If memory runs out, nothing changes. The caller holds the registry's
 * mutex. */
tenon_status_t tn_table_build(tenon_op_t *op);
/* Keeps entries with kernels of this library, which is about to go, from being used for new tables.
 * `is_quiet`: no call is in the library's kernels or can reach them, so that such an entry may be
 * reused with other contents. */
void tn_table_forget(tenon_op_t *op, const tn_library_t *library, bool is_quiet);
/* Called before the operator's arena is freed. */
void tn_table_release(tenon_op_t *op);
/* Leads all calls of the operator to its successor: every key leads to TN_RUN_MOVED. Earlier plans
 * can still ask the entry for kernels. tn_table_movable makes that entry beforehand; NULL: no
 * memory. The caller holds the registry's mutex. */
tn_table_entry_t *tn_table_movable(tenon_op_t *op);
void tn_table_move(tenon_op_t *op, tn_table_entry_t *entry);
/* Returns the entry of the highest key of `keys`, which the operator's mask was applied to; never
 * NULL. */
const tn_table_entry_t *tn_table_entry(const tenon_op_t *op, uint64_t keys);

/* Returns the operator's own entry for a key; NULL: it has none. */
static inline const tn_table_entry_t *tn_table_own(const tenon_op_t *op, int bit) {
  /* The index is read before the array: see place_entry of table.c. */
  uint8_t at = __atomic_load_n(&op->index[bit], __ATOMIC_ACQUIRE);
  return at ? __atomic_load_n(&__atomic_load_n(&op->entries, __ATOMIC_ACQUIRE)[at - 1],
                              __ATOMIC_ACQUIRE)
            : NULL;
}

/* Returns the entry of a backend that shares its bit with others. */
const tn_table_entry_t *tn_table_others(const tenon_op_t *op, const tn_backend_t *backend);

/* A reader of several positions of a table, or also of a row, starts again if there was a change
 * meanwhile, so that it never combines an old position with a new one: last =
 * tn_table_last_change(); read; tn_table_has_changed(last). */
uint64_t tn_table_last_change(void);
bool tn_table_has_changed(uint64_t last);

/* Returns the row of a backend (NULL: none), which serves operators that have nothing for the
 * backend: its fallback, infer for meta, or the error. */
const tn_table_entry_t *tn_table_row(const tn_backend_t *backend);

/* Sets the backend's fallback, or that of its gradients; NULL: none. */
void tn_backend_row_set(tn_backend_t *backend, bool is_autograd, const tn_table_entry_t *entry);

/* Returns the entry that runs for gradients on a backend. */
const tn_table_entry_t *tn_table_autograd(const tenon_op_t *op, const tn_backend_t *backend);

/* Returns the row of a layer, which serves operators that have nothing of their own for that layer:
 * a fallthrough, or a function that sees every call. */
const tn_table_entry_t *tn_row_get(int bit);
void tn_row_set(int bit, const tn_table_entry_t *entry); /* NULL: the initial row */
bool tn_row_is_initial(int bit, const tn_table_entry_t *entry);

const char *tn_resolution_name(int resolved);

#endif
