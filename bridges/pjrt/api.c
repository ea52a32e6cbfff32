/* The table of functions, and the function that gives it to XLA. Every entry first checks that the
 * caller's structure is as long as the entry needs. */
#include "plugin.h"

__attribute__((visibility("default"))) const void *GetPjrtApi(void);

static pjrt_error_t *refuse_short(const char *name, size_t size, size_t expected) {
  return fail_call(TENON_INVALID,
                   "PJRT_%s: the structure of the caller has %zu bytes, expected at least %zu: the "
                   "caller is older than PJRT 0.%d",
                   name, size, expected, PJRT_MINOR);
}

#define TABLE_ENTER(name, function, structure, last)                                               \
  static pjrt_error_t *enter_##name(void *arguments) {                                             \
    const size_t expected = offsetof(structure, last) + sizeof((structure *)0)->last;              \
    const size_t size = ((const pjrt_arguments_t *)arguments)->size;                               \
    return size < expected ? refuse_short(#name, size, expected) : function(arguments);            \
  }
#define TABLE_REFUSE(name)                                                                         \
  static pjrt_error_t *enter_##name(void *arguments) {                                             \
    (void)arguments;                                                                               \
    return fail_call(TENON_UNIMPLEMENTED, "Tenon's plug-in does not implement PJRT_" #name);       \
  }
PJRT_FUNCTIONS(TABLE_ENTER, TABLE_REFUSE)

#define TABLE_READY(name, function, structure, last) enter_##name,
#define TABLE_MISSING(name) enter_##name,

#define COUNT_READY(name, function, structure, last) +1
#define COUNT_MISSING(name) +1
enum { FUNCTION_COUNT = 0 PJRT_FUNCTIONS(COUNT_READY, COUNT_MISSING) };

typedef struct table_t {
  size_t size;
  pjrt_extension_t *extension;
  pjrt_version_t version;
  pjrt_function_t functions[FUNCTION_COUNT];
} table_t;
_Static_assert(FUNCTION_COUNT == 136, "PJRT 0.105 has another number of functions");

static const table_t table = {sizeof table,
                              NULL,
                              {sizeof(pjrt_version_t), NULL, PJRT_MAJOR, PJRT_MINOR},
                              {PJRT_FUNCTIONS(TABLE_READY, TABLE_MISSING)}};

const void *GetPjrtApi(void) { return &table; }
