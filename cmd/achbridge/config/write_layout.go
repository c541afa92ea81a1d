package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"achbridge/bridge/layout"
)

// LayoutText is the file of a layout, for people to edit. The lines of about become its
// comment. It returns an error if the layout is not valid, for example too large.
func LayoutText(l *layout.Layout, about string) ([]byte, error) {
	var b strings.Builder
	for line := range strings.Lines(about) {
		b.WriteString("# " + line)
	}
	fmt.Fprintf(&b, "name: %s\n", quoted(l.Name))
	switch {
	case l.Descriptors != nil:
		fmt.Fprintf(&b, "descriptors: %s\n", base64.StdEncoding.EncodeToString(l.Descriptors))
	case l.Variants != nil:
		writeVariants(&b, l)
	default:
		writeStruct(&b, l, "")
	}
	text := []byte(b.String())
	if _, err := ReadLayout(l.Name, text); err != nil {
		if all, ok := errors.AsType[Problems](err); ok { // nobody has seen the file: its lines say nothing
			return nil, errors.New(all[0].Text)
		}
		return nil, err
	}
	return text, nil
}

func writeVariants(b *strings.Builder, l *layout.Layout) {
	if l.By != "" {
		fmt.Fprintf(b, "by: %s\n", quoted(l.By))
	}
	b.WriteString("layouts:\n")
	for i := range l.Variants {
		v := &l.Variants[i]
		fmt.Fprintf(b, "  - name: %s\n", quoted(v.Layout.Name))
		if l.By != "" {
			fmt.Fprintf(b, "    value: %d\n", v.Value)
		}
		writeStruct(b, &v.Layout, "    ")
	}
}

// writeStruct writes the keys of a layout without variants, except its name.
func writeStruct(b *strings.Builder, l *layout.Layout, indent string) {
	fmt.Fprintf(b, "%ssize: %d\n", indent, l.Size)
	if l.Tail != "" {
		counter := l.Counter
		if counter == "" {
			counter = "rest"
		}
		fmt.Fprintf(b, "%stail: %s\n%scount: %s\n", indent, quoted(l.Tail), indent, quoted(counter))
	}
	fmt.Fprintf(b, "%sfields:\n", indent)
	writeFields(b, l.Fields, indent+"  ")
}

func writeFields(b *strings.Builder, fields []layout.Field, indent string) {
	for _, f := range fields {
		keys := []string{"name: " + quoted(f.Name), fmt.Sprintf("offset: %d", f.Offset), "type: " + string(f.Type)}
		if f.Type.OwnSize() == 0 {
			keys = append(keys, fmt.Sprintf("size: %d", f.Size))
		}
		switch len(f.Count) {
		case 0:
		case 1:
			keys = append(keys, fmt.Sprintf("count: %d", f.Count[0]))
		default:
			keys = append(keys, "count: "+strings.ReplaceAll(fmt.Sprint(f.Count), " ", ", "))
		}
		if f.Bits > 0 {
			keys = append(keys, fmt.Sprintf("bits: %d", f.Bits), fmt.Sprintf("bit: %d", f.Bit))
		}
		if f.Words != nil {
			var words []string
			for _, w := range f.Words {
				words = append(words, quoted(fmt.Sprintf("%s=%d", w.Name, w.Value)))
			}
			keys = append(keys, "words: ["+strings.Join(words, ", ")+"]")
		}
		if f.Unit != "" {
			keys = append(keys, "unit: "+quoted(f.Unit))
		}
		if f.Scale != 0 {
			keys = append(keys, fmt.Sprintf("scale: %v", f.Scale))
		}
		if f.Union {
			keys = append(keys, "union: true")
		}
		if f.Fields == nil {
			fmt.Fprintf(b, "%s- {%s}\n", indent, strings.Join(keys, ", "))
			continue
		}
		fmt.Fprintf(b, "%s- %s\n", indent, strings.Join(keys, "\n"+indent+"  "))
		b.WriteString(indent + "  fields:\n")
		writeFields(b, f.Fields, indent+"    ")
	}
}

// plainWord needs no quotes in YAML, unless it is one that means something there.
var plainWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.*]*(=-?[0-9]+)?$`)

// quoted is a word as YAML has it; a layout's words have no quotes in them.
func quoted(word string) string {
	if plainWord.MatchString(word) && strings.ToLower(word) != "null" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", "''") + "'"
}
