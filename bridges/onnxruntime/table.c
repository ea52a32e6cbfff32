/* The table OrtApi: functions that the bridge serves, and for each other function one that fails
 * with its name. No entry is NULL, and what lies behind the known functions fails as well, because
 * a library may have been compiled against a newer header. */
#include "table.h"

#include <stdio.h>

#include "common/ort_functions.h"
#include "context.h"
#include "infer.h"
#include "info_attribute.h"
#include "invoke.h"
#include "key_values.h"
#include "logger.h"
#include "memory.h"
#include "op_attribute.h"
#include "registration.h"
#include "shape_info.h"
#include "status.h"
#include "text.h"
#include "value.h"

typedef void (*any_fn)(void);

enum { SPARE = 64 }; /* entries behind the known functions */

struct OrtApi {
  any_fn functions[ORT_FUNCTION_COUNT + SPARE];
};

#define NO_FUNCTION(name)
#define REFUSE(name)                                                                               \
  static OrtStatus *refuse_##name(void) { return status_unserved(#name); }
ORT_FUNCTIONS(NO_FUNCTION, REFUSE, NO_FUNCTION, NO_FUNCTION)

static OrtStatus *refuse_newer(void) { return status_unserved("with a number above 425"); }
static void ignore(void) {}
static void *give_nothing(void) { return NULL; }

#define SERVED(name) (any_fn) ort_##name,
#define REFUSED(name) (any_fn) refuse_##name,
#define IGNORED(name) ignore,
#define NOTHING(name) (any_fn) give_nothing,

static const OrtApi api = {
    {ORT_FUNCTIONS(SERVED, REFUSED, IGNORED,
                   NOTHING)[ORT_FUNCTION_COUNT... ORT_FUNCTION_COUNT + SPARE - 1] =
         (any_fn)refuse_newer}};

/* The version that a library was refused last; 0: none. Libraries are opened one at a time. */
static uint32_t refused;

/* A library that was compiled for a newer version gets NULL, and many crash on it, so the reason is
 * printed as well, as ONNX Runtime does. */
static const OrtApi *get_api(uint32_t version) {
  if (version >= 1 && version <= ORT_VERSION_NEWEST) return &api;
  refused = version;
  fprintf(stderr,
          "Tenon: a library asks for version %u of ONNX Runtime's interface: Tenon has versions 1 "
          "to %d\n",
          version, ORT_VERSION_NEWEST);
  return NULL;
}

uint32_t table_refused(void) {
  const uint32_t version = refused;
  refused = 0;
  return version;
}

static const char *get_version(void) { return ORT_VERSION_TEXT; }

static const OrtApiBase base = {get_api, get_version};

const OrtApi *table_api(void) { return &api; }

const OrtApiBase *table_base(void) { return &base; }
