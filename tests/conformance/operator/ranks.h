/* The order of checks. A defect found at one rank would usually be found again by later ranks under
 * other ids, so an operator with a finding is not checked at later ranks. */
#ifndef CHECK_RANKS_H
#define CHECK_RANKS_H

#include <stdbool.h>

enum { RANKS = 7 };
/* The rank of a check's id, from 0 to RANKS - 1. */
int rank_of(const char *id);
/* Whether each check of this rank starts in a process in which no code of the library has run. */
bool rank_is_fresh(int rank);

#endif
