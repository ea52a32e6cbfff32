/* The error message of a thread; see message.h. */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>

#include "host.h"

static _Thread_local char text[4096];
static _Thread_local bool is_set;

bool message_set(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  is_set = true;
  return false;
}

bool message_of_host(void) { return message_set("%s", host.tenon_error()); }

void message_clear(void) { is_set = false; }

const char *message_get(void) { return is_set ? text : NULL; }
