package fast

import (
	"strconv"

	"github.com/padlock-go/padlock/driver"
)

// CheckSlots checks that a name can have n slots.
func CheckSlots(name string, n int, g *driver.Guarantees) error {
	if n < 1 || n > driver.MaxSlots {
		is := "is " + strconv.Itoa(n)
		if n < 1 {
			is = "is less than 1"
		}
		return invalid("Slots", is+"; 1 to "+strconv.Itoa(driver.MaxSlots)+" are allowed")
	}
	most := driver.MaxName
	if g.MaxName > 0 {
		most = min(most, g.MaxName)
	}
	if most -= len(driver.SlotGate("", driver.MaxSlots)); len(name) > most {
		return invalid("name", "has "+strconv.Itoa(len(name))+" bytes, at most "+strconv.Itoa(most)+" are allowed with Slots")
	}
	return driver.CheckName(name, g)
}
