/* Behaves correctly. */
#include "misbehave.h"

MISBEHAVE(halves_well, twice)
