/* Handles: numbers that stand for streams, events and other objects. */
#ifndef TENON_SIM_HANDLE_H
#define TENON_SIM_HANDLE_H

#include "sim.h"

enum {
  SIM_STREAM = 1,
  SIM_EVENT,
  SIM_PROGRAM,
  SIM_KERNEL,
  SIM_CAPTURED,
  SIM_CHAIN,
};

typedef struct sim_object_t { /* the first member of every object that has a handle */
  uint32_t kind;
  int32_t ordinal;
  void *handle;
} sim_object_t;

tenon_status_t sim_handle_create(tenon_on_t on, uint32_t kind, sim_object_t *object);
/* An object of this ordinal. */
tenon_status_t sim_handle_find(tenon_on_t on, uint32_t kind, void *handle, void *out_object);
/* The object, whose handle is now invalid; NULL: there is no such object. */
void *sim_handle_end(tenon_on_t on, uint32_t kind, void *handle);
void sim_handle_drop(sim_object_t *object); /* invalidates the handle of the object */
/* Invalidates the handle of any one object of an ordinal; NULL: none is left. */
void *sim_handle_any(int32_t ordinal, uint32_t kind);
void sim_handle_forget_all(void);

#endif
