package normal

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"loadline/internal/speech/number"
)

var magnitudes = map[string]string{"thousand": "thousand", "million": "million", "billion": "billion", "trillion": "trillion", "hundred": "hundred", "dozen": "dozen",
	"k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "mm": "million", "bn": "billion", "b": "billion", "B": "billion", "tn": "trillion", "T": "trillion"}

// wordMagnitude is a magnitude that stands apart from its number.
func wordMagnitude(s string) string {
	s = strings.ToLower(s)
	if len(s) > 3 || s == "bn" || s == "mn" || s == "tn" {
		return magnitudes[s]
	}
	return ""
}

// numeric is what is said for a word with a digit in it and perhaps some after it; 0 if no rule knows it.
func (n *normaliser) numeric(i int) (string, int) {
	for _, rule := range [...]func(*normaliser, int) (string, int){(*normaliser).phone, (*normaliser).version, (*normaliser).date, (*normaliser).money,
		(*normaliser).clock, (*normaliser).decade, (*normaliser).fraction, (*normaliser).feet, (*normaliser).span, (*normaliser).quantity} {
		if s, used := rule(n, i); used > 0 {
			return s, used
		}
	}
	return "", 0
}

// quantity is a number, with what belongs to it: a magnitude, a unit, an ending.
func (n *normaliser) quantity(i int) (string, int) {
	core := n.words[i].core
	if len(core) > 1 && core[0] == '#' && number.Run(core[1:]) == len(core)-1 {
		return "number " + number.Cardinal(core[1:], n.british), 1
	}
	about := ""
	if strings.HasPrefix(core, "~") || strings.HasPrefix(core, "≈") {
		about, core = "about ", strings.TrimLeft(core, "~≈")
	}
	a, rest, ok := number.Parse(core)
	if !ok {
		return "", 0
	}
	if s := n.ending(a, rest); s != "" {
		return about + s, 1
	}
	if rest != "" {
		if rest == "s" && a.Bare() && capital(n.at(i-1).core) && n.at(i-1).post == "" { // Boeing 747s
			return about + number.Plural(n.digits(a.Whole, true)), 1
		}
		if u, ok := units[rest]; ok {
			return about + n.measured(a, u), 1
		}
		if s, ok := n.rate(a, rest); ok {
			return about + s, 1
		}
		if len(rest) > 1 && rest[0] == '-' && letters(rest[1:]) { // 5-year, 24-hour
			tail := rest[1:]
			if u, ok := units[tail]; ok && a.Frac+a.Whole != "" && len(tail) > 1 {
				tail = u.one
			}
			if a.CouldBeYear() {
				return about + number.Year(a.Whole, n.british) + " " + tail, 1
			}
			return about + a.Words(n.british) + " " + tail, 1
		}
		return "", 0
	}
	next := n.follows(i)
	if m := wordMagnitude(next); m != "" {
		said := a.Words(n.british) + " " + m
		if u, ok := spaced[n.follows(i+1)]; ok {
			return about + said + " " + u.many, 3
		}
		return about + said, 2
	}
	if f, ok := simpleFraction(next); ok && a.Bare() && len(a.Whole) < 4 { // 1 1/2
		return about + a.Words(n.british) + " and " + strings.TrimPrefix(strings.Replace("one "+f, "one one", "a", 1), "one "), 2
	}
	if u, ok := spaced[next]; ok {
		n.drop(i+1, true)
		return about + n.measured(a, u), 2
	}
	if before := n.at(i - 1).core; next == "in" && (before == "ft" || before == "feet" || before == "foot") {
		n.drop(i+1, true)
		return about + n.measured(a, units["in"]), 2
	}
	if next != "" && strings.Contains(next, "/") {
		if s, ok := n.rate(a, next); ok {
			return about + s, 2
		}
	}
	if n.isYear(i, a) {
		return about + number.Year(a.Whole, n.british), 1
	}
	return about + a.Words(n.british), 1
}

// ending is a number with letters or signs at its end that belong to no unit: ordinals, possessives, multiples, magnitudes.
func (n *normaliser) ending(a number.Amount, rest string) string {
	switch low := strings.ToLower(rest); low {
	case "st", "nd", "rd", "th":
		if a.Frac == "" && (a.Sign == "" || a.Sign == "-") {
			return number.Ordinal(a.Words(n.british))
		}
	case "st-century", "nd-century", "rd-century", "th-century":
		return number.Ordinal(a.Words(n.british)) + " century"
	case "'s":
		if a.CouldBeYear() {
			return number.Year(a.Whole, n.british) + "'s"
		}
		return a.Words(n.british) + "'s"
	case "%":
		return a.Words(n.british) + " percent"
	case "x", "×":
		return a.Words(n.british) + " times"
	case "+":
		return a.Words(n.british) + " plus"
	case "k":
		if rest == "K" && len(a.Whole) == 1 && a.Frac == "" {
			return a.Words(n.british) + " K" // a resolution
		}
		return a.Words(n.british) + " thousand"
	case "bn", "mn", "tn":
		return a.Words(n.british) + " " + magnitudes[low]
	}
	switch {
	case rest == "B" && len(a.Whole) > 2 && a.Frac == "": // 221B
		return ""
	case rest == "M" || rest == "B":
		return a.Words(n.british) + " " + magnitudes[rest]
	case rest == "":
	case (rest[0] == 'e' || rest[0] == 'E') && len(rest) < 8: // 1e6
		if b, tail, ok := number.Parse(rest[1:]); ok && tail == "" && b.Frac == "" {
			return a.Words(n.british) + " times ten to the power of " + b.Words(n.british)
		}
		return ""
	case strings.HasPrefix(rest, "%-"):
		return a.Words(n.british) + " percent " + rest[2:]
	case (rest[0] == 'x' || rest[0] == '*') && len(rest) > 1 || strings.HasPrefix(rest, "×"): // 1920x1080
		_, size := utf8.DecodeRuneInString(rest)
		b, tail, ok := number.Parse(rest[size:])
		if !ok || tail != "" && units[tail].many == "" {
			return ""
		}
		by := " by "
		if rest[0] == '*' || rest[0] != 'x' && len(a.Whole) < 3 {
			by = " times "
		}
		said := n.figure(a) + by + n.figure(b)
		if tail != "" {
			said += " " + units[tail].many
		}
		return said
	case strings.ContainsAny(rest[:1], "+=<>^") || rest[0] == '-' && a.Sign != "": // 2+2=4
		return n.sum(a, rest)
	}
	return ""
}

// figure is a number that names rather than counts: four digits in twos.
func (n *normaliser) figure(a number.Amount) string {
	if a.Bare() && len(a.Whole) == 4 {
		return number.Year(a.Whole, n.british)
	}
	return a.Words(n.british)
}

// sum is arithmetic without spaces.
func (n *normaliser) sum(a number.Amount, rest string) string {
	out := []string{a.Words(n.british)}
	for rest != "" {
		r, size := utf8.DecodeRuneInString(rest)
		sign := signs[r]
		if r == '-' {
			sign = "minus"
		}
		b, tail, ok := number.Parse(rest[size:])
		if sign == "" || !ok {
			return ""
		}
		out = append(out, sign, b.Words(n.british))
		rest = tail
	}
	return strings.Join(out, " ")
}

// isYear judges a number by its neighbours.
func (n *normaliser) isYear(i int, a number.Amount) bool {
	before, next := strings.ToLower(n.at(i-1).core), n.follows(i)
	if n.at(i-1).post != "" && n.at(i-1).post != "," {
		before = ""
	}
	if a.Bare() && len(a.Whole) == 4 && a.Whole >= "1000" && a.Whole < "1100" {
		return yearCues[before]
	}
	if !a.CouldBeYear() || noYearBefore[before] {
		return false
	}
	low := strings.ToLower(next)
	switch {
	case noYearAfter[low]:
		return false
	case len(low) > 3 && strings.HasSuffix(low, "s") && !strings.HasSuffix(low, "ss") && !yearCues[before] && next == low && !verbs[low]:
		return false // 1500 cows
	}
	return true
}

var (
	yearCues     = wordSet("in since of until till before after by from year during circa around early late mid summer winter spring autumn fall january february march april may june july august september october november december")
	noYearBefore = wordSet("than approximately exactly least most nearly roughly costs cost")
	noYearAfter  = wordSet("people men women children percent per mice feet sheep fish employees")
	verbs        = wordSet("was is has does this his its as us starts begins brings sees ends marks remains seems sits always perhaps alas thus whereas towards across")
)

// unit is the names of one and of more.
type unit struct{ one, many string }

var (
	units  = make(map[string]unit) // by what is written after a number
	spaced = make(map[string]unit) // with a space between
)

func init() {
	add := func(list string, to ...map[string]unit) {
		for _, e := range strings.Split(list, ",") {
			f := strings.Split(strings.TrimSpace(e), "|")
			u := unit{f[1], f[1] + "s"}
			if len(f) > 2 {
				u.many = f[2]
			}
			for _, key := range strings.Fields(f[0]) {
				for _, m := range to {
					m[key] = u
				}
			}
		}
	}
	add(`km|kilometer, cm|centimeter, mm|millimeter, µm μm um|micrometer, nm|nanometer, m|meter, km² km2|square kilometer, m² m2|square meter, cm² cm2|square centimeter, m³ m3|cubic meter,
		cm³ cm3|cubic centimeter, mi|mile, ft|foot|feet, yd yds|yard, kg kgs|kilogram, mg|milligram, μg mcg|microgram, g|gram, lb lbs|pound, oz|ounce, kHz|kilohertz|kilohertz,
		MHz|megahertz|megahertz, GHz|gigahertz|gigahertz, Hz|hertz|hertz, kB KB|kilobyte, MB|megabyte, GB|gigabyte, TB|terabyte, PB|petabyte, KiB|kibibyte, MiB|mebibyte, GiB|gibibyte,
		kbps|kilobit per second|kilobits per second, Mbps|megabit per second|megabits per second, Gbps|gigabit per second|gigabits per second, kb Kb kbit|kilobit, Mb Mbit|megabit, Gb Gbit|gigabit,
		mph|mile per hour|miles per hour, kph kmh|kilometer per hour|kilometers per hour, mpg|mile per gallon|miles per gallon, rpm|revolution per minute|revolutions per minute,
		fps|frame per second|frames per second, bpm|beat per minute|beats per minute, psi|P-S-I|P-S-I, kW|kilowatt, MW|megawatt, GW|gigawatt, kWh|kilowatt hour, MWh|megawatt hour, Wh|watt hour,
		mA|milliamp, mAh|milliamp hour, kV|kilovolt, mV|millivolt, ms|millisecond, μs us|microsecond, ns|nanosecond, ml mL|milliliter, cl|centiliter, l L|liter, gal|gallon, hrs hr|hour, h|hour,
		min mins|minute, sec secs|second, s|second, yr yrs|year, dB|decibel, px|pixel, kcal|kilocalorie, cal|calorie, kJ|kilojoule, kPa|kilopascal, MPa|megapascal, Pa|pascal, hPa|hectopascal, ha|hectare,
		°C|degree Celsius|degrees Celsius, °F|degree Fahrenheit|degrees Fahrenheit, °|degree, °N|degree north|degrees north, °S|degree south|degrees south, °E|degree east|degrees east, °W|degree west|degrees west,
		%|percent|percent, sqft|square foot|square feet, MP|megapixel, pt|point, Ω|ohm, kΩ|kilohm, ¢|cent, pp|percentage point, cc|C-C|C-Cs, wpm|word per minute|words per minute, tbsp|tablespoon, tsp|teaspoon`, units, spaced)
	add(`in|inch|inches, W|watt, V|volt, A|amp, J|joule, N|newton, d|day, K|kelvin|kelvin, Nm|newton meter, pm|P-M|P-M, am|A-M|A-M`, units)
	delete(spaced, "um")
	delete(spaced, "us")
	delete(spaced, "pt")
	delete(spaced, "pp")
	for _, key := range []string{"am", "pm"} {
		delete(units, key)
	}
}

// measured is a number of units.
func (n *normaliser) measured(a number.Amount, u unit) string {
	name := u.many
	if a.One() {
		name = u.one
	}
	if n.british {
		name = strings.NewReplacer("meter", "metre", "liter", "litre").Replace(name)
	}
	return a.Words(n.british) + " " + name
}

// rate is a number of units by other units, as in 5 km/h.
func (n *normaliser) rate(a number.Amount, rest string) (string, bool) {
	over, under, ok := strings.Cut(rest, "/")
	if !ok || under == "" || strings.Contains(under, "/") {
		return "", false
	}
	per := units[under].one
	if per == "" {
		if !letters(under) || len(under) < 2 {
			return "", false
		}
		per = under
	}
	if over == "" {
		return a.Words(n.british) + " per " + per, true
	}
	u, ok := units[over]
	if !ok && letters(over) && len(over) > 2 {
		u, ok = unit{over, over}, true
	}
	return n.measured(a, u) + " per " + per, ok
}

// span is two numbers with a dash between: 5-10, 10–15 km, 1914–18, $ and times have rules of their own.
func (n *normaliser) span(i int) (string, int) {
	a, rest, ok := number.Parse(n.words[i].core)
	if !ok {
		return "", 0
	}
	first := ""
	if u := units["%"]; strings.HasPrefix(rest, "%") {
		first, rest = " "+u.one, rest[1:]
	}
	r, size := utf8.DecodeRuneInString(rest)
	if r != '-' && r != '–' || a.Sign == "-" && first == "" && r == '-' {
		return "", 0
	}
	b, rest, ok := number.Parse(rest[size:])
	if !ok || b.Sign == "-" && r == '-' || b.Sign == "+" {
		return "", 0
	}
	from := a.Words(n.british) + first
	if a.CouldBeYear() && b.Bare() && (b.CouldBeYear() || len(b.Whole) == 2) && rest == "" && !noYearAfter[n.follows(i)] {
		to := number.Year(b.Whole, n.british)
		if len(b.Whole) == 2 && b.Whole[0] == '0' {
			to = "oh " + number.Small(int(b.Whole[1]-'0'))
		}
		return number.Year(a.Whole, n.british) + " to " + to, 1
	}
	if r == '-' && strings.HasPrefix(rest, "=") { // 10-3=7
		_, tail, _ := strings.Cut(n.words[i].core, "-")
		if s := n.sum(a, "-"+tail); s != "" {
			return s, 1
		}
	}
	if s := n.ending(b, rest); s != "" {
		return from + " to " + s, 1
	}
	if u, ok := units[rest]; ok && rest != "" {
		return from + " to " + n.measured(b, u), 1
	}
	if s, ok := n.rate(b, rest); ok {
		return from + " to " + s, 1
	}
	if len(rest) > 1 && rest[0] == '-' && letters(rest[1:]) {
		return from + " to " + b.Words(n.british) + " " + rest[1:], 1
	}
	if rest != "" {
		return "", 0
	}
	next := n.follows(i)
	if u, ok := spaced[next]; ok {
		n.drop(i+1, true)
		return from + " to " + n.measured(b, u), 2
	}
	if s, ok := n.rate(b, next); ok {
		return from + " to " + s, 2
	}
	return from + " to " + b.Words(n.british), 1
}

var fractionForm = regexp.MustCompile(`^(\d{1,4})/(\d{1,4})$`)

// simpleFraction is a part of one, as in 3/4.
func simpleFraction(s string) (string, bool) {
	m := fractionForm.FindStringSubmatch(s)
	if m == nil || m[1][0] == '0' || m[2][0] == '0' {
		return "", false
	}
	a, b := number.Value(m[1]), number.Value(m[2])
	if a >= b || b > 20 && b != 100 && b != 32 && b != 64 || a > 99 {
		return "", false
	}
	part := number.Ordinal(number.Small(b))
	switch b {
	case 2:
		part = "half"
	case 4:
		part = "quarter"
	case 100:
		part = "hundredth"
	}
	if a > 1 {
		part += "s"
	}
	return number.Small(a) + " " + part, true
}

// fraction is two numbers with a stroke between.
func (n *normaliser) fraction(i int) (string, int) {
	core := n.words[i].core
	switch core {
	case "24/7":
		return "twenty four seven", 1
	case "9/11", "7/7":
		return number.Small(int(core[0]-'0')) + " " + number.Small(number.Value(core[2:])), 1
	}
	if s, ok := simpleFraction(core); ok {
		return s, 1
	}
	m := fractionForm.FindStringSubmatch(core)
	switch {
	case m == nil:
		return "", 0
	case len(m[1]) == 4 && len(m[2]) == 2:
		return number.Year(m[1], n.british) + " to " + number.Small(number.Value(m[2])), 1
	case m[1] == m[2]:
		return number.Cardinal(m[1], n.british) + " " + number.Cardinal(m[2], n.british), 1
	}
	return number.Cardinal(m[1], n.british) + " over " + number.Cardinal(m[2], n.british), 1
}

var feetForm = regexp.MustCompile(`^(\d{1,2})'(\d{1,2})$`)

// feet is a height, as in 5'10".
func (n *normaliser) feet(i int) (string, int) {
	w := &n.words[i]
	m := feetForm.FindStringSubmatch(w.core)
	if m == nil || !strings.HasPrefix(w.post, "\"") {
		return "", 0
	}
	w.post = w.post[1:]
	inches := number.Amount{Whole: m[2]}
	return n.measured(number.Amount{Whole: m[1]}, units["ft"]) + " " + n.measured(inches, units["in"]), 1
}

var versionForm = regexp.MustCompile(`^([vV]?)(\d+(?:\.\d+)*)((?:[-+][\w.]+)?)$`)

// version is numbers with points between: v1.2.3, and the four of an address.
func (n *normaliser) version(i int) (string, int) {
	m := versionForm.FindStringSubmatch(n.words[i].core)
	if m == nil || m[1] == "" && strings.Count(m[2], ".") < 2 || m[1] == "" && dateForm.MatchString(n.words[i].core) {
		return "", 0
	}
	parts := strings.Split(m[2], ".")
	said := make([]string, len(parts))
	between := " point "
	for k, p := range parts {
		if said[k] = number.Cardinal(p, n.british); len(parts) == 4 && m[1] == "" {
			said[k], between = number.Spelled(p), " dot "
		}
	}
	out := strings.Join(said, between)
	if before := strings.ToLower(n.at(i - 1).core); m[1] != "" && before != "version" {
		out = "version " + out
	}
	if m[3] != "" {
		tail := newWord(m[3][1:])
		rest := normaliser{british: n.british, words: []word{tail}}
		out += " " + rest.mixed(0)
	}
	return out, 1
}

var (
	phoneForm  = regexp.MustCompile(`^(?:\+?\d{1,3}[-.])?(?:\d{2,4}[-.])?\d{3}[-.]\d{4}$|^\+\d{7,15}$|^\d{1,5}(?:-\d{1,7}){3,}$`)
	localForm  = regexp.MustCompile(`^\d{3}[-.]?\d{4}$|^\d{4}[-.]\d{4}$`)
	socialForm = regexp.MustCompile(`^\d{3}-\d{2}-\d{4}$`)
)

// phone is a number that is dialled, digit by digit.
func (n *normaliser) phone(i int) (string, int) {
	w := &n.words[i]
	groups := func(s string) string {
		var out []string
		for _, g := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			out = append(out, number.Spelled(g))
		}
		return strings.Join(out, ", ")
	}
	plus := ""
	if strings.HasPrefix(w.core, "+") {
		plus = "plus "
	}
	switch {
	case w.pre == "(" && w.post == ")" && len(w.core) == 3 && isDigits(w.core) && localForm.MatchString(n.at(i+1).core):
		w.pre, w.post = "", ""
		return number.Spelled(w.core) + ", " + groups(n.at(i+1).core), 2
	case strings.HasPrefix(w.core, "(") || strings.Contains(w.core, ")") && strings.Count(w.core, ")") == 1 && w.pre == "(":
		if area, rest, ok := strings.Cut(w.core, ")"); ok && isDigits(area) && localForm.MatchString(strings.TrimLeft(rest, "-")) { // (555)123-4567
			w.pre = ""
			return number.Spelled(area) + ", " + groups(rest), 1
		}
	case phoneForm.MatchString(w.core) || socialForm.MatchString(w.core):
		if len(w.core) == 8 && strings.HasSuffix(w.core, "00") && w.core[3] == '-' { // 500-1500 is a span
			return "", 0
		}
		if len(w.core) == 8 && w.core[3] == '.' {
			return "", 0
		}
		return plus + groups(w.core), 1
	case plus != "" && isDigits(w.core[1:]) && len(w.core) <= 4: // +44 20 7946 0958
		out, used, digits := number.Spelled(w.core), 1, len(w.core)-1
		for used < 6 && n.at(i+used-1).post == "" && n.at(i+used).pre == "" {
			g := n.at(i + used).core
			if !isDigits(strings.ReplaceAll(g, "-", "")) || len(g) < 2 {
				break
			}
			out += ", " + groups(g)
			digits += len(g)
			used++
		}
		if used > 2 && digits >= 8 {
			return plus + out, used
		}
	}
	return "", 0
}

func capital(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsUpper(r)
}
