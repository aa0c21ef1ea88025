// Command release packs the modules of this repository as a module proxy packs them. scripts/release asks it for
// checksums, scripts/release-rehearsal for a module proxy in a folder, and scripts/release-files for the licences of what
// is compiled in.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

const usage = `usage: release sums VERSION FOLDER...
       release proxy -repository DIR -out DIR VERSION FOLDER...
       release licenses [-out FILE] FOLDER...

sums prints the go.sum lines of the modules in these folders of the working tree.
proxy writes them into a folder that GOPROXY can name as file://DIR, each from its tag in a repository.
licenses fails if a module that is compiled in has a licence that is not allowed. The notices of the last folder go to FILE.
A folder counts from the root of the repository; the root itself is "."`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("no command; " + usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	repository := flags.String("repository", ".", "")
	target := flags.String("out", "", "")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("%w; %s", err, usage)
	}
	if args[0] == "licenses" {
		if flags.NArg() == 0 {
			return errors.New("which folders? " + usage)
		}
		for _, folder := range flags.Args() {
			if err := printLicenses(out, folder, *target); err != nil {
				return fmt.Errorf("%s: %w", folder, err)
			}
		}
		return nil
	}
	if flags.NArg() < 2 {
		return errors.New("which version, of which folders? " + usage)
	}
	version, folders := flags.Arg(0), flags.Args()[1:]
	for _, folder := range folders {
		var err error
		switch args[0] {
		case "sums":
			err = printSums(out, folder, version)
		case "proxy":
			err = addToProxy(*target, *repository, folder, version)
		default:
			return fmt.Errorf("unknown command %q; %s", args[0], usage)
		}
		if err != nil {
			return fmt.Errorf("%s at %s: %w", folder, version, err)
		}
	}
	return nil
}

// printSums prints the two lines of go.sum for the module in a folder of the working tree.
func printSums(out io.Writer, folder, version string) error {
	goMod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	mod, err := moduleAt(goMod, version)
	if err != nil {
		return err
	}
	packed, err := os.CreateTemp("", "release-*.zip")
	if err != nil {
		return err
	}
	defer os.Remove(packed.Name())
	defer packed.Close()
	files, err := trackedFiles(folder)
	if err != nil {
		return err
	}
	if err := zip.Create(packed, mod, files); err != nil {
		return err
	}
	sum, err := dirhash.HashZip(packed.Name(), dirhash.Hash1)
	if err != nil {
		return err
	}
	modSum, err := hashOfGoMod(goMod)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s %s %s\n%s %s/go.mod %s\n", mod.Path, version, sum, mod.Path, version, modSum)
	return err
}

// moduleAt returns the module of a go.mod file at a version, if the two may go together.
func moduleAt(goMod []byte, version string) (module.Version, error) {
	mod := module.Version{Path: modfile.ModulePath(goMod), Version: version}
	return mod, module.Check(mod.Path, mod.Version)
}

func hashOfGoMod(goMod []byte) (string, error) {
	return dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(string(goMod))), nil
	})
}

// trackedFiles returns the files of a folder that git knows.
func trackedFiles(folder string) ([]zip.File, error) {
	list, err := git(folder, "ls-files", "-z", "--", ".")
	if err != nil {
		return nil, err
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		files = append(files, file{folder, name})
	}
	return files, nil
}

// file is a file of the working tree.
type file struct{ folder, name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.path()) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.path()) }
func (f file) path() string                 { return filepath.Join(f.folder, filepath.FromSlash(f.name)) }

// addToProxy packs a module from its tag as the go command packs what it fetches from git, with the same refusals: of
// names that some system reserves, of files that are too large.
func addToProxy(target, repository, folder, version string) error {
	if target == "" {
		return errors.New("which folder? -out DIR")
	}
	sub, tag := "", version
	if folder != "." {
		sub, tag = folder, folder+"/"+version
	}
	goMod, err := git(repository, "show", tag+":"+strings.TrimPrefix(folder+"/go.mod", "./"))
	if err != nil {
		return err
	}
	mod, err := moduleAt(goMod, version)
	if err != nil {
		return err
	}
	if parsed, err := modfile.Parse("go.mod", goMod, nil); err != nil {
		return err
	} else if len(parsed.Replace) > 0 {
		return fmt.Errorf("go.mod has a replace directive, of %s: go install refuses such a module", parsed.Replace[0].Old.Path)
	}
	escaped, err := module.EscapePath(mod.Path)
	if err != nil {
		return err
	}
	versions := filepath.Join(target, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": goMod} {
		if err := os.WriteFile(filepath.Join(versions, name), data, 0o644); err != nil {
			return err
		}
	}
	packed, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromVCS(packed, mod, repository, tag, sub), packed.Close())
}

// git runs git in a folder and returns what it prints.
func git(folder string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = folder
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return out, nil
}
