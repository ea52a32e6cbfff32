/* Templates of projects: folders of files with @NAME@ and the like in names and contents
 * (share/templates).  Called by new. `common` has what all kinds have; a kind's folder has its
 * sources, and about.txt, whose lines "key: value" are names too. */
#ifndef TOOLS_TEMPLATE_H
#define TOOLS_TEMPLATE_H

#include "text.h"

typedef struct template_t {
  text_t folder; /* of all templates */
  texts_t keys;
  texts_t values; /* "NAME" and what stands for @NAME@ */
} template_t;

/* Finds the folder of templates, beside the command that runs. */
bool template_open(template_t *templates, text_t *why);
void template_close(template_t *templates);
/* The kinds, sorted. */
bool template_kinds(const template_t *templates, texts_t *out_kinds, text_t *why);
bool template_set(template_t *templates, const char *key, const char *value);
const char *template_get(const template_t *templates, const char *key); /* "" where it is not set */
/* Sets what about.txt of a kind says; keys in upper case. */
bool template_about(template_t *templates, const char *kind, text_t *why);
/* Writes the files of `common` and of the kind to a folder that is there; their names are added to
 * out_files.  A name that begins with "dot-" begins with "." there. */
bool template_write(const template_t *templates, const char *kind, const char *folder,
                    texts_t *out_files, text_t *why);
/* `text` with every @KEY@ that is set replaced. */
void template_expand(const template_t *templates, const char *text, text_t *out);

#endif
