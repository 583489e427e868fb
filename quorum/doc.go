// Package quorum makes one store of several: a lock is held while enough of them agree that it is.
// It is a driver.Store over any driver.Stores, which may be of different kinds.
//
// [Majority] needs more than half of its members, so it survives the loss of the others. It is the
// algorithm known as Redlock (Salvatore Sanfilippo, "Distributed Locks with Redis"), with two
// additions that its critics missed (Martin Kleppmann, "How to do distributed locking", 2016): a
// fence, and a lease that counts from before the first request. [All] needs every member. It does
// not survive the loss of any member; use it to move from one store to another without a gap.
//
// # What is promised
//
// The members fail independently: a member that is itself replicated counts as one. Every member
// gets the same token. A hold counts from before the first request was sent, and lasts as long as
// the shortest lease among the members that are needed. A member that is out of reach, or does not
// answer in time, never counts as "held": nothing is known of it.
//
// Any two quorums have a member in common. So there is at most one exclusive hold as long as that
// member keeps its word, that is, as long as it does not forget a hold before its lease is over.
// Nothing here can make up for a member that forgets, such as one that restarts empty. But a hold
// is kept on as many members as possible, not just on a quorum, and Guarantees says which risk is
// left.
//
// # Fences
//
// The fence of a grant is the greatest that the granting members minted. Before Acquire returns,
// this fence is written back to a quorum: each member raises its own fence to it. A later grant of
// the name involves one of those members, which mints above it. Without this round a fence could
// fall between the quorums {1,2,3} and {3,4,5}, if the greatest had come from member 1. The idea is
// the second phase of a read in Attiya, Bar-Noy and Dolev, "Sharing Memory Robustly in
// Message-Passing Systems", Journal of the ACM 42(1), 1995. [NoFences] turns it off.
//
// # Time
//
// Requests to members go out at once, and each has a short timeout ([MemberTimeout]). The quorum
// decides as soon as the result is certain. Requests that are still under way then go on in the
// background, in order: at one member, requests for one token never overtake each other. If the
// outcome of a release is unknown, the token is not used again at that member until the release can
// no longer arrive.
package quorum
