// Package quorum makes one store of several: a lock is held as long as enough of these stores agree
// that it is held. It is a driver.Store made of any driver.Stores, which may be of different kinds.
//
// Use it if a lock must survive the loss of a server, or to move from one store to another without
// a gap. If one server is enough, use its store alone instead: each request then goes to one
// server.
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
// member gets the same token. The lease of a hold begins just before the first request is sent. It
// ends when too few members for a quorum still have the hold. If a member cannot be reached or does
// not answer in time, nobody knows whether it has granted the lock. The quorum never takes this to
// mean that somebody else holds the lock.
//
// Any two quorums have a member in common. So there is at most one exclusive hold as long as that
// member does not forget a hold before its lease is over. If a member forgets a hold, for example
// because it restarts empty, a quorum cannot make up for that. But a hold is kept on as many
// members as possible, not just on a quorum, and Guarantees says which risk is left.
//
// # Fences
//
// Each member mints its own fence. The greatest fence of a quorum becomes the fence of the grant.
// If more members have granted an exclusive hold, the quorum is the one with the smallest fences.
// When Acquire returns, a quorum of members has this fence or a greater one. Usually so many
// members have made such a fence themselves. If not, Acquire writes the fence to others and waits
// for them. From then on, these members mint only greater fences. A later grant of the name needs
// at least one of these members, so its fence is greater.
//
// Otherwise a later fence could be smaller. For example, members 1, 2 and 3 grant a lock, and
// member 1 mints the greatest fence. Members 3, 4 and 5, which grant the next lock, do not know
// that fence. The idea comes from the second phase of a read in Attiya, Bar-Noy and Dolev, "Sharing
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
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package quorum
