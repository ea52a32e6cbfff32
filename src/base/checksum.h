/* A checksum of 64 bits for large data in memory: it finds damage, but is no protection against
 * somebody who changes data on purpose. Data is divided into pieces, so that several threads can
 * compute it. */
#ifndef TN_BASE_CHECKSUM_H
#define TN_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a piece; the last one of some data may have fewer. */
#define TN_CHECKSUM_PIECE ((uint64_t)1 << 20)

/* The number of pieces of `size` bytes: at least 1. */
uint64_t tn_checksum_pieces(uint64_t size);
/* The checksum of one piece. */
uint64_t tn_checksum_piece(const void *data, uint64_t size, uint64_t piece);
/* The checksum of data whose pieces have these. */
uint64_t tn_checksum_join(const uint64_t *pieces, uint64_t count);
/* The checksum of data that is not divided. */
uint64_t tn_checksum(const void *data, uint64_t size);

#endif
