/* moved: x, copied by a kernel for sim.  Defect: enqueues the copy on the device's first stream in
 * place of the call's. Found as: device.stream */
#define STREAM PLANTED(0, call->stream)
#include "moved.h"
