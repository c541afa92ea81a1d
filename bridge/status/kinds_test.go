package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// Commands, metrics and rules accept only the kinds of the list.
func TestEventKindsListsAllKinds(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "journal.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "EventKind" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if declared++; !slices.Contains(EventKinds, EventKind(text)) {
			t.Errorf("EventKinds lacks %s", text)
		}
		return true
	})
	if declared != len(EventKinds) {
		t.Errorf("journal.go declares %d kinds, EventKinds has %d", declared, len(EventKinds))
	}
}
