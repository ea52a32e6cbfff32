/* moved: x, copied by a kernel for sim. Defect: it enqueues the copy on the device's first stream
 * instead of the call's stream.
 * Found as: device.stream */
#define STREAM PLANTED(0, call->stream)
#include "moved.h"
