/* Devices and pins of command lines: --device NAME[:N][,NAME[:N]]..., --pin NODE=NAME[:N].  Called
 * by verbs that run models. */
#ifndef TOOLS_DEVICE_H
#define TOOLS_DEVICE_H

#include <tenon/tenon.h>

#include "text.h"

enum { DEVICES_MOST = 15 };
typedef struct devices_t {
  tenon_device_t devices[DEVICES_MOST];
  uint32_t count;
  tenon_pin_t *pins;
  texts_t nodes; /* of pins */
} devices_t;

#define DEVICE_HELP                                                                                \
  "run on that device; what it has no kernel for falls back to the CPU.  Several with commas: "    \
  "spread over them, the "                                                                         \
  "preferred first ('cpu' may be one)"
#define PIN_HELP                                                                                   \
  "run nodes with that name, or of that operator ('*': any characters), on a device; may be "      \
  "repeated"

/* Opens what was asked for and fills in the members of `options` that are about devices; they live
 * until devices_close. */
bool devices_open(devices_t *devices, const char *list, const texts_t *pins,
                  tenon_compile_t *options, text_t *why);
void devices_close(devices_t *devices);

#endif
