/* Memory that a child process shares with the process that watches it. The child records what it is
 * doing, what it found, and how it crashed. */
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

typedef struct board_t { /* the record of one child */
  char label[96];
  char doing[1500];
  char crash_id[40];
  /* Records of kind (finding, seen or note), id, label, called, expected, found, advice. */
  char report[1 << 16];
  size_t used;
  int32_t findings;
  bool has_call;  /* an item made a call that --case selects; kept from item to item */
  int32_t signal; /* signal that ended the child; 0: none */
  bool hangs;
  bool is_stack;
  bool is_exception;
  bool has_guard;
  char guard_text[200];
  bool is_of_attributes; /* the guard is that of attrs */
  char guard_id[40];
  void *address;
  int32_t frame_count;
  void *frames[BOARD_FRAMES];
} board_t;

extern board_t *board;           /* the board of this child */
bool boards_make(int32_t count); /* called in the parent */
board_t *board_of(int32_t slot);
bool boards_have_call(int32_t count); /* whether one of them has */
void board_begin(board_t *b);         /* prepares the board for one item */
/* Called in a child. Installs handlers that record a crash, or the expiry of the time limit, before
 * the child ends. */
void board_watch(void);
void board_limit(double seconds); /* Starts the time limit now; 0: none. */

#endif
