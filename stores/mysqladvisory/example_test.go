package mysqladvisory_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
)

// The store takes connections out of the program's pool. The driver is imported by the program.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("mysql", "app:secret@tcp(db.internal:3306)/shop?tls=true")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := mysqladvisory.Open(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
		fence, _ := padlock.FenceFrom(ctx)
		fmt.Println("write the report with fence", fence)
		return nil // ctx ends if the lock is lost
	})
	if err != nil {
		log.Print(err)
	}
}
