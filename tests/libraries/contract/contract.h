/* Declarations shared by the files of the library `contract`: their lists of operators, and the
 * counts that tests read. Each operator shows one part of tenon/op.h. The library is written like
 * one of an outside author, who knows only that header. */
#ifndef TENON_TESTS_CONTRACT_H
#define TENON_TESTS_CONTRACT_H

#include <tenon/op.h>

TENON_C const tenon_item_t contract_shapes[];
TENON_C const tenon_item_t contract_views[];
TENON_C const tenon_item_t contract_loops[];
TENON_C const tenon_item_t contract_rows[];
TENON_C const tenon_item_t contract_composites[];
TENON_C const tenon_item_t contract_random[];
TENON_C const tenon_item_t contract_states[];
TENON_C const tenon_item_t contract_kernels[];
TENON_C const tenon_item_t contract_layouts[];
TENON_C const tenon_item_t contract_sparse[];
TENON_C const tenon_item_t contract_texts[];

/* the counts of contract::census */
enum {
  CENSUS_OPENED,
  CENSUS_CREATED,
  CENSUS_DESTROYED,
  CENSUS_PREPARED,
  CENSUS_RELEASED,
  CENSUS_COUNT,
};
void contract_count(int what);

/* Is the dtype one of these ids? */
static inline int contract_is(const tenon_tensor_t *tensor, uint32_t id) {
  return tenon_dtype_id(tensor->dtype) == id;
}

#endif
