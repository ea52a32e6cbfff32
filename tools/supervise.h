/* Runs the rest of a command in a forked child that this process supervises, so that code of a
 * library cannot end the command unnoticed or stop it for ever. Called by the verbs that load
 * libraries and by the conformance suites. The command has succeeded only if the child said so. */
#ifndef TOOLS_SUPERVISE_H
#define TOOLS_SUPERVISE_H

#include <stdbool.h>

typedef struct supervise_t {
  double limit_ms; /* of loading one library, and of ending the process */
  int failed;      /* exit status if the child did not finish */
  /* Called in the supervisor; prints one message. is_done: the child has printed its results. */
  void (*report)(const char *message, bool is_done);
} supervise_t;

/* Forks. Returns in the child only; the supervisor reports how the child ended and exits with its
 * status. Does nothing under a debugger, or if the process is supervised already. The process must
 * not have started threads. */
void supervise_begin(const supervise_t *settings);
/* State that loading of a library begins or has ended. They do nothing without a supervisor. */
void supervise_loading(const char *library);
void supervise_loaded(void);
/* States that the command has done its work and will exit with `code`. Returns `code`. */
int supervise_finished(int code);
/* The limit in milliseconds: TENON_LOAD_LIMIT in seconds, else 60 s. */
double supervise_limit(void);

#endif
