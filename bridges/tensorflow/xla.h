/* The handler through which functions that TensorFlow compiles by XLA call operators. */
#ifndef BRIDGES_TENSORFLOW_XLA_H
#define BRIDGES_TENSORFLOW_XLA_H

/* Registers the handler with the XLA of TensorFlow, once.
 *
 * Returns: NULL, or why XLA cannot call operators; the text stays valid.
 * Threads: any. */
const char *xla_register(void);

#endif
