package normal

import (
	"regexp"
	"strings"

	"loadline/internal/speech/number"
)

// currency is the names of one and more of a currency, and of its hundredths where it has any.
type currency struct{ one, many, cent, cents string }

var (
	currencies = map[string]currency{
		"$": {"dollar", "dollars", "cent", "cents"}, "€": {"euro", "euros", "cent", "cents"}, "£": {"pound", "pounds", "penny", "pence"},
		"¥": {"yen", "yen", "", ""}, "₹": {"rupee", "rupees", "paisa", "paise"}, "₩": {"won", "won", "", ""}, "₽": {"ruble", "rubles", "kopeck", "kopecks"},
		"₿": {"bitcoin", "bitcoins", "", ""}, "₺": {"lira", "lira", "", ""}, "₫": {"dong", "dong", "", ""}, "₱": {"peso", "pesos", "centavo", "centavos"},
	}
	codes = map[string]currency{
		"USD": {"U-S dollar", "U-S dollars", "cent", "cents"}, "EUR": currencies["€"], "GBP": {"British pound", "British pounds", "penny", "pence"},
		"JPY": {"Japanese yen", "Japanese yen", "", ""}, "CHF": {"Swiss franc", "Swiss francs", "centime", "centimes"}, "CAD": {"Canadian dollar", "Canadian dollars", "cent", "cents"},
		"AUD": {"Australian dollar", "Australian dollars", "cent", "cents"}, "INR": {"Indian rupee", "Indian rupees", "paisa", "paise"},
		"CNY": {"Chinese yuan", "Chinese yuan", "", ""}, "NZD": {"New Zealand dollar", "New Zealand dollars", "cent", "cents"}, "BTC": currencies["₿"],
	}
	nations   = map[string]string{"US": "U-S", "C": "Canadian", "CA": "Canadian", "A": "Australian", "AU": "Australian", "NZ": "New Zealand", "HK": "Hong Kong", "S": "Singapore", "R": "Brazilian"}
	commaForm = regexp.MustCompile(`^(-?\d{1,6}),(\d{2})(€?)$`)
	moneyForm = regexp.MustCompile(`^([-+~]?)(US|CA|C|AU|A|NZ|HK|S|R)?([$€£¥₹₩₽₿₺₫₱])([-+]?)(.+)$`)
)

// money is an amount with the sign of a currency before or after it, or its code after.
func (n *normaliser) money(i int) (string, int) {
	core := n.words[i].core
	if m := moneyForm.FindStringSubmatch(core); m != nil {
		c := currencies[m[3]]
		if nation := nations[m[2]]; nation != "" {
			c.one, c.many = nation+" "+c.one, nation+" "+c.many
			if m[2] == "R" {
				c = currency{"real", "reais", "centavo", "centavos"}
			}
		}
		sign := m[1] + m[4]
		about := ""
		if strings.HasPrefix(sign, "~") {
			about, sign = "about ", sign[1:]
		}
		if len(sign) > 1 {
			return "", 0
		}
		if before := n.at(i - 1).core; (before == "a" || before == "A" || before == "an") && letters(n.follows(i)) && wordMagnitude(n.follows(i)) == "" {
			c.many = c.one // a five dollar bill
		}
		said, used := n.priced(i, sign+m[5], m[3], c)
		if used == 0 {
			return "", 0
		}
		if next := n.follows(i + used - 1); strings.HasSuffix(said, c.many) && next != "" && strings.HasSuffix(c.many, next) {
			used++ // $5 million dollars
		}
		return about + said, used
	}
	if len(core) > 3 && core[len(core)-3] == ',' || strings.HasSuffix(core, "€") && strings.Count(core, ",") == 1 { // 5,50 €
		if m := commaForm.FindStringSubmatch(core); m != nil && (m[3] != "" || currencies[n.follows(i)].one != "" || codes[n.follows(i)].one != "") {
			core = m[1] + "." + m[2] + m[3]
		}
	}
	a, rest, ok := number.Parse(core)
	if !ok {
		return "", 0
	}
	if c, ok := currencies[rest]; ok {
		return n.paid(a, "", c), 1
	}
	if rest == "¢" {
		return "", 0 // a unit
	}
	if rest == "" {
		next := n.follows(i)
		if c, ok := currencies[next]; ok {
			return n.paid(a, "", c), 2
		}
		if c, ok := codes[next]; ok {
			return n.paid(a, "", c), 2
		}
		if m := wordMagnitude(next); m != "" {
			if c, ok := codes[n.follows(i+1)]; ok {
				return n.paid(a, m, c), 3
			}
			if c, ok := currencies[n.follows(i+1)]; ok {
				return n.paid(a, m, c), 3
			}
		}
	}
	return "", 0
}

// priced is what comes after the sign of a currency: an number.Amount, two of them, a magnitude, a rate.
func (n *normaliser) priced(i int, s, sign string, c currency) (string, int) {
	a, rest, ok := number.Parse(s)
	if !ok {
		return "", 0
	}
	magnitude := func(rest string) (string, string) { // one that is written at once, and what follows it
		k := strings.IndexFunc(rest, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') })
		if k < 0 {
			k = len(rest)
		}
		if m := magnitudes[rest[:k]]; m != "" && rest[:k] != "hundred" && rest[:k] != "dozen" {
			return m, rest[k:]
		}
		return "", rest
	}
	mag, rest := magnitude(rest)
	if rest != "" && (rest[0] == '-' || strings.HasPrefix(rest, "–")) { // $5-$10
		tail := strings.TrimPrefix(strings.TrimPrefix(rest[1:], "\x80\x93"), sign)
		if b, after, ok := number.Parse(tail); ok && b.Sign == "" {
			upper, after := magnitude(after)
			used := 1
			if upper == "" && after == "" {
				if upper = wordMagnitude(n.follows(i)); upper != "" {
					used = 2
				}
			}
			if after != "" {
				return "", 0
			}
			from := a.Words(n.british)
			if mag != "" && mag != upper {
				from += " " + mag
			}
			if upper == "" && (a.Frac != "" && len(a.Frac) == 2) {
				return n.paid(a, mag, c) + " to " + n.paid(b, upper, c), used
			}
			return from + " to " + n.paid(b, upper, c), used
		}
		if letters(rest[1:]) && rest[0] == '-' { // $5-million, $5-a-day
			if m := magnitudes[rest[1:]]; m != "" && len(rest) > 4 {
				return a.Words(n.british) + " " + m + " " + c.one, 1
			}
			return a.Words(n.british) + " " + c.one + " " + rest[1:], 1
		}
		return "", 0
	}
	if strings.HasPrefix(rest, "/") && len(rest) > 1 {
		per := units[rest[1:]].one
		if per == "" && letters(rest[1:]) {
			per = rest[1:]
		}
		if per == "" {
			return "", 0
		}
		return n.paid(a, mag, c) + " per " + per, 1
	}
	switch rest {
	case "":
	case "+":
		return n.paid(a, mag, c) + " plus", 1
	case "'s":
		return n.paid(a, mag, c), 1
	default:
		return "", 0
	}
	if mag == "" {
		if m := wordMagnitude(n.follows(i)); m != "" {
			return n.paid(a, m, c), 2
		}
	}
	if code, ok := codes[n.follows(i)]; ok && mag == "" { // $5 USD
		return n.paid(a, "", code), 2
	}
	return n.paid(a, mag, c), 1
}

// paid is an amount of a currency in words.
func (n *normaliser) paid(a number.Amount, magnitude string, c currency) string {
	minus := ""
	if a.Sign == "-" {
		minus = "minus "
	}
	a.Sign = ""
	name := c.many
	switch {
	case magnitude != "":
		return minus + a.Words(n.british) + " " + magnitude + " " + name
	case len(a.Frac) == 2 && c.cent != "":
		cents := number.Value(a.Frac)
		whole := strings.TrimLeft(a.Whole, "0")
		coin := c.cents
		if cents == 1 {
			coin = c.cent
		}
		if whole == "1" {
			name = c.one
		}
		switch {
		case cents == 0 && whole == "":
			return minus + "zero " + name
		case cents == 0:
			return minus + number.Cardinal(whole, n.british) + " " + name
		case whole == "":
			return minus + number.Small(cents) + " " + coin
		}
		return minus + number.Cardinal(whole, n.british) + " " + name + " and " + number.Small(cents) + " " + coin
	case a.One():
		name = c.one
	}
	return minus + a.Words(n.british) + " " + name
}

// coded is an amount after the code of its currency: USD 5.
func (n *normaliser) coded(i int) (string, int) {
	c, ok := codes[n.words[i].core]
	if !ok {
		return "", 0
	}
	a, rest, ok := number.Parse(n.follows(i))
	if !ok || rest != "" {
		return "", 0
	}
	if m := wordMagnitude(n.follows(i + 1)); m != "" {
		return n.paid(a, m, c), 3
	}
	return n.paid(a, "", c), 2
}
