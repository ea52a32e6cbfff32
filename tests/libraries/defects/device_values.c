/* moved: x, copied by a kernel for sim. Defect: the last element is not copied.
 * Found as: device.values */
#define STREAM call->stream
#define LESS PLANTED(4, 0)
#include "moved.h"
