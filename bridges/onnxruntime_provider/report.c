/* What the provider took of each graph, and why it left the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "provider.h"

enum { REPORT_MOST = 1 << 20 }; /* bytes; the oldest lines are forgotten */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tn_text_t report;
static char *lent; /* what was asked for last */

static void append_to_file(const options_t *options, const OrtLogger *logger, const char *line) {
  char text[512];
  if (!options->report) return;
  FILE *file = fopen(options->report, "ae");
  if (file && fprintf(file, "%s\n", line) >= 0 && fclose(file) == 0) return;
  snprintf(text, sizeof text, "tenon: the report cannot be written to '%.400s'", options->report);
  (void)API(Logger_LogMessage, logger, EP_WARNING, text, "", 0, "report");
}

static void forget_oldest(void) {
  const char *next = strchr(report.data + report.size / 2, '\n');
  tn_text_t kept = {0};
  if (next) tn_text_add(&kept, "%s", next + 1);
  tn_text_clear(&report);
  report = kept;
}

void report_add(const options_t *options, const OrtLogger *logger, const char *line) {
  pthread_mutex_lock(&lock);
  tn_text_add(&report, "%s\n", line);
  if (report.size > REPORT_MOST) forget_oldest();
  append_to_file(options, logger, line);
  pthread_mutex_unlock(&lock);
  (void)API(Logger_LogMessage, logger, EP_INFO, line, "", 0, "report");
}

const char *tenon_onnxruntime_provider_report(int32_t clear) {
  pthread_mutex_lock(&lock);
  free(lent);
  lent = strdup(tn_text_get(&report));
  if (clear) tn_text_clear(&report);
  pthread_mutex_unlock(&lock);
  return lent ? lent : "";
}
