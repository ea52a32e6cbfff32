/* Pieces of work, and captured graphs, which hold copies of them. */
#ifndef TENON_SIM_WORK_H
#define TENON_SIM_WORK_H

#include "handle.h"
#include "mark.h"
#include "memory.h"

typedef struct sim_region_t {
  sim_memory_t *memory; /* NULL: host memory */
  uint64_t begin;
  uint64_t bytes;
  uint32_t is_write;
} sim_region_t;

typedef struct sim_work_t {
  struct sim_work_t *next;
  sim_piece_t piece;
  sim_work_fn function;
  sim_mark_t *reach; /* the mark that this work sets; NULL: none */
  sim_mark_t *await; /* the mark that this work waits for; NULL: none */
  void (*callback)(void *argument, tenon_status_t status);
  void *argument;
  void **addresses;
  uint64_t argument_bytes;
  uint32_t region_count;
  sim_region_t *regions;
  /* releases what the argument holds when the work is freed; may be NULL */
  void (*release)(void *argument);
  void (*retain)(void *argument); /* retains the same when the work is copied */
  tenon_status_t failure;         /* the failure that the work will have */
  bool loses;                     /* this work makes the ordinal lost */
  char failure_text[SIM_TEXT];
} sim_work_t;

typedef struct sim_use_t { /* a range, possibly of another ordinal or of host memory */
  sim_range_t range;
  tenon_on_t peer;
  bool is_host;
} sim_use_t;

tenon_status_t sim_work_create(tenon_on_t on, uint64_t ticket, const char *kind,
                               sim_work_fn function, const void *argument, uint64_t bytes,
                               uint32_t range_count, const sim_use_t *ranges,
                               sim_work_t **out_work);
tenon_status_t sim_work_copy(tenon_on_t on, const sim_work_t *work, uint64_t ticket,
                             sim_work_t **out_copy);
void sim_work_free(sim_work_t *work);
void sim_works_free(sim_work_t *first); /* frees the list that begins with this work */

/* Pieces of work that a stream collects instead of doing them (capture.c). */
typedef struct sim_captured_t {
  sim_object_t object;
  sim_work_t *first;
  sim_work_t **end;
} sim_captured_t;

void sim_captured_free(sim_captured_t *captured);

#endif
