/* The conformance cases of devices for the backend of a library: TENON_CONFORMANCE_LIBRARY names
 * the library and TENON_CONFORMANCE_BACKEND the backend. */
#include <stdlib.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

#include "device.h"

TEST("the backend that TENON_CONFORMANCE_LIBRARY and TENON_CONFORMANCE_BACKEND name conforms") {
  const char *library = getenv("TENON_CONFORMANCE_LIBRARY");
  const char *backend = getenv("TENON_CONFORMANCE_BACKEND");
  tenon_device_t device = {0, 0};
  tenon_registration_t *fallback = NULL;
  if (!library || !backend)
    SKIP("TENON_CONFORMANCE_LIBRARY and TENON_CONFORMANCE_BACKEND name none; examples/03_backend "
         "does");
  CHECK_STATUS(tenon_library_load(library, 0, NULL), TENON_OK);
  CHECK_STATUS(tenon_backend_check(backend), TENON_OK);
  CHECK_STATUS(tenon_device_find(backend, 0, &device), TENON_OK);
  CHECK_STATUS(tenon_fallback_add(backend, tenon_fallback_cpu, NULL, NULL, 0, &fallback), TENON_OK);
  conform(device);
  tenon_shutdown();
}
