/* Waits until one of some files is written, replaced or created. Implemented by inotify in
 * watcher_posix.c. Called by watch. */
#ifndef TOOLS_WATCHER_H
#define TOOLS_WATCHER_H

#include "text.h"

typedef struct watcher_t {
  int descriptor;
  texts_t files; /* the files; `numbers` has the inotify watch of each file's folder */
  int *numbers;
} watcher_t;

/* Starts watching the folders of these files. Changes between two waits are not lost. */
bool watcher_open(watcher_t *watcher, const texts_t *files, text_t *why);
/* Waits until one of the files changes and then until changes cease, because editors write several
 * times. Returns the name of the file. */
bool watcher_wait(watcher_t *watcher, text_t *out_name, text_t *why);
void watcher_close(watcher_t *watcher);

#endif
