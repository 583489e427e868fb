// Package judge checks with porcupine whether the histories of the soak are linearizable.
package judge

import (
	"os"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/internal/soak/linear"
)

// Check is [linear.Check] with porcupine.
func Check(events []soak.Event, dir string, limit time.Duration) (linear.Verdict, error) {
	return linear.Check(Porcupine, events, dir, limit)
}

var model = porcupine.Model{
	Init: func() any { return linear.State{} },
	Step: func(s, input, _ any) (bool, any) {
		ok, next := input.(linear.Op).Step(s.(linear.State))
		return ok, next
	},
	DescribeOperation: func(input, _ any) string { return input.(linear.Op).String() },
	DescribeState:     func(s any) string { return s.(linear.State).String() },
}

// Porcupine is a [linear.Judge].
func Porcupine(piece []linear.Operation, limit time.Duration, picture string) (linear.Result, error) {
	ops := make([]porcupine.Operation, len(piece))
	for i, o := range piece {
		ops[i] = porcupine.Operation{ClientId: o.Worker, Input: o.Op, Call: o.Call, Return: o.Return}
	}
	switch porcupine.CheckOperationsTimeout(model, ops, limit) {
	case porcupine.Ok:
		return linear.OK, nil
	case porcupine.Unknown:
		return linear.Unknown, nil
	}
	return linear.Illegal, draw(ops, limit, picture)
}

func draw(ops []porcupine.Operation, limit time.Duration, picture string) error {
	if picture == "" {
		return nil
	}
	f, err := os.Create(picture)
	if err != nil {
		return err
	}
	defer f.Close()
	_, info := porcupine.CheckOperationsVerbose(model, ops, limit)
	return porcupine.Visualize(model, info, f)
}
