/* Operations of StableHLO that are refused, with the reason. Several devices of one program are the
 * matter of the program that calls Tenon, not of a graph. */
#include "lower/lower.h"

#define DEVICES "it communicates with other devices; a graph runs as one program: export it for one"
#define HOST "it exchanges data with the host while the program runs: use inputs and outputs"

static const hlo_row_t rows[] = {
    {"stablehlo.all_gather", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.all_reduce", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.all_to_all", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.async_done", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.async_start", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.collective_broadcast", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.collective_permute", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.cross-replica-sum", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.einsum", NULL, NULL, NULL, NULL, 0,
     "the specification no longer has it: use dot_general"},
    {"stablehlo.infeed", NULL, NULL, NULL, NULL, 0, HOST},
    {"stablehlo.outfeed", NULL, NULL, NULL, NULL, 0, HOST},
    {"stablehlo.partition_id", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.recv", NULL, NULL, NULL, NULL, 0, HOST},
    {"stablehlo.reduce_scatter", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.replica_id", NULL, NULL, NULL, NULL, 0, DEVICES},
    {"stablehlo.send", NULL, NULL, NULL, NULL, 0, HOST},
    {"stablehlo.set_dimension_size", NULL, NULL, NULL, NULL, 0,
     "a tensor whose extents change is not a value of a graph: use symbolic dimensions"},
    {"stablehlo.torch_index_select", NULL, NULL, NULL, NULL, 0,
     "the specification no longer has it: use gather"},
    {"stablehlo.trace", NULL, NULL, NULL, NULL, 0, HOST},
    {"stablehlo.unary_einsum", NULL, NULL, NULL, NULL, 0,
     "the specification no longer has it: use reduce and transpose"},
    {"sdy.manual_computation", NULL, NULL, NULL, NULL, 0, DEVICES},
};

HLO_ROWS(hlo_rows_refused);
