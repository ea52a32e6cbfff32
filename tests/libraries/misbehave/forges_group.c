/* Forges one thing in its description: an item with a text becomes a group, whose text is the
 * address of items. */
#define FORGE_GROUP
#include "forges_description.c"
