package queue

// keys are the Redis keys of one room, in the order in which every script gets
// them. They share one hash tag, so that they live in one slot of a cluster.
// Nothing else in the program spells a key.
func keys(prefix, room string) []string {
	tag := prefix + ":{" + room + "}:"
	return []string{
		tag + "room",     // HASH clock, sequence, limits, bucket, state, counters
		tag + "waiting",  // ZSET visitor -> place
		tag + "fresh",    // ZSET visitor -> place
		tag + "due",      // HASH visitor -> due
		tag + "away",     // ZSET visitor -> due
		tag + "place",    // HASH visitor -> place
		tag + "slots",    // ZSET visitor -> lease end
		tag + "leases",   // HASH visitor -> lease
		tag + "unproven", // SET  visitor
		tag + "lapses",   // HASH visitor -> count
		tag + "ended",    // ZSET visitor -> number of the end
		tag + "ends",     // HASH visitor -> end
		tag + "gates",    // HASH gate -> room time of its last call
		tag + "snapshot", // STRING
	}
}

// recordKeys are the keys of what operators look back at, beside those that
// decide: only the scripts that write and read it get them. They have the same
// hash tag.
func recordKeys(prefix, room string) (history, versions string) {
	tag := prefix + ":{" + room + "}:"
	return tag + "history", // HASH slot of the last hour -> point
		tag + "versions" // HASH gate -> what it does and its version
}
