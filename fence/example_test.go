package fence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A holder that was paused for longer than its lease is refused where the
// writing happens, though it still believes that it has the lock.
func ExampleRegister() {
	var (
		ctx    = context.Background()
		locker = padlock.New(memstore.New())
		ledger fence.Register // kept next to the ledger that it guards
	)
	defer locker.Close(ctx)
	write := func(by string, fenceOfLock uint64) {
		err := ledger.Do(ctx, "ledger", fenceOfLock, func() error {
			fmt.Println(by, "writes")
			return nil
		})
		if errors.Is(err, fence.ErrStale) {
			fmt.Println(by, "is refused")
		}
	}

	first, _ := locker.Acquire(ctx, "ledger")
	paused := first.Fence()
	first.Release() // as if its lease had run out
	second, _ := locker.Acquire(ctx, "ledger")
	write("the second holder", second.Fence())
	write("the first holder", paused) // it woke up
	// Output:
	// the second holder writes
	// the first holder is refused
}

func ExampleSQL() {
	q, err := fence.NewSQL(fence.Numbered, 1763600000123456) // lock.Fence(), or padlock.FenceFrom(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	text := "UPDATE invoices SET state = " + q.Arg("paid") + ", " + q.Set("fence") +
		" WHERE id = " + q.Arg(42) + " AND " + q.Condition("fence")
	fmt.Println(text)
	fmt.Println(q.Args()...)
	// err = fence.Applied(db.ExecContext(ctx, text, q.Args()...))

	// Output:
	// UPDATE invoices SET state = $1, fence = $2 WHERE id = $3 AND fence <= $4
	// paid 1763600000123456 42 1763600000123456
}

// The client sends the fence of the lock under which it works; the server
// refuses requests of earlier holders.
func ExampleMiddleware() {
	guard := fence.Middleware{}
	server := httptest.NewServer(guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fmt.Println("written")
	})))
	defer server.Close()
	client := &http.Client{Transport: &fence.Transport{}}
	put := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/invoices/42", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return fence.CheckResponse(resp)
	}

	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	var late context.Context // of a holder that was paused
	err := locker.Do(context.Background(), "invoice:42", func(ctx context.Context) error {
		late = context.WithoutCancel(ctx)
		return put(ctx)
	})
	fmt.Println(err)
	fmt.Println(locker.Do(context.Background(), "invoice:42", put))
	fmt.Println("stale:", errors.Is(put(late), fence.ErrStale))
	// Output:
	// written
	// <nil>
	// written
	// <nil>
	// stale: true
}
