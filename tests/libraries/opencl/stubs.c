/* Every function that the plug-in looks up; those that loader.c does not implement fail with
 * CL_INVALID_OPERATION. */
#include "api.h"

#define STUB(result, name, parameters)                                                             \
  int32_t cl##name(void);                                                                          \
  TENON_EXPORT __attribute__((weak)) int32_t cl##name(void) { return CL_INVALID_OPERATION; }
OCL_FUNCTIONS(STUB)
