/* Other programs, and forked copies of this one. Implemented in process_posix.c and worker_posix.c.
 * No process is left running when these functions return. */
#ifndef TOOLS_PROCESS_H
#define TOOLS_PROCESS_H

#include "text.h"

/* Replaces this process by the program; returns false only on failure. */
bool process_become(const texts_t *command, text_t *why);
/* Runs a program, searched in PATH, with this process's terminal. Returns its exit status, 128 plus
 * the signal number if a signal ended it, or -1 if it cannot be started. */
int process_show(const texts_t *command, text_t *why);
/* Runs a program with one more environment variable (value NULL: none) and waits for it. Returns
 * true if the exit status is 0; else `why` has its stderr output, or how it ended. */
bool process_run(const texts_t *command, const char *name, const char *value, text_t *why);
/* Sets a variable in the environment of this process and of a program that replaces it. */
void process_set(const char *name, const char *value);

/* Runs numbered items of work in forked children, so that a crash ends one item and not the
 * command. Each child calls `start` and then runs every jobs-th item; if it dies or exceeds the
 * time limit of an item, a new child continues after that item. The parent must not have started
 * threads. If `start` fails, workers_run returns false. Texts are passed through a pipe. */
typedef struct workers_t {
  int32_t count;
  int32_t jobs;      /* number of items, and of children at once */
  double timeout_ms; /* time limit of one item; 0: none */
  void *context;
  bool (*start)(void *context, text_t *why);
  /* Called in a child. */
  int32_t (*run)(void *context, int32_t item, text_t *out_words);
  /* Called in the parent. */
  void (*done)(void *context, int32_t item, int32_t outcome, const char *words);
  int32_t crashed; /* outcome of an item that ended its child */
  /* Outcome after which the child exits, so that the next item starts in a new one; 0: none. */
  int32_t spoiled;
} workers_t;
bool workers_run(const workers_t *workers, text_t *why);

#endif
