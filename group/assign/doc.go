// Package assign computes which member of a consumer group is to own which
// partition: the server-side assignors of Kafka's consumer group protocol
// (KIP-848), "uniform" and "range".
//
// An assignor is a pure function of the group: its members with their
// subscriptions and what each was meant to own until now, and the number of
// partitions of each topic. It gives every partition of a subscribed topic to
// exactly one subscribed member. The same group gives the same result on every
// node: members and topics are taken in their sorted order.
//
//	uniform  as even as the subscriptions allow, counted over all topics; moves
//	         no more partitions than that takes; keeps each topic spread out
//	range    topic by topic, a run of neighbouring partitions for each subscriber
//	         in the order of members, so that equally partitioned topics with the
//	         same subscribers line up; static members first
//
// As in Kafka 4, neither looks at racks: that part was taken out of the assignors
// there, and a node of one has nothing to choose from.
//
// An Assignment is a value that never changes once it is made: all functions of
// this package return new ones, or one they were given if it is equal.
package assign
