/* The checker, which finds data races between streams, waits that have no effect, and wrong
 * lifetimes. */
#ifndef TENON_SIM_CHECK_H
#define TENON_SIM_CHECK_H

#include "plugin.h"

struct sim_stream_t;
struct sim_work_t;
struct sim_mark_t;
bool sim_check_reserve(struct sim_work_t *work); /* false: no host memory */
/* Call sim_check_reserve first; puts races into work->failure. */
void sim_check(const struct sim_stream_t *stream, struct sim_work_t *work);
void sim_check_wait(struct sim_stream_t *stream, struct sim_mark_t *mark);
/* Reports an error that does not depend on timing. It is listed together with the races. */
void sim_find(const sim_piece_t *first, const sim_piece_t *second, const char *format, ...)
    TENON_FORMAT(3, 4);
/* Does work that the host does not know to be finished write there? */
bool sim_check_writes(const void *data, uint64_t bytes);
/* Checks an access of the host to its own memory, as if it were a piece of work. true: it is a
 * race, which `text` describes. */
bool sim_check_host(tenon_on_t on, const char *kind, const void *data, uint64_t bytes,
                    uint32_t is_write, char text[SIM_TEXT]);

#endif
