/* Includes BODY, the name of a header with the loops for one dtype, for f32 and f64, with T (the
 * element) and NAME(x) defined. BODY undefines T and NAME. */

#define T float
#define NAME(x) x##_f32
#include BODY

#define T double
#define NAME(x) x##_f64
#include BODY
