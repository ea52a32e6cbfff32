/* reversed: a row backwards, by way of a workspace.  Defect: begins one element before it.
 * Found as: workspace.under */
#define ROOM 0
#define FROM PLANTED(-1, 0)
#include "reversed.h"
