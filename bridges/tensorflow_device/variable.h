/* Variables on devices.
 *
 * TensorFlow 2.21 exports no function by which a kernel reads or updates a resource variable. The
 * plug-in therefore has kernels of its own for the operators of variables, and keeps the values
 * itself. The handles are those of TensorFlow, and their names tell variables apart. The value is a
 * tensor of TensorFlow; a new value replaces it, so that tensors that were read before do not
 * change.
 *
 * A variable without a name of its own ends with its last handle. Nobody tells the plug-in, but it
 * holds a reference to the handle's memory, and drops the value when that is the last one. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_VARIABLE_H
#define BRIDGES_TENSORFLOW_DEVICE_VARIABLE_H

#include "plugin.h"

/* Registers the operators that create, assign, read and destroy variables for a platform. */
tenon_status_t register_variables(const platform_t *platform);

enum { VARIABLE_KEY_SIZE = 600 };
typedef struct variable_key_t {
  char text[VARIABLE_KEY_SIZE]; /* device, container and name */
} variable_key_t;

/* Reads which variable the handle in an input names. */
tenon_status_t variable_key(tf_context_t *context, int input, variable_key_t *out_key);

/* Returns the value of a variable.
 *
 * Errors: TENON_PRECONDITION: it was never assigned, or is destroyed.
 * Ownership: the caller deletes the tensor, which shares the memory of the value. */
tenon_status_t variable_read(const variable_key_t *key, tf_tensor_t **out_value);

/* Replaces the value of the variable in an input. Takes over the tensor, also after an error. */
tenon_status_t variable_assign(tf_context_t *context, int input, tf_tensor_t *value);

/* Drops the values of variables whose handles are gone. */
void variable_sweep(void);

/* Excludes other updates between a read and an assignment. */
void variable_lock_updates(void);
void variable_unlock_updates(void);

#endif
