/* board.h: memory that a child shares with the process that watches it: what it does, what it
 * found, how it crashed. */
#ifndef CHECK_BOARD_H
#define CHECK_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  BOARD_FRAMES = 40,
  FIELD_BREAK = 0x1f,
  RECORD_BREAK = 0x1e,
};

typedef struct board_t { /* of one child */
  char label[96];
  char doing[1500];
  char crash_id[40];
  char report[1 << 16]; /* records of FINDING or NOTE, id, label, called, expected, found, advice */
  size_t used;
  int32_t findings;
  int32_t signal; /* that ended it, 0: none */
  bool hangs;
  bool is_stack;
  bool is_exception;
  bool has_guard;
  char guard_text[200];
  char guard_id[40];
  void *address;
  int32_t frame_count;
  void *frames[BOARD_FRAMES];
} board_t;

extern board_t *board;           /* this child's */
bool boards_make(int32_t count); /* in the parent */
board_t *board_of(int32_t slot);
void board_begin(board_t *b); /* of one item */
/* In a child: crashes are written down before they end it, and so is the time of an item that is
 * over. */
void board_watch(void);
void board_limit(double seconds); /* from now; 0: none */

#endif
