package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Every setting of `pilot up` has one row in docs/reference/settings.md, with its variable, its default and what `--help` says.
func TestSettingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	parser, err := kong.New(&commands{}, kong.Name("pilot"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `--") {
			if rows[line] {
				t.Errorf("twice: %s", line)
			}
			rows[line] = true
		}
	}
	flags := 0
	for _, command := range parser.Model.Children {
		if command.Name != "up" {
			continue
		}
		for _, flag := range command.Flags {
			flags++
			if row := settingRow(flag); !rows[row] {
				t.Errorf("not there: %s", row)
			} else {
				delete(rows, row)
			}
		}
	}
	for row := range rows {
		t.Errorf("no such setting: %s", row)
	}
	if flags < 60 {
		t.Errorf("only %d settings", flags)
	}
}

func settingRow(flag *kong.Flag) string {
	quoted := func(words ...string) string {
		if len(words) == 0 || words[0] == "" {
			return ""
		}
		return "`" + strings.Join(words, "`, `") + "`"
	}
	help := flag.Help
	if values := strings.Split(flag.Enum, ","); flag.Enum != "" && !strings.Contains(help, values[0]) {
		help += " One of " + quoted(values...) + "."
	}
	preset := quoted(flag.Default)
	if flag.IsBool() && preset == "" {
		preset = "off"
	}
	return "| `--" + flag.Name + "` | " + quoted(flag.Envs...) + " | " + preset + " | " + help + " |\n"
}
