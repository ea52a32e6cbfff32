/* The built-in libraries of a host that tests compatibility: one operator, and no devices. */
#include <tenon/op.h>

static tenon_status_t copy(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(core, "1.0.0",
  TENON_OP("identity(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: identity(grad)"), TENON_LOOP("f64 -> f64", copy)))
/* clang-format on */

#define NO_DEVICE(name)                                                                            \
  TENON_C const tenon_descriptor_t *tenon_library_##name(void);                                    \
  const tenon_descriptor_t *tenon_library_##name(void) { return 0; }
NO_DEVICE(null)
NO_DEVICE(sim)
NO_DEVICE(opencl)
NO_DEVICE(cuda)

/* What libtenon connects to kernels that pack weights, of which there are none here. */
typedef struct packed_host_t packed_host_t;
TENON_C void core_packed_connect(const packed_host_t *host);
TENON_C void core_packed_describe(char *out_text, size_t capacity);

TENON_C void core_packed_connect(const packed_host_t *host) { (void)host; }
TENON_C void core_packed_describe(char *out_text, size_t capacity) {
  if (capacity) *out_text = 0;
}
