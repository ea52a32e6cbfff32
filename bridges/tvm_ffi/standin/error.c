/* Errors: each thread has at most one that was raised and not taken. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "object.h"

static pthread_key_t key; /* the error that a thread has raised */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void release_raised(void *error) { ffi_release(error); }
static void create_key(void) { (void)pthread_key_create(&key, release_raised); }

/* Takes over a reference. */
static void set_raised(ffi_object_t *error) {
  (void)pthread_once(&key_once, create_key);
  ffi_release(pthread_getspecific(key));
  (void)pthread_setspecific(key, error);
}

EXPORT(void, TVMFFIErrorSetRaised, ffi_object_t *error) {
  ffi_retain(error);
  set_raised(error);
}

EXPORT(void, TVMFFIErrorMoveFromRaised, ffi_object_t **out_error) {
  (void)pthread_once(&key_once, create_key);
  *out_error = pthread_getspecific(key);
  (void)pthread_setspecific(key, NULL);
}

static void end_error(void *self) {
  const ffi_error_t *error = self;
  ffi_release(error->cause);
  ffi_release(error->extra);
}

/* Backtraces of errors that are made here stay as they were given. */
static void keep_backtrace(void *self, const ffi_bytes_t *backtrace, int32_t mode) {
  (void)self;
  (void)backtrace;
  (void)mode;
}

static ffi_bytes_t put_text(char **at, ffi_bytes_t text) {
  char *begin = *at;
  if (text.size) memcpy(begin, text.data, text.size);
  *at += text.size + 1; /* the object was zeroed, so the text ends */
  return (ffi_bytes_t){begin, text.size};
}

static ffi_error_t *create_error(ffi_bytes_t kind, ffi_bytes_t text, ffi_bytes_t backtrace) {
  ffi_error_t *error =
      ffi_create(sizeof *error + kind.size + text.size + backtrace.size + 3, FFI_ERROR, end_error);
  if (!error) return NULL;
  char *at = (char *)(error + 1);
  error->kind = put_text(&at, kind);
  error->text = put_text(&at, text);
  error->backtrace = put_text(&at, backtrace);
  error->update_backtrace = keep_backtrace;
  return error;
}

static ffi_bytes_t text_bytes(const char *text) { return (ffi_bytes_t){text, strlen(text)}; }

EXPORT(void, TVMFFIErrorSetRaisedFromCStr, const char *kind, const char *text) {
  ffi_error_t *error = create_error(text_bytes(kind), text_bytes(text), (ffi_bytes_t){"", 0});
  set_raised(error ? &error->head : NULL);
}

EXPORT(void, TVMFFIErrorSetRaisedFromCStrParts, const char *kind, const char **parts,
       int32_t count) {
  size_t size = 0;
  for (int32_t i = 0; i < count; i++)
    size += parts[i] ? strlen(parts[i]) : 0;
  char *text = calloc(1, size + 1);
  for (int32_t i = 0; i < count && text; i++)
    if (parts[i]) strcat(text, parts[i]);
  TVMFFIErrorSetRaisedFromCStr(kind, text ? text : "out of memory");
  free(text);
}

int raise_error(const char *kind, const char *format, ...) {
  char text[1000];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  TVMFFIErrorSetRaisedFromCStr(kind, text);
  return -1;
}

EXPORT(int, TVMFFIErrorCreateWithCauseAndExtraContext, const ffi_bytes_t *kind,
       const ffi_bytes_t *text, const ffi_bytes_t *backtrace, ffi_object_t *cause,
       ffi_object_t *extra, ffi_object_t **out_error) {
  ffi_error_t *error = create_error(*kind, *text, *backtrace);
  if (!error) return -1;
  if (cause) ffi_retain(cause);
  if (extra) ffi_retain(extra);
  error->cause = cause;
  error->extra = extra;
  *out_error = &error->head;
  return 0;
}

EXPORT(int, TVMFFIErrorCreate, const ffi_bytes_t *kind, const ffi_bytes_t *text,
       const ffi_bytes_t *backtrace, ffi_object_t **out_error) {
  return TVMFFIErrorCreateWithCauseAndExtraContext(kind, text, backtrace, NULL, NULL, out_error);
}

EXPORT(const ffi_bytes_t *, TVMFFIBacktrace, const char *file, int line, const char *function,
       int crosses) {
  static const ffi_bytes_t none = {"", 0};
  (void)file;
  (void)line;
  (void)function;
  (void)crosses;
  return &none;
}
