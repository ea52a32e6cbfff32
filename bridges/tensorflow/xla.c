/* Registers Tenon's handler, which is that of the bridge to JAX, with the XLA inside TensorFlow.
 * TensorFlow exports the table of XLA's foreign function interface only as a C++ function without
 * arguments, which is called by its symbol. */
#include "xla.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "jax/xla.h"
#include "tf.h"

#define EXPORT __attribute__((visibility("default")))

extern xla_error_t *tenon_jax_cpu(xla_frame_t *frame);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char reason[400];

static const xla_api_t *find_api(void) {
  static const char *const symbols[] = {"XLA_FFI_GetApi", "_ZN3xla3ffi12GetXlaFfiApiEv"};
  const xla_api_t *(*get)(void) = NULL;
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols && !get; i++)
    *(void **)&get = tf_find(symbols[i]);
  return get ? get() : NULL;
}

static void note_error(const xla_api_t *api, xla_error_t *error) {
  xla_error_message_t message = {.size = sizeof message, .error = error};
  xla_error_destroy_t destroy = {.size = sizeof destroy, .error = error};
  api->error_message(&message);
  snprintf(reason, sizeof reason,
           "the XLA of this TensorFlow refuses Tenon's handler (%s): another copy of Tenon may be "
           "registered in this process",
           message.message);
  api->error_destroy(&destroy);
}

static void register_once(void) {
  static const char name[] = "tenon_cpu";
  static const char platform[] = "Host";
  const xla_api_t *api = find_api();
  if (!api || api->version.major != 0 || api->version.minor < 1) {
    snprintf(
        reason, sizeof reason,
        "this TensorFlow does not export the foreign function interface of XLA (0.1 or newer)");
    return;
  }
  xla_handler_register_t handler = {.size = offsetof(xla_handler_register_t, traits) +
                                            sizeof handler.traits,
                                    .name = name,
                                    .name_size = strlen(name),
                                    .platform = platform,
                                    .platform_size = strlen(platform),
                                    .execute = tenon_jax_cpu};
  xla_error_t *error = api->handler_register(&handler);
  if (error) note_error(api, error);
}

const char *xla_register(void) {
  (void)pthread_once(&once, register_once);
  return *reason ? reason : NULL;
}

/* Returns NULL if functions that XLA compiles can call operators, otherwise the reason. */
EXPORT const char *tenon_tensorflow_xla(void);
EXPORT const char *tenon_tensorflow_xla(void) { return xla_register(); }
