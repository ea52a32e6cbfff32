/* Dispatch keys: bits of a 64-bit set, of which the highest wins
 * (docs/decisions/0006-dispatcher.md).  Low bits are backends, in the order in which they were
 * named first; higher bits are layers.  Keys never cross the binary contract, which knows only
 * their names. */
#ifndef TN_OPERATOR_KEY_H
#define TN_OPERATOR_KEY_H

#include "base/thread.h"
#include "core/tensor.h"

enum {
  TN_BIT_CPU = 0,
  /* All backends that are named after all bits were taken share this bit; their devices tell them
   * apart. */
  TN_BIT_OTHERS = 39,
  TN_BIT_META = 40, /* shapes without data */
  TN_BIT_STRIDED = 48,
  TN_BIT_DETAIL = 49, /* layouts that are not dense: sparse, quantised, a vendor's own */
  /* BELOW_... and ABOVE_... are anchors of programs' layers, ordered by name
   * (dispatch/user_layers.c). */
  TN_BIT_BELOW_VIEW = 50,
  TN_BIT_VIEW = 51, /* views and versions of memory */
  TN_BIT_BELOW_AUTOGRAD = 52,
  TN_BIT_AUTOGRAD = 53,
  TN_BIT_ABOVE_AUTOGRAD = 54,
  TN_BIT_AUTOCAST = 55,
  TN_BIT_ABOVE_AUTOCAST = 56,
  TN_BIT_FUNCTIONAL = 57,
  TN_BIT_ABOVE_FUNCTIONAL = 58,
  TN_BIT_MODE = 59,  /* the thread's stack of modes */
  TN_BIT_TRACE = 60, /* watches all calls; set for the whole process: tn_key_global */
  /* Not a key, but set in every call. The masks of operators keep it if their calls need more work
   * than one kernel. */
  TN_BIT_CAREFUL = 61,
  TN_KEY_COUNT = 64,
};
#define TN_KEY(bit) ((uint64_t)1 << (bit))
/* Layers that may change a call. The trace, which only watches, is not one of them. */
#define TN_KEY_LAYERS (TN_KEY(TN_BIT_TRACE) - TN_KEY(TN_BIT_BELOW_VIEW))
#define TN_KEY_BACKEND_MASK (TN_KEY(TN_BIT_OTHERS + 1) - 1)
/* Backends other than the CPU. */
#define TN_KEY_DEVICES ((TN_KEY_BACKEND_MASK & ~TN_KEY_CPU) | TN_KEY(TN_BIT_META))

static inline int tn_key_highest(uint64_t keys) { return 63 - __builtin_clzll(keys); }
/* Returns the keys of the set below `bit`. */
static inline uint64_t tn_key_below(uint64_t keys, int bit) { return keys & (TN_KEY(bit) - 1); }

/* Returns whether the highest backend of the set is one of those that share a bit. */
static inline bool tn_key_shares_bit(uint64_t keys) {
  return tn_key_below(keys, TN_BIT_META + 1) >> TN_BIT_OTHERS == 1;
}

typedef struct tn_table_entry_t tn_table_entry_t;

/* A backend lives until the process ends. Its rows change under tn_registrations_mutex. */
typedef struct tn_backend_t {
  const char *name;
  int32_t index;
  /* Its key: TN_BIT_CPU, TN_BIT_META, or the next one in the order of naming. */
  int32_t bit;
  tenon_device_t device; /* the device of its first ordinal */
  int32_t has_plugin;    /* its memory and streams belong to a device plug-in; atomic */
  /* It compiles source kernels; for the CPU, they were compiled with their library. Atomic. */
  int32_t compiles;
  /* For operators that have nothing for the backend: its fallback; NULL: missing. */
  const tn_table_entry_t *row;
  /* The same for gradients; NULL: the row of the autograd layer. */
  const tn_table_entry_t *gradients;
  tenon_generator_t generators[256]; /* generators of random numbers, by ordinal */
} tn_backend_t;

enum { TN_BACKENDS_MAX = 1024 };
/* Returns the backend of that name, with the next bit if the name is new. Errors: the name is
 * malformed or reserved, or there are too many backends. */
tenon_status_t tn_backend_intern(const char *name, tn_backend_t **out_backend);
tn_backend_t *tn_backend_find(const char *name); /* NULL: no such backend */
tn_backend_t *tn_backend_at(int32_t index);      /* NULL past the last */
tn_backend_t *tn_backend_of(tenon_device_t device);
/* Gives devices of a type of DLPack's (2 CUDA, 4 OpenCL, ...) to this backend from now on. If the
 * type is 12 or belongs to another backend, the backend's devices keep their numbers of type 12. */
void tn_backend_set_type(tn_backend_t *backend, int32_t type);
/* Returns the highest backend of a set; NULL: there is none, or it shares its bit. */
tn_backend_t *tn_backend_of_keys(uint64_t keys);
extern tn_backend_t tn_backend_cpu, tn_backend_meta;

tn_mutex_t *tn_backends_mutex(void);

/* Returns the name of a key: "cpu", "npu", "meta", "strided", "autograd", "above autograd", ...;
 * NULL: no such key. */
const char *tn_key_name(int bit);
int tn_key_find(const char *name); /* -1: no such key */
/* Returns the name of a TN_AT_... value: "autograd", "composite", ...; "" for kernels of a
 * backend. */
const char *tn_at_name(uint8_t at);
/* Prints a set as "{cpu, autograd}" into out_text, which has room for `capacity` bytes. */
const char *tn_keys_print(uint64_t keys, char *out_text, size_t capacity);

/* Keys that every call has. tn_key_global adds the trace's key while tracing is on; each call reads
 * it once. */
#define TN_KEY_ALWAYS (TN_KEY_CPU | TN_KEY(TN_BIT_CAREFUL))
extern uint64_t tn_key_global;
static inline uint64_t tn_key_of_process(void) {
#ifdef TN_WITHOUT_TRACE /* only bench/trace.py defines it, to measure the cost of the trace */
  return TN_KEY_ALWAYS;
#else
  return __atomic_load_n(&tn_key_global, __ATOMIC_RELAXED);
#endif
}

#endif
