/* The two sides of `tenon compare`: configurations in which the same model is run. Each runs in a
 * process of its own, so that any setting of the process may differ. */
#ifndef TOOLS_COMPARE_SIDE_H
#define TOOLS_COMPARE_SIDE_H

#include "text.h"

typedef struct side_t { /* NULL members keep the setting of the environment */
  const char *device;
  const char *optimize;
  const char *threads;
  const char *capability;
  const char *command; /* another build of `tenon` */
  texts_t libraries;   /* --ops */
  bool is_onnxruntime;
  texts_t kept; /* owns the texts that the members above point to */
} side_t;

typedef struct side_request_t { /* settings that both sides share */
  const char *model;
  const char *seed;
  const char *python;
  const texts_t *inputs;
  const texts_t *dims;
} side_request_t;

/* Parses `--against`: "onnxruntime", a device name, or KEY=VALUE,... as changes to the other
 * side. */
bool side_parse(const char *text, const side_t *other, side_t *out_side, text_t *why);
void side_free(side_t *side);
/* Adds "threads=1, optimize=plain", or "default configuration". */
void side_add(text_t *out, const side_t *side);
/* Runs the model in this configuration and writes its values to `folder`. `first` is the folder of
 * the first side; ONNX Runtime reads its inputs from there. */
bool side_run(const side_t *side, const side_request_t *request, const char *folder,
              const char *first, bool each, text_t *why);

#endif
