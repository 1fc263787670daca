/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Confidence: who of those that access a channel, or talk to somebody who does, is part of the interaction.
 *
 * Problem: that a process communicated once says little. A user switches from one window to another, a server logs
 * something just now; to boost each for seconds is wrong, to wait for proof is late.
 *
 * Rule (RSIO): a counter for each candidate, between 0 and a ceiling (max_conf).
 *
 *	handlers (section 4.2): who accesses the channel gets +1, beginning with 1, and every other handler of that channel
 *	-1. A handler counts while its confidence is above 0.
 *
 *	cohandlers (section 4.3): a process that communicates with a handler becomes a candidate, at 0. For each activation
 *	of the handler at t, those that communicated with it from t - co_delta to t + co_delta get +1, all others -1. A
 *	cohandler counts while its confidence is above the threshold (co_conf).
 *
 * Limits: a list has room for CONFIDENCE_ENTRIES. When it is full, the candidate with the least confidence goes, of
 * equals the one that has been silent longest. Only the latest communication is kept, so activations less than co_delta
 * apart may both count one.
 */
#ifndef APPEASE_POLICY_CONFIDENCE_H
#define APPEASE_POLICY_CONFIDENCE_H

#include "types.h"

#define CONFIDENCE_ENTRIES 16

/* A candidate. */
struct confidence_entry {
	u32 id;		/* process id; 0: the entry is free */
	u32 confidence;
	u64 access_ns;	/* when it last accessed the channel, or communicated with the handler */
};

/* The candidates of a channel, or of a handler. */
struct confidence_list {
	struct confidence_entry entries[CONFIDENCE_ENTRIES];
};

/* One more, up to @max. */
static inline u32 confidence_more(u32 confidence, u32 max)
{
	return confidence < max ? confidence + 1 : max;
}

/* One less, down to 0. */
static inline u32 confidence_less(u32 confidence)
{
	return confidence ? confidence - 1 : 0;
}

/* Whether a communication at @access_ns belongs to an activation at @activated_ns. */
static inline bool confidence_within(u64 access_ns, u64 activated_ns, u64 delta_ns)
{
	u64 from = activated_ns > delta_ns ? activated_ns - delta_ns : 0;

	return !policy_before(access_ns, from) && !policy_before(activated_ns + delta_ns, access_ns);
}

/* Whether @entry is a better one than @other to give up for a newcomer. */
static inline bool confidence_is_weaker(const struct confidence_entry *entry, const struct confidence_entry *other)
{
	if (!entry->id || !other->id)
		return !entry->id && other->id;
	if (entry->confidence != other->confidence)
		return entry->confidence < other->confidence;
	return policy_before(entry->access_ns, other->access_ns);
}

/* Index of @id in @list, or of the entry that it may have. */
static inline u32 confidence_index(const struct confidence_list *list, u32 id)
{
	/* By value: an index that is used in the loop has the verifier try each that it can have. */
	struct confidence_entry weakest = list->entries[0];
	u32 i, best = 0;

	for (i = 0; i < CONFIDENCE_ENTRIES; i++) {
		if (list->entries[i].id == id)
			return i;
		if (confidence_is_weaker(&list->entries[i], &weakest)) {
			weakest = list->entries[i];
			best = i;
		}
	}
	return best;
}

/*
 * An interaction: @id, whose confidence_index() is @index, accessed the channel of @list. Who falls to 0 is still on it: the
 * caller has to act on that.
 */
static inline void confidence_interact(struct confidence_list *list, u32 index, u32 id, u64 now_ns, u32 max)
{
	u32 i;

	for (i = 0; i < CONFIDENCE_ENTRIES; i++) {
		struct confidence_entry *entry = &list->entries[i];

		if (i != index) {
			entry->confidence = confidence_less(entry->confidence);
			continue;
		}
		if (entry->id != id)
			entry->confidence = 0;
		entry->id = id;
		entry->confidence = confidence_more(entry->confidence, max);
		entry->access_ns = now_ns;
	}
}

/* @id, whose confidence_index() is @index, communicated with the handler of @list, or was forked by it. */
static inline void confidence_communicate(struct confidence_list *list, u32 index, u32 id, u64 now_ns)
{
	if (index >= CONFIDENCE_ENTRIES)
		return;
	if (list->entries[index].id != id)
		list->entries[index].confidence = 0;
	list->entries[index].id = id;
	list->entries[index].access_ns = now_ns;
}

/* The time after an activation of the handler of @list is over: adjusts the confidence of its cohandlers. */
static inline void confidence_adjust(struct confidence_list *list, u64 activated_ns, u64 delta_ns, u32 max)
{
	u32 i;

	for (i = 0; i < CONFIDENCE_ENTRIES; i++) {
		struct confidence_entry *entry = &list->entries[i];

		if (entry->id && confidence_within(entry->access_ns, activated_ns, delta_ns))
			entry->confidence = confidence_more(entry->confidence, max);
		else
			entry->confidence = confidence_less(entry->confidence);
	}
}

/* Takes @id off @list: its process ended. */
static inline void confidence_forget(struct confidence_list *list, u32 id)
{
	u32 i;

	for (i = 0; i < CONFIDENCE_ENTRIES; i++) {
		if (list->entries[i].id != id)
			continue;
		list->entries[i].id = 0;
		list->entries[i].confidence = 0;
	}
}

#endif
