/* The status of a call, as TensorFlow wants it. */
#include "plugin.h"

void set_status(tf_status_t *out, tenon_status_t status) {
  tf.TF_SetStatus(out, status, status == TENON_OK ? "" : tenon_error());
}
