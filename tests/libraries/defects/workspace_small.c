/* reversed: a row backwards, by way of a workspace.  Defect: uses one element more than infer asked
 * for. Found as: workspace.over */
#define ROOM PLANTED(0, 1)
#define FROM 1
#include "reversed.h"
