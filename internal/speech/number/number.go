// Package number is numbers in English words: cardinals, ordinals, years, digits one by one, and amounts as they are written.
// What a number is of, and which of these it is, is decided in package normal.
//
//	number.Cardinal("3497", false)              // "three thousand four hundred ninety seven"
//	number.Ordinal("twenty four")               // "twenty fourth"
//	a, rest, ok := number.Parse("-1,234.5 km")  // "-", "1234", "5"; " km"
package number

import "strings"

var (
	ones = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
	tens = strings.Fields("- - twenty thirty forty fifty sixty seventy eighty ninety")
	// scales are the names of a thousand to the power of their index.
	scales = append([]string{""}, strings.Fields("thousand million billion trillion quadrillion quintillion")...)
)

var ordinals = map[string]string{"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth", "twelve": "twelfth"}

// Cardinal is a row of digits as a number; and puts "and" before what follows hundreds, as the British do. Rows too long to
// have a name, and those with zeros before, are said digit by digit.
func Cardinal(digits string, and bool) string {
	if len(digits) > 1 && digits[0] == '0' || len(digits) > 3*len(scales) {
		return Spelled(digits)
	}
	var out []string
	for rest := digits; rest != ""; {
		n := (len(rest)-1)%3 + 1
		scale := (len(rest) - n) / 3
		group := Value(rest[:n])
		rest = rest[n:]
		if group == 0 {
			continue
		}
		words := hundreds(group, and)
		if and && scale == 0 && group < 100 && len(out) > 0 {
			words = "and " + words
		}
		if scale > 0 {
			words += " " + scales[scale]
		}
		out = append(out, words)
	}
	if len(out) == 0 {
		return "zero"
	}
	return strings.Join(out, " ")
}

// hundreds is a number from 1 to 999.
func hundreds(n int, and bool) string {
	var out []string
	if n >= 100 {
		out = append(out, ones[n/100], "hundred")
		if n %= 100; n > 0 && and {
			out = append(out, "and")
		}
	}
	switch {
	case n >= 20:
		out = append(out, tens[n/10])
		if n%10 > 0 {
			out = append(out, ones[n%10])
		}
	case n > 0:
		out = append(out, ones[n])
	}
	return strings.Join(out, " ")
}

// Small is a number from 0 to 99.
func Small(n int) string {
	if n == 0 {
		return "zero"
	}
	return hundreds(n, false)
}

// Spelled is digits one by one.
func Spelled(digits string) string {
	out := make([]string, 0, len(digits))
	for _, d := range digits {
		if d >= '0' && d <= '9' {
			out = append(out, ones[d-'0'])
		}
	}
	return strings.Join(out, " ")
}

// Ordinal makes one of a number in words.
func Ordinal(words string) string {
	at := strings.LastIndexByte(words, ' ') + 1
	last := words[at:]
	switch o := ordinals[last]; {
	case o != "":
		last = o
	case strings.HasSuffix(last, "y"):
		last = last[:len(last)-1] + "ieth"
	default:
		last += "th"
	}
	return words[:at] + last
}

// Plural is more than one of a number in words, as in nineties.
func Plural(words string) string {
	switch {
	case strings.HasSuffix(words, "y"):
		return words[:len(words)-1] + "ies"
	case strings.HasSuffix(words, "x"):
		return words + "es"
	}
	return words + "s"
}

// Year is four digits, or fewer, as a year.
func Year(digits string, and bool) string {
	if len(digits) != 4 || digits[0] == '0' {
		return Cardinal(strings.TrimLeft(digits, "0"), and)
	}
	high, low := Value(digits[:2]), Value(digits[2:])
	switch {
	case high%10 == 0 && low < 10:
		return Cardinal(digits, and)
	case low == 0:
		return Small(high) + " hundred"
	case low < 10:
		return Small(high) + " oh " + ones[low]
	}
	return Small(high) + " " + Small(low)
}

// Value is a short row of digits.
func Value(digits string) int {
	n := 0
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// numerals are the parts of Roman numerals, the largest first.
var numerals = []struct {
	value   int
	letters string
}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"}}

// Roman is the value of a numeral in capitals, written as it should be, up to 3999; else 0.
func Roman(s string) int {
	if len(s) > 15 {
		return 0
	}
	n, rest := 0, s
	for _, l := range numerals {
		for strings.HasPrefix(rest, l.letters) {
			n, rest = n+l.value, rest[len(l.letters):]
		}
	}
	if rest != "" || n > 3999 || written(n) != s {
		return 0
	}
	return n
}

// written is a number as a Roman numeral.
func written(n int) string {
	var b strings.Builder
	for _, l := range numerals {
		for ; n >= l.value; n -= l.value {
			b.WriteString(l.letters)
		}
	}
	return b.String()
}
