/* Grey pictures: PGM files (netpbm's P5) of 8 bits.  Called by tensor_file.c only. */
#ifndef TN_IMPORT_PGM_H
#define TN_IMPORT_PGM_H

#include "base/file.h"

/* By its first bytes.  Pictures of netpbm's other kinds too, which reading refuses. */
bool tn_pgm_is(const tn_file_t *file);
/* [height, width] u8, 255 is white. */
tenon_status_t tn_pgm_read(const tn_file_t *file, tenon_tensor_t **out_tensor);

#endif
