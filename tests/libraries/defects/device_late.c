/* moved: x, copied by a kernel for sim.  Defect: a thread of its own enqueues the copy a while
 * after the kernel has returned. Found as: device.running */
#define STREAM call->stream
#define LATE PLANTED(1, 0)
#include "moved.h"
