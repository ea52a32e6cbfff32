/* Settings, "key=value,key=value":
 *   handles=0|1          memory is a number, not an address (0)
 *   peers=0|1            copies between ordinals go directly (1)
 *   blame=0|1            failures of work name their ticket (1)
 *   reuse=0|1            handles of streams, events, ... that were destroyed are given again (0)
 *   claim=0|1            subgraphs are offloaded (0)
 *   delay=MICROSECONDS   each piece of work waits a random time of at most this (0)
 *   seed=N               of these times (1)
 *   memory=BYTES         of each ordinal (1 GiB)
 *   check=fail|count|abort   what a race does: its second piece of work fails; it is only counted;
 *   it ends the process (fail)
 *   fail=CALL:N          the N-th call of that function from here on fails, once; see SIM_CALLS
 *   fault=N              the N-th piece of work from here on fails when it is done
 *   without=f64+f16+atomics64   what kernels of sources cannot have: properties say so (none)
 *   lose=ORDINAL:N       the ordinal is lost at its N-th piece of work from here on */
#include "settings.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "plugin.h"

const sim_settings_t sim_settings_usual = {
    .peers = 1, .blame = 1, .seed = 1, .memory = (uint64_t)1 << 30};

static const char *const calls[] = {
#define X(NAME, name, code) #name,
    SIM_CALLS(X)
#undef X
};
static const char *const checks[] = {"fail", "count", "abort"};
static const char *const ordinals[] = {"0", "1"};
static const char *const features[] = {"f64", "f16", "atomics64"}; /* SIM_WITHOUT_... */

/* Describes how the value of a setting is parsed. `words` NULL: a number up to `most`. `after`
 * COLON: the word is followed by ':' and a number up to `most`. `after` PLUS: several words joined
 * by '+', as bits. */
enum {
  COLON = 1,
  PLUS = 2,
};
static const struct {
  const char *key;
  uint64_t most;
  size_t at;
  const char *const *words;
  uint32_t word_count;
  uint32_t after;
} keys[] = {
    {"handles", 1, offsetof(sim_settings_t, handles), NULL, 0, 0},
    {"peers", 1, offsetof(sim_settings_t, peers), NULL, 0, 0},
    {"blame", 1, offsetof(sim_settings_t, blame), NULL, 0, 0},
    {"reuse", 1, offsetof(sim_settings_t, reuse), NULL, 0, 0},
    {"claim", 1, offsetof(sim_settings_t, claim), NULL, 0, 0},
    {"delay", 1000000, offsetof(sim_settings_t, delay), NULL, 0, 0},
    {"seed", UINT64_MAX, offsetof(sim_settings_t, seed), NULL, 0, 0},
    {"memory", (uint64_t)1 << 40, offsetof(sim_settings_t, memory), NULL, 0, 0},
    {"check", 0, offsetof(sim_settings_t, check), checks, 3, 0},
    {"fail", UINT64_MAX, offsetof(sim_settings_t, fail), calls, SIM_CALL_COUNT, COLON},
    {"fault", UINT64_MAX, offsetof(sim_settings_t, fault), NULL, 0, 0},
    {"lose", UINT64_MAX, offsetof(sim_settings_t, lose), ordinals, SIM_ORDINALS, COLON},
    {"without", 0, offsetof(sim_settings_t, without), features, 3, PLUS},
};
enum { KEYS = sizeof keys / sizeof *keys };

static bool number(const char **text, uint64_t most, uint64_t *out) {
  const char *s = *text;
  uint64_t n = 0;
  if (*s < '0' || *s > '9') return false;
  for (; *s >= '0' && *s <= '9'; s++) {
    uint64_t digit = (uint64_t)(*s - '0');
    if (n > (UINT64_MAX - digit) / 10) return false;
    n = n * 10 + digit;
  }
  *text = s;
  *out = n;
  return n <= most;
}

static bool bits(uint32_t k, const char **text, uint64_t *out) {
  uint64_t all = 0;
  for (const char *s = *text;; s++) {
    size_t n = strcspn(s, "+,");
    uint32_t i = 0;
    while (i < keys[k].word_count &&
           (strlen(keys[k].words[i]) != n || strncmp(s, keys[k].words[i], n) != 0))
      i++;
    if (i == keys[k].word_count) return false;
    all |= (uint64_t)1 << i;
    s += n;
    if (*s != '+') {
      *text = s;
      *out = all;
      return true;
    }
  }
}

static bool value(uint32_t k, const char **text, sim_settings_t *settings) {
  uint64_t *to = (uint64_t *)(void *)((char *)settings + keys[k].at);
  if (!keys[k].words) return number(text, keys[k].most, to);
  if (keys[k].after == PLUS) return bits(k, text, to);
  for (uint32_t i = 0; i < keys[k].word_count; i++) {
    size_t n = strlen(keys[k].words[i]);
    if (strncmp(*text, keys[k].words[i], n)) continue;
    const char *rest = *text + n;
    if (keys[k].after) {
      if (*rest++ != ':' || !number(&rest, keys[k].most, &to[i])) continue;
    } else {
      *to = i;
    }
    *text = rest;
    return true;
  }
  return false;
}

tenon_status_t sim_settings_read(const void *context, const char *text, sim_settings_t *settings) {
  const tenon_on_t on = context;
  sim_settings_t read = *settings;
  for (const char *s = text ? text : ""; *s;) {
    const char *equals = strchr(s, '=');
    size_t part = strcspn(s, ",");
    uint32_t k = 0;
    while (k < KEYS && (!equals || strlen(keys[k].key) != (size_t)(equals - s) ||
                        strncmp(s, keys[k].key, (size_t)(equals - s))))
      k++;
    const char *rest = equals ? equals + 1 : s;
    if (k == KEYS || !value(k, &rest, &read) || (*rest && *rest != ','))
      return tenon_fail(
          on, TENON_INVALID,
          "sim: the setting '%.*s' is not understood; there are handles=0|1, peers=0|1, blame=0|1, "
          "reuse=0|1, claim=0|1, delay=MICROSECONDS (at most 1000000), seed=N, memory=BYTES, "
          "check=fail|count|abort, fail=CALL:N, fault=N, lose=ORDINAL:N, "
          "without=f64+f16+atomics64, where CALL is allocate, host_allocate, copy, fill, launch, "
          "stream_create, event_create, compile or group_compile",
          (int)(part < 200 ? part : 200), s);
    s = *rest ? rest + 1 : rest;
  }
  *settings = read;
  return TENON_OK;
}

tenon_status_t sim_inject(tenon_on_t on, int call) {
  static const tenon_status_t codes[] = {
#define X(NAME, name, code) code,
      SIM_CALLS(X)
#undef X
  };
  if (call < 0 || !sim.settings.fail[call] || --sim.settings.fail[call]) return TENON_OK;
  return tenon_fail(on, codes[call],
                    "sim: this call of %s fails because a setting says so (fail=%s:N)", calls[call],
                    calls[call]);
}
