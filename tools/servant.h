/* A forked child that does a piece of work whenever it is asked to, and keeps what it has between:
 * its death is an answer, and not the end of the command.  servant_posix.c.  Called by watch. */
#ifndef TOOLS_SERVANT_H
#define TOOLS_SERVANT_H

#include "text.h"

typedef struct servant_t {
  int64_t id; /* 0: there is none */
  int asks;
  int answers;
} servant_t;

/* Starts one that calls work(context) for each question.  This process must have started no
 * threads. */
bool servant_begin(servant_t *servant, int (*work)(void *context), void *context, text_t *why);
/* What work gave.  False: it died, and `why` says how; then there is none. */
bool servant_ask(servant_t *servant, int *out_answer, text_t *why);
void servant_end(servant_t *servant);

#endif
