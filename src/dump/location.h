/* Names the function that an address lies in, for a process whose heap and stack may be destroyed:
 * only system calls and static memory are used. Called by the handler of crash reports. */
#ifndef TN_DUMP_LOCATION_H
#define TN_DUMP_LOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn_location_t {
  char path[4096];    /* of the file that is mapped at the address; "" if there is none */
  char function[256]; /* its symbol; "" if the file has none */
  uint64_t offset;    /* of the address in the file, as addr2line takes it */
  bool is_library;    /* the file is an operator library, or has the runtime in it */
} tn_location_t;

/* Returns: false if no file is mapped at the address. Not for several threads at once. */
bool tn_location_find(uintptr_t address, tn_location_t *out);

#endif
