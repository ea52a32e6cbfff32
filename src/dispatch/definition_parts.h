/* A definition from inside: what definition.c and definition_kernel.c have in common. */
#ifndef TN_DISPATCH_DEFINITION_PARTS_H
#define TN_DISPATCH_DEFINITION_PARTS_H

#include "dispatch/definition.h"

/* The operator that items belong to now; NULL: a bad one, or one that is not there yet. */
tenon_op_t *tn_definition_target(const tn_definition_t *definition);
/* Of a parser: its message is the offence, after the operator's name. */
bool tn_definition_check(tn_definition_t *definition, tenon_status_t status);
/* In an arena; NULL is an offence already. */
void *tn_definition_room(tn_definition_t *definition, tn_arena_t *arena, size_t size);
const char *tn_definition_text(tn_definition_t *definition, tn_arena_t *arena, const char *text);
void tn_definition_add_kernel(tn_definition_t *definition, const tenon_item_t *item);
/* Offends for stubs and loops of operators that have no place for them. */
void tn_definition_check_stub(tn_definition_t *definition, const tenon_op_t *op,
                              const tn_kernel_t *kernel);

#endif
