/* A file of trace events that is valid JSON after each of them, whatever becomes of the process:
 * Trace Event Format, as Perfetto and Chrome open it ("JSON Array Format" of the document of that
 * name). */
#ifndef TN_BASE_EVENT_FILE_H
#define TN_BASE_EVENT_FILE_H

#include <tenon/op.h>

typedef struct tn_event_file_t tn_event_file_t;

/* Makes the file, or empties it: a list without events.  DENIED, with the system's words; INVALID
 * for what is no regular file. */
tenon_status_t tn_event_file_create(const char *path, tn_event_file_t **out_file);
/* Adds an event, a JSON object.  Not for several threads at once.  A child of fork adds nothing,
 * since the file is its parent's.  After a failure the file is as it was before. */
tenon_status_t tn_event_file_add(tn_event_file_t *file, const char *event, size_t size);
void tn_event_file_close(tn_event_file_t *file);

#endif
