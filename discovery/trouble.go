package discovery

// trouble is an error that lasts. It is logged when it begins or changes.
type trouble struct{ text string }

// begins reports whether err differs from the last error; nil ends the trouble.
func (t *trouble) begins(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	begins := text != "" && text != t.text
	t.text = text
	return begins
}
