package command

import (
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestS3 runs the scripts of testdata/s3 with PADLOCK_STORE on a bucket in memory.
func TestS3(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use a Unix shell")
	}
	service := httptest.NewServer(&fakes.S3{Bucket: "padlock-test"})
	t.Cleanup(service.Close)
	p := scripts("testdata/s3")
	p.Setup = func(env *testscript.Env) error {
		err := setUpScript(env)
		env.Setenv("AWS_ACCESS_KEY_ID", "test")
		env.Setenv("AWS_SECRET_ACCESS_KEY", "test")
		env.Setenv("PADLOCK_STORE", "s3://padlock-test/"+filepath.Base(env.WorkDir)+"?endpoint="+service.URL) // each script has names of its own
		return err
	}
	testscript.Run(t, p)
}
