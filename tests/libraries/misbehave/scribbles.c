/* Overwrites its mailbox with ones, zeros, random numbers, states that were never set, and huge
 * sizes; in one of two calls a thread of its own goes on doing so. It computes the address of the
 * mailbox from that of its input. */
#include <pthread.h>

#include "misbehave.h"

enum {
  STAGED_AT = 0x50000,
  HEAD = 128 * 9,
  MESSAGE_AT = 0x10000,
};
static unsigned char *post;
static uint32_t state = 12345;

static uint32_t next(void) { return state = state * 1664525u + 1013904223u; }

static void fill(int begin, int end, int kind) {
  for (int i = begin; i < end; i += 4) {
    const uint32_t word = next();
    *(volatile uint32_t *)(post + i) = kind == 0    ? ~0u
                                       : kind == 1  ? 0
                                       : kind == 2  ? word
                                       : kind == 3  ? word >> 29
                                       : word >> 31 ? 7
                                                    : word;
  }
}

static void *go_on(void *argument) {
  (void)argument;
  for (;;)
    fill(next() % 2 ? 0 : MESSAGE_AT, MESSAGE_AT + (int)(next() % 1024) * 4, (int)(next() % 5));
}

static tenon_status_t act(tenon_call_t *call) {
  pthread_t thread;
  const int round = (int)((const float *)call->inputs[0]->data)[0];
  post = (unsigned char *)call->inputs[0]->data - STAGED_AT;
  state += (uint32_t)round * 2654435761u;
  if (round % 2) pthread_create(&thread, 0, go_on, 0);
  fill(0, HEAD, round / 2 % 5);
  fill(MESSAGE_AT, STAGED_AT, round / 2 % 5);
  for (int i = 0; round % 2 && i < 100000; i++)
    fill(0, 4, 3);
  return TENON_OK;
}

MISBEHAVE(scribbles, act)
