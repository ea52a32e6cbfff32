/* The cells of rnn, gru and lstm, see cell.h.
 * Called from parts of a parallel loop.  Invariant: f32 uses the functions of simd/math.h, which loops over vectors. */
#include "cell.h"
#include "recurrent.h"
#include "simd/math.h"

#define INFO(name, parameters, alpha, beta, value) {#name, parameters, alpha, beta},
const cell_info_t core_cell_functions[CELL_COUNT] = {CELL_FUNCTIONS(INFO)};

#define UNIT(y) ((y) < 0 ? 0 : (y) > 1 ? 1 : (y))

#define T float
#define NAME(x) x##_f32
#include "cell_kernel.h"

#define T double
#define NAME(x) x##_f64
#include "cell_kernel.h"
