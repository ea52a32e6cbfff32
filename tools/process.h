/* Other programs, and forked copies of this one.  Implemented in process_posix.c and
 * worker_posix.c. Nothing is left running when these functions have returned. */
#ifndef TOOLS_PROCESS_H
#define TOOLS_PROCESS_H

#include "text.h"

/* The program takes this one's place; false if it cannot. */
bool process_become(const texts_t *command, text_t *why);
/* Runs the program, which is looked for in PATH, to its end, with this one's terminal; its exit
 * status, 128 and the signal's number where it was ended by one, -1: it cannot be run. */
int process_show(const texts_t *command, text_t *why);
/* Runs it to its end, with a variable of its environment set (value NULL: none).  True: exit status
 * 0; else `why` has what it said on stderr, or how it ended. */
bool process_run(const texts_t *command, const char *name, const char *value, text_t *why);
void process_set(
    const char *name,
    const char *value); /* in the environment of this program, and of what takes its place */

/* Work in forked children, so that a crash is the end of one item and not of the command.  Each
 * child begins with `start` and then does every jobs-th item; when it dies, or is past the time for
 * one item, a new one goes on after that item.  The parent must not have started threads.  `start`
 * failing ends all of it with false; texts cross by a pipe. */
typedef struct workers_t {
  int32_t count;
  int32_t jobs;      /* items; children at once */
  double timeout_ms; /* for one item; 0: none */
  void *context;
  bool (*start)(void *context, text_t *why);
  int32_t (*run)(void *context, int32_t item, text_t *out_words);                /* in a child */
  void (*done)(void *context, int32_t item, int32_t outcome, const char *words); /* in the parent */
  int32_t crashed; /* the outcome of an item that ended its child */
  int32_t
      /* one after which its child ends, so that the next item begins in a fresh one; 0: none */
      spoiled;
} workers_t;
bool workers_run(const workers_t *workers, text_t *why);

#endif
