/* A file of trace events in the Trace Event Format ("JSON Array Format"), which Perfetto and Chrome
 * open. The file is valid JSON after each event, even if the process is killed. */
#ifndef TN_BASE_EVENT_FILE_H
#define TN_BASE_EVENT_FILE_H

#include <tenon/op.h>

typedef struct tn_event_file_t tn_event_file_t;

/* Creates or truncates the file and writes an empty list. Errors: DENIED with the system's message;
 * INVALID if the path is not a regular file. */
tenon_status_t tn_event_file_create(const char *path, tn_event_file_t **out_file);
/* Appends one event, a JSON object. Not thread-safe. In a forked child the function does nothing,
 * because the file belongs to the parent. After a failure the file is as it was before. */
tenon_status_t tn_event_file_add(tn_event_file_t *file, const char *event, size_t size);
void tn_event_file_close(tn_event_file_t *file);

#endif
