/* The conformance suite of devices: it checks a device table against tenon/device.h. A vendor runs
 * `check_device LIB.so`, or links these files and calls conformance_device_run(). Each case runs in
 * a child process, which opens the device for itself, so a crash or a hang is a finding like any
 * other. The calling process must not have called the table before, and none of its threads may
 * hold a lock at that time. */
#ifndef TENON_CONFORMANCE_H
#define TENON_CONFORMANCE_H

#include <tenon/device.h>

typedef struct conformance_options_t {
  uint32_t size;
  int32_t ordinal; /* the ordinal to check; -1: all */
  /* Prefixes of names ("copies."); ends with NULL. NULL: all cases. */
  const char *const *cases;
  const char *settings; /* passed to the device; NULL: none */
  /* Path of the file that contains the table, for cases that load it; NULL: they are skipped. */
  const char *library;
  uint64_t seed;  /* of data and of random programs */
  uint32_t limit; /* seconds without progress after which a case counts as hanging; 0: 60 */
  uint32_t quick; /* 1: smaller data and fewer rounds */
  uint32_t first; /* 1: stop at the first finding */
  /* 1: the device does no work. Contents are not compared, and cases that would compare them are
   * skipped at their end. */
  uint32_t no_contents;
} conformance_options_t;

enum {
  CONFORMANCE_PASSED = 0,
  CONFORMANCE_FAILED = 1,
  CONFORMANCE_SKIPPED = 2,
};

typedef struct conformance_result_t {
  uint32_t size;
  int32_t ordinal; /* -1: a case of the plug-in, not of an ordinal */
  int32_t outcome; /* CONFORMANCE_PASSED, ... */
  uint32_t reserved;
  const char *name;  /* "copies.overlap_forward" */
  const char *about; /* one sentence */
  const char *text;  /* the finding, or the reason for skipping; "" */
} conformance_result_t;

/* Receives each case when it is done; the texts are valid until the function returns. */
typedef struct conformance_sink_t {
  void *context;
  void (*result)(void *context, const conformance_result_t *result);
} conformance_sink_t;

/* Runs the selected cases and returns the number of findings; -1 if no process could be created. */
int conformance_device_run(const tenon_device_table_t *table, const conformance_options_t *options,
                           const conformance_sink_t *sink);

/* Calls the sink with each case without running any. */
void conformance_device_list(const conformance_sink_t *sink);

/* Finds the device tables among the items of a library, including groups. Stores at most `room` and
 * returns their number. */
uint32_t conformance_device_tables(const tenon_item_t *items,
                                   const tenon_device_table_t **out_tables, uint32_t room);

#endif
