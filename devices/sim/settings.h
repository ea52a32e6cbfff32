/* The settings of sim, which a text "key=value,key=value" changes. Both ordinals have the same. */
#ifndef TENON_SIM_SETTINGS_H
#define TENON_SIM_SETTINGS_H

#include "sim.h"

enum { SIM_ORDINALS = 2 };

#define SIM_CALLS(X)                                                                               \
  X(ALLOCATE, allocate, TENON_MEMORY)                                                              \
  X(HOST_ALLOCATE, host_allocate, TENON_MEMORY)                                                    \
  X(COPY, copy, TENON_UNAVAILABLE)                                                                 \
  X(FILL, fill, TENON_UNAVAILABLE)                                                                 \
  X(LAUNCH, launch, TENON_UNAVAILABLE)                                                             \
  X(STREAM_CREATE, stream_create, TENON_UNAVAILABLE)                                               \
  X(EVENT_CREATE, event_create, TENON_UNAVAILABLE)                                                 \
  X(COMPILE, compile, TENON_UNAVAILABLE)                                                           \
  X(GROUP_COMPILE, group_compile, TENON_UNAVAILABLE)
enum {
#define X(NAME, name, code) SIM_CALL_##NAME,
  SIM_CALLS(X)
#undef X
      SIM_CALL_COUNT
};
enum {
  SIM_CHECK_FAIL,
  SIM_CHECK_COUNT,
  SIM_CHECK_ABORT,
};

enum {
  SIM_WITHOUT_F64 = 1,
  SIM_WITHOUT_F16 = 2,
  SIM_WITHOUT_ATOMICS64 = 4,
};

typedef struct sim_settings_t {
  uint64_t handles;
  uint64_t peers;
  uint64_t blame;
  uint64_t reuse;
  uint64_t claim;                /* 0 or 1 */
  uint64_t delay;                /* the maximum in microseconds before each piece of work */
  uint64_t seed;                 /* of the random delays */
  uint64_t memory;               /* bytes of each ordinal */
  uint64_t check;                /* SIM_CHECK_... */
  uint64_t fail[SIM_CALL_COUNT]; /* calls until one fails; 0: never */
  uint64_t fault;                /* pieces of work until one fails */
  uint64_t lose[SIM_ORDINALS];   /* pieces of work of that ordinal until it is lost */
  /* SIM_WITHOUT_..., the features that the device reports as missing */
  uint64_t without;
} sim_settings_t;

extern const sim_settings_t sim_settings_usual;
/* Parses `text` and changes *settings. On TENON_INVALID, *settings is unchanged. */
tenon_status_t sim_settings_read(const void *context, const char *text, sim_settings_t *settings);
/* Fails if a setting says that this call fails. */
tenon_status_t sim_inject(tenon_on_t on, int call);

#endif
