/* Streams of frameworks as streams of Tenon. A framework has a few streams, which it never ends, so
 * each is imported once and stays imported until the process ends. */
#ifndef BRIDGES_COMMON_FOREIGN_STREAM_H
#define BRIDGES_COMMON_FOREIGN_STREAM_H

#include <tenon/tenon.h>

/* Finds the stream for a native handle (a CUstream), which is imported when it is first asked for.
 *
 * Errors: those of tenon_stream_import; out of memory.
 * Ownership: the stream is borrowed, and valid until the process ends or Tenon shuts down.
 * Threads: any; a stream that is known takes no lock. */
tenon_status_t foreign_stream_find(tenon_device_t device, void *native,
                                   tenon_stream_t **out_stream);

#endif
