/* Variables whose values are wrong: a table of rules for those that other folders read, and the
 * reasons of those that have a reader of their own (TENON_TRACE, TENON_EXPLAIN, TENON_RECORD,
 * TENON_NAN). TENON_STRICT and TENON_MEMORY_LIMIT are not ignored: a wrong value is an error. */
#include "base/environment_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/environment.h"
#include "base/status.h"
#include "base/thread.h"

static const struct {
  const char *name;
  const char *words[2]; /* the words that are allowed; none: a number from 1 */
  long most;            /* 0: a number of seconds, which the command reads */
} rules[] = {{"TENON_THREADS", {NULL, NULL}, 1024},
             {"TENON_DETERMINISTIC", {"0", "1"}, 0},
             {"TENON_RECORD_MOST", {NULL, NULL}, INT32_MAX},
             {"TENON_GROUP", {NULL, NULL}, 1 << 20},
             {"TENON_LOAD_LIMIT", {NULL, NULL}, 0},
             {"TENON_CRASH", {"0", "1"}, 0},
             {"TENON_RECORD_ALL", {"0", "1"}, 0},
             {"TENON_ISOLATION_LANDLOCK", {"on", "off"}, 0},
             {"TENON_EXTERNAL_LINKS", {"folder", "any"}, 0}};
enum { RULES = sizeof rules / sizeof *rules };

static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_text_t ignored; /* the lines of tn_environment_ignored since the last start */

long tn_environment_number(const char *name, long most) {
  char *end;
  const char *text = tn_environment(name);
  if (!text || *text < '0' || *text > '9') return 0;
  errno = 0;
  long number = strtol(text, &end, 10);
  return !errno && !*end && number <= most ? number : 0;
}

static bool is_seconds(const char *text) {
  char *end;
  return strtod(text, &end) > 0 && !*end;
}

static void check_rule(int i, tn_text_t *text) {
  const char *value = tn_environment(rules[i].name);
  const char *const *words = rules[i].words;
  if (!value || !*value) return;
  if (!words[0] && !rules[i].most && !is_seconds(value))
    tn_text_add(text, "%s is ignored: '%.60s': expected a number of seconds above 0\n",
                rules[i].name, value);
  if (!words[0] && rules[i].most && !tn_environment_number(rules[i].name, rules[i].most))
    tn_text_add(text, "%s is ignored: '%.60s': expected a number from 1 to %ld\n", rules[i].name,
                value, rules[i].most);
  if (words[0] && strcmp(value, words[0]) != 0 && strcmp(value, words[1]) != 0)
    tn_text_add(text, "%s is ignored: '%.60s': expected %s or %s\n", rules[i].name, value, words[0],
                words[1]);
}

static void check_rules(tn_text_t *text) {
  const char *capability;
  for (int i = 0; i < RULES; i++)
    check_rule(i, text);
  if (!tn_cpu_limit_valid(&capability))
    tn_text_add(text,
                "TENON_CPU_CAPABILITY is ignored: '%.60s': expected the name of an instruction set "
                "(tenon doctor lists them)\n",
                capability);
}

static bool is_silent;

void tn_environment_silence(void) { is_silent = true; }

void tn_environment_ignored(const char *name, const char *reason) {
  fprintf(stderr, "%s is ignored: %s\n", name, reason);
  tn_mutex_lock(&lock);
  tn_text_add(&ignored, "%s is ignored: %s\n", name, reason);
  tn_mutex_unlock(&lock);
}

void tn_environment_problems(tn_text_t *text) {
  check_rules(text);
  tn_mutex_lock(&lock);
  tn_text_add(text, "%s", tn_text_get(&ignored));
  tn_mutex_unlock(&lock);
}

tenon_status_t tn_environment_check(void) {
  tn_text_t text = {0};
  const char *strict = tn_environment("TENON_STRICT");
  check_rules(&text);
  if (!is_silent) fputs(tn_text_get(&text), stderr);
  tn_text_clear(&text);
  tn_mutex_lock(&lock);
  tn_text_clear(&ignored);
  tn_mutex_unlock(&lock);
  if (!strict || !*strict || strcmp(strict, "0") == 0 || strcmp(strict, "1") == 0) return TENON_OK;
  return tn_fail(TENON_INVALID, "TENON_STRICT is '%.60s': expected 0 or 1", strict);
}
