package phpcodec

// Steps counts the entries that edits have looked at or moved.
func (d *Document) Steps() int { return d.steps }
