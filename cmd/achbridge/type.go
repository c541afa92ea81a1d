package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/debuginfo"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/values"
	"achbridge/cmd/achbridge/view"
)

// valueFlags holds the flags of echo and `channel cat` about the values in frames.
type valueFlags struct {
	file            string
	fields          []string
	csv, json, diff bool
}

func (v *valueFlags) define(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&v.fields, "field", nil, "print only `FIELD`, as in gyro.z; repeatable (default all)")
	f.BoolVar(&v.csv, "csv", false, "print values as CSV under a line of names")
	f.BoolVarP(&v.json, "json", "j", false, "print values as one JSON object per frame")
	f.BoolVar(&v.diff, "diff", false, "print only fields that changed")
	v.defineType(cmd)
}

func (v *valueFlags) defineType(cmd *cobra.Command) {
	cmd.Flags().StringVar(&v.file, "type", "", "read the layout from `FILE` (default: configured or origin's)")
}

// given reports whether any given flag needs a layout.
func (v *valueFlags) given() bool {
	return v.csv || v.json || v.diff || v.file != "" || v.fields != nil
}

// printer returns a printer for the values of a channel. If the layout is not known, it returns
// an error if a flag needs the layout, else nil.
func (a *app) printer(v *valueFlags, of view.View) (*values.Printer, error) {
	l, _, err := a.LayoutOf(v.file, of)
	switch {
	case err != nil:
		return nil, err
	case l == nil && v.given():
		return nil, noLayout(of)
	case l == nil:
		return nil, nil
	}
	return a.printerOf(v, l), nil
}

func (a *app) printerOf(v *valueFlags, l *layout.Layout) *values.Printer {
	p := &values.Printer{Layout: l, Fields: v.fields, Note: a.ui.Note, Columns: a.ui.Columns}
	switch {
	case v.csv:
		p.Form = values.CSV
	case v.json:
		p.Form = values.JSON
	case v.diff:
		p.Form = values.Changes
	}
	return p
}

func noLayout(of view.View) error {
	return ui.NotFound(fmt.Errorf("channel %s: no layout says what its frames hold", of.Of),
		"name one: --type FILE, or types: in the configuration")
}

func typeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "type",
		Short:       "Make frame layouts from programs and protobuf files",
		Example:     examples("achbridge type import ./controller", "achbridge type import ./controller imu_msg"),
		Annotations: docs("docs/types.md"),
	}
	cmd.AddCommand(typeImportCommand(a))
	return needsCommand(cmd)
}

func typeImportCommand(a *app) *cobra.Command {
	i := typeImport{app: a}
	cmd := &cobra.Command{
		Use:         "import FILE [STRUCT|MESSAGE]...",
		Short:       "Make layouts from a program, header or protobuf file",
		Example:     examples("achbridge type import robot.proto robot.State", "achbridge type import state.h state -- -Iinclude -DARMS=2"),
		Annotations: docs("docs/types.md"),
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return takes("FILE", "[STRUCT|MESSAGE]...")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args, i.options = args[:n], args[n:]
			}
			return i.run(cmd.Context(), args[0], args[1:])
		},
	}
	cmd.Flags().StringVarP(&i.out, "out", "o", "types", "write the layouts into `DIR`")
	cmd.Flags().StringSliceVar(&i.unions, "union", nil, "show `MEMBER` of a union; repeatable (default first member)")
	cmd.Flags().BoolVar(&i.force, "force", false, "overwrite existing files")
	cmd.Flags().BoolVar(&i.asRoot, "as-root", false, "run the compiler even as root")
	a.jsonFlag(cmd)
	return cmd
}

// typeImport holds the flags of `type import`.
type typeImport struct {
	*app
	out           string
	force, asRoot bool
	options       []string
	unions        []string // names of the members to show of unions
}

func (i *typeImport) run(ctx context.Context, file string, names []string) error {
	header := slices.Contains([]string{".h", ".hh", ".hpp", ".hxx"}, filepath.Ext(file))
	if !header && (filepath.Ext(file) == ".proto" || isDescriptors(file)) {
		return i.protobuf(file, names)
	}
	switch {
	case header && len(names) == 0:
		return ui.Usage(errors.New("type import: of a header a STRUCT is needed"), "")
	case header && i.UID == 0 && !i.asRoot:
		return ui.Usage(errors.New("type import: a compiler does not run as root"), "do it as another user, or give --as-root")
	case !header && len(i.options) > 0:
		return ui.Usage(errors.New("type import: options behind -- are for a header's compiler"), "")
	case !header && len(names) == 0:
		return i.list(file)
	case i.asJSON:
		return ui.Usage(errors.New("type import: --json is of the list, without STRUCT"), "")
	}
	for _, name := range names {
		p, err := i.open(ctx, header, file, name)
		if err != nil {
			return err
		}
		if err := i.write(p, file, name); err != nil {
			return err
		}
	}
	return nil
}

func (i *typeImport) open(ctx context.Context, header bool, file, name string) (p *debuginfo.Program, err error) {
	if header {
		p, err = debuginfo.Compile(ctx, file, name, cmp.Or(i.Env("CC"), "cc"), i.options)
	} else {
		p, err = debuginfo.Open(file)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ui.NotFound(err, "")
	case err != nil:
		return nil, ui.Failure(err, "")
	}
	return p, nil
}

// notInName matches the characters of a struct's name that the name of its layout file must not contain.
var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// write writes the layout of struct name to a file in i.out.
func (i *typeImport) write(p *debuginfo.Program, file, name string) error {
	l, warnings, err := p.Layout(name, i.unions...)
	if errors.Is(err, fs.ErrNotExist) {
		return ui.NotFound(err, "achbridge type import FILE lists those of a program")
	} else if err != nil {
		return ui.Failure(err, "")
	}
	if err := i.writeFile(l, "Of struct "+l.Name+" in "+filepath.Base(file)); err != nil {
		return err
	}
	for _, w := range warnings {
		i.ui.Note("%s: %s", l.Name, w)
	}
	return nil
}

// writeFile writes a layout to a file in i.out. about is the first line of the file's comment.
func (i *typeImport) writeFile(l *layout.Layout, about string) error {
	text, err := config.LayoutText(l, about+", by achbridge type import.\n")
	if err != nil {
		return ui.Failure(fmt.Errorf("%s: %w", l.Name, err), "")
	}
	path := filepath.Join(i.out, strings.Trim(notInName.ReplaceAllString(l.Name, "_"), "_")+".yaml")
	if err := os.MkdirAll(i.out, 0o777); err != nil {
		return ui.Failure(err, "")
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if i.force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	out, err := os.OpenFile(path, how, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return ui.Failure(fmt.Errorf("%s: exists already", path), "--force replaces it, --out DIR writes elsewhere")
	} else if err != nil {
		return ui.Failure(err, "")
	}
	_, err = out.Write(text)
	if err = errors.Join(err, out.Close()); err != nil {
		return ui.Failure(err, "")
	}
	return i.ui.Line("%s: %s", path, l)
}

// listedStruct is one struct in the output of `type import` without STRUCT.
type listedStruct struct {
	Struct   string   `json:"struct"`
	Bytes    int      `json:"bytes"`
	Source   string   `json:"source"`
	Channels []string `json:"channels"` // local channels whose newest frame has the size of the struct
}

// Limits of the table of structs. The JSON output has all channels and full names.
const (
	namedChannels = 3   // number of channels listed for one struct
	longName      = 100 // bytes of a struct's name; the names of C++ templates may have thousands
)

// list prints the structs of a program, first those that are as large as a frame of a local channel.
func (i *typeImport) list(file string) error {
	p, err := i.open(context.Background(), false, file, "")
	if err != nil {
		return err
	}
	sizes := i.frameSizes()
	list, rows := []listedStruct{}, [][]string{}
	structs, protobufC, err := p.Structs()
	if err != nil {
		return ui.Failure(err, "")
	}
	if protobufC > 0 {
		i.ui.Note("%s of protobuf-c omitted, since frames contain them encoded: import their .proto file", countText(protobufC, "message"))
	}
	for _, s := range structs {
		list = append(list, listedStruct{s.Name, s.Size, s.Source, append([]string{}, sizes[s.Size]...)})
	}
	if len(list) == 0 {
		return ui.NotFound(fmt.Errorf("%s: no struct with a name", file), "")
	}
	slices.SortStableFunc(list, func(a, b listedStruct) int { return min(1, len(b.Channels)) - min(1, len(a.Channels)) })
	if i.asJSON {
		return i.ui.JSON(list)
	}
	for _, s := range list {
		channels := strings.Join(s.Channels, ", ")
		if more := len(s.Channels) - namedChannels; more > 0 {
			channels = fmt.Sprintf("%s and %d more", strings.Join(s.Channels[:namedChannels], ", "), more)
		}
		name := s.Struct
		if len(name) > longName {
			name = name[:longName-3] + "..."
		}
		rows = append(rows, []string{fmt.Sprint(s.Bytes), s.Source, channels, name})
	}
	return i.ui.Table([]string{"BYTES", "SOURCE", "AS LARGE AS FRAMES OF", "STRUCT"}, rows)
}

// frameSizes returns the names of this host's channels by the size of their newest frame.
func (i *typeImport) frameSizes() map[int][]string {
	sizes := map[int][]string{}
	infos, _ := i.Dir.List()
	for _, info := range infos {
		ch, err := i.Dir.TryOpenToRead(info.Name)
		if err != nil {
			continue
		}
		f := view.NewFollower(ch)
		if frame, err := f.Newest(0); err == nil {
			sizes[len(frame)] = append(sizes[len(frame)], info.Name)
		}
		ch.Close()
	}
	return sizes
}
