/* How cast loads and stores the elements of one integer dtype. simd/conversion.c includes this once
 * per dtype with T (the element) and NAME(x) defined. */

#define FORM whole
#define WIDE int64_t
#define DECODE(x) (x)
#define ENCODE(x) (x)
#include "conversion_kernel.h"
