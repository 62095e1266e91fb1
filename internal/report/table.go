package report

import (
	"strings"
	"unicode/utf8"
)

// Table lays rows out in columns two spaces apart, the first column to the left and the others to the right, unless a
// heading begins with "<": that column stands to the left. Lines have no trailing spaces.
func Table(heads []string, rows [][]string) string {
	left := make([]bool, len(heads))
	widths := make([]int, len(heads))
	lines := make([][]string, 0, len(rows)+1)
	first := make([]string, len(heads))
	for i, h := range heads {
		first[i], left[i] = strings.CutPrefix(h, "<")
		left[i] = left[i] || i == 0
	}
	lines = append(append(lines, first), rows...)
	for _, line := range lines {
		for i, cell := range line[:min(len(line), len(widths))] {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var row strings.Builder
		for i, cell := range line[:min(len(line), len(widths))] {
			if i > 0 {
				row.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if left[i] {
				row.WriteString(cell + pad)
			} else {
				row.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return b.String()
}
