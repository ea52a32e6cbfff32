/* Shared code of the tests of the device sim: sim is open in `host`, and its functions have short
 * forms. */
#ifndef TENON_TESTS_DEVICES_SIM_H
#define TENON_TESTS_DEVICES_SIM_H

#include "devices/host.h"

#include <dirent.h>
#include <sim/sim.h>

extern const tenon_descriptor_t *tenon_library_sim(void);

static host_t host;
static const tenon_device_table_t *table;
static const sim_table_t *tests;

static inline bool open_sim(const char *settings) {
  if (!CHECK_STATUS(host_open(tenon_library_sim(), settings, &host), TENON_OK)) return false;
  table = host.table;
  tests = table->native(&host.on[0], "sim", NULL);
  return CHECK(tests && host.count == 2);
}

static inline void *allocate(int32_t ordinal, uint64_t bytes) {
  void *handle = NULL;
  CHECK_STATUS(table->allocate(&host.on[ordinal], bytes, &handle), TENON_OK);
  return handle;
}

static inline void *stream_create(int32_t ordinal) {
  void *stream = NULL;
  CHECK_STATUS(table->stream_create(&host.on[ordinal], &stream), TENON_OK);
  return stream;
}

static inline void *event_create(int32_t ordinal) {
  void *event = NULL;
  CHECK_STATUS(table->event_create(&host.on[ordinal], &event), TENON_OK);
  return event;
}

static inline tenon_status_t copy_in(int32_t ordinal, void *stream, uint64_t ticket, void *to,
                                     uint64_t offset, const void *from, uint64_t bytes) {
  return host_copy(&host, ordinal, stream, ticket, TENON_COPY_IN, host_at(to, offset),
                   host_at(from, 0), bytes);
}

static inline tenon_status_t copy_out(int32_t ordinal, void *stream, uint64_t ticket, void *to,
                                      void *from, uint64_t offset, uint64_t bytes) {
  return host_copy(&host, ordinal, stream, ticket, TENON_COPY_OUT, host_at(to, 0),
                   host_at(from, offset), bytes);
}

static inline tenon_status_t synchronize(int32_t ordinal, void *stream) {
  tenon_fault_t fault = {.size = sizeof fault};
  return table->stream_synchronize(&host.on[ordinal], stream, &fault);
}

static inline tenon_status_t nothing(void *argument, void *const *addresses, char *message) {
  (void)argument;
  (void)addresses;
  (void)message;
  return TENON_OK;
}

static inline tenon_status_t use(int32_t ordinal, void *stream, uint64_t ticket, void *memory,
                                 uint64_t offset, uint64_t bytes, uint32_t is_write) {
  sim_range_t range = {host_at(memory, offset), bytes, is_write, 0};
  return tests->enqueue(&host.on[ordinal], stream, ticket, "use", nothing, NULL, 0, 1, &range);
}

static inline void record(int32_t ordinal, void *event, void *stream) {
  CHECK_STATUS(table->event_record(&host.on[ordinal], event, stream), TENON_OK);
}

static inline void follow(int32_t ordinal, void *stream, int32_t of, void *event) {
  CHECK_STATUS(table->stream_wait(&host.on[ordinal], stream, &host.on[of], event), TENON_OK);
}

/* The number of files that this process has open. */
static inline int files(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  while (folder && readdir(folder))
    count++;
  if (folder) closedir(folder);
  return count;
}

static inline void finding_none(void) {
  sim_finding_t found = {0};
  if (!CHECK(tests->races(&host.on[0], &found, 1) == 0)) fprintf(stderr, "  %s\n", found.text);
}

#endif
