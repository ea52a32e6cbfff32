/* What the processor itself reports; one file per architecture. */
#ifndef TN_BASE_CPU_PROBE_H
#define TN_BASE_CPU_PROBE_H

#include <stdbool.h>

bool tn_cpu_probe(const char *word);

#endif
