package etcdstore

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The store builds the messages of its transactions itself. The types of clientv3 for comparisons
// and operations are large and are copied often: with them, an Acquire together with its Release
// took 15 to 25 µs longer.

// hasFenceBelow returns comparisons that are true if the key has a fence that is less than fence.
// They are false for most values that padlock did not write; the rest would have to begin with
// digits, as a fence does.
func hasFenceBelow(key, fence string) []*pb.Compare {
	return []*pb.Compare{valueIs(pb.Compare_GREATER, key, "0"), valueIs(pb.Compare_LESS, key, fence)}
}

func valueIs(result pb.Compare_CompareResult, key, text string) *pb.Compare {
	return &pb.Compare{Key: []byte(key), Target: pb.Compare_VALUE, Result: result, TargetUnion: &pb.Compare_Value{Value: []byte(text)}}
}

// noKeys returns a comparison that is true if the range has no key. Here and below, an empty end of
// a range means the single key from.
func noKeys(from, to string) *pb.Compare {
	return &pb.Compare{Key: []byte(from), RangeEnd: []byte(to), Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{}}
}

// createdAt returns a comparison that is true if the key exists and was created at the revision.
func createdAt(key string, revision int64) *pb.Compare {
	return &pb.Compare{Key: []byte(key), Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision}}
}

// createdAfter returns a comparison that is true if every key of the range was created after the
// revision.
func createdAfter(from, to string, revision int64) *pb.Compare {
	return &pb.Compare{Key: []byte(from), RangeEnd: []byte(to), Target: pb.Compare_CREATE, Result: pb.Compare_GREATER,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision}}
}

// writtenAt returns a comparison that is true if the last write of the key was at the revision. The
// key then still has the value and the lease that it had after that write.
func writtenAt(key string, revision int64) *pb.Compare {
	return &pb.Compare{Key: []byte(key), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: revision}}
}

// notWrittenAfter returns a comparison that is true if no key of the range was written after the
// revision. It does not notice that a key was deleted.
func notWrittenAfter(from, to string, revision int64) *pb.Compare {
	return &pb.Compare{Key: []byte(from), RangeEnd: []byte(to), Target: pb.Compare_MOD, Result: pb.Compare_LESS,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision + 1}}
}

// putKey writes a key with a lease.
func putKey(key, value string, id clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: int64(id)}}}
}

// putValue writes a new value to a key and keeps the lease of the key.
func putValue(key, value string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(value), IgnoreLease: true}}}
}

// putLease gives a key another lease and keeps the value of the key.
func putLease(key string, id clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Lease: int64(id), IgnoreValue: true}}}
}

func deleteKey(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}

func deleteRange(from, to string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(from), RangeEnd: []byte(to)}}}
}

func getKeys(from, to string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(to)}}}
}

// nested returns a transaction as an operation of another transaction.
func nested(conds []*pb.Compare, then, otherwise []*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Compare: conds, Success: then, Failure: otherwise}}}
}

// deleteIfWrittenAt deletes a key, unless it was written after the revision.
func deleteIfWrittenAt(key string, revision int64) *pb.RequestOp {
	return nested([]*pb.Compare{writtenAt(key, revision)}, []*pb.RequestOp{deleteKey(key)}, nil)
}
