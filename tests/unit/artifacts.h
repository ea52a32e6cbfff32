/* Artifacts in tests: reads one at an address that suits it, and makes the checksums of a changed
 * one right, so that its readers are reached. Include after the headers of libtenon. */
#ifndef TENON_TESTS_ARTIFACTS_H
#define TENON_TESTS_ARTIFACTS_H

#include <string.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/memory.h"
#include "import/artifact/artifact.h"

/* NULL: it cannot be read. The caller frees it with tn_release_aligned. */
static inline unsigned char *artifact_read(const char *path, size_t *out_size) {
  tn_file_t file = {NULL, 0};
  unsigned char *bytes = NULL;
  if (tn_file_map(path, &file) == TENON_OK) bytes = tn_allocate_aligned(file.size);
  if (bytes) memcpy(bytes, file.data, file.size);
  *out_size = file.size;
  tn_file_unmap(&file);
  return bytes;
}

/* Makes the checksum of the header right. */
static inline void artifact_sum_header(unsigned char *bytes) {
  tn_artifact_header_t header;
  memcpy(&header, bytes, sizeof header);
  header.header_sum = tn_checksum(&header, offsetof(tn_artifact_header_t, header_sum));
  memcpy(bytes, &header, sizeof header);
}

/* Makes all checksums right that can be found. The file has at least a header and counts. */
static inline void artifact_sum_again(unsigned char *bytes, size_t size) {
  tn_artifact_header_t header;
  tn_artifact_counts_t counts;
  memcpy(&header, bytes, sizeof header);
  memcpy(&counts, bytes + TN_ARTIFACT_INDEX, sizeof counts);
  tn_artifact_blob_t *blobs =
      (tn_artifact_blob_t *)(void *)(bytes + TN_ARTIFACT_INDEX + sizeof counts);
  const size_t most = (size - TN_ARTIFACT_INDEX - sizeof counts) / sizeof *blobs;
  for (size_t i = 0; i < counts.blob_count && i < most; i++) {
    if (blobs[i].offset > size || blobs[i].size > size - blobs[i].offset) continue;
    tn_summed_t item = {bytes + blobs[i].offset, blobs[i].size, 0};
    if (tn_artifact_sum(&item, 1) == TENON_OK) blobs[i].sum = item.sum;
  }
  if (header.index_size <= size - TN_ARTIFACT_INDEX) {
    header.index_sum = tn_checksum(bytes + TN_ARTIFACT_INDEX, header.index_size);
    memcpy(bytes, &header, sizeof header);
  }
  artifact_sum_header(bytes);
}

#endif
