package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// text is a piece of a file, of a kind that rules.txt explains.
type text struct {
	kind, file string
	line       int
	text       string
}

// excerpt returns file and number of the line with the byte at, and that line.
func (t text) excerpt(at int) string {
	before := t.text[:at]
	rest, _, _ := strings.Cut(t.text[at:], "\n")
	return fmt.Sprintf("%s:%d: %s", t.file, t.line+strings.Count(before, "\n"), before[strings.LastIndex(before, "\n")+1:]+rest)
}

// reader collects the texts of files, and all words in their code.
type reader struct {
	files *token.FileSet
	texts []text
	words map[string]bool
}

var (
	word      = regexp.MustCompile(`\w+`)
	example   = regexp.MustCompile(`(?m)^\t.*`)
	camelCase = regexp.MustCompile(`\b\w*[a-z]\w*[A-Z]\w*\b`)
	testName  = regexp.MustCompile(`^(Test|Fuzz|Benchmark)([A-Z_]|$)`)
	humps     = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])|_`)
)

// read adds a file; of one that is not in Go only its words.
func (r *reader) read(file, content string) error {
	if path.Ext(file) != ".go" {
		r.learn(content)
		return nil
	}
	f, err := parser.ParseFile(r.files, file, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r.addNames(&ast.Ident{NamePos: f.Package, Name: strings.TrimSuffix(path.Base(file), ".go")})
	ast.Inspect(f, r.visit)
	for _, d := range f.Decls {
		r.addDecl(d)
	}
	for _, c := range f.Comments {
		if strings.Contains(c.Text(), "#include") { // code for cgo
			r.learn(c.Text())
			continue
		}
		r.add("comment", c.Pos(), c.Text())
		for _, w := range camelCase.FindAllString(example.ReplaceAllString(c.Text(), ""), -1) {
			r.add("unknown", c.Pos(), w)
		}
	}
	return nil
}

func (r *reader) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Ident:
		r.words[n.Name] = true
	case *ast.BasicLit:
		r.learn(n.Value)
	case *ast.StructType:
		for _, field := range n.Fields.List {
			for _, name := range field.Names {
				r.add("field", name.Pos(), name.Name)
			}
		}
	case *ast.Field:
		r.addNames(n.Names...)
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			r.addExprs(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			r.addExprs(n.Key, n.Value)
		}
	case *ast.FuncDecl:
		r.addNames(n.Name)
	case *ast.ValueSpec:
		r.addNames(n.Names...)
	case *ast.TypeSpec:
		r.addNames(n.Name)
	case *ast.CallExpr:
		fun, ok := n.Fun.(*ast.SelectorExpr)
		if ok && len(n.Args) > 0 && slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, fun.Sel.Name) {
			if message, ok := n.Args[0].(*ast.BasicLit); ok {
				r.add("log", message.Pos(), message.Value)
			}
		}
	}
	return true
}

// addDecl adds the doc comments of a declaration, and the name of a test.
func (r *reader) addDecl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if testName.MatchString(d.Name.Name) {
			r.add("test", d.Pos(), d.Name.Name)
		} else if d.Doc != nil && !strings.HasPrefix(d.Name.Name, "Example") {
			r.add("funcdoc", d.Doc.Pos(), d.Doc.Text())
			r.addDoc(d.Doc, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok {
				doc := t.Doc
				if !d.Lparen.IsValid() {
					doc = d.Doc
				}
				r.addDoc(doc, t.Name)
			} else if v, ok := spec.(*ast.ValueSpec); ok && !d.Lparen.IsValid() {
				r.addDoc(d.Doc, v.Names[0])
			}
		}
	}
}

// addDoc adds doc if it does not begin with name, or an article and name.
func (r *reader) addDoc(doc *ast.CommentGroup, name *ast.Ident) {
	begin := regexp.MustCompile(`^(Deprecated: )?((A|An|The) )?` + name.Name + `\b`)
	if doc.Text() != "" && !begin.MatchString(doc.Text()) {
		r.add("misnamed", doc.Pos(), doc.Text())
	}
}

// addNames adds names as words: "testName" and "test_name" are "test name".
func (r *reader) addNames(names ...*ast.Ident) {
	for _, name := range names {
		r.add("name", name.Pos(), strings.ToLower(humps.ReplaceAllString(name.Name, "$1$3 $2$4")))
	}
}

func (r *reader) addExprs(exprs ...ast.Expr) {
	for _, e := range exprs {
		if name, ok := e.(*ast.Ident); ok {
			r.addNames(name)
		}
	}
}

func (r *reader) add(kind string, pos token.Pos, s string) {
	at := r.files.Position(pos)
	r.texts = append(r.texts, text{kind, at.Filename, at.Line, s})
}

func (r *reader) learn(code string) {
	for _, w := range word.FindAllString(code, -1) {
		r.words[w] = true
	}
}

// found returns the texts, of the words in comments only those that are not in the code.
func (r *reader) found() []text {
	return slices.DeleteFunc(r.texts, func(t text) bool { return t.kind == "unknown" && r.words[t.text] })
}
