// Package quorum makes one store of several: a lock is held as long as enough of these stores agree
// that it is held. It is a driver.Store made of any driver.Stores, which may be of different kinds.
//
// [Majority] needs more than half of its members, so it survives the loss of the others. It is the
// algorithm known as Redlock (Salvatore Sanfilippo, "Distributed Locks with Redis"), with two
// additions that answer its critics (Martin Kleppmann, "How to do distributed locking", 2016): a
// fence, and a lease that counts from the instant before the first request. [All] needs every
// member. It does not survive the loss of any member; use it to move from one store to another
// without a gap.
//
// # What is promised
//
// The members must fail independently: a member that is itself replicated counts as one. Every
// member gets the same token. A hold counts from the instant before the first request was sent. It
// lasts as long as the shortest lease among the members that are needed. If a member cannot be
// reached or does not answer in time, nobody knows whether it has granted the lock. The quorum
// never takes this to mean that somebody else holds the lock.
//
// Any two quorums have a member in common. So there is at most one exclusive hold as long as that
// member does not forget a hold before its lease is over. If a member forgets a hold, for example
// because it restarts empty, a quorum cannot make up for that. But a hold is kept on as many
// members as possible, not just on a quorum, and Guarantees says which risk is left.
//
// # Fences
//
// The fence of a grant is the greatest that the granting members minted. Before Acquire returns,
// this fence is written to a quorum: each member raises its own fence to it. A later grant of the
// name needs at least one of these members, and that member mints a greater fence. Without this
// step the fence could become smaller from one quorum to the next. For example, if {1,2,3} granted
// first and the greatest fence came from member 1, a later grant from {3,4,5} would not know that
// fence. The idea comes from the second phase of a read in Attiya, Bar-Noy and Dolev, "Sharing
// Memory Robustly in Message-Passing Systems", Journal of the ACM 42(1), 1995. The option
// [NoFences] turns fences off.
//
// # Time
//
// Requests to members are sent at the same time, and each has a short timeout ([MemberTimeout]).
// The quorum decides as soon as the result is certain. Requests that are still under way then
// continue in the background, in order: at one member, requests for one token never overtake each
// other. If the outcome of a release is unknown, the token is not used again at that member until
// the release can no longer arrive.
package quorum
