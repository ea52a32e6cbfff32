/* A kernel that the CPU's compiler takes and devices' do not: the message must name this file and
 * its line. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#define wrong_word
#endif

TENON_SOURCE_2(spoil, OUT, float, y, VALUE, int64_t, n) { wrong_word TENON_EACH(i, n) y[i] = 0; }

#ifndef TENON_ON_DEVICE
TENON_CODE(spoiled, {"spoil", spoil})

static tenon_status_t run(tenon_call_t *call) {
  int64_t n = tenon_count(call->outputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_out(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each(call, &spoiled, 0, n, arguments, 2);
}

TENON_ITEMS(broken,
            TENON_OP("spoil(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
                     TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_SOURCE("f32", run)))
#endif
