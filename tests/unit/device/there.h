/* Devices in tests of the host's side: sim with the table of its findings, and copies of tensors to
 * the device and back. Include after operators.h. */
#ifndef TENON_TESTS_THERE_H
#define TENON_TESTS_THERE_H

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/memory.h"
#include "sim/sim.h"

static const sim_table_t *sim;

static inline tenon_device_t device_of(const char *name, int32_t ordinal) {
  tenon_device_t device = {0, 0};
  CHECK_STATUS(tenon_device_find(name, ordinal, &device), TENON_OK);
  return device;
}

static inline tn_ordinal_t *ordinal_of(tenon_device_t device) {
  tn_ordinal_t *ordinal = NULL;
  CHECK_STATUS(tn_ordinal_get(device, &ordinal), TENON_OK);
  return ordinal;
}

/* Opens ordinal `n` of sim, with these settings for both ordinals from now on. */
static inline tenon_device_t sim_open(int32_t n, const char *settings) {
  tenon_device_t device = device_of("sim", n);
  tn_ordinal_t *ordinal = ordinal_of(device);
  sim = ordinal->table->native(&ordinal->context, "sim", NULL);
  CHECK(sim != NULL);
  CHECK_STATUS(sim->set(&ordinal->context, settings), TENON_OK);
  return device;
}

static inline void sim_set(tenon_device_t device, const char *settings) {
  CHECK_STATUS(sim->set(&ordinal_of(device)->context, settings), TENON_OK);
}

static inline tenon_tensor_t *tensor_there(tenon_device_t device, const char *text) {
  tenon_tensor_t *host = tensor_of(text);
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(host, device, &made), TENON_OK);
  tenon_tensor_release(host);
  return made;
}

static inline tenon_tensor_t *tensor_back(const tenon_tensor_t *t) {
  tenon_tensor_t *host = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(t, (tenon_device_t){1, 0}, &host), TENON_OK);
  return host;
}

static inline void check_there(const tenon_tensor_t *t, const char *expected) {
  tenon_tensor_t *host = tensor_back(t);
  if (host) CHECK_TENSOR(host, expected);
  tenon_tensor_release(host);
}

static inline tenon_memory_stats_t stats_of(tenon_device_t device) {
  tenon_memory_stats_t stats = {.size = sizeof stats};
  CHECK_STATUS(tenon_memory_stats(device, &stats), TENON_OK);
  return stats;
}

/* The number of copies in a direction, TENON_COPY_..., that the host has requested. */
static inline uint64_t copies_made(tenon_device_t device, uint32_t direction) {
  return __atomic_load_n(&ordinal_of(device)->copies[direction].count, __ATOMIC_RELAXED);
}

/* xorshift64*: a seed gives the same programs on every machine. */
static inline uint64_t draw(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1Du >> 33;
}

/* Runs the checks in a child process; returns true if none fails there. */
static inline bool in_child(void (*function)(void)) {
  int status = -1;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    check_failures = 0;
    function();
    _exit(check_failures != 0);
  }
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

#endif
