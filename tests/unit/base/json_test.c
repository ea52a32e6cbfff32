/* JSON: text that RFC 8259 allows is read, with the place of each value; other text is refused with
 * its place. */
#include "base/json.h"
#include "base/status.h"

#include <stdlib.h>

#include "check.h"

#include "base/memory.h"
#include "faults.h"

static const tn_json_t *read(const char *text, tn_arena_t *arena) {
  const tn_json_t *root = NULL;
  CHECK_STATUS(tn_json_read(text, strlen(text), arena, &root), TENON_OK);
  return root;
}

TEST("values of each kind are read, with their line and column") {
  tn_arena_t arena = {NULL};
  const tn_json_t *root = read(
      " {\"a\": [1, -2.5e+3, true, false, null],\n  \"b\" : {\"c\": \"d\"}, \"\": []}\r\n", &arena);
  const tn_json_t *a = tn_json_find(root, "a");
  const tn_json_t *b = tn_json_find(root, "b");
  CHECK(root->kind == TN_JSON_OBJECT && root->count == 3 && root->line == 1 && root->column == 2);
  CHECK(a && a->kind == TN_JSON_LIST && a->count == 5);
  if (!a || a->count != 5) return;
  int64_t number;
  CHECK(tn_json_integer(&a->items[0], &number) && number == 1);
  CHECK(a->items[1].kind == TN_JSON_NUMBER && strtod(a->items[1].text, NULL) == -2500);
  CHECK(!tn_json_integer(&a->items[1], &number));
  CHECK(a->items[2].kind == TN_JSON_BOOL && a->items[2].count == 1 && a->items[3].count == 0);
  CHECK(a->items[4].kind == TN_JSON_NULL);
  CHECK(b && b->line == 2 && b->column == 9);
  CHECK_TEXT(tn_json_find(b, "c")->text, "d");
  CHECK(!tn_json_find(b, "a") && !tn_json_find(a, "c") && !tn_json_find(NULL, "c"));
  tn_arena_clear(&arena);
}

TEST("strings are unescaped into UTF-8") {
  const struct {
    const char *json;
    const char *text;
  } texts[] = {
      {"\"\"", ""},
      {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "a\"\\/\b\f\n\r\t"},
      {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac"},
      {"\"\\ud834\\udd1e\"", "\xf0\x9d\x84\x9e"},
      {"\"\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\"", "\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tn_arena_t arena = {NULL};
    const tn_json_t *root = read(texts[i].json, &arena);
    CHECK(root && root->kind == TN_JSON_TEXT && root->count == strlen(texts[i].text));
    CHECK(root && strcmp(root->text, texts[i].text) == 0);
    tn_arena_clear(&arena);
  }
}

TEST("integers of 64 bits are read exactly, and no other number is taken for an integer") {
  const struct {
    const char *json;
    bool is_integer;
    int64_t value;
  } numbers[] = {{"9223372036854775807", true, INT64_MAX},
                 {"-9223372036854775808", true, INT64_MIN},
                 {"9223372036854775808", false, 0},
                 {"1.0", false, 0},
                 {"1e3", false, 0},
                 {"-0", true, 0}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    tn_arena_t arena = {NULL};
    int64_t found = 0;
    const tn_json_t *root = read(numbers[i].json, &arena);
    CHECK(tn_json_integer(root, &found) == numbers[i].is_integer);
    if (numbers[i].is_integer) CHECK(found == numbers[i].value);
    tn_arena_clear(&arena);
  }
}

TEST("text that is not JSON is refused with the place of the error") {
  const char *const bad[][2] = {
      {"", "line 1, column 1: expected a JSON value, found the end of the file"},
      {"[1,]", "line 1, column 4: expected a JSON value"},
      {"[1 2]", "line 1, column 4: expected ',' or ']'"},
      {"{\"a\" 1}", "line 1, column 6: expected ':'"},
      {"{\"a\": 1 \"b\": 2}", "expected ',' or '}'"},
      {"{a: 1}", "expected a member name in double quotes"},
      {"{\"a\": 1,\n \"a\": 2}", "an object with two members named 'a'"},
      {"1 2", "expected the end of the file"},
      {"01", "expected a JSON value"},
      {"1.", "expected a JSON value"},
      {"1e", "expected a JSON value"},
      {"-", "expected a JSON value"},
      {"nul", "expected a JSON value"},
      {"'a'", "expected a JSON value"},
      {"\"a", "a string without a closing quote"},
      {"\"a\\", "a string without a closing quote"},
      {"\"\\x\"", "expected a JSON escape sequence after '\\'"},
      {"\"\\u12g4\"", "expected four hexadecimal digits"},
      {"\"\\ud834\"", "an unpaired surrogate in a \\u escape"},
      {"\"\\ud834\\u0041\"", "an unpaired surrogate in a \\u escape"},
      {"\"\\udd1e\"", "an unpaired surrogate in a \\u escape"},
      {"\"\\u0000\"", "a string with the character U+0000"},
      {"\"a\tb\"", "an unescaped control character in a string"},
      {"\"\xff\"", "a string that is not valid UTF-8"},
      {"\"\xc0\x80\"", "a string that is not valid UTF-8"},
      {"\"\xed\xa0\x80\"", "a string that is not valid UTF-8"},
      {"\"\xf4\x90\x80\x80\"", "a string that is not valid UTF-8"},
      {"\"\xe2\x82\"", "a string that is not valid UTF-8"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tn_arena_t arena = {NULL};
    const tn_json_t *root;
    CHECK_STATUS(tn_json_read(bad[i][0], strlen(bad[i][0]), &arena, &root), TENON_INVALID);
    CHECK_TEXT(tn_error(), bad[i][1]);
    tn_arena_clear(&arena);
  }
}

TEST("an empty file is refused because it has no value") {
  tn_arena_t arena = {NULL};
  const tn_json_t *root;
  CHECK_STATUS(tn_json_read(NULL, 0, &arena, &root), TENON_INVALID);
  CHECK_TEXT(tn_error(), "expected a JSON value, found the end of the file");
  tn_arena_clear(&arena);
}

TEST("nesting deeper than 64 levels is refused") {
  for (int depth = 64; depth <= 65; depth++) {
    char text[140] = "";
    tn_arena_t arena = {NULL};
    const tn_json_t *root;
    for (int i = 0; i < depth; i++) {
      text[i] = '[';
      text[depth + i] = ']';
    }
    CHECK_STATUS(tn_json_read(text, 2 * (size_t)depth, &arena, &root),
                 depth == 64 ? TENON_OK : TENON_INVALID);
    tn_arena_clear(&arena);
  }
}

TEST("when any allocation fails, reading fails and nothing leaks") {
  static char text[9000];
  size_t at = (size_t)snprintf(text, sizeof text, "{\"a\": [");
  while (at < 8000)
    at += (size_t)snprintf(text + at, sizeof text - at, "[\"text\", 1.5], ");
  snprintf(text + at, sizeof text - at, "1]}");
  for (int64_t n = 1; n < 100; n++) {
    tn_arena_t arena = {NULL};
    const tn_json_t *root;
    fault_memory(n, true);
    tenon_status_t status = tn_json_read(text, strlen(text), &arena, &root);
    fault_end();
    CHECK(status == TENON_MEMORY || status == TENON_OK);
    tn_arena_clear(&arena);
    if (status == TENON_OK) return;
  }
  CHECK_NEVER("a hundred allocations");
}
