/* Registers the operators of all loaded libraries with TensorFlow when TensorFlow opens this file:
 * TF_LoadLibrary and tf.load_op_library call no function of a library. */
#include <stdio.h>
#include <tenon/tensorflow.h>

__attribute__((constructor)) static void register_loaded(void) {
  const char *error = NULL;
  if (tenon_tensorflow_register(NULL, NULL, &error) != TENON_OK)
    fprintf(stderr, "tenon: operators are not registered with TensorFlow: %s\n", error);
}
