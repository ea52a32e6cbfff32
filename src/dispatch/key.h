/* Dispatch keys: bits of a 64-bit set, the highest one wins.  Backends are low, layers above.  Keys never cross the binary
 * contract: outside there are device names (decision K1).  Layers of later kinds (autograd, autocast, trace, user layers)
 * take the free bits between TN_KEY_DETAIL and the flags. */
#ifndef TN_DISPATCH_KEY_H
#define TN_DISPATCH_KEY_H

#include "core/tensor.h"

enum {
  TN_KEY_BACKENDS = 40, /* bits 0..39: backends by order of registration */
  TN_KEY_COUNT = 64
};
#define TN_KEY_BACKEND_MASK (((uint64_t)1 << TN_KEY_BACKENDS) - 1)
#define TN_KEY_LAYER_MASK (TN_KEY_STRIDED | TN_KEY_DETAIL)

static inline int tn_key_highest(uint64_t keys) { return 63 - __builtin_clzll(keys); }
/* Name of a key for messages: "cpu", "strided", "detail". */
const char *tn_key_name(int key);

#endif
