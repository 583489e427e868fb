package serve

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Next to 10,000 idle connections, and 1,000 clients whose requests never end, a health check gets
// its answer. How long that takes depends on the machine, so it is logged and not checked.
func TestServeCrowd(t *testing.T) {
	url := serveHere(t, &Flags{api: true, maxNames: 1}, &access{open: true}, maxConnections)
	at := strings.TrimPrefix(url, "http://")
	dial := func(from byte) net.Conn {
		d := net.Dialer{Timeout: patience}
		if runtime.GOOS == "linux" { // there, all of 127.0.0.0/8 is this machine
			d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, from)}
		}
		c, err := d.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var slow []net.Conn
	for range 1000 {
		c := dial(1)
		if _, err := io.WriteString(c, "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	for i := range 10_000 {
		dial(byte(2 + i%10))
	}
	var worst time.Duration
	for n := range 20 {
		for _, c := range slow[n*50 : (n+1)*50] {
			_, _ = io.WriteString(c, "{") // an error only says that the server has closed the connection
		}
		began := time.Now()
		if status, _ := fetch(t, patientClient(nil), http.MethodGet, url+"/healthz", ""); status != http.StatusOK {
			t.Errorf("/healthz is %d", status)
		}
		worst = max(worst, time.Since(began))
	}
	t.Logf("/healthz took at most %v", worst)
}
