/* ranks.h: the order of checks.  What is found in one rank would mostly be found again in later
 * ones, under other names: so an operator with a finding is not tried in later ranks. */
#ifndef CHECK_RANKS_H
#define CHECK_RANKS_H

#include <stdbool.h>

enum { RANKS = 7 };
/* 0 to RANKS - 1, of a check's id. */
int rank_of(const char *id);
/* Each check of this rank begins in a process where no code of the library has run yet. */
bool rank_is_fresh(int rank);

#endif
