/* Packed weights of artifacts; see packed.h. Called by the kernels that pack weights, and connected
 * to the graph compiler by src/start.c. */
#include "packed.h"
#include "capability.h"
#include <stdio.h>
#ifdef TENON_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

static packed_host_t host;

TENON_C void core_packed_connect(const packed_host_t *connected) { host = *connected; }

const void *core_packed_take(uint64_t (*size_of)(void *context, const int64_t *notes),
                             void *context) {
  packed_block_t block;
  if (!host.take || !host.take(&block)) return NULL;
  const uint64_t size = size_of(context, block.notes);
  if (size && size == block.size) return block.data;
  host.refuse();
  return NULL;
}

void core_packed_keep(const void *data, uint64_t size, const int64_t *notes) {
  packed_block_t block = {data, size, {0, 0}};
  for (int i = 0; notes && i < PACKED_NOTES; i++)
    block.notes[i] = notes[i];
  if (host.keep && data) host.keep(&block);
}

TENON_C void core_packed_describe(char *out_text, size_t capacity) {
  const int bits = core_capability() | core_has_vnni() << 4 | core_has_vbmi() << 5;
#ifdef TENON_ONEDNN
  const dnnl_version_t *version = dnnl_version();
  snprintf(out_text, capacity, "kernels %d, oneDNN %d.%d.%d with instruction set %d", bits,
           version->major, version->minor, version->patch, (int)dnnl_get_effective_cpu_isa());
#else
  snprintf(out_text, capacity, "kernels %d, no oneDNN", bits);
#endif
}
