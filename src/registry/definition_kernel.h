/* Kernels of a definition: which words may stand together. */
#ifndef TN_REGISTRY_DEFINITION_KERNEL_H
#define TN_REGISTRY_DEFINITION_KERNEL_H

#include "registry/definition.h"

/* Adds the kernel that an item states to the operator, or to the extension. */
void tn_definition_add_kernel(tn_definition_t *definition, const tenon_item_t *item);
/* Adds an offence for each stub and loop of an operator that has no place for it. */
void tn_definition_check_stub(tn_definition_t *definition, const tenon_op_t *op,
                              const tn_kernel_t *kernel);

#endif
