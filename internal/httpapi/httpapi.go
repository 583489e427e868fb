// Package httpapi has the parts of the answers of /v1/ that the server (padlockapi) writes and the
// client (httpstore) reads. The page docs/http-api.md describes them.
package httpapi

// Promises is the answer to store: what a client can rely on. A limit of 0 is that of every store.
type Promises struct {
	Store            string   `json:"store"`
	ID               string   `json:"id,omitempty"`
	Fence            string   `json:"fence"`
	SharedFence      string   `json:"shared_fence"`
	SurvivesRestart  string   `json:"survives_restart"`
	SurvivesFailover string   `json:"survives_failover"`
	SafeClockJump    string   `json:"safe_clock_jump"`
	SafeEviction     string   `json:"safe_eviction"`
	MinTTLMS         int64    `json:"min_ttl_ms"`
	MaxTTLMS         int64    `json:"max_ttl_ms"`
	MaxName          int      `json:"max_name"`
	MaxLabel         int      `json:"max_label"`
	Shared           bool     `json:"shared"`
	CoolDown         bool     `json:"cool_down"`
	Observed         bool     `json:"observed"`
	Hashed           bool     `json:"hashed"`
	Status           bool     `json:"status"`
	List             bool     `json:"list"`
	Break            bool     `json:"break"`
	Ask              bool     `json:"ask"`
	RaiseFence       bool     `json:"raise_fence"`
	Notes            []string `json:"notes"`
}

// Asked is the question to a holder to finish early. It is for the holders whose fence is Fence, or a
// smaller one.
type Asked struct {
	Reason  string `json:"reason,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	SinceMS *int64 `json:"since_ms,omitempty"`
	Fence   uint64 `json:"fence"`
}

// Holder is one hold. The times are relative, so that the clocks of client and server do not
// matter.
type Holder struct {
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Label   string `json:"label,omitempty"`
	Shared  bool   `json:"shared"`
	Foreign bool   `json:"foreign"`
	Cooling bool   `json:"cooling"`
	SinceMS *int64 `json:"since_ms,omitempty"`
	UntilMS *int64 `json:"until_ms,omitempty"`
}
