/* reversed: a row backwards, by way of a workspace. Defect: it uses one element more than infer
 * requested.
 * Found as: workspace.over */
#define ROOM PLANTED(0, 1)
#define FROM 1
#include "reversed.h"
