/* The interface of TensorFlow for graph passes of other packages, version 0.0.1, declared anew from
 * tensorflow/c/experimental/grappler/grappler.h. */
#ifndef BRIDGES_TENSORFLOW_GRAPH_GRAPPLER_H
#define BRIDGES_TENSORFLOW_GRAPH_GRAPPLER_H

#include <stddef.h>

#include "tf.h"

enum { GRAPPLER_MAJOR = 0, GRAPPLER_SETTINGS = 19 };

#define GRAPPLER_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

typedef struct tf_item_t tf_item_t; /* TF_GrapplerItem */

/* TP_OptimizerConfigs: 0 leaves a pass of TensorFlow as it is, 1 turns it off. */
typedef struct grappler_configs_t {
  size_t size;
  void *reserved;
  int settings[GRAPPLER_SETTINGS];
} grappler_configs_t;

typedef struct grappler_optimizer_t { /* TP_Optimizer */
  size_t size;
  void *reserved;
  void *(*create)(void);
  void (*optimize)(void *optimizer, const tf_buffer_t *in, const tf_item_t *item, tf_buffer_t *out,
                   tf_status_t *status);
  void (*destroy)(void *optimizer);
} grappler_optimizer_t;

typedef struct grappler_t { /* TP_OptimizerRegistrationParams */
  size_t size;
  void *reserved;
  int32_t major;
  int32_t minor;
  int32_t patch;
  const char *type; /* set by the plug-in: the type of the device whose graphs it wants */
  grappler_configs_t *configs;
  grappler_optimizer_t *optimizer;
} grappler_t;

_Static_assert(offsetof(grappler_t, type) == 32 && offsetof(grappler_t, optimizer) == 48,
               "the layout of TP_OptimizerRegistrationParams");
_Static_assert(offsetof(grappler_optimizer_t, optimize) == 24, "the layout of TP_Optimizer");
_Static_assert(GRAPPLER_SIZE(grappler_configs_t, settings) == 92, "19 settings of 4 bytes");

#endif
