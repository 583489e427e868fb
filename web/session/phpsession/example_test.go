package phpsession_test

import (
	"context"
	"fmt"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// Go reads and changes a session of PHP. Values that Go does not change stay byte for byte. The
// session is in memory here; redissession and its PHPLocks share it with PHP.
func ExampleNew() {
	const id = "0123456789abcdef0123456789abcdef"
	blobs := sessiontest.NewBlobs()
	blobs.Put(phpsession.DefaultPrefix+id, []byte(`user|O:4:"User":1:{s:2:"id";i:42;}visits|i:7;`))
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())

	sessions, err := phpsession.New(blobs, locker, phpsession.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	s := sessions.Load(ctx, id)
	visits, _ := session.Get[int](s, "visits")
	s.Put("visits", visits+1)
	fmt.Println(s.Commit(ctx))
	stored, _ := blobs.Get(ctx, phpsession.DefaultPrefix+id)
	fmt.Printf("%s\n", stored.Data)
	// Output:
	// <nil>
	// user|O:4:"User":1:{s:2:"id";i:42;}visits|i:8;
}
