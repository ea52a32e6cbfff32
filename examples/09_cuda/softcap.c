/* softcap(x) = cap * tanh(x / cap), with a source kernel, which runs everywhere, and with a
 * handwritten kernel for CUDA in softcap.cu. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

TENON_SOURCE_4(softcap, IN, float, x, OUT, float, y, VALUE, int64_t, n, VALUE, float, cap) {
  TENON_EACH(i, n) y[i] = cap * tanh(x[i] / cap);
}

#ifndef TENON_ON_DEVICE
TENON_CODE(code, {"softcap", softcap})

static tenon_status_t run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  float cap = (float)call->attrs[0].as.f;
  const tenon_kernel_argument_t arguments[] = {
      tenon_in(call->inputs[0]), tenon_out(call->outputs[0]), TENON_VALUE(n), TENON_VALUE(cap)};
  return tenon_each(call, &code, 0, n, arguments, 4);
}

tenon_status_t softcap_cuda(tenon_call_t *call);

TENON_LIBRARY(demo, "1.0.0",
              TENON_OP("softcap(Tensor x, *, float cap) -> Tensor",
                       TENON_DOC("cap * tanh(x / cap)"), TENON_TYPES("x: f32; out = x"),
                       TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_SOURCE("f32", run),
                       TENON_KERNEL("cuda f32", softcap_cuda)))
#endif
