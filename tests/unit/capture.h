/* Captures the output on stderr and returns it line by line. Include after check.h. */
#ifndef TENON_TESTS_CAPTURE_H
#define TENON_TESTS_CAPTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int real_stderr;
static FILE *captured;

static inline void capture(void) {
  fflush(stderr);
  real_stderr = dup(2);
  captured = tmpfile();
  CHECK(captured && dup2(fileno(captured), 2) == 2);
}

/* Returns the captured output, which is valid until the next capture. */
static inline const char *release_capture(void) {
  static char *text;
  fflush(stderr);
  dup2(real_stderr, 2);
  close(real_stderr);
  long size = fseek(captured, 0, SEEK_END) == 0 ? ftell(captured) : 0;
  rewind(captured);
  free(text);
  text = calloc(1, (size_t)size + 1);
  if (!CHECK(text && fread(text, 1, (size_t)size, captured) == (size_t)size)) return "";
  fclose(captured);
  return text;
}

/* Compares the lines of a text one by one; an expected line that ends with '*' is a prefix. */
static inline void check_lines(const char *text, const char *const *lines, const char *file,
                               int line) {
  for (; *lines; lines++) {
    size_t size = strcspn(text, "\n");
    size_t expected = strlen(*lines);
    bool open = expected && (*lines)[expected - 1] == '*';
    bool same = open ? size >= expected - 1 && strncmp(text, *lines, expected - 1) == 0
                     : size == expected && strncmp(text, *lines, size) == 0;
    if (!check_report(same, file, line, *lines, text)) return;
    text += size + (text[size] == '\n');
  }
  check_report(!*text, file, line, "no more lines", text);
}
#define CHECK_LINES(text, ...)                                                                     \
  check_lines((text), (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)

#endif
