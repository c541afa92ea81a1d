package main_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
)

// Pure packages contain only values and functions: no I/O, no goroutines, no clock.
var (
	purePackages = []string{"wire", "bridge/age", "bridge/clock", "bridge/delivery", "bridge/pacing", "bridge/rule", "bridge/ledger", "bridge/operator", "bridge/via", "bridge/unit", "bridge/layout", "bridge/peers", "bridge/seal", "bridge/stamps", main + "diagnose", main + "recording/snapshots"}
	impureTree   = []string{"net", "os", "sync", "syscall", "log", "golang.org/x/sys"}
	clockOfTime  = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}
)

// impurities calls report for each thing that a pure package must not do: import a package
// for I/O, read the clock, start a goroutine.
func impurities(file *ast.File, report func(token.Pos, string)) {
	clock := ""
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if slices.ContainsFunc(impureTree, func(p string) bool { return below(imported, p) }) {
			report(spec.Pos(), fmt.Sprintf("imports %q", imported))
		}
		switch {
		case imported != "time":
		case spec.Name == nil:
			clock = "time"
		case spec.Name.Name == ".":
			report(spec.Pos(), "imports time without its name")
		default:
			clock = spec.Name.Name
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n.Pos(), "starts a goroutine")
		case *ast.SelectorExpr:
			from, ok := n.X.(*ast.Ident)
			if ok && clock != "" && from.Name == clock && slices.Contains(clockOfTime, n.Sel.Name) {
				report(n.Pos(), "reads the clock: time."+n.Sel.Name)
			}
		}
		return true
	})
}
