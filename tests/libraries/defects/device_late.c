/* moved: x, copied by a kernel for sim. Defect: a thread of the library enqueues the copy after the
 * kernel has returned.
 * Found as: device.running */
#define STREAM call->stream
#define LATE PLANTED(1, 0)
#include "moved.h"
