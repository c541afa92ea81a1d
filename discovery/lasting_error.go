package discovery

// lastingError is an error that lasts. It is logged when it begins or changes.
type lastingError struct{ text string }

// isNew reports whether err differs from the last error; nil ends the trouble.
func (t *lastingError) isNew(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	begins := text != "" && text != t.text
	t.text = text
	return begins
}
