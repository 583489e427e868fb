// Package open makes a store from its URL.
package open

import _ "github.com/padlock-go/padlock/driver" // what it makes
