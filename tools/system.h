/* What the command asks of the system: terminal, clock, processors, its own place, files and
 * folders. Implemented in system_posix.c.  Functions that can fail give false and add the reason to
 * `why`. */
#ifndef TOOLS_SYSTEM_H
#define TOOLS_SYSTEM_H

#include "text.h"

bool system_is_terminal(bool error_stream); /* stdout, or stderr */
int32_t system_terminal_width(void);        /* of stdout; 0: it is no terminal */
double system_clock_ms(void);               /* monotonic */
int32_t system_processors(void);
void system_processor(text_t *out_name); /* what it is called, "cpu" where nothing says */
/* The folder that holds the running command; false where the system does not say. */
bool system_own_folder(text_t *out_folder);

/* The file of a library that this process has loaded, by its name; false: it is not loaded. */
bool system_module_path(const char *name, text_t *out_path);
/* Opens a library until the process ends, and gives functions of it. */
bool system_module_open(const char *path, const char *const *names, int count,
                        void (**out_functions)(void), text_t *why);

/* The file of a program of PATH; false: there is none. */
bool system_find_program(const char *name, text_t *out_path);

bool system_is_file(const char *path);
bool system_is_folder(const char *path);
/* Names in a folder, sorted, without "." and "..". */
bool system_list_folder(const char *path, texts_t *out_names, text_t *why);
/* An empty file of this process's own; the caller removes it. */
bool system_temporary_file(text_t *out_path);
/* Makes the folder and those above it that lack; fine if it is there. */
bool system_make_folder(const char *path, text_t *why);
/* A new folder in TMPDIR, for this user alone; and away with a folder and all that is in it. */
bool system_make_temporary(text_t *out_path, text_t *why);
void system_remove_folder(const char *path);

#endif
