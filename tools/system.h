/* Services of the operating system: terminal, clock, processors, location of the command, files and
 * folders. Implemented in system_posix.c. Functions that can fail return false and add the reason
 * to `why`. */
#ifndef TOOLS_SYSTEM_H
#define TOOLS_SYSTEM_H

#include "text.h"

bool system_is_terminal(bool error_stream); /* of stdout or stderr */
int32_t system_terminal_width(void);        /* of stdout; 0: not a terminal */
double system_clock_ms(void);               /* monotonic */
int32_t system_processors(void);
void system_processor(text_t *out_name); /* model name; "cpu" if unknown */
/* The folder that contains the running command; false if the system does not tell. */
bool system_own_folder(text_t *out_folder);

/* The file of a library that this process has loaded; false if it is not loaded. */
bool system_module_path(const char *name, text_t *out_path);
/* Opens a library until the process ends, and looks up functions in it. */
bool system_module_open(const char *path, const char *const *names, int count,
                        void (**out_functions)(void), text_t *why);

/* The path of a program in PATH; false if there is none. */
bool system_find_program(const char *name, text_t *out_path);

bool system_is_file(const char *path);
bool system_is_folder(const char *path);
/* Names in a folder, sorted, without "." and "..". */
bool system_list_folder(const char *path, texts_t *out_names, text_t *why);
/* Creates an empty temporary file; the caller removes it. */
bool system_temporary_file(text_t *out_path);
/* Creates the folder and its missing parents; succeeds if it exists already. */
bool system_make_folder(const char *path, text_t *why);
/* Creates a folder in TMPDIR that only this user can access. system_remove_folder removes a folder
 * with its contents. */
bool system_make_temporary(text_t *out_path, text_t *why);
void system_remove_folder(const char *path);

#endif
