/* Shows the progress line; see progress.h. */
#include "progress.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "system.h"

static struct {
  bool known;
  bool terminal;
  bool shown;
  double last; /* clock time of the last update */
} line;

void progress_show(const char *what, int64_t done, int64_t count, const char *name) {
  if (!line.known) {
    line.terminal = system_is_terminal(true);
    line.known = true;
  }
  if (!line.terminal || (line.shown && system_clock_ms() - line.last < 100)) return;
  fprintf(stderr, "\r\033[K%s %" PRId64 "/%" PRId64 " %.50s", what, done, count, name);
  fflush(stderr);
  line.shown = true;
  line.last = system_clock_ms();
}

void progress_clear(void) {
  if (!line.shown) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  line.shown = false;
}
