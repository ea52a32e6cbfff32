/* Behaves. */
#include "misbehave.h"

MISBEHAVE(halves_well, twice)
