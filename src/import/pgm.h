/* Greyscale pictures: 8-bit PGM files (netpbm's P5). Called by tensor_file.c only. */
#ifndef TN_IMPORT_PGM_H
#define TN_IMPORT_PGM_H

#include "base/file.h"

/* Decides by the first bytes. Also true for netpbm's other formats, which tn_pgm_read refuses with
 * a message. */
bool tn_pgm_is(const tn_file_t *file);
/* Reads a picture as u8 [height, width]; 255 is white. */
tenon_status_t tn_pgm_read(const tn_file_t *file, tenon_tensor_t **out_tensor);

#endif
