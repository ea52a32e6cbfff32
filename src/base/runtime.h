/* Starts the runtime, once, and stops it. Every folder may call tenon_start, which is defined in
 * runtime.c; the steps of the start are in src/start.c, which may include every folder. */
#ifndef TN_BASE_RUNTIME_H
#define TN_BASE_RUNTIME_H

#include <tenon/tenon.h>

/* Starts every folder.  src/start.c sets it when libtenon is loaded, before any function of tenon.h
 * can be called. */
extern tenon_status_t (*tn_runtime_begin)(void);
/* Runs `end` if the runtime was started, and lets tenon_start start it again. */
void tn_runtime_stop(void (*end)(void));

#endif
