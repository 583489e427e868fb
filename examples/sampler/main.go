package main

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/open"
)

func main() {
	ctx := context.Background()
	store, err := open.FromEnv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)
	s := sampler.New(locker)
	go s.Run(ctx)
	for number := uint64(0); ; {
		snap, err := s.Next(ctx, number)
		if err != nil {
			return
		}
		number = snap.Number
		for _, name := range snap.Names { // stuck names first
			if len(name.Stuck) > 0 {
				fmt.Println(name.Name, name.Stuck, name.Holds)
			}
		}
	}
}
