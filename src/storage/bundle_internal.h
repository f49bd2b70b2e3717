/* What the parts of the V2 checkpoint code share: entries of the index, and strings as bytes. */
#ifndef DP_STORAGE_BUNDLE_INTERNAL_H
#define DP_STORAGE_BUNDLE_INTERNAL_H

#include "base/arena.h"
#include "storage/bundle.h"
#include "storage/file.h"
#include "storage/table.h"
#include "wire/checkpoint.pb-c.h"

#define DP_BUNDLE_VERSION 1

/* The folder of a prefix, not its parents; fine when it is there. */
DP_MUST_USE dp_status *dp_bundle_make_folder(const char *prefix);

/* Writes the header and the entries (sorted by key here) as an index file, atomically. */
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
/* An entry of the index from its bytes, checked: dtype, shape, sizes, slices. */
DP_MUST_USE dp_status *dp_bundle_parse_entry(dp_view key, dp_view value, dp_arena *arena,
                                             Tensorflow__BundleEntryProto **entry_out);
DP_MUST_USE dp_status *dp_bundle_slice_from_message(const Tensorflow__TensorSliceProto *message,
                                                    dp_slice *slice_out);
Tensorflow__TensorSliceProto *dp_bundle_slice_message(const dp_slice *slice, dp_arena *arena);

/* ---- Strings and variants: lengths, checksum, bytes ---- */
/* Appends the bytes of a string or variant tensor; the checksum is over lengths as numbers. */
DP_MUST_USE dp_status *dp_bundle_encode_objects(const dp_tensor *tensor, dp_text *bytes,
                                                uint32_t *crc_out);
/* The other direction; `tensor` is fresh, `swapped` when the file is of the other byte order. */
DP_MUST_USE dp_status *dp_bundle_decode_objects(const uint8_t *bytes, size_t length, bool swapped,
                                                dp_tensor *tensor, uint32_t *crc_out);

#endif
