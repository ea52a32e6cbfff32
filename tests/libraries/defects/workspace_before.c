/* reversed: a row backwards, by way of a workspace. Defect: it begins one element before the
 * workspace.
 * Found as: workspace.under */
#define ROOM 0
#define FROM PLANTED(-1, 0)
#include "reversed.h"
