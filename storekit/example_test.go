package storekit_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A store sends one request for each try. The error of the request says whether it may have reached
// the server.
func Example() {
	var calls storekit.Calls
	calls.Open()

	acquire := func(ctx context.Context, request func() error) error {
		_, err := storekit.Do(ctx, &calls, func() (struct{}, error) { return struct{}{}, request() })
		return storekit.Failure(err)
	}
	for _, request := range []func() error{
		func() error { return nil },
		func() error { return &storekit.NoReply{Err: errors.New("dial: refused"), Unsent: true} },
		func() error { return &storekit.NoReply{Err: io.ErrUnexpectedEOF} },
		func() error { return storekit.Invalidf("the server is version %d; the store needs 14", 9) },
	} {
		err := acquire(context.Background(), request)
		fmt.Println(err, "| uncertain:", errors.Is(err, driver.ErrUncertain))
	}

	calls.End()
	calls.Work.Wait()
	fmt.Println(acquire(context.Background(), func() error { return nil }))

	// Output:
	// <nil> | uncertain: false
	// store is unavailable: dial: refused | uncertain: false
	// outcome is uncertain: unexpected EOF | uncertain: true
	// invalid parameter: the server is version 9; the store needs 14 | uncertain: false
	// closed
}
