package pgadvisory

import (
	"os"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }
