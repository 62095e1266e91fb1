package normal

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"loadline/internal/speech/number"
)

// abbreviations is what is said for words with a full stop after them, by when they are abbreviations at all.
var (
	// Before a name.
	namePrefix = pairs(`dr Doctor, mr Mister, mrs Missus, ms Miz, mx Mix, prof Professor, gov Governor, sen Senator, rep Representative, gen General, col Colonel,
		lt Lieutenant, sgt Sergeant, capt Captain, cmdr Commander, maj Major, rev Reverend, hon Honorable, pres President, st Saint, mt Mount, ft Fort, messrs Messers,
		mme Madame, mlle Mademoiselle, sr Senor, fr Father, adm Admiral, cpl Corporal, pvt Private, supt Superintendent, det Detective, insp Inspector`)
	// Before a number.
	numberPrefix = pairs(`no number, nos numbers, p page, pp pages, vol volume, vols volumes, ch chapter, fig figure, figs figures, sec section, art article, eq equation,
		ed edition, op opus, par paragraph, ext extension, tel telephone, rm room, apt apartment, c circa, ca circa, est established, approx approximately`)
	// Anywhere. Those of a sentence's usual end keep their full stop before a capital.
	anywhere = pairs(`vs versus, v versus, etc et cetera, e.g for example, eg for example, i.e that is, ie that is, cf compare, al al, approx approximately, a.k.a also known as, aka also known as,
		viz namely, ibid ibidem, dept department, govt government, assn association, univ university, min minimum, max maximum, avg average, tel telephone, ext extension,
		hwy Highway, apt apartment, misc miscellaneous, incl including, excl excluding, temp temperature, est estimated, intl international, natl national, mfg manufacturing,
		ph.d P-H-D, m.sc M-S-C, b.sc B-S-C, d.phil D Phil, b.a B-A, m.a M-A, fig figure, vol volume, ch chapter, sec section, ref reference, eq equation, no number`)
	usualEnd = pairs(`inc Incorporated, ltd Limited, corp Corporation, co Company, jr Junior, sr Senior, esq Esquire, bros Brothers, ave Avenue, blvd Boulevard, rd Road, ln Lane,
		st Street, dr Drive, ct Court, pl Place, sq Square, pkwy Parkway, a.m A-M, p.m P-M, mon Monday, tue Tuesday, tues Tuesday, wed Wednesday, thu Thursday, thurs Thursday,
		thur Thursday, fri Friday, sat Saturday, sun Sunday, jan January, feb February, mar March, apr April, jun June, jul July, aug August, sep September, sept September,
		oct October, nov November, dec December, hrs hours, hr hour, mins minutes, secs seconds, yrs years, yr year, lbs pounds, lb pound, oz ounces, in inches, ft feet, mi miles`)
	// Written without a full stop too.
	bare = wordSet("mr mrs ms dr prof vs etc st mt eg ie aka approx dept hwy a.k.a")
)

func pairs(list string) map[string]string {
	m := make(map[string]string)
	for _, e := range strings.Split(list, ",") {
		key, said, _ := strings.Cut(strings.TrimSpace(e), " ")
		m[key] = said
	}
	return m
}

var dotted = regexp.MustCompile(`^(?:\pL\.)+\pL$`)

// abbreviation is what is said for word i if it is one, "" if not. It takes the full stop away where that is its own.
func (n *normaliser) abbreviation(i int) string {
	w := n.words[i]
	if len(w.core) > 8 {
		return ""
	}
	key := strings.ToLower(w.core)
	dot := strings.HasPrefix(w.post, ".")
	if !dot && !bare[key] && !dotted.MatchString(w.core) {
		return ""
	}
	next := n.at(i + 1)
	first, _ := utf8.DecodeRuneInString(next.core)
	capital := unicode.IsUpper(first) && strings.Trim(w.post, ".") == "" && next.pre == ""
	digit := unicode.IsDigit(first) && strings.Trim(w.post, ".") == "" && next.pre == ""
	before, _ := utf8.DecodeRuneInString(n.at(i - 1).core)
	named := unicode.IsUpper(before) && n.at(i-1).post == "" // "Main St."
	street := key == "st" || key == "dr" || key == "mt" || key == "sr" || key == "ft"
	single, size := utf8.DecodeRuneInString(w.core)
	upper := unicode.IsUpper(single)
	switch said := namePrefix[key]; {
	case said != "" && capital && upper && !(street && named && isDigits(n.at(i-2).core)):
		n.drop(i, false)
		return said
	case numberPrefix[key] != "" && digit && (dot || key != "c"):
		n.drop(i, false)
		if upper && (key == "no" || key == "fig" || key == "ch" || key == "vol") {
			return title(numberPrefix[key])
		}
		return numberPrefix[key]
	case key == "v" && !(capital && named), key == "no", key == "max" && upper && capital, key == "al" && n.at(i-1).core != "et":
		// "No." is a word; so is a name.
	case anywhere[key] != "":
		n.drop(i, key == "etc" || key == "al")
		return anywhere[key]
	case usualEnd[key] == "":
	case key == "in" || key == "mi" || key == "lb" || key == "oz" || key == "hr" || key == "yr":
		if isDigits(n.at(i-1).core) && dot && !capital && (key != "in" || i+1 < len(n.words)) {
			n.drop(i, true)
			return usualEnd[key]
		}
	case key == "a.m" || key == "p.m":
		n.drop(i, true)
		return usualEnd[key]
	case wordDay[key] && (!upper || !dot || i > 0 && n.at(i-1).post == "" && !digit && !dayCues[strings.ToLower(n.at(i-1).core)]):
		// "the sun.", "we sat."
	case street && !named, len(key) == 2 && key != "co" && key != "jr" && key != "sr" && !named:
	case dot:
		n.drop(i, true)
		return usualEnd[key]
	case key == "st" && named && !capital:
		return "Street"
	}
	switch {
	case dotted.MatchString(w.core):
		n.drop(i, starters[strings.ToLower(next.core)])
		return letterByLetter(w.core)
	case size == len(w.core) && upper && dot && capital && w.core != "I": // an initial
		n.drop(i, false)
		if w.core == "A" {
			n.joined = true
			return "A-" // the letter, not the article
		}
		return w.core
	}
	return ""
}

// wordDay is abbreviations that are words as well, and dayCues is words before them that make them days.
var (
	wordDay = wordSet("sun sat wed mar")
	dayCues = wordSet("and to or on until till by next last every through from in since")
)

// drop takes away the full stop after word i, unless it ends the text, or may end a sentence that a capital follows.
func (n *normaliser) drop(i int, usually bool) {
	w := &n.words[i]
	if !strings.HasPrefix(w.post, ".") || i == len(n.words)-1 {
		return
	}
	first, _ := utf8.DecodeRuneInString(n.words[i+1].core)
	if usually && w.post == "." && unicode.IsUpper(first) && !days[strings.ToLower(n.words[i+1].core)] {
		return
	}
	w.post = w.post[1:]
}

var days = wordSet("monday tuesday wednesday thursday friday saturday sunday est pst cst mst edt pdt utc gmt cet bst")

// Starts says whether a word, in lower case, begins a sentence more often than it follows "U.S." within one.
func Starts(word string) bool { return starters[word] }

var starters = wordSet("it the he she they we i but and in this that there if when as at on for so or its his her then now what why how who where you a an my our your after before while")

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Words before a Roman numeral: rulers, who have ordinals, and things that are counted.
var (
	rulers = wordSet(`henry louis charles george elizabeth edward richard william james john paul pius benedict leo gregory nicholas alexander peter catherine philip frederick
		napoleon ramses ramesses mary francis francois ferdinand felipe carlos juan alfonso umberto otto wilhelm friedrich franz ludwig mehmed suleiman murad ptolemy cleopatra darius xerxes
		innocent clement urban sixtus boniface margaret christian gustav oscar harald haakon leopold baudouin albert willem beatrix ivan constantine justinian robert david stephen haile`)
	counted = wordSet(`war chapter part act scene volume vol book section title type phase stage level grade class mark article appendix figure fig table bowl episode season
		number no round step group category division tier series world unit lesson exercise question canto psalm sonnet symphony opus apollo rocky fantasy quest element schedule annex
		protocol model version generation gen day week year army corps legion olympiad game games`)
)

// roman is word i as a numeral, "" if it is none: where what comes before says so, or where it can be nothing else.
func (n *normaliser) roman(i int) string {
	w, before, after := n.words[i], n.at(i-1), n.at(i+1)
	core, own := strings.CutSuffix(w.core, "'s")
	value := number.Roman(core)
	if value == 0 {
		return ""
	}
	said := number.Cardinal(strconv.Itoa(value), n.british)
	key := strings.ToLower(before.core)
	first, _ := utf8.DecodeRuneInString(before.core)
	close := before.post == "" && w.pre == ""
	switch single := len(core) == 1; {
	case close && rulers[key] && unicode.IsUpper(first) && (!single || w.post != "" || own || i == len(n.words)-1 || reigns[after.core]):
		said = "the " + number.Ordinal(said)
	case close && (counted[key] && value < 100 || key == "vol" || key == "fig") && !(core == "I" && (key == "day" || key == "year" || key == "week" || key == "world")):
	case single || value > 50:
		return ""
	case after.core == "century" || after.core == "centuries" || after.core == "Century":
		said = number.Ordinal(said)
	case romanWords[core]:
		return ""
	case close && unicode.IsUpper(first), len(core) >= 3 && core != "XXX":
	default:
		return ""
	}
	if own {
		said += "'s"
	}
	return said
}

// reigns is words that follow a ruler's name; a verb of thinking after "Elizabeth I" is another I.
var reigns = wordSet("of was and in had died became reigned ruled is who or")

// romanWords are numerals that are abbreviations more often.
var romanWords = wordSet("MIX CD DC MD CC MM XL CV DI LI MC CIV MI DIM LIV")
