/* How much memory this process may take, and whether there is room for more.
 *
 * The limits are those of the process (RLIMIT_AS, RLIMIT_DATA) and of its control group (version 2
 * or 1, and every group above it). Beyond 90 % of any of them there is no room: the rest is for
 * what cannot be refused, such as the error itself. Before dp_memory_limit_start, and where nothing
 * is limited, there is always room. Any thread may ask. */
#ifndef DP_BASE_MEMORY_LIMIT_H
#define DP_BASE_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the limits, the first time that it is called. */
void dp_memory_limit_start(void);
/* 90 % of the smallest limit; 0: nothing is limited. */
uint64_t dp_memory_limit(void);
/* Whether `bytes` more fit below the limits. Small requests are looked at only once they add up to
 * a MiB, because asking the system takes microseconds. */
bool dp_memory_has_room(size_t bytes);

/* The control group with the smallest limit, where "/sys/fs/cgroup" is `root` and `groups` is the
 * text of /proc/self/cgroup. Returns the limit and writes the group's folder; 0: there is none. */
uint64_t dp_memory_group_limit(const char *root, const char *groups, char *folder, size_t size);
/* What the group holds and could not give back: its files are left out. 0 when it does not say. */
uint64_t dp_memory_group_usage(const char *folder);

#endif
