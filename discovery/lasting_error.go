package discovery

// lastingError remembers the last error of a repeated action, so that the caller logs only new errors.
type lastingError struct{ text string }

// isNew reports whether err is an error other than the last one, and remembers err. Pass nil after a success.
func (t *lastingError) isNew(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	begins := text != "" && text != t.text
	t.text = text
	return begins
}
