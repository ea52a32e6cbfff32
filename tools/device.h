/* Devices and pins of the command line: --device NAME[:N][,NAME[:N]]..., --pin NODE=NAME[:N].
 * Called by the verbs that run models. */
#ifndef TOOLS_DEVICE_H
#define TOOLS_DEVICE_H

#include <tenon/tenon.h>

#include "text.h"

enum { DEVICES_MOST = 15 };
typedef struct devices_t {
  tenon_device_t devices[DEVICES_MOST];
  uint32_t count;
  tenon_pin_t *pins;
  texts_t nodes; /* names of the pinned nodes */
} devices_t;

#define DEVICE_HELP                                                                                \
  "run on this device; operators without a kernel for it fall back to the CPU.  Several devices, " \
  "separated by commas, share the model, "                                                         \
  "the preferred one first ('cpu' may be one)"
#define PIN_HELP                                                                                   \
  "run the nodes with this name, or of this operator ('*' matches any characters), on a device; "  \
  "may be "                                                                                        \
  "repeated"

/* Opens the requested devices and sets the members of `options` that refer to them. They are valid
 * until devices_close. */
bool devices_open(devices_t *devices, const char *list, const texts_t *pins,
                  tenon_compile_t *options, text_t *why);
void devices_close(devices_t *devices);

#endif
