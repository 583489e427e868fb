package restored

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/server/fakes"
)

// The tests of a package run side by side, so none of them may set a variable of its own.
func TestMain(m *testing.M) {
	os.Setenv("AWS_ACCESS_KEY_ID", "test")
	os.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	os.Exit(m.Run())
}

// onCloud puts a backup back into a service of a cloud, which this process keeps in memory.
func onCloud(t *testing.T, storeURL string, start func(t *testing.T) (service http.Handler, copied func() any, putBack func(any))) {
	t.Parallel()
	server.Thorough(t)
	each(t, "copy", want{late: 3 * time.Second, waiter: 5 * time.Second}, func(t *testing.T) place {
		service, copied, putBack := start(t)
		srv := httptest.NewServer(service)
		t.Cleanup(srv.Close)
		addr := srv.Listener.Addr().String()
		proxy := server.NewProxy(t, addr)
		var backup any
		return place{
			url: fmt.Sprintf(storeURL, proxy.Addr()), ttl: 10 * time.Second, proxy: proxy, addr: addr,
			backUp: func() { backup = copied() }, putBack: func() { putBack(backup) },
		}
	})
}

// TestS3 writes the objects of the backup, as one does with earlier versions, and deletes newer ones.
func TestS3(t *testing.T) {
	onCloud(t, "s3://locks/?region=us-east-1&endpoint=http://%s", func(t *testing.T) (http.Handler, func() any, func(any)) {
		service := &fakes.S3{Bucket: "locks"}
		ask := func(method, key, query string, body []byte) []byte {
			reply, at := httptest.NewRecorder(), url.URL{Path: "/locks/" + key, RawQuery: query}
			service.ServeHTTP(reply, httptest.NewRequest(method, at.String(), bytes.NewReader(body)))
			if reply.Code >= http.StatusBadRequest {
				t.Fatal(method, key, reply.Code)
			}
			out, _ := io.ReadAll(reply.Body)
			return out
		}
		objects := func() any {
			var list struct {
				Contents []struct{ Key string }
			}
			if err := xml.Unmarshal(ask("GET", "", "list-type=2", nil), &list); err != nil {
				t.Fatal(err)
			}
			all := map[string][]byte{}
			for _, o := range list.Contents {
				all[o.Key] = ask("GET", o.Key, "", nil)
			}
			return all
		}
		return service, objects, func(backup any) {
			old := backup.(map[string][]byte)
			for key := range objects().(map[string][]byte) {
				if _, kept := old[key]; !kept {
					ask("DELETE", key, "", nil)
				}
			}
			for key, data := range old {
				ask("PUT", key, "", data)
			}
		}
	})
}

// TestDynamoDB puts the items of the backup into the table. A real service restores into a new table.
func TestDynamoDB(t *testing.T) {
	onCloud(t, "dynamodb://locks/?region=us-east-1&endpoint=http://%s", func(t *testing.T) (http.Handler, func() any, func(any)) {
		service := fakes.NewDynamoDB("locks")
		return service, func() any {
				service.Mu.Lock()
				defer service.Mu.Unlock()
				return maps.Clone(service.Items) // a write replaces an item
			}, func(backup any) {
				service.Mu.Lock()
				defer service.Mu.Unlock()
				service.Items = maps.Clone(backup.(map[string]map[string]fakes.Attribute))
			}
	})
}
