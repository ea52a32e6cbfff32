/* What the files of the library `contract` share: their lists of operators, and the census that
 * tests read.  Each operator shows one part of tenon/op.h; the library is written as an outsider's
 * and knows nothing else of Tenon. */
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

/* what contract::census counts */
enum {
  CENSUS_OPENED,
  CENSUS_CREATED,
  CENSUS_DESTROYED,
  CENSUS_PREPARED,
  CENSUS_RELEASED,
  CENSUS_COUNT,
};
void contract_count(int what);

/* A dtype that is one of these ids. */
static inline int contract_is(const tenon_tensor_t *tensor, uint32_t id) {
  return tenon_dtype_id(tensor->dtype) == id;
}

#endif
