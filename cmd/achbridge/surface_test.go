package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Exported means that another package calls it today. These packages, and all below them,
// are held to that: each exported name has to be used by another package. Use by the tests
// of another package counts if the doc comment speaks of tests. Methods that fulfil an
// interface, fields with tags and embedded fields need no user.
var surfaces = []string{"bridge", "discovery"}

func TestExportedNamesHaveUsers(t *testing.T) {
	if testing.Short() {
		t.Skip("asks the compiler for all packages: run without -short")
	}
	t.Parallel()
	h := loadHouse(t)
	for _, name := range h.unused() {
		t.Errorf("%s is exported, and no other package uses it", name)
	}
}

// house is all packages of ours, type-checked.
type house struct {
	set     *token.FileSet
	listed  map[string]*listedPackage
	export  types.Importer
	checked map[string]*types.Package
	byCode  map[types.Object]bool // what another package uses
	byTests map[types.Object]bool // what tests of another package use
	spoken  map[types.Object]bool // its doc comment speaks of tests
}

// listedPackage is what go list says of a package.
type listedPackage struct {
	ImportPath, Dir, Export            string
	GoFiles, TestGoFiles, XTestGoFiles []string
	CgoFiles                           []string
}

func loadHouse(t *testing.T) *house {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,CgoFiles", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	h := &house{set: token.NewFileSet(), listed: map[string]*listedPackage{}, checked: map[string]*types.Package{},
		byCode: map[types.Object]bool{}, byTests: map[types.Object]bool{}, spoken: map[types.Object]bool{}}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		p := &listedPackage{}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		h.listed[p.ImportPath] = p
	}
	h.export = importer.ForCompiler(h.set, "gc", func(path string) (io.ReadCloser, error) {
		if p := h.listed[path]; p != nil && p.Export != "" {
			return os.Open(p.Export)
		}
		return nil, errors.New("not needed by the program itself") // tests import it
	})
	for _, path := range slices.Sorted(maps.Keys(h.listed)) {
		if p := h.listed[path]; below(path, ours) {
			if _, err := h.Import(path); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			h.check(p, path, slices.Concat(p.GoFiles, p.TestGoFiles), h.byTests)
			h.check(p, path+"_test", p.XTestGoFiles, h.byTests)
		}
	}
	return h
}

// Import has our packages from their source, so that a name is one object for all who use
// it, and others from what the compiler made of them.
func (h *house) Import(path string) (*types.Package, error) {
	p := h.listed[path]
	if p == nil || !below(path, ours) || len(p.CgoFiles) > 0 {
		return h.export.Import(path)
	}
	if h.checked[path] == nil {
		h.checked[path] = h.check(p, path, p.GoFiles, h.byCode)
	}
	return h.checked[path], nil
}

// check type-checks files of a package and notes what they use of others. What tests import
// and the program does not is not known, which is no matter.
func (h *house) check(p *listedPackage, path string, names []string, used map[types.Object]bool) *types.Package {
	var files []*ast.File
	for _, name := range names {
		if file, err := parser.ParseFile(h.set, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution); err == nil {
			files = append(files, file)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: h, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check(path, h.set, files, info)
	uses := func(object types.Object) {
		if object.Pkg() != nil && object.Pkg() != pkg && object.Pkg().Path() != strings.TrimSuffix(path, "_test") {
			used[origin(object)] = true
		}
	}
	for _, object := range info.Uses {
		uses(object)
	}
	for _, file := range files {
		h.speaks(file, info)
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok && info.Types[literal].Type != nil {
				for _, field := range unnamedFields(literal, info.Types[literal].Type) {
					uses(field)
				}
			}
			return true
		})
	}
	return pkg
}

// unnamedFields are those that a literal sets in their order.
func unnamedFields(literal *ast.CompositeLit, of types.Type) (fields []types.Object) {
	shape, ok := of.Underlying().(*types.Struct)
	for i := 0; ok && i < min(len(literal.Elts), shape.NumFields()); i++ {
		if _, named := literal.Elts[i].(*ast.KeyValueExpr); !named {
			fields = append(fields, shape.Field(i))
		}
	}
	return fields
}

// origin is the object that was declared, also of one whose type parameters are set.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

var ofTests = regexp.MustCompile(`(?i)\btests?\b`)

// speaks notes the objects whose comments speak of tests.
func (h *house) speaks(file *ast.File, info *types.Info) {
	note := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		for _, name := range names {
			if ofTests.MatchString(doc.Text()) && info.Defs[name] != nil {
				h.spoken[info.Defs[name]] = true
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			note(n.Doc, n.Name)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Doc == nil {
						note(n.Doc, spec.Name)
					}
				case *ast.ValueSpec:
					if !n.Lparen.IsValid() {
						note(n.Doc, spec.Names...)
					}
				}
			}
		case *ast.TypeSpec:
			note(n.Doc, n.Name)
		case *ast.ValueSpec:
			note(n.Doc, n.Names...)
			note(n.Comment, n.Names...)
		case *ast.Field:
			note(n.Doc, n.Names...)
			note(n.Comment, n.Names...)
		}
		return true
	})
}

// unused are the exported names of the surfaces that nobody outside uses, as in bridge.Node.Run.
func (h *house) unused() (names []string) {
	reached := h.reached()
	needless := func(o types.Object) bool {
		return !h.byCode[o] && !reached[o] && !(h.byTests[o] && h.spoken[o])
	}
	report := func(pkg *types.Package, parts ...string) {
		names = append(names, strings.TrimPrefix(pkg.Path(), ours+"/")+"."+strings.Join(parts, "."))
	}
	for path, pkg := range h.checked {
		if !slices.ContainsFunc(surfaces, func(top string) bool { return below(path, ours+"/"+top) }) {
			continue
		}
		for _, name := range pkg.Scope().Names() {
			object := pkg.Scope().Lookup(name)
			if object.Exported() && needless(object) {
				report(pkg, name)
				continue // its methods and fields go with it
			}
			of, ok := object.(*types.TypeName)
			if !ok || of.IsAlias() {
				continue
			}
			named := of.Type().(*types.Named)
			for method := range named.Methods() {
				if method.Exported() && needless(method) && !h.fulfils(named, method.Name()) {
					report(pkg, name, method.Name())
				}
			}
			shape, _ := named.Underlying().(*types.Struct)
			for i := 0; shape != nil && object.Exported() && i < shape.NumFields(); i++ {
				if f := shape.Field(i); f.Exported() && !f.Embedded() && shape.Tag(i) == "" && needless(f) {
					report(pkg, name, f.Name())
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// reached are the types of what is used: who calls a function uses the type of its result,
// and those of its fields with tags, though he may not name them.
func (h *house) reached() map[types.Object]bool {
	reached := map[types.Object]bool{}
	seen := map[types.Type]bool{}
	var walk func(types.Type)
	walk = func(t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Named:
			reached[t.Obj()] = true
			for argument := range t.TypeArgs().Types() {
				walk(argument)
			}
			shape, _ := t.Underlying().(*types.Struct)
			for i := 0; shape != nil && i < shape.NumFields(); i++ {
				if f := shape.Field(i); f.Exported() && (f.Embedded() || shape.Tag(i) != "") {
					walk(f.Type())
				}
			}
		case *types.Pointer:
			walk(t.Elem())
		case *types.Slice:
			walk(t.Elem())
		case *types.Array:
			walk(t.Elem())
		case *types.Chan:
			walk(t.Elem())
		case *types.Map:
			walk(t.Key())
			walk(t.Elem())
		case *types.Signature:
			walk(t.Params())
			walk(t.Results())
		case *types.Tuple:
			for v := range t.Variables() {
				walk(v.Type())
			}
		}
	}
	for object := range h.byCode {
		walk(object.Type())
	}
	return reached
}

// fulfils reports whether the type needs the method for an interface that it has.
func (h *house) fulfils(named *types.Named, method string) bool {
	seen := map[*types.Package]bool{}
	var find func(*types.Package) bool
	find = func(pkg *types.Package) bool {
		if seen[pkg] {
			return false
		}
		seen[pkg] = true
		for _, name := range pkg.Scope().Names() {
			of, ok := pkg.Scope().Lookup(name).(*types.TypeName)
			if ok && isFor(of.Type(), named, method) {
				return true
			}
		}
		return slices.ContainsFunc(pkg.Imports(), find)
	}
	for _, pkg := range h.checked {
		if find(pkg) {
			return true
		}
	}
	return isFor(types.Universe.Lookup("error").Type(), named, method) || method == "Unwrap" || method == "Is" // of package errors
}

// isFor reports whether wanted is an interface with the method which named has.
func isFor(wanted types.Type, named *types.Named, method string) bool {
	list, ok := wanted.Underlying().(*types.Interface)
	if !ok || !list.IsMethodSet() {
		return false
	}
	for m := range list.Methods() {
		if m.Name() == method {
			return types.Implements(named, list) || types.Implements(types.NewPointer(named), list)
		}
	}
	return false
}
