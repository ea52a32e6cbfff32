/* The kernels of a definition: which words of a kernel may be combined. */
#ifndef TN_REGISTRY_DEFINITION_KERNEL_H
#define TN_REGISTRY_DEFINITION_KERNEL_H

#include "registry/definition.h"

/* Adds the kernel that an item states to the operator, or to the extension. */
void tn_definition_add_kernel(tn_definition_t *definition, const tenon_item_t *item);
/* Adds an offence if the kernel is a stub or a loop and the operator cannot use one. */
void tn_definition_check_stub(tn_definition_t *definition, const tenon_op_t *op,
                              const tn_kernel_t *kernel);

#endif
