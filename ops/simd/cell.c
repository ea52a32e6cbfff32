/* The cells of rnn, gru and lstm (../cell.h), as one table per instruction set. Called from parts
 * of a parallel loop.
 * Invariant: f32 uses the functions of math.h, which compilers vectorise. */
#include "../cell.h"
#include "../recurrent.h"
#include "isa.h"
#include "math.h"

#define UNIT(x) NAME(unit)(x)

#define T float
#define NAME(x) x##_f32
#include "../cell_kernel.h"

#define T double
#define NAME(x) x##_f64
#include "../cell_kernel.h"

#ifdef TENON_SIMD
const cells_t ISA_JOIN(core_cells, TENON_SIMD) = {cell_f32, cell_f64};
#else
const cells_t core_cells = {cell_f32, cell_f64};
#define INFO(name, parameters, alpha, beta, value) {#name, parameters, alpha, beta},
const cell_info_t core_cell_functions[CELL_COUNT] = {CELL_FUNCTIONS(INFO)};
#endif
