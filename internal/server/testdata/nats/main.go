// Command natsserver is a NATS server for the tests of padlock. Debian's nats-server is too old for
// them. It takes the flags of nats-server.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	flags := flag.NewFlagSet("natsserver", flag.ExitOnError)
	options, err := server.ConfigureOptions(flags, os.Args[1:], server.PrintServerAndExit, flags.Usage, server.PrintTLSHelpAndDie)
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		log.Fatal(err)
	}
	s.ConfigureLogger()
	if err := server.Run(s); err != nil {
		log.Fatal(err)
	}
	s.WaitForShutdown()
}
