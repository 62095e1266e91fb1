package number

import "strings"

// Amount is a number as it is written.
type Amount struct {
	Sign        string // "", "-" or "+"
	Whole, Frac string // digits, one of them not empty
	Grouped     bool   // with commas
}

// Parse reads the number that s begins with.
func Parse(s string) (a Amount, rest string, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		a.Sign, s = s[:1], s[1:]
	}
	n := Run(s)
	a.Whole, rest = s[:n], s[n:]
	if n >= 1 && n <= 3 {
		for len(rest) >= 4 && rest[0] == ',' && Run(rest[1:]) == 3 {
			a.Whole, rest, a.Grouped = a.Whole+rest[1:4], rest[4:], true
		}
	}
	if len(rest) >= 2 && rest[0] == '.' {
		if k := Run(rest[1:]); k > 0 {
			a.Frac, rest = rest[1:1+k], rest[1+k:]
		}
	}
	return a, rest, a.Whole != "" || a.Frac != ""
}

// Run is how many digits s begins with.
func Run(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// Words is the amount in words; and is as in Cardinal.
func (a Amount) Words(and bool) string {
	var out []string
	switch a.Sign {
	case "-":
		out = append(out, "minus")
	case "+":
		out = append(out, "plus")
	}
	if a.Whole != "" {
		out = append(out, Cardinal(a.Whole, and))
	}
	if a.Frac != "" {
		out = append(out, "point", Spelled(a.Frac))
	}
	return strings.Join(out, " ")
}

// One says that it is exactly one.
func (a Amount) One() bool { return a.Whole == "1" && a.Frac == "" }

// Bare says that the number is digits and nothing else.
func (a Amount) Bare() bool { return a.Sign == "" && a.Frac == "" && !a.Grouped }

// CouldBeYear says whether it looks like a year of the last millennium or this.
func (a Amount) CouldBeYear() bool {
	return a.Bare() && len(a.Whole) == 4 && a.Whole >= "1100" && a.Whole < "2100" && a.Whole != "2000"
}
