/* Dispatch keys: bits of a 64-bit set, of which the highest wins
 * (docs/decisions/0006-dispatcher.md).  Low bits are backends in order of first sight, higher ones
 * layers.  Keys never cross the binary contract: outside there are names. */
#ifndef TN_OPERATOR_KEY_H
#define TN_OPERATOR_KEY_H

#include "base/thread.h"
#include "core/tensor.h"

enum {
  TN_BIT_CPU = 0,
  /* Backends that were named after all bits were taken share this bit; their devices tell them
   * apart. */
  TN_BIT_OTHERS = 39,
  TN_BIT_META = 40, /* shapes without data */
  TN_BIT_STRIDED = 48,
  TN_BIT_DETAIL = 49, /* layouts that are not dense: sparse, quantised, a vendor's own */
  TN_BIT_BELOW_VIEW =
      50, /* BELOW_..., ABOVE_...: layers of users, by their anchor and then by name: layers.c */
  TN_BIT_VIEW = 51, /* views and versions of memory */
  TN_BIT_BELOW_AUTOGRAD = 52,
  TN_BIT_AUTOGRAD = 53,
  TN_BIT_ABOVE_AUTOGRAD = 54,
  TN_BIT_AUTOCAST = 55,
  TN_BIT_ABOVE_AUTOCAST = 56,
  TN_BIT_FUNCTIONAL = 57,
  TN_BIT_ABOVE_FUNCTIONAL = 58,
  TN_BIT_MODE = 59,  /* the thread's stack of modes */
  TN_BIT_TRACE = 60, /* sees all: set for the whole process, see tn_key_global */
  /* Not a key, and set in every call. It stays in the mask of operators whose calls need more work
   * than one kernel. */
  TN_BIT_CAREFUL = 61,
  TN_KEY_COUNT = 64,
};
#define TN_KEY(bit) ((uint64_t)1 << (bit))
/* Layers that may change what a call is about: the trace only looks. */
#define TN_KEY_LAYERS (TN_KEY(TN_BIT_TRACE) - TN_KEY(TN_BIT_BELOW_VIEW))
#define TN_KEY_BACKEND_MASK (TN_KEY(TN_BIT_OTHERS + 1) - 1)
/* Backends other than the CPU. */
#define TN_KEY_DEVICES ((TN_KEY_BACKEND_MASK & ~TN_KEY_CPU) | TN_KEY(TN_BIT_META))

static inline int tn_key_highest(uint64_t keys) { return 63 - __builtin_clzll(keys); }
/* The set without `bit` and all above it. */
static inline uint64_t tn_key_below(uint64_t keys, int bit) { return keys & (TN_KEY(bit) - 1); }

/* Is the highest backend of the set one of those that share a bit? */
static inline bool tn_key_shares_bit(uint64_t keys) {
  return tn_key_below(keys, TN_BIT_META + 1) >> TN_BIT_OTHERS == 1;
}

typedef struct tn_table_entry_t tn_table_entry_t;

typedef struct
    tn_backend_t { /* lives until the process ends; rows change under the registrations' mutex */
  const char *name;
  int32_t index;
  int32_t bit;           /* order of first sight: 0 is cpu, 1 meta */
  tenon_device_t device; /* of its first ordinal */
  int32_t has_plugin;    /* its memory and streams are a device plug-in's; atomic */
  int32_t compiles; /* source kernels; of the CPU: they were compiled with their library; atomic */
  const tn_table_entry_t
      *row; /* of operators that have nothing for it: its fallback; NULL: missing */
  const tn_table_entry_t
      *gradients; /* the same of the layer of gradients; NULL: as of other backends */
  tenon_generator_t generators[256]; /* of random numbers, by ordinal */
} tn_backend_t;

enum { TN_BACKENDS_MAX = 1024 };
/* The backend of that name; one that nobody named before gets the next bit.  Errors: bad or
 * reserved name, too many. */
tenon_status_t tn_backend_intern(const char *name, tn_backend_t **out_backend);
tn_backend_t *tn_backend_find(const char *name); /* NULL: nobody named it */
tn_backend_t *tn_backend_at(int32_t index);      /* NULL past the last */
tn_backend_t *tn_backend_of(tenon_device_t device);
/* Devices of a type of DLPack's (2 CUDA, 4 OpenCL, ...) are that backend's from here on; of type
 * 12, or of one that another backend has, they stay numbered as type 12. */
void tn_backend_set_type(tn_backend_t *backend, int32_t type);
/* The highest backend of a set; NULL: there is none, or it shares its bit. */
tn_backend_t *tn_backend_of_keys(uint64_t keys);
extern tn_backend_t tn_backend_cpu, tn_backend_meta;

tn_mutex_t *tn_backends_mutex(void);

/* "cpu", "npu", "meta", "strided", "autograd", "above autograd", ...; NULL: no such key. */
const char *tn_key_name(int bit);
int tn_key_find(const char *name); /* -1: no such key */
/* The name of TN_AT_...: "autograd", "composite", ...; "" for kernels of a backend. */
const char *tn_at_name(uint8_t at);
/* "{cpu, autograd}" into text of `capacity`. */
const char *tn_keys_print(uint64_t keys, char *out_text, size_t capacity);

/* Keys that every call of the process has: the CPU, and tracing.  Read once a call, written when it
 * is switched. */
#define TN_KEY_ALWAYS (TN_KEY_CPU | TN_KEY(TN_BIT_CAREFUL))
extern uint64_t tn_key_global;
static inline uint64_t tn_key_of_process(void) {
#ifdef TN_WITHOUT_TRACE /* bench/trace.py alone, for what it costs */
  return TN_KEY_ALWAYS;
#else
  return __atomic_load_n(&tn_key_global, __ATOMIC_RELAXED);
#endif
}

#endif
