/* Links on processors whose vectors have 16 bytes, see chain.h. */
#include <math.h>

#include "drivers/chain.h"
#include "drivers/chain_single.h"

#define CHAIN_NAME(name) name##_wide
#define CHAIN_TARGET
#define CHAIN_BYTES 16
#define CHAIN_BLOCK 8
#define CHAIN_SQRT(a) ((V){sqrtf((a)[0]), sqrtf((a)[1]), sqrtf((a)[2]), sqrtf((a)[3])})
#define CHAIN_MAX(a, b) CHOOSE((M)(((a) > (b)) | ((a) != (a))), a, b)
#define CHAIN_MIN(a, b) CHOOSE((M)(((a) < (b)) | ((a) != (a))), a, b)
#include "drivers/chain_kernel.h"

static void run_chain(const tn_link_t *links, int32_t count, int64_t length) {
  tn_chain_run_single(links, count, run_wide(links, count, 0, length), length);
}

tn_chain_fn tn_chain_function(void) { return run_chain; }

bool tn_chain_takes_f16(void) { return false; }

bool tn_chain_has_other(void) { return false; }
