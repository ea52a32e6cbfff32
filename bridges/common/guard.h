/* Calls functions of a foreign library and stops C++ exceptions that they throw. Each bridge that
 * needs it compiles guard.cc in. */
#ifndef BRIDGES_COMMON_GUARD_H
#define BRIDGES_COMMON_GUARD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the result of function(argument), or -1 if the function threw an exception; `why` then
 * has the text of the exception. */
int guard_call(int (*function)(void *), void *argument, char *why, size_t capacity);
/* Ends the surrounding call of guard_call. Callbacks that cannot report a failure to the library
 * use this function. */
void guard_throw(const char *why);

#ifdef __cplusplus
}
#endif
#endif
