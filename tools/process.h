/* Other programs, and forked copies of this one.  Implemented in process_posix.c and worker_posix.c.
 * Nothing is left running when these functions have returned. */
#ifndef TOOLS_PROCESS_H
#define TOOLS_PROCESS_H

#include "text.h"

/* The program takes this one's place; false if it cannot. */
bool process_become(const texts_t *command, text_t *why);
/* Runs the program, which is looked for in PATH, to its end, with this one's terminal; its exit status, 128 and the signal's number
 * where it was ended by one, -1: it cannot be run. */
int process_show(const texts_t *command, text_t *why);
/* Runs the program to its end; what it prints on stdout is not shown, what it says on stderr is this one's.  False, with the reason:
 * it cannot be run, or its exit status is not 0. */
bool process_run(const texts_t *command, text_t *why);

/* Work in forked children, so that a crash is the end of one item and not of the command.  Each child begins with
 * `start` and then does every jobs-th item; when it dies, or is past the time for one item, a new one goes on after
 * that item.  The parent must not have started threads.  `start` failing ends all of it with false; texts cross by a
 * pipe. */
typedef struct workers_t {
  int32_t count, jobs; /* items; children at once */
  double timeout_ms;   /* for one item; 0: none */
  void *context;
  bool (*start)(void *context, text_t *why);
  int32_t (*run)(void *context, int32_t item, text_t *out_words);                /* in a child */
  void (*done)(void *context, int32_t item, int32_t outcome, const char *words); /* in the parent */
  int32_t crashed; /* the outcome of an item that ended its child */
  int32_t spoiled; /* one after which its child ends, so that the next item begins in a fresh one; 0: none */
} workers_t;
bool workers_run(const workers_t *workers, text_t *why);

#endif
