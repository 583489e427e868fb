// Package quorum makes one store of several: a lock is held while enough of
// them agree that it is. It is a driver.Store over any driver.Stores, which
// need not be of one kind.
//
// [Majority] needs more than half of its members and so survives the loss of
// the others. It is the algorithm known as Redlock (Salvatore Sanfilippo,
// "Distributed Locks with Redis"), with what its critics missed (Martin
// Kleppmann, "How to do distributed locking", 2016): a fence, and a bound that
// starts before the first request. [All] needs every member. It does not
// survive the loss of any; it is the way to move from one store to another
// without a gap.
//
// # What is promised
//
// The members are independent: a member that is itself replicated counts as
// one. Every member sees the same token. A hold counts from before the first
// request was sent, for as long as the shortest lease among the members that
// are needed. A member that is out of reach, or does not answer in time, is
// never taken to say "held": it says nothing.
//
// Two quorums have a member in common. So there is at most one exclusive hold
// as long as that member keeps its word: it does not forget a hold before its
// lease is over. Nothing here can make up for a member that does, as one that
// restarts empty, except that holds are kept on as many members as possible,
// not just on a quorum; and Guarantees says what is left.
//
// # Fences
//
// A fence is the greatest that the granting members minted. Before the grant
// is told, it is written back to a quorum: each member raises its own to it.
// Whoever is granted the name later meets one of those members and mints above
// it. Without this round a fence could fall between the quorums {1,2,3} and
// {3,4,5}, when the greatest had come from member 1. The idea is the second
// phase of a read in Attiya, Bar-Noy and Dolev, "Sharing Memory Robustly in
// Message-Passing Systems", Journal of the ACM 42(1), 1995. [NoFences] turns
// it off.
//
// # Time
//
// Requests to members go out at once and have a short time-out each
// ([MemberTimeout]); the decision falls as soon as it is certain, and what is
// still under way goes on in the background, in order: at one member, requests
// for one token never overtake each other. A release whose fate is unknown
// keeps its token away from that member until it can no longer arrive.
package quorum
