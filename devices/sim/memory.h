/* The memory of the ordinals. */
#ifndef TENON_SIM_MEMORY_H
#define TENON_SIM_MEMORY_H

#include "plugin.h"

typedef struct sim_memory_t {
  uintptr_t key;  /* the handle: an inaccessible address, or a number */
  char *reserved; /* the mapping */
  char *work;     /* the part of the mapping that workers read and write */
  uint64_t bytes;
  uint64_t mapped;
  int32_t ordinal;
  uint32_t pins; /* the number of pieces of work that use the memory */
  uint32_t imports;
  bool freed;
  bool gone; /* the pages are released, but the address range is kept to detect later uses */
  sim_accesses_t accesses;
} sim_memory_t;

/* Finds the memory at `at` and checks that `bytes` from there lie in it. *out_begin receives the
 * offset in the memory. */
tenon_status_t sim_memory_find(tenon_on_t on, const char *what, tenon_memory_t at, uint64_t bytes,
                               sim_memory_t **out_memory, uint64_t *out_begin);
void sim_memory_unpin(sim_memory_t *memory);
void sim_memory_drop(tenon_on_t on, void *handle); /* what sim_free does, with the lock held */
void sim_memory_stop(int32_t ordinal);
void sim_memory_forget_all(void); /* called after the last ordinal has stopped */

/* Functions of the device table */

tenon_status_t sim_allocate(tenon_on_t on, uint64_t bytes, void **out_handle);
void sim_free(tenon_on_t on, void *handle);
tenon_status_t sim_memory_left(tenon_on_t on, uint64_t *out_bytes);
tenon_status_t sim_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle);
void sim_memory_forget(tenon_on_t on, void *handle);

#endif
