/* The two ways in which `tenon compare` runs a model: each by a process of its own, so that they
 * may differ in anything. */
#ifndef TOOLS_COMPARE_SIDE_H
#define TOOLS_COMPARE_SIDE_H

#include "text.h"

typedef struct side_t { /* NULL: as the environment has it */
  const char *device;
  const char *optimize;
  const char *threads;
  const char *capability;
  const char *command; /* another build of `tenon` */
  texts_t libraries;   /* --ops */
  bool is_onnxruntime;
  texts_t kept; /* what the members above point into */
} side_t;

typedef struct side_request_t { /* what both get */
  const char *model;
  const char *seed;
  const char *python;
  const texts_t *inputs;
  const texts_t *dims;
} side_request_t;

/* Reads `--against`: "onnxruntime", a device, or KEY=VALUE,... over what the other side has. */
bool side_parse(const char *text, const side_t *other, side_t *out_side, text_t *why);
void side_free(side_t *side);
/* "threads=1, optimize=plain"; "as it is". */
void side_add(text_t *out, const side_t *side);
/* Runs the model so, and writes its values to a folder; `first`: the folder of the first side, with
 * the inputs. */
bool side_run(const side_t *side, const side_request_t *request, const char *folder,
              const char *first, bool each, text_t *why);

#endif
