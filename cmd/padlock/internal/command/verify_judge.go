package command

import (
	"errors"
	"os"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/padlock-go/padlock/internal/soak/linear"
)

// lockModel is porcupine's model of a lock.
var lockModel = porcupine.Model{
	Init: func() any { return linear.State{} },
	Step: func(s, input, _ any) (bool, any) {
		ok, next := input.(linear.Op).Step(s.(linear.State))
		return ok, next
	},
	DescribeOperation: func(input, _ any) string { return input.(linear.Op).String() },
	DescribeState:     func(s any) string { return s.(linear.State).String() },
}

// porcupineJudge implements linear.Judge with porcupine.
func porcupineJudge(piece []linear.Operation, limit time.Duration, picture string) (linear.Result, error) {
	ops := make([]porcupine.Operation, len(piece))
	for i, o := range piece {
		ops[i] = porcupine.Operation{ClientId: o.Worker, Input: o.Op, Call: o.Call, Return: o.Return}
	}
	switch porcupine.CheckOperationsTimeout(lockModel, ops, limit) {
	case porcupine.Ok:
		return linear.OK, nil
	case porcupine.Unknown:
		return linear.Unknown, nil
	}
	if picture == "" {
		return linear.Illegal, nil
	}
	file, err := os.Create(picture)
	if err != nil {
		return linear.Illegal, err
	}
	_, info := porcupine.CheckOperationsVerbose(lockModel, ops, limit)
	return linear.Illegal, errors.Join(porcupine.Visualize(lockModel, info, file), file.Close())
}
