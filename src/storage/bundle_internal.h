/* For the files of the V2 checkpoint code (bundle_*.c): reading and writing entries of the index,
 * and the form of strings and variants in the data file. No state, any thread. */
#ifndef DP_STORAGE_BUNDLE_INTERNAL_H
#define DP_STORAGE_BUNDLE_INTERNAL_H

#include "base/arena.h"
#include "storage/bundle.h"
#include "storage/file.h"
#include "storage/table.h"
#include "wire/checkpoint.pb-c.h"

#define DP_BUNDLE_VERSION 1

/* Makes the folder of a prefix, not its parents. It is no error when the folder exists. */
DP_MUST_USE dp_status *dp_bundle_make_folder(const char *prefix);

/* An entry for dp_bundle_write_index, which sorts the entries by key and writes them and the header
 * as an index file. The file appears when it is complete. */
typedef struct dp_bundle_item {
  dp_view key;
  Tensorflow__BundleEntryProto *entry;
} dp_bundle_item;
DP_MUST_USE dp_status *dp_bundle_write_index(const char *path,
                                             const Tensorflow__BundleHeaderProto *header,
                                             dp_bundle_item *items, size_t count);

/* Opens a prefix's index and reads its header into `arena`. */
DP_MUST_USE dp_status *dp_bundle_open_index(const char *prefix, dp_arena *arena, dp_file **file_out,
                                            dp_table_reader **table_out,
                                            Tensorflow__BundleHeaderProto **header_out);
/* Parses an entry of the index and checks its dtype, shape, sizes and slices. */
DP_MUST_USE dp_status *dp_bundle_parse_entry(dp_view key, dp_view value, dp_arena *arena,
                                             Tensorflow__BundleEntryProto **entry_out);
DP_MUST_USE dp_status *dp_bundle_slice_from_message(const Tensorflow__TensorSliceProto *message,
                                                    dp_slice *slice_out);
Tensorflow__TensorSliceProto *dp_bundle_slice_message(const dp_slice *slice, dp_arena *arena);

/* ---- Strings and variants: lengths, checksum, bytes ---- */
/* Appends the bytes of a string or variant tensor. In the checksum, lengths count as fixed-size
 * numbers, not as the varints that are written. */
DP_MUST_USE dp_status *dp_bundle_encode_objects(const dp_tensor *tensor, dp_text *bytes,
                                                uint32_t *crc_out);
/* Decodes such bytes into `tensor`, which is new; `swapped` when the file has the other byte order.
 */
DP_MUST_USE dp_status *dp_bundle_decode_objects(const uint8_t *bytes, size_t length, bool swapped,
                                                dp_tensor *tensor, uint32_t *crc_out);

#endif
