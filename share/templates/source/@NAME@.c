/* @NAME@.c: a + (b - a) * by, as a kernel from source: this text is compiled for the CPU with the library, and by each device
 * (OpenCL, CUDA, your own) on first use.  `tenon run ... --device opencl` runs it there.
 *
 * TENON_ON_DEVICE is defined where a device compiles it; the rest of the file is for the host alone. */
#ifndef TENON_ON_DEVICE
#include <tenon/check.h>
#include <tenon/source.h>
#endif

/* One element: name, result, then kind, type and name of each parameter; IN of tensors, VALUE of attributes.  On the CPU it
 * becomes a loop, on devices a kernel that goes over broadcast and strided operands. */
TENON_POINTWISE_3(@NAME@_element, float, IN, float, a, IN, float, b, VALUE, float, by) { return a + (b - a) * by; }

#ifndef TENON_ON_DEVICE
TENON_CODE(code, {"@NAME@_element", @NAME@_element}) /* the kernels of this file */
TENON_POINTWISE_RUN(code, 0, @NAME@_element)         /* 0: its place in that list */

/* clang-format off */
TENON_LIBRARY(@NAME@, "0.1.0",
  TENON_OP("@NAME@(Tensor a, Tensor b, *, float by=0.5) -> Tensor",
    TENON_DOC("The point between a and b: a + (b - a) by."),
    TENON_TYPES("a, b: f16|bf16|f32; out = a"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_SAMPLES("a: [3, n], b: [3, n]; a: [n], b: [n], by = 2.0"),
    TENON_LOOP("f32, f32 -> f32", @NAME@_element_loop),
    TENON_SOURCE("f32 strided", @NAME@_element_run)))
/* clang-format on */
#endif
