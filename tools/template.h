/* Project templates (share/templates): folders of files in whose names and contents @NAME@ and
 * other keys are replaced. Called by new. The folder `common` has the files that all kinds share.
 * The folder of a kind has its sources, and about.txt, whose lines "key: value" define more
 * keys. */
#ifndef TOOLS_TEMPLATE_H
#define TOOLS_TEMPLATE_H

#include "text.h"

typedef struct template_t {
  text_t folder; /* the folder of all templates */
  texts_t keys;
  texts_t values; /* keys such as "NAME", and the values that replace @NAME@ */
} template_t;

/* Finds the folder of templates beside the running command. */
bool template_open(template_t *templates, text_t *why);
void template_close(template_t *templates);
/* Lists the kinds, sorted. */
bool template_kinds(const template_t *templates, texts_t *out_kinds, text_t *why);
bool template_set(template_t *templates, const char *key, const char *value);
/* "" if the key is not set */
const char *template_get(const template_t *templates, const char *key);
/* Sets the keys of a kind's about.txt, in upper case. */
bool template_about(template_t *templates, const char *kind, text_t *why);
/* Writes the files of `common` and of the kind to an existing folder and adds their names to
 * out_files. A name that begins with "dot-" is written with "." instead. */
bool template_write(const template_t *templates, const char *kind, const char *folder,
                    texts_t *out_files, text_t *why);
/* Adds `text` with every @KEY@ that is set replaced. */
void template_expand(const template_t *templates, const char *text, text_t *out);

#endif
