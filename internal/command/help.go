package command

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// columns is how wide help is: what a plain terminal shows, and the same bytes where there is none.
const columns = 80

// Grouped puts commands under a title of the program's help, in the order in which they are given.
func Grouped(root *cobra.Command, title string, commands ...*cobra.Command) {
	cobra.EnableCommandSorting = false
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// help is what --help prints: what the command does, how it is called, examples, and its flags, folded to columns.
func help(c *cobra.Command) string {
	var b strings.Builder
	does := c.Long
	if does == "" {
		does = c.Short
	}
	b.WriteString(prose(does) + "\n")
	usage(&b, c)
	return b.String()
}

func usage(out io.Writer, c *cobra.Command) {
	fmt.Fprintf(out, "\nUsage:\n")
	if c.Runnable() && c.HasParent() {
		fmt.Fprintf(out, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(out, "  %s COMMAND\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(out, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n "))
	}
	for _, g := range c.Groups() {
		listed(out, c, g.Title, g.ID)
	}
	if len(c.Groups()) > 0 {
		listed(out, c, "Besides", "")
	} else if c.HasAvailableSubCommands() {
		listed(out, c, "Commands", "")
	}
	if c.HasAvailableFlags() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.Contains(f.Usage, "(default:") {
				f.DefValue = "" // told in words
			}
		})
		fmt.Fprintf(out, "\nFlags:\n%s", c.Flags().FlagUsagesWrapped(columns))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(out, "\n%s COMMAND --help says more of a command.\n", c.CommandPath())
	}
}

// listed prints the commands of one group, a line each, and more where one is too long.
func listed(out io.Writer, c *cobra.Command, title, group string) {
	begun := false
	for _, sub := range c.Commands() {
		if sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help" {
			continue
		}
		if !begun {
			fmt.Fprintf(out, "\n%s:\n", title)
			begun = true
		}
		name := fmt.Sprintf("  %-*s  ", sub.NamePadding(), sub.Name())
		fmt.Fprintf(out, "%s%s\n", name, folded(sub.Short, len(name)))
	}
}

// prose folds the paragraphs of a text. One with columns of its own (two spaces or a tab somewhere) stays as it is.
func prose(text string) string {
	paragraphs := strings.Split(strings.Trim(text, "\n"), "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains(p, "  ") && !strings.Contains(p, "\t") {
			paragraphs[i] = folded(p, 0)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// folded breaks s between words so that it fits beside an indent, which its further lines begin with.
func folded(s string, indent int) string {
	var b strings.Builder
	at := indent
	for i, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
