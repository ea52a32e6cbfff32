/* Interface between cpu.c and the processor probes. Each architecture has one file that defines
 * tn_cpu_probe, which says whether the processor (and the operating system) supports an instruction
 * set. */
#ifndef TN_BASE_CPU_PROBE_H
#define TN_BASE_CPU_PROBE_H

#include <stdbool.h>

bool tn_cpu_probe(const char *word);

#endif
